#include "use/evaluate_progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>

EvalProgress eval_progress_begin(void)
{
    return (EvalProgress){.progress = progress_begin("evaluating")};
}

void eval_progress_tick(void *user, double part)
{
    EvalProgress *p = user;
    double done = p->done + part * p->round;
    if (done <= 0 || !progress_due(&p->progress)) {
        return;
    }
    double seconds = clock_seconds() - p->progress.started;
    char left[CLOCK_DURATION_SIZE], loss[64] = "";
    clock_duration(done < 1 ? seconds * (1 - done) / done : 0, left);
    if (p->totals.tokens > 0) {
        snprintf(loss, sizeof loss, ", loss %.4f so far", eval_loss(&p->totals));
    }
    (log_is_terminal() ? log_live : log_info)("%s: %.0f %%%s, %s left", p->progress.what,
                                              100 * (done < 1 ? done : 1), loss, left);
}
