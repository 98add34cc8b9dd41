#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

double clock_of(struct timespec moment)
{
    return (double)moment.tv_sec + 1e-9 * (double)moment.tv_nsec;
}

static double read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return clock_of(now);
}

double clock_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double clock_now(void)
{
    return read_clock(CLOCK_REALTIME);
}

void clock_stamp(char text[CLOCK_STAMP_SIZE])
{
    time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(text, CLOCK_STAMP_SIZE, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double clock_quantile(double *samples, size_t n, double p)
{
    if (n == 0) {
        return NAN;
    }
    qsort(samples, n, sizeof *samples, by_value);
    double position = p * (double)(n - 1);
    size_t low = (size_t)position;
    size_t high = low + 1 < n ? low + 1 : low;
    return samples[low] + (position - (double)low) * (samples[high] - samples[low]);
}

double clock_spread(double *samples, size_t n)
{
    double between = clock_quantile(samples, n, 0.75) - clock_quantile(samples, n, 0.25);
    return between / (2 * clock_quantile(samples, n, 0.5));
}

const char *clock_duration(double seconds, char text[CLOCK_DURATION_SIZE])
{
    if (!(seconds < 1e9)) {
        snprintf(text, CLOCK_DURATION_SIZE, "unknown");
    } else if (seconds < 1) {
        snprintf(text, CLOCK_DURATION_SIZE, "%.0f ms", seconds * 1e3);
    } else if (seconds < 60) {
        snprintf(text, CLOCK_DURATION_SIZE, "%.1f s", seconds);
    } else if (seconds < 3600) {
        long whole = lround(seconds);
        snprintf(text, CLOCK_DURATION_SIZE, "%ld min %02ld s", whole / 60, whole % 60);
    } else {
        long minutes = lround(seconds / 60);
        snprintf(text, CLOCK_DURATION_SIZE, "%ld h %02ld min", minutes / 60, minutes % 60);
    }
    return text;
}
