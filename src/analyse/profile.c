/* Steps without and with the trace take turns, so that whatever else the machine does meets both
 * alike. A device that records its steps must record anew at each turn: the first step after it
 * runs the bodies, the second records them, and the third, a mere replay, is the one that is timed.
 *
 * With several ranks each step starts behind a barrier, outside of what is timed, and all ranks
 * agree on how it ended and on which step is kept. */
#include "analyse/profile.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "record/timers.h"

#include <stdlib.h>
#include <string.h>

#define RATE 1e-4
#define RECORDING_STEPS 2
#define CLOCK_LESSONS 4 /* the shortest way of a stamp to the host counts */

typedef struct {
    Trainer *trainer;
    Prefetch *prefetch;
    Trace *trace;
    Channel *channel; /* NULL: one rank */
    DeviceClock clock;
    int64_t step, steps;
    Progress *progress;
    ProfiledStep current;
    double kept_s;    /* of the slowest rank: the step that is kept */
    const char *open; /* name of the host's span under way; NULL: none */
    int64_t opened_ns;
} Profiler;

static void close_span(Profiler *p)
{
    if (p->open == NULL) {
        return;
    }
    ProfiledStep *s = &p->current;
    s->host = mem_grow(s->host, (size_t)s->host_count, &s->host_room, sizeof *s->host);
    s->host[s->host_count++] =
        (ProfileSpan){p->open, p->trainer->micro, p->opened_ns, trace_host_now(p->trace)};
    p->open = NULL;
}

/* Computation is no span of the host's: the ops show it. Nor is waiting for other ranks, which the
 * channel's spans show. */
static void on_phase(void *user, Phase phase, bool begins)
{
    Profiler *p = user;
    if (phase != PHASE_DATA_LOAD && phase != PHASE_DATA_MOVE && phase != PHASE_LAUNCH &&
        phase != PHASE_WAIT) {
        return;
    }
    close_span(p);
    if (begins) {
        p->open = phase_name(phase);
        p->opened_ns = trace_host_now(p->trace);
    }
}

/* One update from an idle device to an idle device; its time by the host's clock is in
 * p->current. */
static int run_step(Profiler *p)
{
    Trainer *t = p->trainer;
    double loss, norm;
    progress_note(p->progress, "%s: step %lld of %lld", p->progress->what, (long long)p->step + 1,
                  (long long)p->steps);
    p->current.host_count = 0;
    int code = 0;
    if (p->channel != NULL) { /* all ranks begin together, and communication counts from here */
        channel_trace_next(p->channel, t->ctx.trace != NULL);
        channel_take_times(p->channel, &p->current.comm_times);
        code = comm_barrier(t->comm, "step to profile");
    }
    if (code != 0) {
        return code;
    }
    p->current.start_ns = trace_host_now(p->trace);
    code = trainer_step(t, p->prefetch, RATE, p->step++, NULL);
    if (code != 0) {
        return code;
    }
    while (t->fetched < t->posted) {
        trainer_fetch(t, &loss, &norm);
    }
    close_span(p);
    p->current.end_ns = trace_host_now(p->trace);
    if (p->channel != NULL) {
        channel_take_times(p->channel, &p->current.comm_times);
    }
    return comm_agree(t->comm, signals_check());
}

static int run_steps(Profiler *p, int64_t count)
{
    int code = 0;
    for (int64_t i = 0; i < count && code == 0; i++) {
        code = run_step(p);
    }
    return code;
}

static int64_t steps_to_record(const Trainer *t)
{
    return t->setup.graph && t->backend->replay != NULL ? RECORDING_STEPS : 0;
}

static double step_seconds(const Profiler *p)
{
    return 1e-9 * (double)(p->current.end_ns - p->current.start_ns);
}

static int64_t to_host(const Profiler *p, int64_t ns)
{
    return trace_is_device(p->trace) ? device_clock_to_host(&p->clock, ns) : ns;
}

/* Events of the step just made, with times moved to the host's clock, into p->current. */
static void take_events(Profiler *p)
{
    ProfiledStep *s = &p->current;
    const TraceEvent *events = trace_events(p->trace, &s->event_count);
    s->events = mem_realloc(s->events, (size_t)s->event_count, sizeof *s->events);
    for (int64_t i = 0; i < s->event_count; i++) {
        s->events[i] = events[i];
        s->events[i].start_ns = to_host(p, events[i].start_ns);
        s->events[i].end_ns = to_host(p, events[i].end_ns);
    }
}

/* The same of the communication. An op of a device begins where the one before it ended: what was
 * waited for other ranks in between is none of it. */
static void take_communication(Profiler *p)
{
    ProfiledStep *s = &p->current;
    if (p->channel == NULL) {
        return;
    }
    const ChannelSpan *spans = channel_spans(p->channel, &s->comm_count);
    s->comm = mem_realloc(s->comm, (size_t)s->comm_count, sizeof *s->comm);
    for (int64_t i = 0; i < s->comm_count; i++) {
        s->comm[i] = spans[i];
        s->comm[i].start_ns = to_host(p, spans[i].start_ns);
        s->comm[i].end_ns = to_host(p, spans[i].end_ns);
        const ChannelSpan *wait = &s->comm[i];
        for (int64_t k = 0; wait->is_wait && k < s->event_count; k++) {
            TraceEvent *event = &s->events[k];
            if (event->start_ns <= wait->start_ns && wait->end_ns <= event->end_ns) {
                event->start_ns = wait->end_ns;
            }
        }
    }
}

static int traced_step(Profiler *p)
{
    trainer_trace(p->trainer, p->trace);
    trace_start(p->trace);
    int code = run_steps(p, steps_to_record(p->trainer));
    if (code != 0) {
        return code;
    }
    for (int i = 0; i < CLOCK_LESSONS && trace_is_device(p->trace); i++) {
        int64_t device_ns = trace_device_now(p->trace);
        device_clock_learn(&p->clock, device_ns, trace_host_now(p->trace));
    }
    trace_start(p->trace);
    code = run_step(p);
    trace_stop(p->trace);
    take_events(p);
    take_communication(p);
    return code;
}

/* What is known of each repeat; behind the others the time of each op. */
enum { OF_PLAIN, OF_TRACED, OF_OPS, OF_OUTSIDE, OF_SHARE, OF_EXPOSED, OF_HIDDEN, OF_OP };

/* samples: (OF_OP + OP_COUNT, repeats) */
static void book(const Profiler *p, double *samples, int64_t at, int64_t repeats)
{
    const ProfiledStep *s = &p->current;
    double ops = 0, traced = step_seconds(p);
    for (int64_t i = 0; i < s->event_count; i++) {
        double seconds = 1e-9 * (double)(s->events[i].end_ns - s->events[i].start_ns);
        samples[(OF_OP + s->events[i].call.op) * repeats + at] += seconds;
        ops += seconds;
    }
    samples[OF_TRACED * repeats + at] = traced;
    samples[OF_OPS * repeats + at] = ops;
    samples[OF_OUTSIDE * repeats + at] = traced - ops;
    samples[OF_SHARE * repeats + at] = ops / traced;
    samples[OF_EXPOSED * repeats + at] = s->comm_times.exposed_s;
    samples[OF_HIDDEN * repeats + at] = channel_hidden(&s->comm_times);
}

static int keep_if_fastest(Profiler *p, Profile *profile, int64_t at)
{
    ProfiledStep *kept = &profile->fastest, old = *kept;
    double slowest = step_seconds(p);
    int code = p->channel != NULL ? comm_max(p->trainer->comm, &slowest, 1) : 0;
    if (code == 0 && (at == 0 || slowest < p->kept_s)) {
        *kept = p->current;
        p->current = old;
        p->kept_s = slowest;
    }
    return code;
}

static int measure(Profiler *p, Profile *profile, ProfileOptions options)
{
    size_t n = (size_t)options.repeats;
    double *samples = mem_zalloc((OF_OP + OP_COUNT) * n, sizeof *samples);
    int code = run_steps(p, options.warm);
    for (int64_t at = 0; at < options.repeats && code == 0; at++) {
        trainer_trace(p->trainer, NULL);
        code = run_steps(p, steps_to_record(p->trainer) + 1);
        samples[OF_PLAIN * n + (size_t)at] = step_seconds(p);
        code = code == 0 ? traced_step(p) : code;
        if (code == 0) {
            book(p, samples, at, options.repeats);
            code = keep_if_fastest(p, profile, at);
        }
    }
    if (code == 0) {
        double *const medians[OF_OP] = {
            [OF_PLAIN] = &profile->plain_s,   [OF_TRACED] = &profile->traced_s,
            [OF_OPS] = &profile->ops_s,       [OF_OUTSIDE] = &profile->outside_s,
            [OF_SHARE] = &profile->share,     [OF_EXPOSED] = &profile->exposed_s,
            [OF_HIDDEN] = &profile->hidden_s,
        };
        for (size_t i = 0; i < OF_OP + OP_COUNT; i++) {
            double *to = i < OF_OP ? medians[i] : &profile->op_s[i - OF_OP];
            *to = clock_quantile(samples + i * n, n, 0.5);
        }
        profile->fastest_plain_s = samples[OF_PLAIN * n]; /* sorted by now */
        profile->fastest_traced_s = samples[OF_TRACED * n];
        for (int64_t i = 0; i < profile->fastest.event_count; i++) {
            const TraceCall *call = &profile->fastest.events[i].call;
            OpStat *stat = &profile->ops[call->op];
            stat->calls++;
            stat->flops += call->flops;
            stat->bytes += call->bytes;
        }
    }
    free(samples);
    return code;
}

static void free_step(ProfiledStep *s)
{
    free(s->events);
    free(s->host);
    free(s->comm);
}

static int open_traces(Profiler *p, ProfileOptions options)
{
    Trainer *t = p->trainer;
    TrainerSetup setup = t->setup;
    TrainPlan plan;
    int64_t calls = 0; /* of a whole update with one micro-step, which no section exceeds */
    setup.accum = 1;
    trainer_plan(&setup, t->backend, &plan);
    for (int op = 0; op < OP_COUNT; op++) {
        calls += plan.step[op].calls;
    }
    int code = trace_open(&p->trace, t->backend, calls, options.now);
    if (code == 0 && p->channel != NULL) {
        code = channel_trace(p->channel, ddp_spans(&t->ddp, t->setup.accum));
    }
    return code;
}

static void close_traces(Profiler *p)
{
    trainer_trace(p->trainer, NULL);
    if (p->channel != NULL) {
        channel_trace(p->channel, 0);
    }
    trace_close(p->trace);
}

int profile_measure(Profile *profile, Trainer *trainer, Prefetch *prefetch, ProfileOptions options)
{
    PACER_ASSERT(options.repeats > 0, "%lld repeats", (long long)options.repeats);
    Progress own = progress_begin("profiling");
    *profile = (Profile){.repeats = options.repeats};
    Profiler p = {.trainer = trainer, .prefetch = prefetch, .channel = trainer->ddp.channel};
    p.progress = options.progress != NULL ? options.progress : &own;
    p.steps = options.warm + 2 * options.repeats * (1 + steps_to_record(trainer));
    int code = comm_agree(trainer->comm, open_traces(&p, options));
    if (code != 0) {
        close_traces(&p);
        return code;
    }
    TrainHook hook = trainer->hook;
    void *hook_user = trainer->hook_user;
    trainer->hook = on_phase;
    trainer->hook_user = &p;
    profile->device = trace_is_device(p.trace);
    code = measure(&p, profile, options);
    trainer->hook = hook;
    trainer->hook_user = hook_user;
    close_traces(&p);
    free_step(&p.current);
    return code;
}

void profile_free(Profile *profile)
{
    free_step(&profile->fastest);
    *profile = (Profile){0};
}
