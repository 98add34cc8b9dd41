#pragma once
/* Branches: runs that go on from checkpoints along one run, the trunk, with other options. The
 * trunk is made first, once for each repeat with the repeat's seed, as an experiment of its own in
 * DIR/trunk; a branch resumes the trunk of its repeat at the update that branch-at says. All
 * branches of a repeat thus begin with the same weights and optimizer state, and train on the same
 * sequences. */
#include "study/experiment.h"

/* 0, or ERR_INPUT when trunk and axes do not fit each other. */
int recipe_check_trunk(const Recipe *recipe);

/* Turns a recipe with a trunk into the recipe of the trunk. */
void recipe_make_trunk(Recipe *recipe);

/* Notes where the trunks are, for experiment_expand. ERR_INPUT where a branch would begin at an
 * update of which they keep no checkpoint. */
int trunk_take(const Experiment *trunk, Recipe *recipe);

/* After the plan: 0, or ERR_INPUT unless branches of one point go on for equal tokens. */
int trunk_check_branches(const Experiment *branches);
