#pragma once
/* An experiment as its records tell it: experiment.json and the run directories that it names. */
#include "base/json.h"
#include "record/names.h"
#include "report/curve.h"

#include <stdbool.h>

/* One run. Strings live in the experiment's JSON. */
typedef struct {
    const char *id, *dir, *reason;
    const char *peer; /* the program that made it; "": pacer */
    int configuration, repeat;
    RunState state;
    const cJSON *entry; /* of experiment.json's runs */
    cJSON *run;         /* run.json; NULL: there is none */
    cJSON **ranks;      /* ranks/K.json; NULL where one is missing */
    int rank_count;
    int slowest; /* rank with the longest worker time; 0 when unknown */
    Curve curve; /* empty when metrics.jsonl is missing */
} Result;

/* Options that vary together. Strings live in the experiment's JSON. */
#define AXIS_MAX_OPTIONS 8
#define RESULTS_MAX_AXES 16
typedef struct {
    const char *options[AXIS_MAX_OPTIONS];
    int count;
} Axis;

typedef struct {
    char *dir;
    cJSON *json; /* experiment.json */
    Axis axes[RESULTS_MAX_AXES];
    int axis_count;
    Result *runs;
    int count;
    int configurations;
} Results;

/* ERR_INPUT naming the file when dir is no experiment or its experiment.json is not one. Missing
 * or broken records of single runs are no error: they are what the report has to tell. */
int results_read(Results *results, const char *dir);

/* A run directory as an experiment of one run, without axes. ERR_INPUT when it has no run.json. */
int results_read_run(Results *results, const char *run_dir);

/* Whether the folder has an experiment.json. */
bool results_is_experiment(const char *dir);

/* The same, and ERR_INPUT when it has no run.json either. */
int results_kind(const char *dir, bool *experiment);

/* Reads whichever of the two the folder is; *experiment says which. */
int results_read_any(Results *results, const char *dir, bool *experiment);
void results_free(Results *results); /* a no-op on a zeroed one */

/* A configuration's first run; NULL when there is none of that number. */
const Result *results_first(const Results *results, int configuration);

/* The same of its runs in a state. */
const Result *results_in_state(const Results *results, int configuration, RunState state);

/* The axis that an option belongs to; -1: it does not vary. */
int results_axis_of(const Results *results, const char *option);

/* Every rank's file is there. */
bool result_has_all_ranks(const Result *result);

/* The value of an option in a run, as text: of its settings, or else of its run.json's config;
 * NULL when neither has it. What the config leaves to the model or to other options (seq,
 * global-batch) is worked out. text is a buffer for numbers. */
#define RESULT_SETTING_SIZE 64
const char *result_setting(const Result *result, const char *option,
                           char text[RESULT_SETTING_SIZE]);

/* Whether a run has the option with this value, a text or a number. */
bool result_has_value(const Result *result, const char *option, const cJSON *wanted);

/* Whether both runs have the option, with the same value. */
bool result_settings_equal(const Result *a, const Result *b, const char *option);

/* The same as a number; "64K" is 64000. NAN when it is none. */
double result_setting_number(const Result *result, const char *option);

/* Whether a program beside pacer made some of the runs. */
bool results_have_peers(const Results *results);

/* The runs that pacer made itself, in a list of their own that shares everything else;
 * results_own_free ends it. Peers have the highest configuration numbers, so those of the others
 * stay without gaps. */
Results results_own(const Results *results);
void results_own_free(Results *own);

/* The varying settings of a configuration, such as "batch 16, accum 64"; of its first run. Of a
 * peer's its title is in front: "PyTorch: batch 16". */
void result_label(const Results *results, const Result *result, char *text, size_t size);
