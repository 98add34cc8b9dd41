#pragma once
/* Event files as TensorBoard reads them. A file is a row of records, each with checksums of its
 * own; a record is one Event message of TensorFlow's event.proto. An event is built in memory
 * (begin, values, end) and goes to the system with one write, so that a reader of a running file
 * meets whole events, but for the last after a kill. */
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Events Events;

/* A new file events.out.tfevents.SECONDS.HOST.PID.N in dir, N the first that is free. Begins
 * with the version of the format. */
int events_open(const char *dir, Events **out);

/* The same under a name of the caller's choice; wall_time is that of the first event. */
int events_create(const char *path, double wall_time, Events **out);

/* step >= 0. Until events_end, values belong to this event. */
void events_begin(Events *events, double wall_time, int64_t step);

/* The number as a float, NaN and infinities included. Bytes of a tag that are no UTF-8 become
 * '?'. */
void events_scalar(Events *events, const char *tag, double value);

/* Markdown, shown under TEXT. */
void events_text(Events *events, const char *tag, const char *markdown);

/* An object of numbers, texts and booleans as the run's row under HPARAMS; others are left out. */
void events_hparams(Events *events, const cJSON *values, double started);

/* Writes the event; one without values is none. On ERR_FAILED the file ends with the event
 * before. */
int events_end(Events *events);

/* What earlier files of the folder hold of this step and later ones is to be forgotten: a
 * resumed run writes it again. */
int events_restart(Events *events, double wall_time, int64_t step);

/* Closes and frees; NULL is fine. durable: fsync before. */
int events_close(Events *events, bool durable);

void events_remove(const char *dir); /* event files of an earlier run */

/* CRC-32C (Castagnoli). */
uint32_t events_crc32c(const void *data, size_t size);

/* --- a run's record as events (event_log.c): which numbers go under which names, while a run goes
 * on and afterwards; docs/reference/formats.md lists the names --- */

/* The configuration (config of run.json) as text and as hyperparameters; a run that goes on
 * behind resume_step (< 0: none) takes back what comes again. */
int event_log_start(Events *events, const cJSON *run, double wall_time, int64_t resume_step);

/* A line of metrics.jsonl. run.json gives what the share of the machine's rate is computed from.
 * A line without a step is nothing. */
int event_log_line(Events *events, const cJSON *run, const cJSON *line, double wall_time);

/* Memory and phases of run.json's summary, at the last step; nothing when there is no summary. */
int event_log_end(Events *events, const cJSON *run, double wall_time);
