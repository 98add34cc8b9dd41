#pragma once
/* Errors that a user can cause or meet: bad input, missing files, a full disk, too little memory.
 * A function that can fail so returns 0 or a negative ErrCode, and sets the message where the
 * failure happened; callers pass the code up unchanged, or add context with err_wrap. The negated
 * code is the exit status of the command (docs/reference/formats.md, "Exit codes").
 * A broken contract between pacer's own parts is PACER_ASSERT (assert.h), never an ErrCode. */

typedef enum {
    ERR_NONE = 0,
    ERR_FAILED = -1, /* something outside pacer failed: disk full, I/O error, NaN loss */
    ERR_INPUT = -2,  /* wrong use or bad input: option, file content, shape of a model */
    ERR_MEMORY = -3, /* the plan does not fit in memory */
    ERR_CHECK = -4,  /* a self-check failed */
    ERR_INTERRUPTED = -130,
    ERR_PIPE = -141, /* nobody reads standard output any more; a command ends with status 0 */
    ERR_TERMINATED = -143,
} ErrCode;

/* Sets this thread's message (replacing any earlier one) and returns code, so that a failure reads
 * `return err_set(ERR_INPUT, "%s: ...", path)`. The message names the file, line or option, then
 * what to do about it. It is one line that can be shown anywhere: what is no visible character in
 * its arguments is escaped (escape.h). */
int err_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "context: " before the current message and returns code. */
int err_wrap(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The message of the last err_set on this thread; "" if none. */
const char *err_message(void);

/* 0 for ERR_NONE, else the exit status that belongs to code. */
int err_exit_status(int code);
