#pragma once
/* The loss of a model on prepared tokens: the sequences of a split in the order of the stream,
 * as a training run's validation takes them. Each sequence of seq tokens is a window of its own. */
#include "data/loader.h"
#include "use/evaluate.h"
#include "use/evaluate_progress.h"

/* Sequences [0, count) of a loader with the evaluator's seq. sizes: see eval_totals_add. Adds to
 * progress->totals what was done. ERR_FAILED naming the sequence whose loss is no finite number;
 * errors of evaluator_run and loader_fill. */
int evaluate_data(Evaluator *evaluator, const Loader *loader, uint64_t count, const uint32_t *sizes,
                  EvalProgress *progress);
