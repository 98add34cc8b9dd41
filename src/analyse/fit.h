#pragma once
/* The fastest settings that fit in memory, of those that leave a training what it is: how an
 * update's sequences are split into micro-steps, and every option that config/table.c marks as
 * OPTION_FIT, or as OPTION_FIT_ALSO where --fit-also names it. What is given is not searched, nor
 * what the device cannot do.
 *
 * All combinations are planned. Those that fit are predicted from measured parts (op_times.h): few
 * steps are made, and from their ops every other step is put together. The search is separate from
 * the measuring, so that it can be tested without any. */
#include "analyse/op_times.h"
#include "config/config.h"

#define FIT_AXES 8
#define FIT_VALUES 8
#define FIT_BATCHES 32
#define FIT_APART 0.01 /* what rounds otherwise, or copies, has to be faster by this */

typedef struct {
    const Option *option; /* OPTION_CHOICE */
    int values[FIT_VALUES], count;
    int plain;       /* the value that it has without a search */
    unsigned rounds; /* bits by value: it rounds otherwise than plain */
} FitAxis;

typedef struct {
    FitAxis axes[FIT_AXES];
    int axis_count;
    int64_t batches[FIT_BATCHES]; /* ascending */
    int batch_count;
    int64_t sequences; /* of an update, on one rank */
    bool split;        /* the batch is searched; else it and accum are given */
} FitSpace;

/* ERR_INPUT where --global-batch and --ranks leave no split. */
int fit_space(const Config *cfg, FitSpace *space);

/* Without this option, which then stays as it is. */
void fit_leave_out(FitSpace *space, const char *option);

typedef struct {
    int value[FIT_AXES]; /* by axis */
    int64_t batch;
    /* Found by planning. */
    size_t bytes; /* of the plan; 0: there is none */
    size_t host;  /* in memory of the host beside it */
    bool fits;
    char why[160]; /* refused, and why; else "" */
    OpUses uses;
    /* Predicted: seconds of an update, and how much of that is scaled from kinds that were
     * measured; 0: not predicted. */
    OpSum time;
} FitCandidate;

/* Micro-steps of an update. */
int64_t fit_accum(const FitSpace *space, const FitCandidate *candidate);

/* Settings that round otherwise than without a search. */
int fit_changes(const FitSpace *space, const FitCandidate *candidate);

/* cfg with the candidate's settings, checked; the caller frees *out, also on failure. */
int fit_settings(const Config *cfg, const FitSpace *space, const FitCandidate *candidate,
                 Config *out);

/* plan fills what planning finds. copies measures how fast each queue copies, where a candidate
 * does, before anything else is measured; learn measures steps of a candidate that fits, or of what
 * is near it, and puts the times of their ops into *times. An error ends the search. */
typedef struct {
    int (*plan)(void *user, FitCandidate *candidate);
    int (*copies)(void *user, OpTimes *times);
    int (*learn)(void *user, const FitCandidate *candidate, OpTimes *times);
    void *user;
} FitMachine;

/* Candidates: those that fit, the fastest first; then those that do not, the fastest first; then
 * those refused. */
typedef struct {
    FitCandidate *items;
    int count;
    int best;     /* -1: none fits */
    int smallest; /* that needs the least memory; -1: all were refused */
} Fit;

/* fit_free whatever it returns. */
int fit_search(const FitSpace *space, const FitMachine *machine, Fit *fit);
void fit_free(Fit *fit); /* a no-op on a zeroed struct */
