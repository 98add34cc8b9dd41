#pragma once
/* What a command was told to write: a file, which appears under its name only when it is
 * complete; or standard output; or something that is no file (a pipe, a device), which is
 * written to as it is. */
#include <stddef.h>

typedef struct Output Output;

/* "-" and "" are standard output. */
int output_open(const char *path, Output **out);
/* Whether it could be opened by now, for work that takes long before it is: a message when not. */
int output_check(const char *path);
int output_put(Output *output, const void *data, size_t size); /* errors stick */
int output_commit(Output *output);                             /* durable; frees */
void output_abandon(Output *output); /* leaves no file; frees; NULL is fine */

/* Flushes standard output. ERR_PIPE where nobody reads it any more (pacer help train | head), which
 * is no failure; ERR_FAILED where something that was printed is lost. */
int output_check_stdout(void);
