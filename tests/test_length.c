/* How many updates a run has, of which size and with which rate: against sums made by hand, and
 * against a walk over single updates. */
#include "train/length.h"

#include "base/err.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SEQ 10

/* Options of a run with two ranks and batch 1: a micro-step has 2 sequences, 20 tokens. step > 0:
 * it goes on after so many updates with so many tokens. */
static RunLength resumed_length(const char *const *options, int expected, int64_t step,
                                int64_t tokens)
{
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    static const char *const always[] = {"ranks", "2", "batch", "1", "lr", "0.01", NULL};
    for (int i = 0; always[i] != NULL; i += 2) {
        assert_int_equal(config_set(&cfg, always[i], always[i + 1]), 0);
    }
    for (int i = 0; options[i] != NULL; i += 2) {
        assert_int_equal(config_set(&cfg, options[i], options[i + 1]), 0);
    }
    RunLength length = {0};
    int code = config_check(&cfg);
    if (code == 0) {
        LengthUnits units = {.batch = 1, .seq = SEQ, .tokens_per_epoch = 1010, .flops_micro = 7};
        code = length_count(&length, &cfg, units);
        if (code == 0 && step > 0) {
            code = length_resume(&length, &cfg, units, step, tokens);
        }
    }
    config_free(&cfg);
    assert_int_equal(code, expected);
    return length;
}

static RunLength length_of(const char *const *options, int expected)
{
    return resumed_length(options, expected, 0, 0);
}
#define LENGTH(...) length_of((const char *const[]){__VA_ARGS__, NULL}, 0)
#define RESUMED(step, tokens, ...) \
    resumed_length((const char *const[]){__VA_ARGS__, NULL}, 0, step, tokens)
#define REFUSED(text, ...)                                              \
    do {                                                                \
        length_of((const char *const[]){__VA_ARGS__, NULL}, ERR_INPUT); \
        assert_non_null(strstr(err_message(), text));                   \
    } while (0)

static void test_length__flops_are_rounded_to_updates(void **state)
{
    (void)state;
    assert_int_equal(LENGTH("flops", "210", "accum", "3").total_steps, 10);
    assert_int_equal(LENGTH("flops", "220", "accum", "3").total_steps, 10); /* 10.48 */
    assert_int_equal(LENGTH("flops", "221", "accum", "3").total_steps, 11); /* 10.52 */
    assert_int_equal(LENGTH("flops", "1", "accum", "3").total_steps, 1);
    RunLength length = LENGTH("flops", "1400", "accum", "2");
    assert_int_equal(length.total_tokens, 100 * 40);
    assert_int_equal(length.warmup, 5);
    assert_true(length_rate(&length, 4) == 0.01 && length_rate(&length, 99) == 0.001);
}

/* The ramp by its definition, update by update. */
static void check_walk(const RunLength *length, const int64_t *accums, const double *tokens,
                       int marks, double all)
{
    int64_t step = 0, done = 0, micro = 0;
    int at = 0;
    double total_micro = (double)length->total_tokens / (2 * SEQ), before = 0;
    for (; (double)done < all; step++) {
        while (at + 1 < marks && (double)done >= tokens[at + 1]) {
            at++;
        }
        assert_int_equal(ramp_accum(&length->ramp, step), accums[at]);
        assert_int_equal(ramp_tokens(&length->ramp, step), done);
        done += accums[at] * 2 * SEQ;
        micro += accums[at];
        double rate = length_rate(length, step) / sqrt((double)accums[at] / (double)accums[0]);
        double part = ((double)micro - 1) / (total_micro - 1);
        assert_true(fabs(rate - (0.001 + 0.009 * (1 - part))) < 1e-15); /* linear, no warm-up */
        assert_true(step == 0 || rate < before);
        before = rate;
    }
    assert_int_equal(length->total_steps, step);
    assert_int_equal(length->total_tokens, done);
}

static void test_length__ramps_by_tokens_follow_their_definition(void **state)
{
    (void)state;
    RunLength a = LENGTH("batch-ramp", "2@0,4@20%,14@50%", "tokens", "5k", "warmup", "0",
                         "schedule", "linear");
    check_walk(&a, (int64_t[]){1, 2, 7}, (double[]){0, 1000, 2500}, 3, 5000);
    RunLength b = LENGTH("batch-ramp", "6@0,2@333,10@33.3%", "tokens", "4001", "warmup", "0",
                         "schedule", "linear");
    check_walk(&b, (int64_t[]){3, 1, 5}, (double[]){0, 333, 1332.333}, 3, 4001);
    /* Two marks within one update: the later one holds. */
    RunLength c = LENGTH("batch-ramp", "8@0,2@100,4@110", "tokens", "1k", "warmup", "0", "schedule",
                         "linear");
    check_walk(&c, (int64_t[]){4, 2}, (double[]){0, 110}, 2, 1000);
}

static void test_length__ramps_by_steps_epochs_and_flops(void **state)
{
    (void)state;
    RunLength a = LENGTH("batch-ramp", "2@0,4@20%,8@50%", "steps", "10");
    assert_int_equal(a.total_steps, 10);
    assert_int_equal(a.total_tokens, 20 * (2 + 3 * 2 + 5 * 4));
    assert_int_equal(ramp_accum(&a.ramp, 1), 1);
    assert_int_equal(ramp_accum(&a.ramp, 2), 2);
    assert_int_equal(ramp_accum(&a.ramp, 5), 4);
    /* 2.5 epochs are 2525 tokens: 40 x 20 up to 31.7 %, then (2525 - 800) / 80 = 21.6. */
    RunLength b = LENGTH("batch-ramp", "2@0,8@31.6%", "epochs", "2.5");
    assert_int_equal(b.total_steps, 40 + 21);
    assert_int_equal(b.total_tokens, 800 + 21 * 80);
    /* 700 FLOP are 100 micro-steps: 50, then 12.5 x 4, rounded to the nearest. */
    RunLength c = LENGTH("batch-ramp", "2@0,8@50%", "flops", "700");
    assert_int_equal(c.total_steps, 50 + 13);
    RunLength d = LENGTH("batch-ramp", "2@0,8@50%", "flops", "700", "ramp-lr", "linear", "schedule",
                         "constant", "warmup", "0");
    assert_true(fabs(length_rate(&d, 49) - 0.01) < 1e-15);
    assert_true(fabs(length_rate(&d, 50) - 0.04) < 1e-15);
    RunLength e = LENGTH("batch-ramp", "4@0,8@50%", "steps", "40", "warmup", "4");
    assert_int_equal(e.warmup, 4);
    assert_true(fabs(length_rate(&e, 1) - 0.005) < 1e-15 && length_rate(&e, 3) == 0.01);
}

static void test_length__what_is_no_ramp_is_refused(void **state)
{
    (void)state;
    REFUSED("not a multiple", "batch-ramp", "3@0");
    REFUSED("does not begin @0", "batch-ramp", "4@10%");
    REFUSED("says not from where", "batch-ramp", "4@0,8");
    REFUSED("no later than", "batch-ramp", "4@0,8@20%,16@20%");
    REFUSED("begins @0 like", "batch-ramp", "4@0,8@0");
    REFUSED("no share", "batch-ramp", "4@0,8@101%");
    REFUSED("no number of sequences", "batch-ramp", "4@0,x@1M");
    REFUSED("says not from where", "batch-ramp", "4@0,,8@1M");
    REFUSED("ends before it comes to batch 8", "batch-ramp", "4@0,8@1M", "steps", "5");
    REFUSED("minutes are both given", "batch-ramp", "4@0,8@50%", "minutes", "5");
    REFUSED("both given", "steps", "5", "minutes", "5");
    /* 100 micro-steps: of a last update of 20 a quarter is left. */
    REFUSED("the run ends before it comes to batch 40", "flops", "700", "batch-ramp", "2@0,40@95%");
    REFUSED("the run ends before it comes to batch 40", "epochs", "2", "batch-ramp", "2@0,40@95%");
    assert_int_equal(LENGTH("flops", "700", "batch-ramp", "2@0,40@90%").total_steps, 91);
}

/* Updates were of another size before: the budget is what is left of it, and the rate follows the
 * tokens. */
static void test_length__a_budget_outlives_another_size(void **state)
{
    (void)state;
    RunLength same = RESUMED(4, 400, "tokens", "2000", "accum", "5");
    assert_true(same.total_steps == 20 && !same.by_micro);
    RunLength a = RESUMED(2, 1010, "tokens", "2000", "accum", "5", "schedule", "linear", "warmup",
                          "0", "min-lr", "0"); /* 50 of 100 micro-steps are done */
    assert_int_equal(a.total_steps, 2 + 10);
    assert_int_equal(ramp_tokens(&a.ramp, 12) - ramp_tokens(&a.ramp, 2), 1000);
    assert_true(fabs(length_rate(&a, 2) - 0.01 * (1 - 54.0 / 99)) < 1e-15);
    assert_true(length_rate(&a, 11) == 0);
    RunLength again = RESUMED(7, 1510, "tokens", "2000", "accum", "5", "schedule", "linear",
                              "warmup", "0", "min-lr", "0");
    assert_true(again.total_steps == 12 && length_rate(&again, 8) == length_rate(&a, 8));
    assert_int_equal(RESUMED(90, 1995, "tokens", "2000", "accum", "5").total_steps, 91);
    assert_int_equal(RESUMED(90, 2000, "tokens", "2000", "accum", "5").total_steps, 90);
    assert_int_equal(RESUMED(90, 2040, "tokens", "2000", "accum", "5").total_steps, 90);
    assert_int_equal(RESUMED(3, 1000, "flops", "700", "accum", "4").total_steps, 3 + 13);
    assert_int_equal(RESUMED(3, 1000, "epochs", "2", "accum", "4").total_steps, 3 + 12);
    assert_int_equal(RESUMED(3, 1000, "steps", "30").total_steps, 30);
    /* A ramp goes on where its tokens are: 20 tokens an update, from 1,600 on 40, the rate by its
     * first size. */
    RunLength b = RESUMED(3, 1500, "tokens", "2000", "batch-ramp", "2@0,4@80%", "ramp-lr", "linear",
                          "schedule", "constant", "warmup", "0");
    assert_int_equal(b.total_steps, 3 + 5 + 10);
    assert_true(ramp_accum(&b.ramp, 7) == 1 && ramp_accum(&b.ramp, 8) == 2);
    RunLength c = RESUMED(3, 1800, "tokens", "2000", "batch-ramp", "2@0,4@80%", "ramp-lr", "linear",
                          "schedule", "constant", "warmup", "0");
    assert_int_equal(c.total_steps, 3 + 5);
    assert_true(fabs(length_rate(&c, 3) - 0.02) < 1e-15 && ramp_accum(&c.ramp, 3) == 2);
    assert_int_equal(RESUMED(3, 2000, "tokens", "2000", "batch-ramp", "2@0,4@80%").total_steps, 3);
}

static void test_length__the_clock_moves_the_rate(void **state)
{
    (void)state;
    RunLength length = LENGTH("minutes", "2", "schedule", "linear");
    assert_true(length.seconds == 120 && length.total_steps == LENGTH_OPEN && length.warmup < 0);
    double warm = length_warm_share();
    assert_true(length_rate_at(&length, 0, 0, warm, false) < 1e-6);
    assert_true(fabs(length_rate_at(&length, 9, 0.025, warm, false) - 0.005) < 1e-6);
    assert_true(fabs(length_rate_at(&length, 9, 0.05, warm, false) - 0.01) < 1e-6);
    assert_true(fabs(length_rate_at(&length, 9, 0.525, warm, false) - 0.0055) < 1e-6);
    assert_true(length_rate_at(&length, 9, 0.98, warm, true) == 0.001);
    assert_true(length_rate_at(&length, 9, 1.3, warm, false) == 0.001);
    RunLength steps = LENGTH("minutes", "2", "warmup", "4", "schedule", "linear");
    assert_true(length_rate_at(&steps, 1, 0.4, 0.4, false) == 0.005);
    assert_true(fabs(length_rate_at(&steps, 4, 0.7, 0.4, false) - 0.0055) < 1e-6);
}

/* --steps takes a million million; lengths of other kinds come to no more. */
static void test_length__no_run_has_more_updates_than_steps_takes(void **state)
{
    (void)state;
    REFUSED("--flops makes", "flops", "1e30");
    REFUSED("--tokens makes", "tokens", "900T");
    REFUSED("--flops makes", "flops", "1e30", "batch-ramp", "2@0,4@50%");
    REFUSED("--tokens makes", "tokens", "900T", "batch-ramp", "2@0,4@5k");
    assert_int_equal(LENGTH("tokens", "20T").total_steps, 1000000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_length__flops_are_rounded_to_updates),
        cmocka_unit_test(test_length__ramps_by_tokens_follow_their_definition),
        cmocka_unit_test(test_length__ramps_by_steps_epochs_and_flops),
        cmocka_unit_test(test_length__what_is_no_ramp_is_refused),
        cmocka_unit_test(test_length__a_budget_outlives_another_size),
        cmocka_unit_test(test_length__the_clock_moves_the_rate),
        cmocka_unit_test(test_length__no_run_has_more_updates_than_steps_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
