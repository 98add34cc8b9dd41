#pragma once
/* What a run amounts to, in the names of run.json. docs/reference/metrics.md derives each. */
#include "base/json.h"
#include "record/timers.h"

/* X(name): every number of a summary. */
#define PACER_SUMMARY(X)                                                        \
    X(steps)       /* optimizer updates done, those before a resume included */ \
    X(tokens)      /* trained on, likewise */                                   \
    X(counted)     /* of the tokens: those in the loss, likewise */             \
    X(tok_s)       /* per second of train_s, over all ranks */                  \
    X(wall_s)      /* of this process */                                        \
    X(train_s)     /* in steps, of this process */                              \
    X(train_all_s) /* in steps, those before a resume included */               \
    X(val_s)       /* in evaluations */                                         \
    X(init_s)      /* before the first step */                                  \
    X(train_loss)  /* of the last step */                                       \
    X(val_loss)    /* of the last evaluation */                                 \
    X(best_val_loss)                                                            \
    X(mfu_peak)        /* share of the device's stated peak rate */             \
    X(mfu_measured)    /* share of the rate measured on this machine */         \
    X(peak_bytes)      /* most in use at one moment */                          \
    X(allocated_bytes) /* asked from the system for arenas */                   \
    X(reserved_bytes)  /* held by the process or the device's allocator */      \
    X(planned_bytes)   /* by the dry run */                                     \
    X(step_p50_ms)     /* quantiles of the steps' lengths, of this process */   \
    X(step_p95_ms)                                                              \
    X(step_max_ms)                                                              \
    X(timer_overhead) /* share of wall_s that timing itself took */             \
    X(noise_scale)    /* --noise-scale: of the last updates, in sequences */    \
    X(noise_error)    /* one standard error of it */                            \
    X(noise_tokens)   /* noise_scale in tokens */

typedef struct {
#define X(name) Value name;
    PACER_SUMMARY(X)
#undef X
    const TimerReport *phases; /* NULL: missing */
} Summary;

/* Every name is there, null when missing. `checks` (taken, may be NULL) goes in as "checks". */
cJSON *summary_json(const Summary *summary, cJSON *checks);

/* The numbers of a summary back from its object, where the reader is. Leaves phases alone. */
void summary_read(JsonReader *reader, const cJSON *object, Summary *summary);

/* The times of the object's member "phases" or "timers", back from timers_json. wall_s is not
 * among them. Returns exclusive seconds in phases of names that are not known here. */
double summary_read_phases(JsonReader *reader, const char *name, const cJSON *object,
                           TimerReport *report);
