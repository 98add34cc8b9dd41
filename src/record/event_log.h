#pragma once
/* A run's record as TensorBoard events: which numbers go under which names. Used while a run
 * goes on (record.c) and to make events from a record afterwards. docs/reference/formats.md lists
 * the names. */
#include "base/json.h"
#include "record/events.h"

/* The configuration (config of run.json) as text and as hyperparameters; a run that goes on
 * behind resume_step (< 0: none) takes back what comes again. */
int event_log_start(Events *events, const cJSON *run, double wall_time, int64_t resume_step);

/* A line of metrics.jsonl. run.json gives what the share of the machine's rate is computed from.
 * A line without a step is nothing. */
int event_log_line(Events *events, const cJSON *run, const cJSON *line, double wall_time);

/* Memory and phases of run.json's summary, at the last step; nothing when there is no summary. */
int event_log_end(Events *events, const cJSON *run, double wall_time);
