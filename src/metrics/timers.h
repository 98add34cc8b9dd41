#pragma once
/* Where the wall time of a run went. Phases nest. Each has its inclusive time (from enter to leave)
 * and its exclusive time (less the phases inside it); the time outside every phase is
 * `unattributed`. Every clock reading gives the time since the last one to exactly one of them, in
 * whole nanoseconds, so
 *     sum of exclusive + unattributed = wall
 * holds exactly, at any moment. One Timers belongs to one thread. */
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
    X(COMPUTE, "compute") /* all of these on a device that replays a recorded step */    \
    X(EVAL, "eval")                                                                      \
    X(CHECKPOINT, "checkpoint")                                                          \
    X(LOG, "log")

typedef enum {
#define X(name, text) PHASE_##name,
    PACER_PHASES(X)
#undef X
        PHASE_COUNT
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

typedef struct {
    double (*now)(void); /* seconds, monotonic */
    int64_t start_ns, last_ns, unattributed_ns;
    int depth;
    Phase stack[TIMERS_DEPTH];
    PhaseClock phases[PHASE_COUNT];
} Timers;

/* Starts the wall clock. now may be NULL: clock_seconds. */
void timers_init(Timers *timers, double (*now)(void));
void timers_free(Timers *timers); /* no-op on a zeroed struct */

void timers_enter(Timers *timers, Phase phase);
void timers_leave(Timers *timers, Phase phase); /* must be the one entered last */

/* Adds time that passed beside other phases (hidden communication): it counts in total_s and count,
 * never in exclusive_s, for it took no wall time. */
void timers_add_hidden(Timers *timers, Phase phase, double seconds);

typedef struct {
    double total_s, exclusive_s, max_s;
    double mean_s, p50_s, p95_s, p99_s; /* of the finished visits; NaN when there were none */
    int64_t count;                      /* of finished visits */
} PhaseReport;

typedef struct {
    double wall_s, unattributed_s;
    PhaseReport phases[PHASE_COUNT];
} TimerReport;

/* The state now; phases that are still open count up to this moment in total_s and exclusive_s. */
void timers_report(Timers *timers, TimerReport *report);

double timers_wall(const Timers *timers); /* seconds since timers_init */
const char *phase_name(Phase phase);

/* {"forward": {"total_s": ..., "exclusive_s": ..., "count": ...}, ..., "unattributed": {...}} */
cJSON *timers_json(const TimerReport *report);
