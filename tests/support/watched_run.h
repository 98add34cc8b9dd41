#pragma once
/* Run directories that are planted for tests of the view, and what the view makes of them. */
#include "report/watch.h"

char *watched_dir(void); /* a fresh one below own_folder; caller frees */
void watched_put(const char *dir, const char *name, const char *mode, const char *text);

/* Lines of steps from..to, each of 20 ms and 100 tokens, the loss going down from `loss` by
 * 0.001 a step. */
void watched_put_lines(const char *dir, int64_t from, int64_t to, double loss);

/* run.json of a run of 400 steps that has not ended, made by `process` (taken) on `host`. */
void watched_put_running(const char *dir, cJSON *process, const char *host);
const char *watched_own_host(void);

/* Plain text, someone at the keyboard. */
WatchFlags watched_flags(int width, int height, bool utf8);

void watched_assert_says(const WatchRun *run, WatchFlags flags, const char *words);
