#include "base/log.h"

#include "base/escape.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 8192 /* what is longer is cut */

static struct {
    LogLevel level;
    int rank, ranks;
    bool live;   /* a live line is on the screen */
    bool chosen; /* log_setup was called */
} state = {LOG_INFO, 0, 1, false, false};

void log_setup(LogLevel level, int rank, int ranks)
{
    state.level = level;
    state.rank = rank;
    state.ranks = ranks;
    state.chosen = true;
}

void log_begin_silent(void)
{
    if (!state.chosen) {
        log_setup(LOG_NONE, 0, 1);
    }
}

void log_set_rank(int rank, int ranks)
{
    state.rank = rank;
    state.ranks = ranks;
}

bool log_shows(LogLevel level)
{
    return level <= state.level && (state.rank == 0 || level <= LOG_WARN);
}

bool log_is_terminal(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
}

static void end_live(void)
{
    if (state.live) {
        fputs("\r\033[K", stderr);
        state.live = false;
    }
}

static void emit(LogLevel level, const char *prefix, const char *format, va_list args)
{
    if (!log_shows(level)) {
        return;
    }
    fflush(stdout); /* what was printed before comes before, also where both go into one pipe */
    end_live();
    /* In one piece: other ranks and threads may write to the same place. */
    char rank[32] = "", text[LINE_SIZE], line[LINE_SIZE];
    if (state.ranks > 1) {
        snprintf(rank, sizeof rank, "rank %d: ", state.rank);
    }
    int used = prefix[0] == '\0' ? 0 : snprintf(line, sizeof line, "pacer: %s%s", prefix, rank);
    vsnprintf(text, sizeof text, format, args);
    escape_line(line + used, sizeof line - 1 - (size_t)used, text);
    fputs(strcat(line, "\n"), stderr);
}

#define DEFINE_LOG(function, level, prefix) \
    void function(const char *format, ...)  \
    {                                       \
        va_list args;                       \
        va_start(args, format);             \
        emit(level, prefix, format, args);  \
        va_end(args);                       \
    }

DEFINE_LOG(log_error, LOG_ERROR, "error: ")
DEFINE_LOG(log_warn, LOG_WARN, "warning: ")
DEFINE_LOG(log_info, LOG_INFO, "")
DEFINE_LOG(log_debug, LOG_DEBUG, "")

void log_live(const char *format, ...)
{
    if (!log_shows(LOG_INFO) || !log_is_terminal()) {
        return;
    }
    va_list args;
    va_start(args, format);
    char text[LINE_SIZE], line[LINE_SIZE];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    escape_line(line, sizeof line, text);
    /* Cut at the edge: of a line that wraps the next one would erase the last part alone. */
    fprintf(stderr, "\r\033[K\033[?7l%s\033[?7h", line);
    fflush(stderr);
    state.live = true;
}
