#pragma once
/* The records of an experiment that never was: experiment.json and run directories with the
 * numbers that a test wants to find again. */
#include "report/results.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

#define PLANTED_RANKS 4
#define PLANTED_LINES 4

/* One run. What is zero is not written, or evenly shared. */
typedef struct {
    int configuration, repeat;
    const char *settings; /* JSON, {"batch": "8"} */
    const char *config; /* JSON of run.json's config besides batch 8, accum 1, seq 16, lr 0.0003 */
    const char *state, *reason;   /* NULL: done, "" */
    int ranks;                    /* 0: one */
    double tokens, training_s;    /* of the run; of its slowest rank */
    double rank_s[PLANTED_RANKS]; /* training time of each, where they differ */
    double busy_s[PLANTED_RANKS]; /* work of each; 0: 90 % of its training time */
    double exposed_s, hidden_s;   /* communication */
    double planned_bytes, peak_bytes;
    double gpu_bytes; /* memory of each rank's GPU, as its sensors say; < 0: they do not */
    double p50_ms;    /* of an update; 0: not known */
    bool probed;      /* the learning rate is that of factor lr_factor of a probe */
    int lr_factor;
    const char *peer; /* NULL: pacer made it */
    double train_loss, val_loss;
    /* Evaluations: at which tokens, after how many seconds, with which loss. */
    struct {
        double tokens, seconds, loss;
    } lines[PLANTED_LINES];
    const char *failed_check;
    int without_files; /* no run directory */
} PlantedRun;

typedef struct {
    char *dir;
    cJSON *json;
} PlantedExperiment;

/* more: JSON that is added to experiment.json, {"axes": [["batch"]]}; NULL: nothing. */
void planted_begin(PlantedExperiment *experiment, const char *more);
void planted_run(PlantedExperiment *experiment, const PlantedRun *run);
void planted_save(const PlantedExperiment *experiment);
void planted_read(const PlantedExperiment *experiment, Results *results); /* saves, then reads */
void planted_end(PlantedExperiment *experiment);                          /* removes everything */
