#pragma once
/* How far a sweep has come, and how long it will still take: predicted times, corrected by those
 * measured so far. */
#include "study/experiment.h"

typedef struct {
    const Experiment *experiment;
    int at;             /* run under way */
    double started;     /* clock_seconds of its child */
    double first_share; /* of its steps that were done before */
    double said;        /* clock_seconds of the last line */
} SweepProgress;

/* Seconds that a run is expected to take; missing: nothing to tell it from. */
Value progress_expect(const Experiment *experiment, const ExperimentRun *run);

/* A run begins; says so where nothing is shown live. */
SweepProgress sweep_progress_begin(const Experiment *experiment, int at);

/* "run 5/12 batch 32 (repeat 2/3): 41 %, 3 min left of all", now and then. */
void sweep_progress_say(SweepProgress *progress);

/* A run has ended: its state in a line that stays. */
void sweep_progress_end(const SweepProgress *progress);
