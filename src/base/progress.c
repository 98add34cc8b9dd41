#include "base/progress.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#define AFTER 2.0 /* seconds */
#define LIVE_EVERY 0.2
#define PLAIN_EVERY 10.0

Progress progress_begin(const char *what)
{
    double now = clock_seconds();
    return (Progress){what, now, now};
}

bool progress_due(Progress *progress)
{
    double now = clock_seconds(), every = log_is_terminal() ? LIVE_EVERY : PLAIN_EVERY;
    bool due = now - progress->started >= AFTER && now - progress->said >= every;
    progress->said = due ? now : progress->said;
    return due;
}

void progress_note(Progress *progress, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (log_is_terminal()) {
        log_live("%s", text);
    } else if (progress_due(progress)) {
        log_info("%s", text);
    }
}

void progress_say(Progress *progress, uint64_t done, uint64_t all)
{
    if (done == 0 || !progress_due(progress)) {
        return;
    }
    double rate = (double)done / (progress->said - progress->started);
    char left[CLOCK_DURATION_SIZE];
    clock_duration((double)(all > done ? all - done : 0) / rate, left);
    (log_is_terminal() ? log_live : log_info)("%s: %.0f of %.0f MB, %.0f MB/s, %s left",
                                              progress->what, (double)done / 1e6, (double)all / 1e6,
                                              rate / 1e6, left);
}
