/* Books the time of a run under its phases. What the host does is told by the trainer as it
 * happens; what a device did arrives with the results of a step, as stamps of its own clock. */
#include "train/session.h"

#include "base/clock.h"

static void on_phase(void *timers, Phase phase, bool begins)
{
    (begins ? timers_enter : timers_leave)(timers, phase);
}

void account_open(Session *s)
{
    s->trainer.hook = on_phase;
    s->trainer.hook_user = &s->timers;
    s->reading_cost = timers_reading_cost(&s->timers);
    s->stamp_cost = trainer_stamp_cost(&s->trainer);
    if (s->trainer.fetched_stamps != NULL) {
        timers_follow_device(&s->timers);
    }
    s->sensors = backend_sensors(s->run.backend);
    gpu_watch_start(&s->watch, s->sensors);
}

static void book(Session *s, Phase phase, int64_t from, int64_t to)
{
    timers_device(&s->timers, phase, device_clock_to_host(&s->device_clock, from),
                  device_clock_to_host(&s->device_clock, to));
    s->stamps++;
}

void account_fetched(Session *s)
{
    const int64_t *stamps = s->trainer.fetched_stamps;
    if (stamps == NULL) {
        return;
    }
    int64_t accum = s->trainer.setup.accum;
    /* The update's stamps lie behind those of its last micro-step. */
    const int64_t *tail = stamps + (accum - 1) * STAMP_MICRO;
    int64_t end = tail[STAMP_UPDATE];
    device_clock_learn(&s->device_clock, end, timers_now_ns(&s->timers));
    /* The forward pass has stalled now and then; put down as if it had been all at once. */
    int64_t stalled = tail[STAMP_STALLED_AFTER] - tail[STAMP_STALLED_BEFORE];
    if (ddp_is_sharded(&s->trainer.ddp)) {
        book(s, PHASE_COMM_EXPOSED, stamps[STAMP_START], stamps[STAMP_START] + stalled);
    }
    for (int64_t micro = 0; micro < accum; micro++) {
        const int64_t *at = stamps + micro * STAMP_MICRO;
        book(s, PHASE_FORWARD, at[STAMP_START] + (micro == 0 ? stalled : 0), at[STAMP_FORWARD]);
        book(s, PHASE_LOSS, at[STAMP_FORWARD], at[STAMP_LOSS]);
        book(s, PHASE_BACKWARD, at[STAMP_LOSS], at[STAMP_BACKWARD]);
        s->stamps++; /* the beginning */
    }
    int before = STAMP_BACKWARD;
    if (s->ranks > 1) {
        book(s, PHASE_COMM_EXPOSED, tail[STAMP_BACKWARD], tail[STAMP_COMM]);
        before = STAMP_COMM;
    }
    book(s, PHASE_OPTIMIZER, tail[before], tail[STAMP_UPDATE]);
    /* From the end of the update before, when the device had nothing else to do in between. */
    int64_t begin = s->last_update_ns > 0 ? s->last_update_ns : stamps[STAMP_START];
    timers_add_hidden(&s->timers, SPAN_UPDATE, 1e-9 * (double)(end - begin));
    s->last_update_ns = end;
}

void account_host_update(Session *s, double seconds)
{
    ChannelTimes times;
    if (s->channel != NULL && channel_take_times(s->channel, &times)) {
        timers_add_hidden(&s->timers, PHASE_COMM_HIDDEN, channel_hidden(&times));
    }
    if (s->trainer.fetched_stamps == NULL) {
        timers_add_hidden(&s->timers, SPAN_UPDATE, seconds);
    }
}

/* An epoch ends where the loader has given every window once. */
static uint64_t epoch_of(const Session *s)
{
    uint64_t windows = s->train_loader.windows;
    return windows > 0 ? s->state.sequences / windows : 0;
}

void account_begin(Session *s)
{
    timers_enter(&s->timers, SPAN_WORKER);
    timers_enter(&s->timers, SPAN_EPOCH);
    s->epoch = epoch_of(s);
}

void account_step(Session *s)
{
    timers_enter(&s->timers, PHASE_LOG);
    gpu_watch_poll(&s->watch, clock_seconds());
    timers_leave(&s->timers, PHASE_LOG);
    if (epoch_of(s) != s->epoch) {
        s->epoch = epoch_of(s);
        timers_leave(&s->timers, SPAN_EPOCH);
        timers_enter(&s->timers, SPAN_EPOCH);
    }
}

double account_overhead(const Session *s, double wall_s)
{
    double seconds =
        (double)s->timers.readings * s->reading_cost + (double)s->stamps * s->stamp_cost;
    return wall_s > 0 ? seconds / wall_s : 0;
}
