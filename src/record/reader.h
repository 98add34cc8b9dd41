#pragma once
/* The record of a run or an experiment, back from its files (docs/reference/formats.md). record.h
 * writes a run's. */
#include "base/json.h"
#include "record/line_scan.h"
#include "record/names.h"

/* What run.json, metrics.jsonl and ranks/K.json are written in ("schema"), and experiment.json
 * ("format"). Raised when a field changes its meaning; new fields alone do not. */
#define RECORD_SCHEMA 1
#define EXPERIMENT_FORMAT 1

#define RECORD_RUN "run.json"
#define RECORD_LINES "metrics.jsonl"
#define RECORD_SAMPLES "samples.jsonl"
#define RECORD_EXPERIMENT "experiment.json"

/* dir/name: RECORD_RUN, RECORD_EXPERIMENT or "ranks/3.json". ERR_INPUT when it is no JSON object
 * or a newer pacer wrote it; *tree is NULL then. */
int record_load(const char *dir, const char *name, cJSON **tree);

/* Whether the run of a run.json is in the state; no tree is in none. */
bool record_is(const cJSON *run, RunState state);

/* How many of a run's own checks ended so: "pass", "warn", "fail". */
int record_checks(const cJSON *run, const char *verdict);

/* Bytes of its memory plan; NAN: it has none. */
double record_planned_bytes(const cJSON *run);

/* K of all dir/ranks/K.json, ascending; no folder is no ranks. Caller frees *ranks, also after
 * ERR_INPUT. */
int record_rank_files(const char *dir, int64_t **ranks, size_t *count);

/* Of one line of metrics.jsonl, an object; where is "PATH:NUMBER", number counts from 1. An
 * ErrCode ends the reading. */
typedef int LineTake(void *context, const cJSON *line, const char *where, long number);

/* Gives every line of dir/metrics.jsonl to take, in order. What a kill left of the last one, or
 * a run that is under way has not finished, is passed over; *torn (may be NULL) says whether
 * there was such. Any other line that is no JSON object is ERR_INPUT with file and line. */
int lines_read(const char *dir, LineTake *take, void *context, bool *torn);

/* The same for the numbers of a loss curve alone, several times as fast. A line without a step is
 * ERR_INPUT too. */
typedef void NumbersTake(void *context, const LineNumbers *line);
int lines_scan(const char *dir, NumbersTake *take, void *context);
