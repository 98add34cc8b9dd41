/* Student's t and Welch's test against tables, closed forms and numbers integrated elsewhere. */
#include "report/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_close(double found, double expected, double slack)
{
    if (!(fabs(found - expected) <= slack)) {
        fail_msg("%.12g instead of %.12g", found, expected);
    }
}

static void test_statistics__student_quantiles(void **state)
{
    (void)state;
    static const struct {
        double freedom, t;
    } known[] = {{1, 12.706}, {2, 4.303}, {5, 2.571}, {30, 2.042}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_close(student_quantile(0.05, known[i].freedom), known[i].t, 5e-4);
    }
    assert_close(student_quantile(0.05, 1), tan(M_PI * 0.475), 1e-9); /* Cauchy's in closed form */
    assert_close(student_quantile(0.05, 1e7), 1.959964, 1e-5); /* the normal distribution's */
    assert_close(student_tail(1.5, 3.7), 0.2135981692, 1e-9);  /* by numeric integration */
    assert_close(student_tail(-1.5, 3.7), 0.2135981692, 1e-9);
    assert_close(student_tail(0, 3), 1, 1e-12);
    assert_true(isnan(student_tail(NAN, 3)));
}

static void test_statistics__estimates(void **state)
{
    (void)state;
    const double values[] = {10, 12, 11}; /* standard deviation 1 */
    Estimate estimate = estimate_of(values, 3);
    assert_close(estimate.mean, 11, 1e-12);
    assert_close(estimate.half, 4.302652730 / sqrt(3), 1e-8);
    assert_true(isnan(estimate_of(values, 1).half) && estimate_of(values, 1).mean == 10);
    assert_true(isnan(estimate_of(values, 0).mean));
}

/* t, degrees of freedom and p by the definition and numeric integration, outside this program. */
static void test_statistics__welch(void **state)
{
    (void)state;
    const double a[] = {27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
                        21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4};
    const double b[] = {27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
                        24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4};
    Welch welch = welch_test(a, 15, b, 15);
    assert_close(welch.t, 2.455356398, 1e-8);
    assert_close(welch.freedom, 24.98852929, 1e-7);
    assert_close(welch.p, 0.0213780015, 1e-8);
    const double c[] = {10, 12, 11}, d[] = {15, 19, 14, 16};
    welch = welch_test(c, 3, d, 4);
    assert_close(welch.difference, 5, 1e-12);
    assert_close(welch.freedom, 4.418181818, 1e-8);
    assert_close(welch.p, 0.0122994026, 1e-8);
    assert_true(isnan(welch_test(c, 1, d, 4).p));
    const double same[] = {2, 2}, other[] = {3, 3};
    assert_true(welch_test(same, 2, same, 2).p == 1 && welch_test(same, 2, other, 2).p == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics__student_quantiles),
        cmocka_unit_test(test_statistics__estimates),
        cmocka_unit_test(test_statistics__welch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
