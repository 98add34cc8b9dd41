#pragma once
/* metrics.jsonl, line by line. */
#include <cjson/cJSON.h>
#include <stdbool.h>

/* Of one line, an object; where is "PATH:NUMBER", number counts from 1. An ErrCode ends the
 * reading. */
typedef int LineTake(void *context, const cJSON *line, const char *where, long number);

/* Gives every line of dir/metrics.jsonl to take, in order. What a kill left of the last one, or
 * a run that is under way has not finished, is passed over; *torn (may be NULL) says whether
 * there was such. Any other line that is no JSON object is ERR_INPUT with file and line. */
int lines_read(const char *dir, LineTake *take, void *context, bool *torn);
