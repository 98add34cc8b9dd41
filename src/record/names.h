#pragma once
/* Words that records have in common: the states of a run, and the programs that may make one. */
#include <stdbool.h>

/* X(NAME, in records, for people, over): what became of a run. run.json has it as "status",
 * experiment.json as "state". Over means that nothing is left to do, short of trying again. */
#define PACER_RUN_STATES(X)                                                               \
    X(WAITING, "waiting", "waiting", false) /* an experiment has not started it */        \
    X(RUNNING, "running", "running", false)                                               \
    X(DONE, "done", "finished", true)                                                     \
    X(STOPPED, "stopped", "stopped", false)     /* by a signal, after saving; resumes */  \
    X(OOM, "oom", "out of memory", true)        /* of a run: also one that was refused */ \
    X(REFUSED, "refused", "does not fit", true) /* by its plan */                         \
    X(FAILED, "failed", "failed", true)                                                   \
    X(TIMEOUT, "timeout", "timed out", true) /* of an experiment's limit */

typedef enum {
#define X(name, record, words, over) RUN_##name,
    PACER_RUN_STATES(X)
#undef X
        RUN_STATE_COUNT
} RunState;

const char *run_state_name(RunState state);  /* in records: "oom" */
const char *run_state_words(RunState state); /* for people: "out of memory" */
bool run_state_is_over(RunState state);

/* The state of a name in a record, which may be NULL; false: there is none of that name. */
bool run_state_find(const char *name, RunState *state);

/* Rows of a memory plan that planned_bytes leaves out: the host's. */
#define MEMORY_LOADER "loader"
#define MEMORY_SAVE_COPY "save_copy"
#define MEMORY_OFFLOAD "offload"

/* Other programs that an experiment may run beside pacer, by the names that recipes and records
 * have for them: the index-th; NULL behind the last. */
const char *peer_name(int index);

/* As readers know it: "PyTorch", "torch.compile"; "pacer" for "", and a name that is not known
 * as it is. */
const char *peer_title(const char *name);
