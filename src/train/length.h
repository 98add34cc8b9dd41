#pragma once
/* How long a run is, how large each of its updates is, and which learning rate it has. All of it is
 * known before the start, but for --minutes: then the clock says how far the run is, and which
 * update is the last. */
#include "config/batch_ramp.h"
#include "config/config.h"
#include "optim/schedule.h"

#include <stdbool.h>

/* Updates of one size. */
typedef struct {
    int64_t step;  /* from this update on, counted from 0 */
    int64_t accum; /* micro-steps */
    int64_t micro; /* micro-steps of the run before it */
} RampPhase;

typedef struct {
    RampPhase at[BATCH_RAMP_MOST]; /* the first at update 0 */
    int count;                     /* 1: all updates are alike */
    int64_t first;                 /* accum of update 0, which the rate is of */
    RampRule rule;
    int64_t micro_tokens; /* of one micro-step of all ranks */
} BatchRamp;

int64_t ramp_accum(const BatchRamp *ramp, int64_t step);  /* of update `step`, from 0 */
int64_t ramp_tokens(const BatchRamp *ramp, int64_t step); /* of all updates before it */

/* What a length is counted by. */
typedef struct {
    int64_t batch, seq;
    int64_t tokens_per_epoch; /* 0: not known */
    double flops_micro;       /* of one micro-step on all ranks */
} LengthUnits;

#define LENGTH_OPEN ((int64_t)1000000000000000) /* total steps that only the clock will tell */
#define LENGTH_TICKS ((int64_t)1000000)         /* of the time, for the schedule */

typedef struct {
    int64_t total_steps;  /* LENGTH_OPEN: not known yet */
    int64_t total_tokens; /* of all updates; LENGTH_OPEN as well */
    int64_t warmup;       /* updates of the first size; -1: a part of the time */
    double seconds;       /* --minutes; 0: not by the clock */
    BatchRamp ramp;
    bool by_micro;     /* updates of the run differ in size */
    Schedule schedule; /* over updates; by_micro over micro-steps, by the clock over ticks */
} RunLength;

/* ERR_INPUT names the option at fault. */
int length_count(RunLength *length, const Config *cfg, LengthUnits units);

/* Plans anew what is left after `step` updates with `tokens` in all, where they were of other sizes
 * than planned: a budget of tokens, epochs or FLOP stays what it is. */
int length_resume(RunLength *length, const Config *cfg, LengthUnits units, int64_t step,
                  int64_t tokens);

/* The rate of update `step`; not by the clock. */
double length_rate(const RunLength *length, int64_t step);

/* The same by the clock: `share` of the time is used when the update ends, and more than the
 * warm-up's `warm`, a part of the time. The last update has the schedule's floor. */
double length_rate_at(const RunLength *length, int64_t step, double share, double warm, bool last);

/* Where the warm-up ends that is a part of the time. */
double length_warm_share(void);

/* The option that says how long a run with this configuration is. */
const char *length_option(const Config *cfg);
