/* How large the next update is, which rate it has, and whether it is the last: by the plan of the
 * run, or, with --minutes, by the clock of the first rank. */
#include "base/clock.h"
#include "train/session.h"

#include <math.h>

void pace_read(const Session *s, double shares[2])
{
    double whole = s->run.length.seconds;
    if (whole > 0 && session_leads(s)) {
        shares[0] = (clock_seconds() - s->clock_began) / whole;
        shares[1] = s->step_seconds / whole;
    }
}

void pace_take(Session *s, const double shares[2])
{
    s->used = shares[0];
    s->next_share = shares[1];
    s->state.clock_seconds = s->used * s->run.length.seconds;
}

int64_t session_steps(const Session *s)
{
    if (s->run.total_steps < LENGTH_OPEN) {
        return s->run.total_steps;
    }
    double left = s->next_share > 0 ? (1 - fmin(s->used, 1)) / s->next_share : NAN;
    return left < 1e12 ? s->state.step + (int64_t)(left + 0.5) : 0;
}

/* The update that ends nearest to the end of the time is the last, and has the floor's rate. All
 * ranks have the same numbers, and so the same rate. */
static double clock_rate(Session *s)
{
    TrainState *state = &s->state;
    bool last = s->used + 1.5 * s->next_share >= 1;
    if (last) {
        s->run.total_steps = state->step + 1;
    }
    if (s->run.length.warmup < 0) {
        state->warm_share = length_warm_share();
    } else if (state->step <= s->run.length.warmup) {
        state->warm_share = s->used;
    }
    return length_rate_at(&s->run.length, state->step, s->used + s->next_share, state->warm_share,
                          last);
}

void pace_update(Session *s)
{
    const RunLength *length = &s->run.length;
    /* A change waits for the results of the update before: is_needed fetches them. */
    trainer_set_accum(&s->trainer, ramp_accum(&length->ramp, s->state.step));
    s->rate = length->seconds > 0 ? clock_rate(s) : length_rate(length, s->state.step);
}

void pace_end(Session *s)
{
    if (s->run.length.seconds > 0 && s->state.step == s->run.total_steps) {
        s->state.clock_seconds = fmax(s->state.clock_seconds, s->run.length.seconds);
    }
}
