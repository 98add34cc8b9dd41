/* Student's t through the regularised incomplete beta function I_x(a, b): the two-sided tail of
 * t with f degrees of freedom is I_x(f/2, 1/2) at x = f / (f + t^2). I is evaluated by its
 * continued fraction (modified Lentz), which converges quickly for x below (a + 1) / (a + b +
 * 2); above, I_x(a, b) = 1 - I_(1-x)(b, a). */
#include "report/statistics.h"

#include "base/assert.h"

#include <float.h>
#include <math.h>

#define MOST_TERMS 10000

static double away_from_zero(double value)
{
    return fabs(value) < DBL_MIN / DBL_EPSILON ? DBL_MIN / DBL_EPSILON : value;
}

static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = d;
    for (int m = 1; m < MOST_TERMS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / away_from_zero(1 + even * d);
        c = away_from_zero(1 + even / c);
        value *= d * c;
        d = 1 / away_from_zero(1 + odd * d);
        c = away_from_zero(1 + odd / c);
        value *= d * c;
        if (fabs(d * c - 1) < 4 * DBL_EPSILON) {
            break;
        }
    }
    return value;
}

/* y = 1 - x is given too, for it may be known better than the subtraction would. */
static double incomplete_beta(double a, double b, double x, double y)
{
    if (x <= 0 || y <= 0) {
        return x <= 0 ? 0 : 1;
    }
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(y));
    return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                     : 1 - front * beta_fraction(b, a, y) / b;
}

double student_tail(double t, double freedom)
{
    if (isnan(t) || !(freedom > 0)) {
        return NAN;
    }
    if (isinf(t)) {
        return 0;
    }
    double all = freedom + t * t;
    return incomplete_beta(freedom / 2, 0.5, freedom / all, t * t / all);
}

double student_quantile(double tail, double freedom)
{
    PACER_ASSERT(tail > 0 && tail < 1 && freedom > 0, "tail %g, freedom %g", tail, freedom);
    double low = 0, high = 1;
    while (student_tail(high, freedom) > tail && high < 1e150) {
        low = high;
        high *= 2;
    }
    for (int i = 0; i < 200 && high - low > 1e-14 * high; i++) {
        double middle = 0.5 * (low + high);
        if (student_tail(middle, freedom) > tail) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return 0.5 * (low + high);
}

static double mean_of(const double *values, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum / count;
}

/* Of the population that the values are a sample of. */
static double variance_of(const double *values, int count, double mean)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += (values[i] - mean) * (values[i] - mean);
    }
    return sum / (count - 1);
}

Estimate estimate_of(const double *values, int count)
{
    Estimate estimate = {NAN, NAN, count};
    if (count > 0) {
        estimate.mean = mean_of(values, count);
    }
    if (count > 1) {
        double variance = variance_of(values, count, estimate.mean);
        estimate.half = student_quantile(0.05, count - 1) * sqrt(variance / count);
    }
    return estimate;
}

Welch welch_test(const double *a, int a_count, const double *b, int b_count)
{
    Welch welch = {NAN, NAN, NAN, NAN};
    if (a_count < 1 || b_count < 1) {
        return welch;
    }
    double a_mean = mean_of(a, a_count), b_mean = mean_of(b, b_count);
    welch.difference = b_mean - a_mean;
    if (a_count < 2 || b_count < 2) {
        return welch;
    }
    double a_share = variance_of(a, a_count, a_mean) / a_count;
    double b_share = variance_of(b, b_count, b_mean) / b_count, both = a_share + b_share;
    if (both == 0) {
        welch.p = welch.difference == 0 ? 1 : 0;
        return welch;
    }
    welch.t = welch.difference / sqrt(both);
    welch.freedom =
        both * both / (a_share * a_share / (a_count - 1) + b_share * b_share / (b_count - 1));
    welch.p = student_tail(welch.t, welch.freedom);
    return welch;
}

Estimate samples_estimate(const Samples *samples)
{
    return estimate_of(samples->values, samples->count);
}

Welch samples_welch(const Samples *a, const Samples *b)
{
    return welch_test(a->values, a->count, b->values, b->count);
}
