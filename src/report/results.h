#pragma once
/* An experiment as its records tell it: experiment.json and the run directories that it names. */
#include "base/json.h"
#include "record/names.h"
#include "report/curve.h"

#include <stdbool.h>

/* One run. Strings live in the experiment's JSON, but for its own: settings, label, varying. */
typedef struct {
    const char *id, *dir, *reason;
    const char *peer; /* the program that made it; "": pacer */
    int configuration, repeat;
    RunState state;
    const cJSON *entry; /* of experiment.json's runs; NULL of a run by itself */
    cJSON *run;         /* run.json; NULL: there is none */
    cJSON *settings;    /* options as text, of its entry: see result_setting */
    cJSON *config;      /* the others, of run.json's config */
    char *varying;      /* settings of the axes, such as "batch 16, accum 64" */
    char *label;        /* the same, of a peer with its title in front: "PyTorch: batch 16" */
    cJSON **ranks;      /* ranks/K.json; NULL where one is missing */
    int rank_count;
    int slowest; /* rank with the longest worker time; 0 when unknown */
    bool sound;  /* done, and none of its own checks failed: conclusions are drawn from these */
    int next;    /* run of the same configuration, behind this one; -1: none */
    Curve curve; /* empty when metrics.jsonl is missing */
} Result;

/* An option that varies; those of one axis vary together. */
#define AXIS_MAX_OPTIONS 8
#define RESULTS_MAX_AXES 16
typedef struct {
    const char *option;
    int axis;
    bool implied; /* follows from the first option of its axis, as accum may from batch */
} Varying;

typedef struct {
    char *dir;
    cJSON *json;     /* experiment.json; NULL of a run by itself */
    cJSON *baseline; /* {option: value} of what runs are compared with; NULL: nothing */
    Varying varying[RESULTS_MAX_AXES * AXIS_MAX_OPTIONS]; /* axis by axis */
    int varying_count;
    Result *runs;
    int count;
    int configurations;
    int *first; /* run of each configuration; -1: none */
} Results;

/* ERR_INPUT naming the file when dir is no experiment or its experiment.json is not one. Missing
 * or broken records of single runs are no error: they are what the report has to tell. Of their
 * records only what reports of experiments use is kept, and what is equal in all of them once. */
int results_read(Results *results, const char *dir);

/* Whether the folder has an experiment.json. */
bool results_is_experiment(const char *dir);

/* The same, and ERR_INPUT when it has no run.json either. */
int results_kind(const char *dir, bool *experiment);

/* Reads whichever of the two the folder is; *experiment says which. A run directory is read as an
 * experiment of one run, without axes. */
int results_read_any(Results *results, const char *dir, bool *experiment);
void results_free(Results *results); /* a no-op on a zeroed one */

/* The next run of a configuration behind `run`, the first behind NULL; NULL: no more. */
const Result *results_next(const Results *results, int configuration, const Result *run);

/* A configuration's first run; NULL when there is none of that number. */
const Result *results_first(const Results *results, int configuration);

/* The same of its runs in a state. */
const Result *results_in_state(const Results *results, int configuration, RunState state);

/* The axis that an option belongs to; -1: it does not vary. */
int results_axis_of(const Results *results, const char *option);

/* Seconds since 1970 of a record's stamp such as 2026-01-31T12:00:00Z; NAN when it is none. */
double results_stamp(const cJSON *record, const char *path);

/* Every rank's file is there. */
bool result_has_all_ranks(const Result *result);

/* The value of an option in a run, as text: of its entry's settings, or else of its run.json's
 * config; NULL when neither has it. What the config leaves to the model or to other options (seq,
 * global-batch) is worked out. */
const char *result_setting(const Result *result, const char *option);

/* Whether a run has the option with this value, a text or a number. */
bool result_has_value(const Result *result, const char *option, const cJSON *wanted);

/* Whether the option has the same value in both runs, or is unknown of both. */
bool result_same_setting(const Result *a, const Result *b, const char *option);

/* The same as a number; "64K" is 64000. NAN when it is none. */
double result_setting_number(const Result *result, const char *option);

/* Whether a program beside pacer made some of the runs. */
bool results_have_peers(const Results *results);

/* The runs that pacer made itself, in a list of their own that shares everything else;
 * results_own_free ends it. Peers have the highest configuration numbers, so those of the others
 * stay without gaps. */
Results results_own(const Results *results);
void results_own_free(Results *own);
