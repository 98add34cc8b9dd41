#pragma once
/* The measured side of a fit: candidates are planned by the options that they stand for, and the
 * parts of their steps are measured on this machine. */
#include "analyse/fit.h"
#include "train/setup.h"

typedef struct {
    FitSpace space;
    Fit fit;
    ModelSpec spec;
    int64_t seq, ranks;
    size_t limit;   /* bytes of the process: run_memory_limit; SIZE_MAX: unknown */
    size_t program; /* of them, those beside the plan */
    char device[96];
    DType dtype;
    double copy_rate[COPY_QUEUES]; /* bytes/s between the memories; 0: nothing copies */
    int steps;                     /* that were timed */
    double spread; /* of them, the largest of a setting: half of what lies between their quartiles,
                    * over the median */
    bool reduced;  /* some were of fewer layers, or none was of a batch that fits */
} FitFound;

/* cfg: settled by run_resolve. local_ranks: that will share this machine. fit_found_free whatever
 * it returns; with nothing that fits, found->fit.best is -1. */
int fit_find(const Config *cfg, int local_ranks, FitFound *found);
void fit_found_free(FitFound *found); /* a no-op on a zeroed struct */

/* Tokens per second of all ranks together; 0: not predicted. */
double fit_rate(const FitFound *found, const FitCandidate *candidate);
