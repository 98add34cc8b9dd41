#pragma once
/* The runs of a scaling law: sizes x budgets of FLOP, and one larger run that is predicted before
 * it is made. report/law.h fits the law. */
#include "study/experiment.h"

/* The axis that the recipe's law stands for: every size (dial) at every budget, and the largest
 * run; steps follow from the plans. ERR_INPUT when the recipe has axes, peers or a probe too. */
int law_make_axis(Recipe *recipe);

/* After experiment_plan: gives each run as many updates as its budget pays for, leaves out those
 * with too few, and puts the largest run last. ERR_INPUT when a budget has too few sizes. Without a
 * law it does nothing. */
int law_set_budgets(Experiment *experiment);

/* Makes the runs before the largest, budget by budget: sizes around the best one, on either side of
 * it, as far as there are such. The experiment then has these and the largest alone. */
int law_make_grid(Experiment *experiment);

/* How many runs come before the largest; all of them where there is none. */
int law_runs_before(const Experiment *experiment);
