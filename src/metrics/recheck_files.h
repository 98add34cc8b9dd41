#pragma once
/* The files of a run's record as the checks need them. Whatever they hold, reading ends with
 * values that are what they must be, or with ERR_INPUT naming file and field. */
#include "metrics/checks.h"
#include "base/json.h"
#include "metrics/record.h"

/* ERR_INPUT unless the object has the schema that is known here. */
int schema_check(JsonPlace place, const cJSON *object);

typedef struct {
    RunStatus status;
    bool has_summary;
    Summary summary; /* phases points to those below, or is NULL */
    TimerReport phases;
    CheckInput input; /* ranks 0: run.json does not say */
    Value per_step;   /* tokens of one step of one rank in the last session */
    double *starts;   /* where the sessions after the first began, ascending */
    size_t sessions;
    cJSON *stored; /* the verdicts of the run itself, an array; NULL: none */
} RunFile;

int run_file_read(const char *dir, RunFile *run);
void run_file_free(RunFile *run); /* no-op on a zeroed struct */

/* All of dir/ranks/K.json, ascending; caller frees *ranks. */
int rank_files_read(const char *dir, CheckRank **ranks, size_t *count);

/* Gives every line of dir/metrics.jsonl to lines. What a kill left of the last one is passed
 * over. */
int line_file_read(const char *dir, CheckLines *lines);
