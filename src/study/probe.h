#pragma once
/* The probe of learning rates: short runs of every combination of a recipe at several factors of
 * its rate, made before the others as an experiment of its own in DIR/lr-probe, so that it is
 * resumed, recorded and reported like any other. The factor with the least loss is then taken.
 * One rate for all batch sizes would mix the effect of the batch with that of a rate which suits
 * one of them. */
#include "study/experiment.h"

/* 0, or ERR_INPUT when the axes leave the probe nothing to find. */
int recipe_check_probe(const Recipe *recipe);

/* Turns a recipe with a probe into the recipe of the probe. */
void recipe_make_probe(Recipe *recipe);

/* Chooses a factor for every combination by what the probe's runs have recorded, into
 * recipe->probe.chosen; the one nearest to 1 where no run came to its end. Says what it chose. */
int probe_choose(const Experiment *probe, Recipe *recipe);
