#pragma once
/* When each op of a step ran. The work of a step comes in sections (the slots of Backend.replay): a
 * section's body is a sequence of ops that is the same whenever it runs, and a device may replay it
 * without calling the body. So what was called is put down when the body really runs, and when it
 * ran is read each time.
 *
 * A device with a clock of its own (Backend.stamp) puts a stamp behind each op, at an address
 * that stays the same for as long as the trace is open; an op begins where the one before it in
 * the section ended. Elsewhere the host's clock is read before and after each op. */
#include "tensor/backend.h"

typedef struct Trace Trace;

/* Sizes that tell calls of an op apart, outermost first; 0 behind the last. Linear maps: rows,
 * inputs, outputs. Attention and rope: sequences, tokens, heads, width of a head. Others: their
 * largest tensor. */
typedef struct {
    int64_t dim[4];
} OpShape;

typedef struct {
    OpId op;
    const char *part; /* of the step, as trace_part named it */
    int layer;        /* CTX_NO_LAYER: of none */
    double flops, bytes;
    OpShape shape;
} TraceCall;

typedef struct {
    TraceCall call;
    int64_t run;              /* the section's place among those of the step, from 0 */
    int64_t start_ns, end_ns; /* by the device's clock, or the host's */
} TraceEvent;

/* capacity: op calls of the longest section. now: the host's clock in seconds, NULL:
 * clock_seconds. ERR_MEMORY when the device has no room for the stamps. */
int trace_open(Trace **out, Backend *backend, int64_t capacity, double (*now)(void));

/* Not while recordings with its stamps exist (Backend.forget). NULL is fine. */
void trace_close(Trace *trace);

/* Around a step. stop waits for the device; the events, in the order of the calls, then stay
 * until the next start. */
void trace_start(Trace *trace);
void trace_stop(Trace *trace);
const TraceEvent *trace_events(const Trace *trace, int64_t *count);

/* Around whatever runs or replays a section; ops outside of sections are not traced. Entering a
 * section that ran earlier in this step waits for the device to read its stamps. These and the
 * following do nothing when trace is NULL, and the last five nothing outside of a section. */
void trace_enter(Trace *trace, int section);
void trace_leave(Trace *trace);

void trace_body(Trace *trace, const char *part); /* first thing in a body; part as below */
void trace_part(Trace *trace, const char *part); /* of the calls that follow; not copied */
void trace_waited(Trace *trace); /* behind a wait for copies, which is none of the next op's time */
void trace_call(Trace *trace, TraceCall call); /* before an op; its part is filled in here */
void trace_called(Trace *trace);               /* behind it */

int64_t trace_host_now(const Trace *trace); /* the host's clock, in nanoseconds */

/* Whether times are the device's, and its clock now, after all work given so far. */
bool trace_is_device(const Trace *trace);
int64_t trace_device_now(Trace *trace);

#define OP_SHAPE_TEXT_SIZE 96
const char *op_shape_text(OpShape shape, char text[OP_SHAPE_TEXT_SIZE]); /* "2048 x 768 x 3072" */
