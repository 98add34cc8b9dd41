#pragma once
/* An experiment's folder followed while its runs are made: a list of them, and the view of the
 * one that runs. */
#include "report/watch_view.h"

typedef struct {
    char *state, *line; /* "done", and what is said of it */
} WatchedRun;

typedef struct {
    char *dir;
    cJSON *json; /* experiment.json; NULL: none yet */
    WatchedRun *runs;
    int count;
    int current;  /* that runs, or was running when the sweep ended; -1: none */
    WatchRun run; /* the current one, open while `current` is not -1 */
    struct timespec changed;
    ino_t inode;
} WatchExperiment;

bool watch_is_experiment(const char *dir);

void watch_experiment_open(WatchExperiment *experiment, const char *dir);
void watch_experiment_close(WatchExperiment *experiment);
void watch_experiment_poll(WatchExperiment *experiment);
void watch_experiment_view(const WatchExperiment *experiment, const WatchFlags *flags,
                           WatchText *out);
