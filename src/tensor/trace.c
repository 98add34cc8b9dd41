#include "tensor/trace.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    TraceCall *calls; /* of the last real run of the body; (capacity) */
    int64_t count;
    int64_t *times; /* (2 capacity): start and end of each call by the host's clock */
    /* (2 capacity + 1) in device memory: where the body begins, and the end of each call; then,
     * for those that began behind a wait, its end */
    int64_t *slots;
    bool *waited; /* (capacity + 1) */
    bool unread;  /* ran since its times were taken */
    int64_t run;
} Section;

struct Trace {
    Backend *backend;
    double (*now)(void);
    int64_t capacity;
    Section sections[BACKEND_RECORDINGS];
    Section *inside; /* NULL: outside */
    const char *part;
    int64_t *stamps; /* device memory: the sections' slots and one more; NULL: the host's clock */
    int64_t *downloaded; /* (2 capacity + 1) */
    int64_t runs;        /* sections entered in this step */
    TraceEvent *events;
    int64_t event_count, event_room;
};

/* Stamps of a section. */
static size_t slots_of(const Trace *trace)
{
    return 2 * (size_t)trace->capacity + 1;
}

int64_t trace_host_now(const Trace *trace)
{
    return llrint(trace->now() * 1e9);
}

int trace_open(Trace **out, Backend *backend, int64_t capacity, double (*now)(void))
{
    PACER_ASSERT(capacity > 0, "capacity %" PRId64, capacity);
    Trace *trace = mem_zalloc(1, sizeof *trace);
    *trace = (Trace){.backend = backend, .now = now != NULL ? now : clock_seconds};
    trace->capacity = capacity;
    *out = NULL;
    if (backend->stamp != NULL) {
        size_t slots = BACKEND_RECORDINGS * slots_of(trace) + 1;
        trace->stamps = backend->alloc(backend, slots * sizeof *trace->stamps);
        if (trace->stamps == NULL) {
            trace_close(trace);
            return err_set(ERR_MEMORY,
                           "the device has no %zu bytes left for a trace; try a smaller --batch",
                           slots * sizeof *trace->stamps);
        }
        backend->zero(backend, trace->stamps, slots * sizeof *trace->stamps);
        trace->downloaded = mem_zalloc(slots_of(trace), sizeof *trace->downloaded);
    }
    for (int i = 0; i < BACKEND_RECORDINGS; i++) {
        Section *section = &trace->sections[i];
        section->calls = mem_zalloc((size_t)capacity, sizeof *section->calls);
        if (trace->stamps != NULL) {
            section->slots = trace->stamps + (size_t)i * slots_of(trace);
            section->waited = mem_zalloc((size_t)capacity + 1, sizeof *section->waited);
        } else {
            section->times = mem_zalloc(2 * (size_t)capacity, sizeof *section->times);
        }
    }
    *out = trace;
    return 0;
}

void trace_close(Trace *trace)
{
    if (trace == NULL) {
        return;
    }
    for (int i = 0; i < BACKEND_RECORDINGS; i++) {
        free(trace->sections[i].calls);
        free(trace->sections[i].times);
        free(trace->sections[i].waited);
    }
    if (trace->stamps != NULL) {
        trace->backend->release(trace->backend, trace->stamps);
    }
    free(trace->downloaded);
    free(trace->events);
    free(trace);
}

static TraceEvent *new_event(Trace *trace)
{
    if (trace->event_count == trace->event_room) {
        trace->event_room = 2 * trace->event_room + 256;
        trace->events =
            mem_realloc(trace->events, (size_t)trace->event_room, sizeof *trace->events);
    }
    return &trace->events[trace->event_count++];
}

/* Turns the last run of a section into events. */
static void read_times(Trace *trace, Section *section)
{
    if (section->slots != NULL) {
        trace->backend->download(trace->backend, trace->downloaded, section->slots,
                                 slots_of(trace) * sizeof *section->slots);
    }
    for (int64_t i = 0; i < section->count; i++) {
        int64_t before = section->slots != NULL && section->waited[i] ? trace->capacity + 1 : 0;
        int64_t start =
            section->slots != NULL ? trace->downloaded[before + i] : section->times[2 * i];
        int64_t end = section->slots != NULL ? trace->downloaded[i + 1] : section->times[2 * i + 1];
        *new_event(trace) =
            (TraceEvent){section->calls[i], section->run, start, end > start ? end : start};
    }
    section->unread = false;
}

void trace_start(Trace *trace)
{
    PACER_ASSERT(trace->inside == NULL, "a section is open");
    for (int i = 0; i < BACKEND_RECORDINGS; i++) {
        trace->sections[i].unread = false;
    }
    trace->event_count = 0;
    trace->runs = 0;
}

static int by_run(const void *a, const void *b)
{
    const Section *const *left = a, *const *right = b;
    return ((*left)->run > (*right)->run) - ((*left)->run < (*right)->run);
}

void trace_stop(Trace *trace)
{
    Section *unread[BACKEND_RECORDINGS];
    size_t count = 0;
    for (int i = 0; i < BACKEND_RECORDINGS; i++) {
        if (trace->sections[i].unread) {
            unread[count++] = &trace->sections[i];
        }
    }
    qsort(unread, count, sizeof *unread, by_run);
    for (size_t i = 0; i < count; i++) {
        read_times(trace, unread[i]);
    }
}

const TraceEvent *trace_events(const Trace *trace, int64_t *count)
{
    *count = trace->event_count;
    return trace->events;
}

void trace_enter(Trace *trace, int section)
{
    if (trace == NULL) {
        return;
    }
    PACER_ASSERT(section >= 0 && section < BACKEND_RECORDINGS, "section %d", section);
    PACER_ASSERT(trace->inside == NULL, "sections do not nest");
    Section *entered = &trace->sections[section];
    if (entered->unread) {
        trace_stop(trace);
    }
    entered->run = trace->runs++;
    entered->unread = true;
    trace->inside = entered;
}

void trace_leave(Trace *trace)
{
    if (trace != NULL) {
        trace->inside = NULL;
    }
}

void trace_body(Trace *trace, const char *part)
{
    if (trace != NULL && trace->inside != NULL) {
        trace->part = part;
        trace->inside->count = 0;
        if (trace->stamps != NULL) {
            trace->inside->waited[0] = false;
            trace->backend->stamp(trace->backend, trace->inside->slots);
        }
    }
}

void trace_part(Trace *trace, const char *part)
{
    if (trace != NULL && trace->inside != NULL) {
        trace->part = part;
    }
}

void trace_waited(Trace *trace)
{
    Section *section = trace != NULL ? trace->inside : NULL;
    if (section != NULL && section->slots != NULL && section->count < trace->capacity) {
        section->waited[section->count] = true;
        trace->backend->stamp(trace->backend,
                              section->slots + trace->capacity + 1 + section->count);
    }
}

void trace_call(Trace *trace, TraceCall call)
{
    if (trace == NULL || trace->inside == NULL) {
        return;
    }
    Section *section = trace->inside;
    PACER_ASSERT(section->count < trace->capacity, "more than %" PRId64 " ops in a section",
                 trace->capacity);
    call.part = trace->part;
    section->calls[section->count] = call;
    if (section->times != NULL) {
        section->times[2 * section->count] = trace_host_now(trace);
    }
}

void trace_called(Trace *trace)
{
    if (trace == NULL || trace->inside == NULL) {
        return;
    }
    Section *section = trace->inside;
    if (section->times != NULL) {
        section->times[2 * section->count + 1] = trace_host_now(trace);
    } else {
        trace->backend->stamp(trace->backend, section->slots + section->count + 1);
    }
    section->count++;
    if (section->waited != NULL) {
        section->waited[section->count] = false;
    }
}

bool trace_is_device(const Trace *trace)
{
    return trace->stamps != NULL;
}

int64_t trace_device_now(Trace *trace)
{
    PACER_ASSERT(trace->stamps != NULL, "the device has no clock of its own");
    int64_t *slot = trace->stamps + BACKEND_RECORDINGS * slots_of(trace), now;
    trace->backend->stamp(trace->backend, slot);
    trace->backend->download(trace->backend, &now, slot, sizeof now);
    return now;
}

const char *op_shape_text(OpShape shape, char text[OP_SHAPE_TEXT_SIZE])
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < 4 && shape.dim[i] > 0; i++) {
        used += (size_t)snprintf(text + used, OP_SHAPE_TEXT_SIZE - used, "%s%" PRId64,
                                 i > 0 ? " x " : "", shape.dim[i]);
    }
    return text;
}
