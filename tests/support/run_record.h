#pragma once
/* The record of a run that never was, in which everything adds up, and changes to single fields
 * of it. */
#include <stddef.h>

#define RUN_RECORD_STEPS 100

/* Writes run.json, metrics.jsonl and the ranks' files of a finished run of that many ranks
 * (batch 4, accum 2, seq 16, 80 ms a step, 10 s in all) into dir, each rank with a GPU of its
 * own. */
void run_record_write(const char *dir, int ranks);

/* Replaces a field of dir/file with JSON text; NULL removes it. path is "summary.tokens",
 * "memory_plan.0.bytes". Fails the test when there is no such place. */
void run_record_edit(const char *dir, const char *file, const char *path, const char *json);

/* The same in line `number`, from 1, of metrics.jsonl; field NULL removes the line. */
void run_record_edit_line(const char *dir, long number, const char *field, const char *json);
