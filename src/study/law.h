#pragma once
/* The runs of a scaling law: sizes x budgets of FLOP, and one larger run that is predicted before
 * it is made. report/law.h fits the law. */
#include "study/experiment.h"

/* The axis that the recipe's law stands for: every size (dial) at every budget, and the largest
 * run; steps follow from the plans. ERR_INPUT when the recipe has axes, peers or a probe too. */
int law_make_axis(Recipe *recipe);

/* After experiment_plan: gives each run as many updates as its budget pays for, and puts the
 * largest run last. ERR_INPUT when a budget pays for too few. Without a law it does nothing. */
int law_set_budgets(Experiment *experiment);

/* How many runs come before the largest; all of them where there is none. */
int law_runs_before(const Experiment *experiment);
