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
 * warmup - 1 has (step 0 without a warm-up); then falls to the floor, which the last step, total
 * - 1, has: as a cosine or linearly over all of them, or (WSD) as 1 - sqrt(progress) over the last
 * decay_fraction of the steps; or stays. Steps beyond the total keep the last value. */
double schedule_rate(const Schedule *schedule, int64_t step);
