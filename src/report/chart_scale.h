#pragma once
/* Numbers along an axis: where they stand and how they read. */
#include <stdbool.h>
#include <stddef.h>

#define SCALE_MAX_TICS 16

typedef struct {
    double low, high; /* the range that is drawn */
    bool log;
    double tics[SCALE_MAX_TICS];
    int count;
    bool exact; /* tics are at data, and not at round numbers */
} Scale;

/* An axis over [low, high], both finite, and of a logarithmic one above 0; low == high is
 * widened. Its ends are round numbers unless `tight`. */
Scale scale_make(double low, double high, bool log, bool tight);

/* Puts the tics at these values, ascending, as far as labels of `room` (a share of the axis) do
 * not touch. */
void scale_tics_at(Scale *scale, const double *values, size_t count, double room);

/* Where a value stands: 0 at the low end, 1 at the high end. */
double scale_place(const Scale *scale, double value);

/* "0", "0.25", "1.5k", "20M": at most `digits` significant digits. */
void scale_text(double value, int digits, char text[32]);

/* Digits for scale_text so that all tics read alike: "5k" beside "10k". */
int scale_digits(const Scale *scale);
