/* The sequential test against simulation: every look is made as a duel would make it. */
#include "report/sequential.h"

#include "base/rng.h"
#include "report/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define SEED 20261118
#define MOST 24

static void assert_between(double found, double low, double high)
{
    if (!(found >= low && found <= high)) {
        fail_msg("%.6g is not within %.6g .. %.6g", found, low, high);
    }
}

/* Differences of the duel `index`, each with mean 0 and deviation 1 where it has one. */
typedef void Draw(uint64_t index, double *out, int count);

static void draw_normal(uint64_t index, double *out, int count)
{
    float normals[MOST];
    rng_normals(SEED, 1, index * MOST, (uint64_t)count, normals);
    for (int i = 0; i < count; i++) {
        out[i] = normals[i];
    }
}

/* Student's t with 3 degrees of freedom: no fourth moment, now and then a run far off. */
static void draw_heavy(uint64_t index, double *out, int count)
{
    for (int i = 0; i < count; i++) {
        float z[4];
        rng_normals(SEED, 2, (index * MOST + (uint64_t)i) * 4, 4, z);
        out[i] = z[0] / sqrt((z[1] * z[1] + z[2] * z[2] + z[3] * z[3]) / 3) / sqrt(3);
    }
}

/* The difference of two exponential losses: peaked in the middle. */
static void draw_laplace(uint64_t index, double *out, int count)
{
    for (int i = 0; i < count; i++) {
        uint64_t at = (index * MOST + (uint64_t)i) * 2;
        out[i] =
            (log(1 - rng_uniform(SEED, 3, at)) - log(1 - rng_uniform(SEED, 3, at + 1))) / sqrt(2);
    }
}

/* 9 of 10 pairs differ little, the tenth by twenty times as much: a seed that goes wrong. */
static void draw_mixed(uint64_t index, double *out, int count)
{
    draw_normal(index, out, count);
    for (int i = 0; i < count; i++) {
        bool wild = rng_below(SEED, 4, index * MOST + (uint64_t)i, 10) == 0;
        out[i] *= (wild ? 20 : 1) / sqrt(0.9 + 0.1 * 400);
    }
}

typedef struct {
    double share[SEQUENTIAL_UNDECIDED + 1];
    double missed; /* share with an interval, at any look, that misses the mean */
    double pairs;  /* mean */
} Duels;

static Duels simulate(const SequentialTest *test, Draw *draw, double mean, int duels)
{
    Duels result = {{0}, 0, 0};
    for (int d = 0; d < duels; d++) {
        double values[MOST];
        draw((uint64_t)d, values, test->most);
        for (int i = 0; i < test->most; i++) {
            values[i] += mean;
        }
        SequentialLook end = sequential_run(test, values, test->most);
        result.share[end.verdict] += 1.0 / duels;
        result.pairs += (double)end.count / duels;
        int missed = 0;
        for (int n = test->least; n <= test->most; n++) {
            SequentialLook look = sequential_look(test, values, n);
            missed |= look.low > mean || look.high < mean;
        }
        result.missed += (double)missed / duels;
    }
    return result;
}

static void test_sequential__tails(void **state)
{
    (void)state;
    SequentialTest once = sequential_test(0.05, 0, 7, 7);
    assert_between(once.tail, 0.05, 0.05);
    for (int most = 4; most <= 20; most += 8) {
        SequentialTest test = sequential_test(0.05, 0, 3, most);
        assert_between(test.tail, 0.05 / (most - 2), 0.05);
    }
    /* Looks at n values that are nearly those before cost nearly nothing. */
    SequentialTest late = sequential_test(0.05, 0, 199, 200);
    assert_between(late.tail, 0.045, 0.0499);
}

/* The stated rate is reached, not only kept: 20,000 duels that look to the end. */
static void test_sequential__normal_rate_is_exact(void **state)
{
    (void)state;
    static const struct {
        double error;
        int least, most;
    } cases[] = {{0.05, 3, 12}, {0.05, 2, 6}, {0.2, 4, 24}, {0.01, 3, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SequentialTest test = sequential_test(cases[i].error, 0, cases[i].least, cases[i].most);
        int duels = 20000;
        double slack = 4 * sqrt(cases[i].error * (1 - cases[i].error) / duels);
        Duels found = simulate(&test, draw_normal, 0, duels);
        printf("error %g, %d..%d: tail %.6f, missed %.4f\n", cases[i].error, test.least, test.most,
               test.tail, found.missed);
        assert_between(found.missed, cases[i].error - slack, cases[i].error + slack);
    }
}

/* 10,000 duels of each kind without a difference. */
static void test_sequential__false_verdicts(void **state)
{
    (void)state;
    Draw *draws[] = {draw_normal, draw_heavy, draw_laplace, draw_mixed};
    SequentialTest test = sequential_test(0.05, 0.3, 3, 12);
    for (size_t i = 0; i < sizeof draws / sizeof draws[0]; i++) {
        Duels found = simulate(&test, draws[i], 0, 10000);
        double wrong = found.share[SEQUENTIAL_LOWER] + found.share[SEQUENTIAL_HIGHER];
        printf("kind %zu: false verdicts %.4f, negligible %.4f, %.2f pairs\n", i, wrong,
               found.share[SEQUENTIAL_NEGLIGIBLE], found.pairs);
        assert_between(wrong, 0, 0.05 + 3 * sqrt(0.05 * 0.95 / 10000));
    }
    /* A difference of the margin itself is called none no more often than stated. */
    Duels edge = simulate(&test, draw_normal, 0.3, 10000);
    assert_between(edge.share[SEQUENTIAL_NEGLIGIBLE], 0, 0.05);
}

/* Power of a two-sided t-test with n values, by the same draws. */
static double fixed_power(int n, double mean, int duels)
{
    double bound = student_quantile(0.05, n - 1), found = 0;
    for (int d = 0; d < duels; d++) {
        double values[MOST], sum = 0, squares = 0;
        draw_normal((uint64_t)d, values, n);
        for (int i = 0; i < n; i++) {
            sum += values[i] + mean;
        }
        for (int i = 0; i < n; i++) {
            squares += pow(values[i] + mean - sum / n, 2);
        }
        found += sum / n / sqrt(squares / (n - 1) / n) > bound;
    }
    return found / duels;
}

/* Large differences are found by fewer pairs than a test of fixed size with that power needs. */
static void test_sequential__fewer_pairs(void **state)
{
    (void)state;
    SequentialTest test = sequential_test(0.05, 0.1, 3, 12);
    for (double mean = 1.2; mean < 3.1; mean += 0.6) {
        Duels found = simulate(&test, draw_normal, mean, 10000);
        double power = found.share[SEQUENTIAL_HIGHER];
        int fixed = 2;
        while (fixed < MOST && fixed_power(fixed, mean, 10000) < power) {
            fixed++;
        }
        printf("difference %.1f: power %.4f with %.2f pairs; a fixed test needs %d\n", mean, power,
               found.pairs, fixed);
        assert_between(found.share[SEQUENTIAL_LOWER], 0, 0.025);
        assert_true(power > 0.8 && found.pairs < fixed);
    }
}

static void test_sequential__single_looks(void **state)
{
    (void)state;
    const double same[] = {0, 0, 0}, shifted[] = {-0.5, -0.5, -0.5}, spread[] = {-0.4, -0.5, -0.6};
    SequentialTest test = sequential_test(0.05, 0.01, 3, 3);
    assert_int_equal(sequential_run(&test, same, 3).verdict, SEQUENTIAL_NEGLIGIBLE);
    assert_int_equal(sequential_run(&test, shifted, 3).verdict, SEQUENTIAL_LOWER);
    SequentialLook look = sequential_run(&test, spread, 3);
    assert_int_equal(look.verdict, SEQUENTIAL_LOWER);
    assert_between(look.low, -0.5 - 4.3026528 * 0.1 / sqrt(3) - 1e-6,
                   -0.5 - 4.3026527 * 0.1 / sqrt(3) + 1e-6);
    look = sequential_run(&test, spread, 2);
    assert_int_equal(look.verdict, SEQUENTIAL_OPEN);
    assert_true(isnan(look.low) && fabs(look.mean + 0.45) < 1e-12);
    const double mixed[] = {1, -1, 0.2};
    assert_int_equal(sequential_run(&test, mixed, 3).verdict, SEQUENTIAL_UNDECIDED);
    test = sequential_test(0.05, 0, 3, 3);
    assert_int_equal(sequential_run(&test, same, 3).verdict, SEQUENTIAL_NEGLIGIBLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sequential__tails),
        cmocka_unit_test(test_sequential__normal_rate_is_exact),
        cmocka_unit_test(test_sequential__false_verdicts),
        cmocka_unit_test(test_sequential__fewer_pairs),
        cmocka_unit_test(test_sequential__single_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
