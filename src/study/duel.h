#pragma once
/* A duel as an experiment: two configurations, pairs of runs with the same seed, A first in one
 * pair and B first in the next. report/duel.h has the verdict. */
#include "study/experiment.h"

typedef struct {
    double error, margin;
    int least, most; /* pairs */
} DuelPlan;

/* Makes all runs that the duel may come to, in their order. a and b are each a YAML file of train's
 * options, or options on one line ("lr: 2e-3, warmup: 10"); b on a line stands for a with these
 * options in place of its own. ERR_INPUT names which of the two is wrong. experiment_plan and
 * experiment_identify come next, then duel_check. On failure there is nothing to free. */
int duel_expand(Experiment *experiment, const char *a, const char *b, const DuelPlan *plan);

/* Whether the planned runs can be compared: ERR_INPUT when A and B are the same training or cannot
 * be run here. What makes a comparison doubtful is a warning. */
int duel_check(const Experiment *experiment, const DuelPlan *plan);

/* ERR_INPUT when dir has a duel that was begun with another plan: changing it after a look would
 * spoil the error rate. */
int duel_check_begun(const Experiment *experiment);
