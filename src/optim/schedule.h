#pragma once
/* Learning rate as a pure function of the step. */
#include "base/choices.h"

#include <stdint.h>

typedef struct {
    ScheduleKind kind;
    double peak, floor;    /* highest rate, and the rate at the end of the decay */
    int64_t warmup, total; /* steps */
    double decay_fraction; /* SCHEDULE_WSD: part of all steps that decays, at the end */
} Schedule;

/* Rate of update `step`, counted from 0. Rises linearly over the warm-up to the peak, which step
 * warmup - 1 reaches; then cosine or linear from peak to floor over the remaining steps; or
 * constant (to the end; with WSD until the last decay_fraction, where it falls to floor as 1 -
 * sqrt(progress)). Steps beyond the total keep the last value. */
double schedule_rate(const Schedule *schedule, int64_t step);
