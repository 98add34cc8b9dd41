/* Numbers in options: what is accepted is exactly the value written, everything else is refused
 * by name. */
#include "config/config.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/says.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_config_values__whole_numbers_are_exact_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value; /* -1: refused */
        const char *says;
    } cases[] = {
        {"1", 1, NULL},
        {"10k", 10000, NULL},
        {"10K", 10000, NULL},
        {"1.5k", 1500, NULL},
        {"1.5M", 1500000, NULL},
        {"2G", 2000000000, NULL},
        {"0.25T", 250000000000, NULL},
        {"16Ki", 16384, NULL},
        {"1.5Mi", 1572864, NULL},
        {"3Gi", 3221225472, NULL},
        {"1Ti", 1099511627776, NULL},
        {"1e6", 1000000, NULL},
        {"1.25e2", 125, NULL},
        {"250e-1", 25, NULL},
        {"1000000000000000e-3", 1000000000000, NULL},
        {"+7", 7, NULL},
        {"007", 7, NULL},
        {"12.000", 12, NULL},
        {".5k", 500, NULL},
        {"999999999999999", 999999999999999, NULL},
        {"1000T", 1000000000000000, NULL},
        {"1000000000000001", -1, "outside its limits, 0 to 1000T"},
        {"-1", -1, "outside its limits"},
        {"9223372036854775807", -1, "outside its limits"},
        {"9223372036854775808", -1, "outside its limits"},
        {"99999999999999999999999999999999999999", -1, "outside its limits"},
        {"1e400", -1, "outside its limits"},
        {"1e99999999999999999999", -1, "outside its limits"},
        {"1.5", -1, "not a whole number"},
        {"1.2345k", -1, "not a whole number"},
        {"1e-3", -1, "not a whole number"},
        {"1e-99999999999999999999", -1, "not a whole number"},
        {"0.1Ki", -1, "not a whole number"},
        {"", -1, "not a number"},
        {"k", -1, "not a number"},
        {"abc", -1, "not a number"},
        {"-", -1, "not a number"},
        {".", -1, "not a number"},
        {" 1", -1, "not a number"},
        {"inf", -1, "not a number"},
        {"nan", -1, "not a number"},
        {"auto", -1, "not a number"},
        {"8x", -1, "'x' does not belong to a number"},
        {"8 ", -1, "does not belong"},
        {"8m", -1, "does not belong"},
        {"8kk", -1, "does not belong"},
        {"8kB", -1, "does not belong"},
        {"0x10", -1, "does not belong"},
        {"1,000", -1, "does not belong"},
        {"1_000", -1, "does not belong"},
        {"5.", -1, "does not belong"},
        {"1e", -1, "does not belong"},
        {"1e+", -1, "does not belong"},
        {"1e3k", -1, "both an exponent and a suffix"},
    };
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    for (size_t i = 0; i < COUNT(cases); i++) {
        cfg.seed = 42;
        int code = config_set(&cfg, "seed", cases[i].text);
        if (cases[i].value >= 0 && (code != 0 || cfg.seed != cases[i].value)) {
            fail_msg("'%s': %d, %" PRId64 " (%s)", cases[i].text, code, cfg.seed, err_message());
        }
        if (cases[i].value < 0) {
            if (code != ERR_INPUT || cfg.seed != 42) {
                fail_msg("'%s' was not refused", cases[i].text);
            }
            assert_says("seed '");
            assert_says(cases[i].says);
        }
    }
    assert_int_equal(config_set(&cfg, "memory-limit", "24GiB"), 0);
    assert_true(cfg.memory_limit == 25769803776);
    assert_int_equal(config_set(&cfg, "memory-limit", "512MB"), 0);
    assert_true(cfg.memory_limit == 512000000);
    assert_int_equal(config_set(&cfg, "memory-limit", "100B"), 0);
    assert_true(cfg.memory_limit == 100);
    assert_int_equal(config_set(&cfg, "warmup", "auto"), 0);
    assert_true(cfg.warmup == -1);
    assert_int_equal(config_set(&cfg, "window", "none"), 0);
    assert_true(cfg.fields.window == -1);
    assert_int_equal(config_set(&cfg, "window", "-1"), ERR_INPUT);
    assert_says("none or 0 to 10M");
    assert_int_equal(config_set(&cfg, "warmup", "none"), ERR_INPUT);
    assert_int_equal(config_set(&cfg, "layers", "none"), ERR_INPUT);
    config_free(&cfg);
}

static void test_config_values__every_way_of_writing_a_whole_number_agrees(void **state)
{
    (void)state;
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    for (uint64_t i = 0; i < 2000; i++) {
        int64_t size = INT64_C(1) << rng_below(1, 0, i, 39);
        int64_t value =
            1000 * (int64_t)rng_below(1, 1, i, (uint64_t)size) + (int64_t)rng_below(1, 2, i, 1000);
        char text[5][64];
        snprintf(text[0], 64, "%" PRId64, value);
        snprintf(text[1], 64, "%" PRId64 ".%03" PRId64 "k", value / 1000, value % 1000);
        snprintf(text[2], 64, "%" PRId64 ".%03" PRId64 "e3", value / 1000, value % 1000);
        snprintf(text[3], 64, "%" PRId64 "000e-3", value);
        snprintf(text[4], 64, "+000%" PRId64 ".0", value);
        for (int form = 0; form < 5; form++) {
            cfg.seed = -7;
            int code = config_set(&cfg, "seed", text[form]);
            if (code != 0 || cfg.seed != value) {
                fail_msg("'%s' gave %d, %" PRId64, text[form], code, cfg.seed);
            }
        }
    }
    config_free(&cfg);
}

static void test_config_values__reals_are_strict(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value; /* -1: refused */
    } cases[] = {
        {"3e-4", 3e-4},    {"0.1", 0.1},     {".5", 0.5},   {"1", 1},         {"1E-2", 0.01},
        {"+2.5", 2.5},     {"0", 0},         {"-0", 0},     {"0.02k", 20},    {"6.25e+1", 62.5},
        {"100", 100},      {"100.0001", -1}, {"-1e-9", -1}, {"1e-400", -1},   {"1e400", -1},
        {"nan", -1},       {"inf", -1},      {"-inf", -1},  {"0x1p3", -1},    {"1e", -1},
        {"1.2.3", -1},     {"1,5", -1},      {"", -1},      {"3e-4 ", -1},    {"--1", -1},
        {"automatic", -1}, {"1e3k", -1},     {"1d3", -1},   {"infinity", -1}, {"1k", -1},
    };
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    for (size_t i = 0; i < COUNT(cases); i++) {
        cfg.lr = 42;
        int code = config_set(&cfg, "lr", cases[i].text);
        if (cases[i].value >= 0 ? code != 0 || cfg.lr != cases[i].value
                                : code != ERR_INPUT || cfg.lr != 42) {
            fail_msg("'%s': %d, %g (%s)", cases[i].text, code, cfg.lr, err_message());
        }
    }
    assert_int_equal(config_set(&cfg, "min-lr", "auto"), 0);
    assert_true(cfg.min_lr == -1);
    assert_int_equal(config_set(&cfg, "min-lr", "-1"), ERR_INPUT);
    assert_says("auto or 0 to 100");
    assert_int_equal(config_set(&cfg, "beta1", "1"), ERR_INPUT);
    config_free(&cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_values__whole_numbers_are_exact_or_refused),
        cmocka_unit_test(test_config_values__every_way_of_writing_a_whole_number_agrees),
        cmocka_unit_test(test_config_values__reals_are_strict),
    };
    log_setup(LOG_ERROR, 0, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
