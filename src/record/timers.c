/* The sum rule of timers.h holds because `last_ns` only moves in settle(), which hands the
 * elapsed time to exactly one owner: the phase on top of the stack, or `unattributed`; and
 * because timers_device only moves time from one owner to another. Entering and leaving read the
 * clock once each. */
#include "record/timers.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *phase_name(Phase phase)
{
    static const char *const names[] = {
#define X(name, text) text,
        PACER_PHASES(X)
#undef X
            "worker",
        "epoch",
        "training",
        "update",
    };
    return names[phase];
}

static int64_t to_ns(double seconds)
{
    return llround(seconds * 1e9);
}

void timers_init(Timers *timers, double (*now)(void))
{
    *timers = (Timers){.now = now != NULL ? now : clock_seconds};
    for (int i = 0; i < CLOCK_COUNT; i++) {
        timers->phases[i].stride = 1;
    }
    timers->start_ns = timers->last_ns = to_ns(timers->now());
}

void timers_free(Timers *timers)
{
    for (int i = 0; i < CLOCK_COUNT; i++) {
        free(timers->phases[i].samples);
    }
    free(timers->stretches);
    *timers = (Timers){0};
}

/* Adds to the owner's exclusive time; what is in no phase is unattributed. */
static void give(Timers *timers, int owner, int64_t ns)
{
    if (owner >= 0) {
        timers->phases[owner].exclusive_ns += ns;
    }
    if (owner < 0 || owner >= PHASE_COUNT) {
        timers->unattributed_ns += ns;
    }
}

static void remember(Timers *timers, int64_t start_ns, int64_t end_ns, int owner)
{
    if (start_ns == end_ns) {
        return;
    }
    int end = timers->stretch_first + timers->stretch_count;
    if (timers->stretch_count > 0 && timers->stretches[end - 1].owner == owner) {
        timers->stretches[end - 1].end_ns = end_ns;
        return;
    }
    if (end == timers->stretch_room) {
        /* Half of the room is free in front, or more room is needed. */
        if (timers->stretch_first < timers->stretch_room / 2 || timers->stretch_room == 0) {
            timers->stretch_room = timers->stretch_room > 0 ? 2 * timers->stretch_room : 64;
            timers->stretches = mem_realloc(timers->stretches, (size_t)timers->stretch_room,
                                            sizeof *timers->stretches);
        }
        memmove(timers->stretches, timers->stretches + timers->stretch_first,
                (size_t)timers->stretch_count * sizeof *timers->stretches);
        timers->stretch_first = 0;
        end = timers->stretch_count;
    }
    timers->stretches[end] = (HostStretch){start_ns, end_ns, owner};
    timers->stretch_count++;
}

int64_t timers_now_ns(const Timers *timers)
{
    return to_ns(timers->now());
}

/* Gives the time since the last reading to its owner and returns the present. */
static int64_t settle(Timers *timers)
{
    int64_t now = timers_now_ns(timers);
    int64_t elapsed = now - timers->last_ns;
    PACER_ASSERT(elapsed >= 0, "the clock went back by %lld ns", (long long)-elapsed);
    int owner = timers->depth > 0 ? (int)timers->stack[timers->depth - 1] : -1;
    give(timers, owner, elapsed);
    if (timers->follows_device) {
        remember(timers, timers->last_ns, now, owner);
    }
    timers->last_ns = now;
    timers->readings++;
    return now;
}

void timers_enter(Timers *timers, Phase phase)
{
    PACER_ASSERT(timers->depth < TIMERS_DEPTH, "%s: %d phases deep", phase_name(phase),
                 timers->depth);
    int64_t now = settle(timers);
    timers->stack[timers->depth++] = phase;
    PhaseClock *clock = &timers->phases[phase];
    if (clock->open++ == 0) {
        clock->opened_ns = now;
    }
}

/* Keeps visits 0, stride, 2 stride, ...; when there is no more room, every second sample goes and
 * the stride doubles, so the samples stay evenly spread over the run. */
static void sample(PhaseClock *clock, int64_t visit, double seconds)
{
    if (visit % clock->stride != 0) {
        return;
    }
    if (clock->samples == NULL) {
        clock->samples = mem_zalloc(TIMERS_SAMPLES, sizeof *clock->samples);
    }
    if (clock->sample_count == TIMERS_SAMPLES) {
        for (int i = 0; i < TIMERS_SAMPLES / 2; i++) {
            clock->samples[i] = clock->samples[2 * i];
        }
        clock->sample_count /= 2;
        clock->stride *= 2;
        if (visit % clock->stride != 0) {
            return;
        }
    }
    clock->samples[clock->sample_count++] = seconds;
}

static void finish_visit(PhaseClock *clock, int64_t ns)
{
    clock->total_ns += ns;
    clock->max_ns = ns > clock->max_ns ? ns : clock->max_ns;
    sample(clock, clock->count, 1e-9 * (double)ns);
    clock->count++;
}

void timers_leave(Timers *timers, Phase phase)
{
    PACER_ASSERT(timers->depth > 0, "leaving %s outside every phase", phase_name(phase));
    Phase top = timers->stack[timers->depth - 1];
    PACER_ASSERT(top == phase, "leaving %s inside %s", phase_name(phase), phase_name(top));
    int64_t now = settle(timers);
    timers->depth--;
    PhaseClock *clock = &timers->phases[phase];
    if (--clock->open == 0) { /* a phase inside itself is one visit */
        finish_visit(clock, now - clock->opened_ns);
    }
}

void timers_follow_device(Timers *timers)
{
    timers->device_end_ns = settle(timers);
    timers->follows_device = true;
}

void timers_device(Timers *timers, Phase phase, int64_t start_ns, int64_t end_ns)
{
    PACER_ASSERT(timers->follows_device && start_ns <= end_ns, "%s from %lld to %lld ns",
                 phase_name(phase), (long long)start_ns, (long long)end_ns);
    int64_t now = settle(timers);
    finish_visit(&timers->phases[phase], end_ns - start_ns);
    int64_t from = start_ns > timers->device_end_ns ? start_ns : timers->device_end_ns;
    int64_t to = end_ns < now ? end_ns : now;
    if (from >= to) {
        return;
    }
    while (timers->stretch_count > 0) {
        const HostStretch *first = &timers->stretches[timers->stretch_first];
        int64_t begin = first->start_ns > from ? first->start_ns : from;
        int64_t end = first->end_ns < to ? first->end_ns : to;
        if (end > begin) {
            give(timers, first->owner, begin - end);
            give(timers, phase, end - begin);
        }
        if (first->end_ns > to) {
            break;
        }
        timers->stretch_first++;
        timers->stretch_count--;
    }
    timers->device_end_ns = to;
}

void timers_add_hidden(Timers *timers, Phase phase, double seconds)
{
    PACER_ASSERT(seconds >= 0, "%s: %g s", phase_name(phase), seconds);
    finish_visit(&timers->phases[phase], to_ns(seconds));
}

void timers_report(Timers *timers, TimerReport *report)
{
    int64_t now = settle(timers);
    double *room = mem_zalloc(TIMERS_SAMPLES, sizeof *room);
    report->wall_s = 1e-9 * (double)(now - timers->start_ns);
    report->unattributed_s = 1e-9 * (double)timers->unattributed_ns;
    for (int i = 0; i < CLOCK_COUNT; i++) {
        const PhaseClock *clock = &timers->phases[i];
        int64_t running = clock->open > 0 ? now - clock->opened_ns : 0;
        double finished = 1e-9 * (double)clock->total_ns;
        size_t n = (size_t)clock->sample_count;
        if (n > 0) {
            memcpy(room, clock->samples, n * sizeof *room);
        }
        report->phases[i] = (PhaseReport){
            .total_s = 1e-9 * (double)(clock->total_ns + running),
            .exclusive_s = 1e-9 * (double)clock->exclusive_ns,
            .max_s = 1e-9 * (double)clock->max_ns,
            .mean_s = clock->count > 0 ? finished / (double)clock->count : NAN,
            .p50_s = n > 0 ? clock_quantile(room, n, 0.50) : NAN,
            .p95_s = n > 0 ? clock_quantile(room, n, 0.95) : NAN,
            .p99_s = n > 0 ? clock_quantile(room, n, 0.99) : NAN,
            .count = clock->count,
        };
    }
    free(room);
}

static Value measured(const PhaseReport *phase, double seconds)
{
    return phase->count > 0 ? value_of(seconds) : (Value){0};
}

static cJSON *phase_json(const PhaseReport *phase)
{
    cJSON *one = json_object();
    json_put_number(one, "total_s", phase->total_s);
    json_put_number(one, "exclusive_s", phase->exclusive_s);
    json_put_whole(one, "count", phase->count);
    json_put_or_null(one, "mean_s", measured(phase, phase->mean_s));
    json_put_or_null(one, "p50_s", measured(phase, phase->p50_s));
    json_put_or_null(one, "p95_s", measured(phase, phase->p95_s));
    json_put_or_null(one, "p99_s", measured(phase, phase->p99_s));
    json_put_or_null(one, "max_s", measured(phase, phase->max_s));
    return one;
}

cJSON *timers_json(const TimerReport *report)
{
    cJSON *all = json_object();
    for (int i = 0; i < PHASE_COUNT; i++) {
        json_put_item(all, phase_name((Phase)i), phase_json(&report->phases[i]));
    }
    cJSON *rest = json_object();
    json_put_number(rest, "total_s", report->unattributed_s);
    json_put_number(rest, "exclusive_s", report->unattributed_s);
    json_put_item(rest, "count", NULL);
    json_put_item(rest, "mean_s", NULL);
    json_put_item(all, "unattributed", rest);
    return all;
}

cJSON *timers_spans_json(const TimerReport *report)
{
    const PhaseReport *phases = report->phases;
    double outside = report->wall_s - phases[PHASE_INIT].total_s - phases[SPAN_WORKER].total_s;
    PhaseReport total = {.total_s = report->wall_s,
                         .exclusive_s = outside > 0 ? outside : 0,
                         .count = 1,
                         .mean_s = report->wall_s,
                         .p50_s = report->wall_s,
                         .p95_s = report->wall_s,
                         .p99_s = report->wall_s,
                         .max_s = report->wall_s};
    cJSON *all = json_object();
    json_put_item(all, "total", phase_json(&total));
    json_put_item(all, "init", phase_json(&phases[PHASE_INIT]));
    json_put_item(all, "worker", phase_json(&phases[SPAN_WORKER]));
    json_put_item(all, "epoch", phase_json(&phases[SPAN_EPOCH]));
    json_put_item(all, "training", phase_json(&phases[SPAN_TRAINING]));
    json_put_item(all, "update", phase_json(&phases[SPAN_UPDATE]));
    json_put_item(all, "validation", phase_json(&phases[PHASE_EVAL]));
    return all;
}

#define COST_READINGS 4096

double timers_reading_cost(const Timers *timers)
{
    double from = timers->now(), last = from;
    for (int i = 0; i < COST_READINGS; i++) {
        last = timers->now();
    }
    return (last - from) / COST_READINGS;
}

/* --- the device's clock --- */

#define DRIFT 10000 /* one part in so many is more than clocks drift apart */

void device_clock_learn(DeviceClock *clock, int64_t device_ns, int64_t host_ns)
{
    int64_t seen = host_ns - device_ns;
    int64_t limit = clock->offset_ns + (host_ns - clock->learned_ns) / DRIFT;
    clock->offset_ns = !clock->known || seen < limit ? seen : limit;
    clock->learned_ns = host_ns;
    clock->known = true;
}

int64_t device_clock_to_host(const DeviceClock *clock, int64_t device_ns)
{
    PACER_ASSERT(clock->known, "nothing was learned about the device's clock");
    return device_ns + clock->offset_ns;
}
