#pragma once
/* What repeats say: how sure a mean is, and whether two of them differ. */

#include <math.h>

/* A plain mean of what is known. */
typedef struct {
    double sum;
    int count;
} Mean;

static inline void mean_add(Mean *mean, double value)
{
    mean->sum += isnan(value) ? 0 : value;
    mean->count += !isnan(value);
}

static inline double mean_value(Mean mean) /* NAN: nothing was */
{
    return mean.count > 0 ? mean.sum / mean.count : NAN;
}

#define SAMPLES_MOST 256
typedef struct {
    double values[SAMPLES_MOST];
    int count;
} Samples;

/* Unless the value is NAN, or there is no room. */
static inline void samples_add(Samples *samples, double value)
{
    if (!isnan(value) && samples->count < SAMPLES_MOST) {
        samples->values[samples->count++] = value;
    }
}

/* A mean, the half-width of its 95 % confidence interval by Student's t (NAN with fewer than two
 * values), and how many values there were. No value: the mean is NAN. */
typedef struct {
    double mean, half;
    int count;
} Estimate;

Estimate estimate_of(const double *values, int count);

/* Welch's test of two means whose variances may differ. Values that do not vary at all in either
 * sample have p = 1 when they are equal and 0 when not. Everything but the difference is NAN
 * with fewer than two values in a sample. */
typedef struct {
    double difference; /* mean of b less mean of a */
    double t, freedom;
    double p; /* two-sided: how often chance alone would make as large a difference */
} Welch;

Welch welch_test(const double *a, int a_count, const double *b, int b_count);

Estimate samples_estimate(const Samples *samples);
Welch samples_welch(const Samples *a, const Samples *b);

#define WELCH_SIGNIFICANT 0.05

/* Student's t: two-sided tail probability of |t|, and the t whose two-sided tail is `tail` (0 <
 * tail < 1). freedom > 0 need not be whole. */
double student_tail(double t, double freedom);
double student_quantile(double tail, double freedom);
