#pragma once
/* Where the wall time of a run went. Phases are what work is booked under; spans (the worker, its
 * epochs, their training steps) contain them. Both nest, and each has its inclusive time (from
 * enter to leave) and its exclusive time (less what is inside it); time outside every phase is
 * `unattributed`, inside a span or not. Every clock reading gives the time since the last one to
 * exactly one of them, in whole nanoseconds, so
 *     sum of the phases' exclusive + unattributed = wall
 * holds exactly, at any moment.
 *
 * A device beside the host works on its own time line. What it did is told afterwards
 * (timers_device): the wall time of those moments moves from whatever the host was doing then to
 * the device's phase. So a host phase's exclusive time is what the device had to stand still
 * for; its inclusive time is all of it. One Timers belongs to one thread. */
#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

/* X(NAME, text) */
#define PACER_PHASES(X)                                                                  \
    X(INIT, "init")                                                                      \
    X(DATA_LOAD, "data_load")                                                            \
    X(DATA_MOVE, "data_move")                                                            \
    X(FORWARD, "forward")                                                                \
    X(LOSS, "loss")                                                                      \
    X(BACKWARD, "backward")                                                              \
    X(COMM_EXPOSED, "comm_exposed")                                                      \
    X(COMM_HIDDEN, "comm_hidden") /* beside other work: takes no wall time of its own */ \
    X(OPTIMIZER, "optimizer")                                                            \
    X(LAUNCH, "launch") /* the host gives work to a device */                            \
    X(WAIT, "wait")     /* the host waits for a device */                                \
    X(EVAL, "eval")                                                                      \
    X(CHECKPOINT, "checkpoint")                                                          \
    X(LOG, "log")

typedef enum {
#define X(name, text) PHASE_##name,
    PACER_PHASES(X)
#undef X
        PHASE_COUNT,
    /* Spans. */
    SPAN_WORKER = PHASE_COUNT, /* everything after init */
    SPAN_EPOCH,                /* one pass over the data, or what this process did of it */
    SPAN_TRAINING, /* one update as the host goes through it; evaluations are beside it */
    /* the same from end to end by the clock of whoever computes it: a statistic, no wall time */
    SPAN_UPDATE,
    CLOCK_COUNT
} Phase;

#define TIMERS_DEPTH 16
#define TIMERS_SAMPLES 4096

typedef struct {
    int64_t total_ns, exclusive_ns, max_ns, count;
    int open;          /* how often it is on the stack */
    int64_t opened_ns; /* when the outermost of these was entered */
    double *samples;   /* seconds of every stride-th visit, at most TIMERS_SAMPLES */
    int64_t stride;
    int sample_count;
} PhaseClock;

/* What the host did in a stretch of time that the device's account may still claim. */
typedef struct {
    int64_t start_ns, end_ns;
    int owner; /* phase or span; -1: none */
} HostStretch;

typedef struct {
    double (*now)(void); /* seconds, monotonic */
    int64_t start_ns, last_ns, unattributed_ns;
    int64_t readings; /* of the clock */
    int depth;
    Phase stack[TIMERS_DEPTH];
    PhaseClock phases[CLOCK_COUNT];
    /* With a device: stretches since the end of the last work that it told of. */
    bool follows_device;
    int64_t device_end_ns;
    HostStretch *stretches;
    int stretch_first, stretch_count, stretch_room;
} Timers;

/* Starts the wall clock. now may be NULL: clock_seconds. */
void timers_init(Timers *timers, double (*now)(void));
void timers_free(Timers *timers); /* no-op on a zeroed struct */

void timers_enter(Timers *timers, Phase phase);
void timers_leave(Timers *timers, Phase phase); /* must be the one entered last */

/* From here on the device's work is told by timers_device. */
void timers_follow_device(Timers *timers);

/* The device worked in this phase from start to end, in nanoseconds of the clock `now`; calls
 * are in the order of time. Readings of two clocks disagree a little: what reaches into the
 * future or into work told before is cut from the wall time, not from the phase's total. */
void timers_device(Timers *timers, Phase phase, int64_t start_ns, int64_t end_ns);

/* Nanoseconds of the clock `now`. */
int64_t timers_now_ns(const Timers *timers);

/* Adds time that passed beside other phases (hidden communication, SPAN_UPDATE): it counts in
 * total_s and count, never in exclusive_s, for it took no wall time. */
void timers_add_hidden(Timers *timers, Phase phase, double seconds);

typedef struct {
    double total_s, exclusive_s, max_s;
    double mean_s, p50_s, p95_s, p99_s; /* of the finished visits; NaN when there were none */
    int64_t count;                      /* of finished visits */
} PhaseReport;

typedef struct {
    double wall_s, unattributed_s;
    PhaseReport phases[CLOCK_COUNT];
} TimerReport;

/* The state now; phases that are still open count up to this moment in total_s and exclusive_s. */
void timers_report(Timers *timers, TimerReport *report);

const char *phase_name(Phase phase);

/* {"forward": {"total_s": ..., "exclusive_s": ..., "count": ...}, ..., "unattributed": {...}} */
cJSON *timers_json(const TimerReport *report);

/* The same for total, init, worker, epoch, training and validation, which contain one another. */
cJSON *timers_spans_json(const TimerReport *report);

/* Seconds that one reading of the clock costs, measured. */
double timers_reading_cost(const Timers *timers);

/* --- the device's clock --- */

/* The host's time of a moment that a device has put down by its own clock (Backend.stamp). The
 * two clocks start and run differently. What is known: a result that has reached the host was
 * made before that. So the least difference ever seen between the host's clock at such a moment
 * and the device's stamp is the offset, too large by the shortest way of a result to the host,
 * some microseconds; it may grow slowly, for clocks drift. */
typedef struct {
    bool known;
    int64_t offset_ns;  /* host minus device */
    int64_t learned_ns; /* host's time of the last lesson */
} DeviceClock;

/* A result stamped `device_ns` is here, and it is host_ns. */
void device_clock_learn(DeviceClock *clock, int64_t device_ns, int64_t host_ns);
int64_t device_clock_to_host(const DeviceClock *clock, int64_t device_ns);
