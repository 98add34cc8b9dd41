/* What the loss says about batch sizes, learning rates and probes. */
#include "support/findings_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BATCHES "{\"axes\": [[\"batch\"]]}"

/* --- quality --- */

/* Small batches learn more from a token, large ones more from a second. */
static void plant_qualities(FindingsCase *one, const char *large_lr)
{
    planted_run(&one->experiment, &(PlantedRun){.settings = "{\"batch\": \"8\"}",
                                                .tokens = 2000,
                                                .training_s = 20,
                                                .lines = {{1000, 10, 4.0}, {2000, 20, 3.0}}});
    planted_run(&one->experiment, &(PlantedRun){.configuration = 1,
                                                .settings = "{\"batch\": \"32\"}",
                                                .config = large_lr,
                                                .tokens = 4000,
                                                .training_s = 10,
                                                .lines = {{2000, 5, 3.5}, {4000, 10, 2.5}}});
}

static void test_findings_quality__batch_size_and_loss(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant_qualities(&one, NULL);
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT,
                   "For the lowest validation loss use batch 8 at equal tokens (3.0000 nats after "
                   "2000 tokens) and "
                   "batch 32 at equal time (2.5000 after 10.00 s).",
                   "batch 32: 3.5000 nats");
    assert_non_null(strstr(find_finding(&one, "For the")->evidence.text, "batch 8: 4.0000 nats"));
    expect_finding(&one, FINDING_CAUTION, "one learning rate (0.0003) for all batch sizes",
                   "2 runs");
    findings_case_end(&one);
}

static void test_findings_quality__learning_rates_that_follow_the_batch(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant_qualities(&one, "{\"lr\": 0.0006}");
    findings_case_conclude(&one);
    expect_no_finding(&one, "one learning rate");
    findings_case_end(&one);
}

/* Three rates at two widths, of which one diverged: its neighbour is not at the edge. */
static void test_findings_quality__best_learning_rates(void **state)
{
    (void)state;
    static const double losses[] = {3.0, 2.5, 2.7, 2.4, 2.0, 0};
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"d-model\"], [\"lr\"]]}");
    for (int i = 0; i < 6; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "{\"d-model\": \"%d\", \"lr\": \"%g\"}", 32 << i / 3,
                 0.001 * (1 << i % 3));
        planted_run(&one.experiment, &(PlantedRun){.configuration = i,
                                                   .settings = settings,
                                                   .state = losses[i] > 0 ? NULL : "failed",
                                                   .tokens = 1000,
                                                   .training_s = 10,
                                                   .val_loss = losses[i]});
    }
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT,
                   "Of the learning rates tried the best is 0.002 (d-model 32), 0.002 (d-model "
                   "64).",
                   "d-model 32, lr 0.002: 2.5000 nats, 2.7000 at the next best, lr 0.004; d-model");
    expect_no_finding(&one, "at the edge");
    findings_case_end(&one);
    findings_case_start(&one, "{\"axes\": [[\"lr\"]], \"repeats\": 2}");
    for (int i = 0; i < 4; i++) {
        char settings[32];
        snprintf(settings, sizeof settings, "{\"lr\": \"%g\"}", 0.001 * (1 << i % 2));
        planted_run(&one.experiment, &(PlantedRun){.configuration = i % 2,
                                                   .repeat = i / 2,
                                                   .settings = settings,
                                                   .tokens = 1000,
                                                   .training_s = 10,
                                                   .val_loss = losses[i % 2] + 0.9 * (i / 2)});
    }
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT, "Of the learning rates tried the best is 0.002.",
                   "lr 0.002: 2.9500 nats, 3.4500 at the next best, lr 0.001 (within noise)");
    expect_finding(&one, FINDING_CAUTION, "1 of 1 best learning rates lies at the edge",
                   "widen the axis");
    findings_case_end(&one);
    findings_case_start(&one, "{\"axes\": [[\"d-model\"], [\"lr\"]]}");
    for (int i = 0; i < 20; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "{\"d-model\": \"%d\", \"lr\": \"0.%d\"}",
                 32 * (1 + i / 2), 1 + i % 2);
        planted_run(&one.experiment, &(PlantedRun){.configuration = i,
                                                   .settings = settings,
                                                   .tokens = 1000,
                                                   .training_s = 10,
                                                   .val_loss = 2 + i % 2});
    }
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT, "0.1 (d-model 256), and 2 more.", "d-model 320, lr 0.1:");
    findings_case_end(&one);
}

static void test_findings_quality__updates_of_equal_tokens_are_one_batch_size(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant_qualities(&one, "{\"seq\": 4}"); /* 8 x 16 tokens and 32 x 4 */
    findings_case_conclude(&one);
    expect_no_finding(&one, "one learning rate");
    findings_case_end(&one);
}

static void test_findings_quality__a_gap_of_generalisation(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    planted_run(&one.experiment, &(PlantedRun){.settings = "{\"batch\": \"8\"}",
                                               .tokens = 1000,
                                               .training_s = 10,
                                               .train_loss = 2,
                                               .val_loss = 3});
    planted_run(&one.experiment, &(PlantedRun){.configuration = 1,
                                               .settings = "{\"batch\": \"16\"}",
                                               .tokens = 1000,
                                               .training_s = 10,
                                               .train_loss = 2.9,
                                               .val_loss = 3});
    findings_case_conclude(&one);
    expect_finding(
        &one, FINDING_RESULT,
        "batch 8 overfits: validation loss 3.0000 against 2.0000 in training; stop earlier",
        "batch 16: 0.1000 nats");
    findings_case_end(&one);
}

/* The training loss of repeats differs by more than the gap: a gap of (1 + 0.1) / 2 that may be
 * nothing. With alike ones it is told. */
static void test_findings_quality__a_gap_that_may_be_noise_is_none(void **state)
{
    (void)state;
    for (int alike = 0; alike < 2; alike++) {
        FindingsCase one;
        findings_case_start(&one, BATCHES);
        for (int repeat = 0; repeat < 2; repeat++) {
            double train = repeat == 0 ? 2 : alike ? 2.01 : 2.9;
            planted_run(&one.experiment, &(PlantedRun){.repeat = repeat,
                                                       .settings = "{\"batch\": \"8\"}",
                                                       .tokens = 1000,
                                                       .training_s = 10,
                                                       .train_loss = train,
                                                       .val_loss = 3});
        }
        findings_case_conclude(&one);
        if (alike) {
            expect_finding(&one, FINDING_RESULT,
                           "overfits: validation loss 3.0000 against 2.0050 in training", "2 runs");
        } else {
            expect_no_finding(&one, "overfits");
        }
        findings_case_end(&one);
    }
}

/* Probes of 2000 tokens; updates have 8 x 16 and 64 x 16 of them. */
static void plant_probed(FindingsCase *one, int tokens, int small_factor)
{
    char more[200];
    snprintf(more, sizeof more,
             "{\"axes\": [[\"batch\"]], \"lr_probe\": {\"factors\": [0.5, 1, 2], \"tokens\": %d}}",
             tokens);
    findings_case_start(one, more);
    for (int i = 0; i < 2; i++) {
        planted_run(&one->experiment,
                    &(PlantedRun){.configuration = i,
                                  .settings = i == 0 ? "{\"batch\": \"8\"}" : "{\"batch\": \"64\"}",
                                  .probed = true,
                                  .lr_factor = i == 0 ? small_factor : 1,
                                  .tokens = 1000,
                                  .training_s = 10});
    }
    findings_case_conclude(one);
}

static void test_findings_quality__rates_of_a_probe(void **state)
{
    (void)state;
    FindingsCase one;
    plant_probed(&one, 200000, 1);
    expect_finding(&one, FINDING_RESULT,
                   "Each learning rate is the best of a probe of 200.0 k tokens", "3 factors");
    expect_no_finding(&one, "under 100 updates");
    findings_case_end(&one);
    plant_probed(&one, 200000, 2);
    expect_finding(&one, FINDING_CAUTION, "1 of 2 probed learning rates lies at the edge",
                   "first batch 8, the highest of 3 factors, 200.0 k tokens each");
    findings_case_end(&one);
}

static void test_findings_quality__probes_of_few_updates(void **state)
{
    (void)state;
    FindingsCase one;
    plant_probed(&one, 20000, 1); /* 157 and 20 updates */
    expect_finding(&one, FINDING_CAUTION, "1 probe had under 100 updates",
                   "20 updates for batch 64");
    findings_case_end(&one);
    plant_probed(&one, 2000, 1);
    expect_finding(&one, FINDING_CAUTION, "2 probes had under 100 updates",
                   "2 updates for batch 64");
    findings_case_end(&one);
}

/* The runs of a probe are told by their best rates, and by nothing else. */
static void test_findings_quality__of_a_probe_itself(void **state)
{
    (void)state;
    static const double losses[] = {3.5, 3.0, 3.2, 4.0, 3.9, 3.8};
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"batch\"]], \"lr_probe\": {\"factors\": [0.5, 1, 2], "
                              "\"tokens\": 200000}}");
    for (int i = 0; i < 6; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "{\"batch\": \"%d\", \"lr\": \"%g\"}", i < 3 ? 8 : 64,
                 0.001 * (1 << (i % 3)));
        planted_run(&one.experiment, &(PlantedRun){.configuration = i,
                                                   .settings = settings,
                                                   .probed = true,
                                                   .lr_factor = i % 3,
                                                   .tokens = 1000,
                                                   .training_s = 10,
                                                   .val_loss = losses[i]});
    }
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT,
                   "The best learning rate is 0.002 for batch 8 and 0.004 for batch 64.",
                   "batch 8: 0.002 with 3.0000 nats; batch 64: 0.004 with 3.8000 nats");
    assert_int_equal(one.findings.results, 1);
    expect_no_finding(&one, "edge");
    findings_case_end(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_findings_quality__batch_size_and_loss),
        cmocka_unit_test(test_findings_quality__learning_rates_that_follow_the_batch),
        cmocka_unit_test(test_findings_quality__best_learning_rates),
        cmocka_unit_test(test_findings_quality__updates_of_equal_tokens_are_one_batch_size),
        cmocka_unit_test(test_findings_quality__a_gap_of_generalisation),
        cmocka_unit_test(test_findings_quality__a_gap_that_may_be_noise_is_none),
        cmocka_unit_test(test_findings_quality__rates_of_a_probe),
        cmocka_unit_test(test_findings_quality__probes_of_few_updates),
        cmocka_unit_test(test_findings_quality__of_a_probe_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
