#pragma once
/* A model that is ready to train on tokens without meaning, and what the machine can do, for the
 * commands that measure steps. */
#include "base/output.h"
#include "data/prefetch.h"
#include "record/machine.h"
#include "train/setup.h"

typedef struct {
    Run run;
    Trainer trainer;
    Comm *comm;       /* the caller's; NULL: one rank */
    Channel *channel; /* NULL: one rank */
    Loader loader;
    Prefetch *prefetch;
    SgemmProbe probe;
    double sgemm, copy;   /* best rates: GFLOP/s, GB/s */
    double sgemm_between; /* median of the products between the steps */
} Bench;

/* On builtin:random unless cfg names other data. comm: of the ranks that train together, NULL:
 * one. bench_close whatever it returns. */
int bench_open(Bench *bench, Config *cfg, Comm *comm);
void bench_close(Bench *bench);

char *bench_title(const Bench *bench); /* model, shape and machine in one line; caller frees */

/* The ceilings of the device that computes, around the steps. */
int bench_ceilings_before(Bench *bench);
void bench_ceilings_after(Bench *bench, bool copy);

/* cmd_profile.c: the step op by op, as a table into `table` and, unless trace is NULL, as trace
 * events into it. With several ranks all call it, and the first one's table and trace are
 * written. */
int bench_ops(Bench *bench, const Config *cfg, Output *trace, FILE *table);
