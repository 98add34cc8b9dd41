#pragma once
/* What pacer says to a person, on stderr; results that a program may read go to stdout. With
 * several ranks only rank 0 prints information; warnings and errors carry the rank. A call prints
 * one line, whatever its arguments hold (escape.h). */
#include <stdbool.h>

typedef enum { LOG_NONE = -1, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG } LogLevel;

void log_setup(LogLevel level, int rank, int ranks);

/* Says nothing from now on, unless log_setup was called before: how a library begins. */
void log_begin_silent(void);

/* Another rank and number of ranks; the level stays. */
void log_set_rank(int rank, int ranks);

bool log_shows(LogLevel level); /* on this rank */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line that replaces itself on a terminal (progress). Does nothing when stderr is no terminal.
 * The next log_* call starts on a fresh line. */
void log_live(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* True when stderr is a terminal that log_live can rewrite. */
bool log_is_terminal(void);
