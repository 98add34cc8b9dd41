#include "optim/schedule.h"

#include <math.h>

#define PI 3.14159265358979323846

/* How far step is from the step `from` to the last step, in 0 .. 1. */
static double progress(const Schedule *s, int64_t step, double from)
{
    double last = (double)(s->total - 1);
    if ((double)step <= from || last <= from) {
        return 0;
    }
    return (double)step < last ? ((double)step - from) / (last - from) : 1;
}

double schedule_rate(const Schedule *s, int64_t step)
{
    if (step < s->warmup) {
        return s->peak * (double)(step + 1) / (double)s->warmup;
    }
    double top = s->warmup > 0 ? (double)(s->warmup - 1) : 0; /* step that has the peak */
    double done = progress(s, step, top);
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
            1 - sqrt(progress(s, step, fmax(top, (1 - s->decay_fraction) * (double)s->total - 1)));
        break;
    case SCHEDULE_CONSTANT:
        break;
    }
    return s->floor + height * (s->peak - s->floor);
}
