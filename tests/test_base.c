/* src/base but for files (test_io.c): random numbers, errors, time, memory, version. */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/version.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- random numbers ---- */

/* Vectors of the Random123 distribution (kat_vectors, philox4x32-10). rng_block puts the index
 * into counter words 0 and 1, the stream into words 2 and 3, and the seed into the key, low word
 * first. */
static void test_base__rng_philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint64_t seed, stream, index;
        uint32_t expected[4];
    } cases[] = {
        {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        /* counter 243f6a88 85a308d3 13198a2e 03707344, key a4093822 299f31d0 */
        {0x299f31d0a4093822,
         0x0370734413198a2e,
         0x85a308d3243f6a88,
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RngBlock block = rng_block(cases[i].seed, cases[i].stream, cases[i].index);
        assert_memory_equal(block.word, cases[i].expected, sizeof block.word);
    }
}

/* Mean, variance, skewness and kurtosis of n numbers, each within five standard errors. */
static void test_base__rng_normal_moments(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    float *numbers = mem_alloc(COUNT * sizeof *numbers);
    rng_normals(42, 7, 0, COUNT, numbers);
    double sum[5] = {0}, largest = 0;
    for (int i = 0; i < COUNT; i++) {
        double x = (double)numbers[i], power = 1;
        assert_true(isfinite(x));
        for (int k = 1; k <= 4; k++) {
            power *= x;
            sum[k] += power;
        }
        largest = fabs(x) > largest ? fabs(x) : largest;
    }
    free(numbers);
    double error = 5 / sqrt((double)COUNT);
    assert_true(fabs(sum[1] / COUNT) < error);
    assert_true(fabs(sum[2] / COUNT - 1) < error * sqrt(2));
    assert_true(fabs(sum[3] / COUNT) < error * sqrt(15));
    assert_true(fabs(sum[4] / COUNT - 3) < error * sqrt(96));
    assert_true(largest > 3.5 && largest < 7);
}

/* Neighbours in a stream (which share a block), and equal places of two streams or seeds. */
static void test_base__rng_normals_are_uncorrelated(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    static float numbers[COUNT + 3], stream[COUNT], seed[COUNT];
    rng_normals(1, 1, 0, COUNT + 3, numbers);
    rng_normals(1, 2, 0, COUNT, stream);
    rng_normals(2, 1, 0, COUNT, seed);
    double sum[5] = {0};
    for (int i = 0; i < COUNT; i++) {
        for (int lag = 1; lag <= 3; lag++) {
            sum[lag - 1] += (double)numbers[i] * (double)numbers[i + lag];
        }
        sum[3] += (double)numbers[i] * (double)stream[i];
        sum[4] += (double)numbers[i] * (double)seed[i];
    }
    for (int i = 0; i < 5; i++) {
        assert_true(fabs(sum[i] / COUNT) < 5 / sqrt((double)COUNT));
    }
}

static void test_base__rng_any_part_of_a_stream_is_the_same(void **state)
{
    (void)state;
    enum { COUNT = 23 };
    float whole[COUNT], part[COUNT + 1];
    const uint64_t start = ((uint64_t)1 << 34) + 1; /* above 32 bits, and inside a block */
    rng_normals(5, 6, start, COUNT, whole);
    for (uint64_t first = 0; first < COUNT; first++) {
        for (uint64_t n = 0; first + n <= COUNT; n++) {
            part[n] = -77;
            rng_normals(5, 6, start + first, n, part);
            assert_memory_equal(part, whole + first, n * sizeof *part);
            assert_true(part[n] == -77);
        }
    }
}

static void test_base__rng_below_fills_its_range_evenly(void **state)
{
    (void)state;
    enum { BINS = 7, COUNT = 70000 };
    int seen[BINS] = {0};
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t value = rng_below(3, 4, i, BINS);
        assert_true(value < BINS);
        seen[value]++;
    }
    double chi_squared = 0;
    for (int bin = 0; bin < BINS; bin++) {
        double off = seen[bin] - (double)COUNT / BINS;
        chi_squared += off * off / ((double)COUNT / BINS);
    }
    assert_true(chi_squared < 22.5); /* 6 degrees of freedom, p = 0.001 */
    assert_int_equal(rng_below(3, 4, 5, 1), 0);
    assert_true(rng_below(3, 4, 5, UINT64_MAX) != rng_below(3, 4, 6, UINT64_MAX));
}

static void test_base__rng_uniform_lies_in_the_unit_interval(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    double sum = 0, smallest = 1, largest = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        double x = rng_uniform(9, 9, i);
        assert_true(x >= 0 && x < 1);
        sum += x;
        smallest = x < smallest ? x : smallest;
        largest = x > largest ? x : largest;
    }
    assert_true(fabs(sum / COUNT - 0.5) < 5 * sqrt(1.0 / 12 / COUNT));
    assert_true(smallest < 1e-3 && largest > 1 - 1e-3);
}

/* ---- errors ---- */

static void test_base__err_set_and_wrap(void **state)
{
    (void)state;
    assert_int_equal(err_set(ERR_INPUT, "%s: bad %d", "file", 7), ERR_INPUT);
    assert_string_equal(err_message(), "file: bad 7");
    assert_int_equal(err_wrap(ERR_INPUT, "while reading %s", "run"), ERR_INPUT);
    assert_string_equal(err_message(), "while reading run: file: bad 7");
    /* The old message may be an argument of the new one. */
    assert_int_equal(err_set(ERR_FAILED, "again: %s", err_message()), ERR_FAILED);
    assert_string_equal(err_message(), "again: while reading run: file: bad 7");
}

static void test_base__err_long_messages_are_cut(void **state)
{
    (void)state;
    char *text = mem_alloc(10001);
    memset(text, 'x', 10000);
    text[10000] = '\0';
    err_set(ERR_INPUT, "%s", text);
    size_t longest = strlen(err_message());
    assert_true(longest > 1000 && longest < 10000);
    err_wrap(ERR_INPUT, "context");
    assert_int_equal(strlen(err_message()), longest);
    assert_memory_equal(err_message(), "context: xxx", 12);
    err_wrap(ERR_INPUT, "%s", text);
    assert_int_equal(strlen(err_message()), longest);
    assert_memory_equal(err_message(), "xxx", 3);
    free(text);
}

static void test_base__err_exit_status_is_the_negated_code(void **state)
{
    (void)state;
    assert_int_equal(err_exit_status(ERR_NONE), 0);
    assert_int_equal(err_exit_status(ERR_FAILED), 1);
    assert_int_equal(err_exit_status(ERR_INPUT), 2);
    assert_int_equal(err_exit_status(ERR_MEMORY), 3);
    assert_int_equal(err_exit_status(ERR_CHECK), 4);
    assert_int_equal(err_exit_status(ERR_INTERRUPTED), 130);
    assert_int_equal(err_exit_status(ERR_TERMINATED), 143);
}

/* ---- time ---- */

static void test_base__clock_quantile_interpolates(void **state)
{
    (void)state;
    double samples[] = {40, 10, 30, 20};
    assert_true(clock_quantile(samples, 4, 0) == 10);
    assert_true(clock_quantile(samples, 4, 1) == 40);
    assert_true(clock_quantile(samples, 4, 0.5) == 25);
    assert_true(fabs(clock_quantile(samples, 4, 0.25) - 17.5) < 1e-12);
    assert_true(fabs(clock_quantile(samples, 4, 0.9) - 37) < 1e-12);
    double one[] = {5};
    assert_true(clock_quantile(one, 1, 0.99) == 5);
    assert_true(isnan(clock_quantile(one, 0, 0.5)));
}

static void test_base__clock_durations_read_well(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0.85, "850 ms"},         {12.34, "12.3 s"},       {245, "4 min 05 s"},
        {12000, "3 h 20 min"},    {3599.9, "60 min 00 s"}, {INFINITY, "unknown"},
        {(double)NAN, "unknown"},
    };
    char text[CLOCK_DURATION_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(clock_duration(cases[i].seconds, text), cases[i].text);
    }
}

static void test_base__clock_seconds_go_forward(void **state)
{
    (void)state;
    double before = clock_seconds();
    usleep(2000);
    double passed = clock_seconds() - before;
    assert_true(passed >= 0.002 && passed < 60);
}

/* ---- memory ---- */

static void test_base__mem_try_aligned_answers(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < 200; bytes += 33) {
        unsigned char *block = mem_try_aligned(bytes);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        memset(block, 1, bytes);
        free(block);
    }
    assert_null(mem_try_aligned(SIZE_MAX));
}

static void test_base__mem_system_numbers_are_plausible(void **state)
{
    (void)state;
    size_t peak = mem_peak_resident();
    assert_true(peak > 100000 && peak < (size_t)1 << 40);
    assert_true(mem_available() < (size_t)1 << 50);
}

static void test_base__version_is_known(void **state)
{
    (void)state;
    int parts[3];
    assert_int_equal(sscanf(version_string(), "%d.%d.%d", &parts[0], &parts[1], &parts[2]), 3);
    assert_true(strlen(version_commit()) >= 7);
    assert_non_null(strstr(version_build_features(), "CPU"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base__rng_philox_known_answers),
        cmocka_unit_test(test_base__rng_normal_moments),
        cmocka_unit_test(test_base__rng_normals_are_uncorrelated),
        cmocka_unit_test(test_base__rng_any_part_of_a_stream_is_the_same),
        cmocka_unit_test(test_base__rng_below_fills_its_range_evenly),
        cmocka_unit_test(test_base__rng_uniform_lies_in_the_unit_interval),
        cmocka_unit_test(test_base__err_set_and_wrap),
        cmocka_unit_test(test_base__err_long_messages_are_cut),
        cmocka_unit_test(test_base__err_exit_status_is_the_negated_code),
        cmocka_unit_test(test_base__clock_quantile_interpolates),
        cmocka_unit_test(test_base__clock_durations_read_well),
        cmocka_unit_test(test_base__clock_seconds_go_forward),
        cmocka_unit_test(test_base__mem_try_aligned_answers),
        cmocka_unit_test(test_base__mem_system_numbers_are_plausible),
        cmocka_unit_test(test_base__version_is_known),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
