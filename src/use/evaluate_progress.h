#pragma once
/* How far an evaluation has come, in a line that replaces itself (base/progress.h). */
#include "base/progress.h"
#include "use/evaluate.h"

typedef struct {
    Progress progress;
    double done, round; /* parts of everything: what is behind us, what the current round is */
    EvalTotals totals;  /* so far */
} EvalProgress;

EvalProgress eval_progress_begin(void);

/* EvaluatorSetup.tick; user: an EvalProgress. */
void eval_progress_tick(void *user, double part);
