#include "optim/schedule.h"

#include <math.h>

#define PI 3.14159265358979323846

/* Part of [from, to) that lies before step, in 0 .. 1. */
static double progress(int64_t step, double from, double to)
{
    if ((double)step <= from || to <= from) {
        return 0;
    }
    double part = ((double)step - from) / (to - from);
    return part < 1 ? part : 1;
}

double schedule_rate(const Schedule *s, int64_t step)
{
    if (step < s->warmup) {
        return s->peak * (double)(step + 1) / (double)s->warmup;
    }
    double done = progress(step, (double)s->warmup, (double)s->total);
    double height = 1; /* 1 at the peak, 0 at the floor */
    switch (s->kind) {
    case SCHEDULE_COSINE:
        height = 0.5 * (1 + cos(PI * done));
        break;
    case SCHEDULE_LINEAR:
        height = 1 - done;
        break;
    case SCHEDULE_WSD:
        height =
            1 - sqrt(progress(step, (1 - s->decay_fraction) * (double)s->total, (double)s->total));
        break;
    case SCHEDULE_CONSTANT:
        break;
    }
    return s->floor + height * (s->peak - s->floor);
}
