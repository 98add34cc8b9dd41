/* What is planted in the records of an experiment is found as what it is, with its numbers; what
 * is not there is not. */
#include "support/findings_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One run per time, all of one configuration: 1000 tokens each. */
static void plant(FindingsCase *one, int configuration, const char *settings, const double *seconds,
                  int repeats)
{
    for (int i = 0; i < repeats; i++) {
        planted_run(&one->experiment, &(PlantedRun){.configuration = configuration,
                                                    .repeat = i,
                                                    .settings = settings,
                                                    .tokens = 1000,
                                                    .training_s = seconds[i]});
    }
}

#define BATCHES "{\"axes\": [[\"batch\"]]}"

/* --- speed --- */

static void test_findings__the_fastest_and_its_runner_up(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant(&one, 0, "{\"batch\": \"8\"}", (double[]){10, 10.1, 9.9}, 3);
    plant(&one, 1, "{\"batch\": \"16\"}", (double[]){5, 5.05, 4.95}, 3);
    plant(&one, 2, "{\"batch\": \"32\"}", (double[]){4, 4.04, 3.96}, 3);
    findings_case_conclude(&one);
    /* 1000 / 4 = 250 tokens/s against 200, both means a trifle above for their spread */
    expect_finding(&one, FINDING_RESULT,
                   "Use batch 32 for speed: 250.0 tokens/s, 25.0 % ahead of batch 16.",
                   "significant over the repeats (p < 0.001); batch 8: 100.0 tokens/s");
    expect_no_finding(&one, "single runs");
    expect_no_finding(&one, "spreads");
    findings_case_end(&one);
}

static void test_findings__a_gap_within_the_noise(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant(&one, 0, "{\"batch\": \"8\"}", (double[]){10, 11, 9.5}, 3);
    plant(&one, 1, "{\"batch\": \"16\"}", (double[]){9.9, 10.9, 9.4}, 3);
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT, "batch 16 and batch 8 are equally fast within noise",
                   "within the noise of the repeats (p = 0.88)");
    findings_case_end(&one);
}

static void test_findings__rates_change_no_speed(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"lr\"]]}");
    plant(&one, 0, "{\"lr\": \"0.1\"}", (double[]){10, 11, 9.5}, 3);
    plant(&one, 1, "{\"lr\": \"0.2\"}", (double[]){9.9, 10.9, 9.4}, 3);
    findings_case_conclude(&one);
    expect_no_finding(&one, "fast");
    findings_case_end(&one);
}

/* One word against another at two batch sizes. */
static void expect_choice(const char *option, const char *slow, const char *fast, double second,
                          const char *words)
{
    FindingsCase one;
    char more[64];
    snprintf(more, sizeof more, "{\"axes\": [[\"%s\"], [\"batch\"]]}", option);
    findings_case_start(&one, more);
    for (int i = 0; i < 4; i++) {
        char settings[64];
        snprintf(settings, sizeof settings, "{\"%s\": \"%s\", \"batch\": \"%d\"}", option,
                 i < 2 ? slow : fast, 8 << i % 2);
        plant(&one, i, settings, (double[]){i < 2 ? 10 : i == 2 ? 5 : second}, 1);
    }
    findings_case_conclude(&one);
    if (words != NULL) {
        expect_finding(&one, FINDING_RESULT, words, "in 2 pairs");
    } else {
        expect_no_finding(&one, "times as fast");
    }
    findings_case_end(&one);
}

/* Speed recommends what computes the same; where it takes both sides it recommends nothing. */
static void test_findings__choices(void **state)
{
    (void)state;
    expect_choice("attention", "naive", "flash", 4,
                  "Use attention flash: 2.00 to 2.50 times as fast as naive.");
    expect_choice("attention", "naive", "flash", 12.5,
                  "attention flash is 0.80 to 2.00 times as fast as naive, by the other settings.");
    expect_choice("dtype", "f32", "bf16", 4, "Use dtype bf16: 2.00 to 2.50 times");
    expect_choice("optimizer", "muon", "adamw", 4,
                  "optimizer adamw is 2.00 to 2.50 times as fast as muon.");
    expect_choice("parametrization", "mup", "standard", 4, NULL);
}

static void test_findings__one_repeat_judges_nothing(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant(&one, 0, "{\"batch\": \"8\"}", (double[]){10}, 1);
    plant(&one, 1, "{\"batch\": \"16\"}", (double[]){5}, 1);
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_CAUTION, "single runs: noise cannot be judged",
                   "2 configurations");
    expect_finding(&one, FINDING_RESULT, "Use batch 16 for speed", "(1 run)");
    findings_case_end(&one);
}

static void test_findings__returns_that_diminish(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant(&one, 0, "{\"batch\": \"8\"}", (double[]){10}, 1);
    plant(&one, 1, "{\"batch\": \"16\"}", (double[]){6}, 1);
    /* Two doublings for 1.1025 times the speed: 5 % each. Half of the time is communication now. */
    planted_run(&one.experiment, &(PlantedRun){.configuration = 2,
                                               .settings = "{\"batch\": \"64\"}",
                                               .tokens = 1000,
                                               .training_s = 6 / 1.1025,
                                               .busy_s = {0.5 * 6 / 1.1025},
                                               .exposed_s = 0.5 * 6 / 1.1025});
    findings_case_conclude(&one);
    expect_finding(
        &one, FINDING_RESULT,
        "Beyond batch 16 a doubling gains under 10 %: it has 91 % of the top speed.",
        "+5.0 % per doubling up to batch 64, from single runs, so noise cannot be judged; "
        "comm_exposed takes the largest share of the training time there, 50 % after 0 % before");
    expect_no_finding(&one, "Beyond batch 8");
    findings_case_end(&one);
}

static void test_findings__returns_that_do_not(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant(&one, 0, "{\"batch\": \"8\"}", (double[]){10}, 1);
    plant(&one, 1, "{\"batch\": \"16\"}", (double[]){9}, 1); /* 11 % */
    findings_case_conclude(&one);
    expect_no_finding(&one, "Beyond");
    findings_case_end(&one);
}

/* --- trust --- */

static void test_findings__noise(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant(&one, 0, "{\"batch\": \"8\"}", (double[]){10, 8}, 2); /* 100 and 125 around 112.5 */
    plant(&one, 1, "{\"batch\": \"16\"}", (double[]){5, 5.1}, 2);
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_CAUTION,
                   "throughput of 1 configuration spreads by 22 % over repeats",
                   "batch 8: 100 tokens/s, 125 tokens/s");
    findings_case_end(&one);
}

/* The fastest run is the one whose account is wrong: it wins nothing. */
static void test_findings__failed_checks(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    plant(&one, 0, "{\"batch\": \"8\"}", (double[]){10}, 1);
    plant(&one, 1, "{\"batch\": \"16\"}", (double[]){9}, 1);
    planted_run(&one.experiment, &(PlantedRun){.configuration = 2,
                                               .settings = "{\"batch\": \"32\"}",
                                               .tokens = 1000,
                                               .training_s = 1,
                                               .failed_check = "throughput"});
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_CAUTION, "checks of 1 run failed, so no finding uses it",
                   "batch 32, repeat 1 (run 2-0), throughput: ");
    assert_non_null(
        strstr(find_finding(&one, "checks of")->evidence.text, "expected 10, found 11"));
    expect_finding(&one, FINDING_RESULT, "Use batch 16 for speed", "batch 8");
    findings_case_end(&one);
}

static void test_findings__failures(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"batch\"]], \"smoke\": true}");
    plant(&one, 0, "{\"batch\": \"8\"}", (double[]){10}, 1);
    for (int repeat = 0; repeat < 2; repeat++) {
        planted_run(&one.experiment, &(PlantedRun){.configuration = 1,
                                                   .repeat = repeat,
                                                   .settings = "{\"batch\": \"16\"}",
                                                   .state = "failed",
                                                   .reason = "loss became NaN at step 7",
                                                   .without_files = 1});
    }
    planted_run(&one.experiment, &(PlantedRun){.configuration = 2,
                                               .settings = "{\"batch\": \"32\"}",
                                               .state = "timeout",
                                               .reason = "killed after 60 s",
                                               .without_files = 1});
    planted_run(&one.experiment, &(PlantedRun){.configuration = 3,
                                               .settings = "{\"batch\": \"64\"}",
                                               .state = "waiting",
                                               .without_files = 1});
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_CAUTION, "2 runs failed",
                   "batch 16: loss became NaN at step 7 (run 1-0, 1-1)");
    expect_finding(&one, FINDING_CAUTION, "1 run ran into the time limit",
                   "batch 32: killed after 60 s (run 2-0)");
    expect_finding(&one, FINDING_CAUTION, "1 of 5 runs are not finished", "1 waiting, 0 running");
    expect_finding(&one, FINDING_CAUTION, "smoke run", "");
    expect_no_finding(&one, "for speed");
    /* All of them in one line, the gravest first. */
    Page line = {0};
    findings_put_cautions(&one.findings, &line);
    assert_string_equal(line.text, "2 runs failed; 1 run ran into the time limit; a smoke run: it "
                                   "shows that everything works, and nothing else; 1 of 5 runs are "
                                   "not finished");
    page_free(&line);
    findings_case_end(&one);
}

static void test_findings__a_flood_is_cut(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, BATCHES);
    for (int i = 0; i < 14; i++) {
        char settings[32];
        snprintf(settings, sizeof settings, "{\"batch\": \"%d\"}", i + 1);
        planted_run(&one.experiment, &(PlantedRun){.configuration = i,
                                                   .settings = settings,
                                                   .state = "failed",
                                                   .reason = "no such file",
                                                   .without_files = 1});
    }
    findings_case_conclude(&one);
    assert_int_equal(one.findings.count, 1);
    expect_finding(&one, FINDING_CAUTION, "14 runs failed", "batch 12: no such file (run 11-0)");
    expect_finding(&one, FINDING_CAUTION, "14 runs failed", "; and 2 more");
    findings_case_end(&one);
}

/* --- memory --- */

static void test_findings__what_does_not_fit(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"batch\"], [\"attention\"]]}");
    planted_run(&one.experiment,
                &(PlantedRun){.settings = "{\"batch\": \"8\", \"attention\": \"flash\"}",
                              .tokens = 1000,
                              .training_s = 10,
                              .planned_bytes = 536870912});
    planted_run(&one.experiment,
                &(PlantedRun){.configuration = 1,
                              .settings = "{\"batch\": \"32\", \"attention\": \"flash\"}",
                              .state = "refused",
                              .reason = "needs 2048.0 MiB",
                              .planned_bytes = 2147483648.0,
                              .without_files = 1});
    planted_run(&one.experiment,
                &(PlantedRun){.configuration = 2,
                              .settings = "{\"batch\": \"64\", \"attention\": \"flash\"}",
                              .state = "refused",
                              .planned_bytes = 4294967296.0,
                              .without_files = 1});
    planted_run(&one.experiment,
                &(PlantedRun){.configuration = 3,
                              .settings = "{\"batch\": \"8\", \"attention\": \"naive\"}",
                              .state = "oom",
                              .reason = "out of memory",
                              .without_files = 1});
    findings_case_conclude(&one);
    /* The machine of the run that has a record has 1 GiB. */
    expect_finding(
        &one, FINDING_RESULT,
        "batch 32 (attention flash) does not fit: it needs 2.00 GiB of the 1.00 GiB of the "
        "machine; "
        "use 8.",
        "refused by its plan: needs 2048.0 MiB; 8 is the largest below it that fits, planned "
        "512.0 MiB");
    expect_finding(&one, FINDING_RESULT, "batch 8, naive does not fit", "out of memory");
    expect_no_finding(&one, "64 does not fit");
    findings_case_end(&one);
}

/* --- ranks --- */

static void plant_ranks(FindingsCase *one, int configuration, int ranks, double seconds)
{
    char settings[64];
    snprintf(settings, sizeof settings, "{\"ranks\": \"%d\"}", ranks);
    planted_run(&one->experiment, &(PlantedRun){.configuration = configuration,
                                                .settings = settings,
                                                .ranks = ranks,
                                                .tokens = 1000,
                                                .training_s = seconds});
}

#define RANKS "{\"axes\": [[\"ranks\"]]}"

static void test_findings__a_straggler(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, RANKS);
    plant_ranks(&one, 0, 1, 30);
    planted_run(&one.experiment, &(PlantedRun){.configuration = 1,
                                               .settings = "{\"ranks\": \"4\"}",
                                               .ranks = 4,
                                               .tokens = 1000,
                                               .training_s = 10,
                                               .rank_s = {8, 8, 8, 10},
                                               .busy_s = {6, 6, 6.5, 9}});
    findings_case_conclude(&one);
    /* the median of 6, 6, 6.5, 9 is 6.25; 6.5 is within 1.1 of it */
    expect_finding(
        &one, FINDING_CAUTION,
        "rank 3 on node1 cuda:1 holds up the others (ranks 4), busy 1.44 times as long",
        "than the median rank, in 1 of 1 runs; busy: rank 0 6.00 s, rank 1 6.00 s, rank 2 6.50 s, "
        "rank 3 9.00 s");
    expect_no_finding(&one, "rank 2 on");
    expect_finding(&one, FINDING_CAUTION, "speed-ups are those of the slowest rank",
                   "ranks 4: the mean over ranks would claim a speed-up of 3.53");
    expect_no_finding(&one, "better than linear");
    findings_case_end(&one);
}

static void test_findings__even_ranks(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, RANKS);
    plant_ranks(&one, 0, 1, 10);
    plant_ranks(&one, 1, 2, 5.5);
    findings_case_conclude(&one);
    expect_no_finding(&one, "holds up");
    expect_no_finding(&one, "slowest rank");
    expect_no_finding(&one, "better than linear");
    expect_no_finding(&one, "Amdahl");
    findings_case_end(&one);
}

static void test_findings__amdahl(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, RANKS);
    plant_ranks(&one, 0, 1, 10);
    plant_ranks(&one, 1, 2, 5.5);
    plant_ranks(&one, 2, 4, 3.25);
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT,
                   "10.0 % of the work is serial by Amdahl's law: more ranks end at 10.0 times",
                   "ranks 4: 3.08");
    findings_case_end(&one);
}

static void test_findings__more_than_linear(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, RANKS);
    plant_ranks(&one, 0, 1, 10);
    plant_ranks(&one, 1, 2, 4);
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_CAUTION,
                   "ranks 2 scales better than linear: look for a slow baseline",
                   "ranks 2: 2.50 times as fast with 2 times the ranks");
    findings_case_end(&one);
}

/* One rank shares with nobody, whatever is allowed. */
static void test_findings__shared_devices(void **state)
{
    (void)state;
    static const char *const settings[] = {"{\"ranks\": \"1\"}", "{\"ranks\": \"2\"}",
                                           "{\"ranks\": \"4\"}"};
    static const char *const words[] = {"ranks 2: ranks shared a device",
                                        "2 configurations, first ranks 2: ranks shared a device"};
    for (int count = 2; count <= 3; count++) {
        FindingsCase one;
        findings_case_start(&one, RANKS);
        for (int i = 0; i < count; i++) {
            planted_run(&one.experiment, &(PlantedRun){.configuration = i,
                                                       .settings = settings[i],
                                                       .config = "{\"oversubscribe\": true}",
                                                       .ranks = 1 << i,
                                                       .tokens = 1000,
                                                       .training_s = i == 0 ? 10 : 4});
        }
        findings_case_conclude(&one);
        expect_finding(&one, FINDING_CAUTION, "oversubscribed: no measurement of scaling",
                       words[count - 2]);
        expect_no_finding(&one, "better than linear");
        expect_no_finding(&one, "Beyond");
        expect_no_finding(&one, "Communication"); /* its times measure nothing either */
        findings_case_end(&one);
    }
}

static void test_findings__communication(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, "{\"axes\": [[\"ddp\"]]}");
    planted_run(&one.experiment, &(PlantedRun){.settings = "{\"ddp\": \"flat\"}",
                                               .ranks = 2,
                                               .tokens = 1000,
                                               .training_s = 10,
                                               .busy_s = {6, 6},
                                               .exposed_s = 4});
    planted_run(&one.experiment, &(PlantedRun){.configuration = 1,
                                               .settings = "{\"ddp\": \"overlap\"}",
                                               .ranks = 2,
                                               .tokens = 1000,
                                               .training_s = 8,
                                               .busy_s = {6, 6},
                                               .exposed_s = 1,
                                               .hidden_s = 3});
    findings_case_conclude(&one);
    expect_finding(&one, FINDING_RESULT,
                   "Communication that nothing hides takes up to 40.0 % of training (flat)",
                   "ddp flat: 40.0 % exposed, 4.00 s of 10.00 s; ddp overlap: 12.5 % exposed");
    expect_finding(&one, FINDING_RESULT,
                   "ddp overlap changes throughput by +25.0 % against flat (overlap).",
                   "ddp overlap: 1.00 s of exposed communication against 4.00 s with flat");
    findings_case_end(&one);
}

static void test_findings__nothing_to_say(void **state)
{
    (void)state;
    FindingsCase one;
    findings_case_start(&one, NULL);
    findings_case_conclude(&one);
    assert_int_equal(one.findings.count, 0);
    findings_case_end(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_findings__the_fastest_and_its_runner_up),
        cmocka_unit_test(test_findings__a_gap_within_the_noise),
        cmocka_unit_test(test_findings__rates_change_no_speed),
        cmocka_unit_test(test_findings__choices),
        cmocka_unit_test(test_findings__one_repeat_judges_nothing),
        cmocka_unit_test(test_findings__returns_that_diminish),
        cmocka_unit_test(test_findings__returns_that_do_not),
        cmocka_unit_test(test_findings__noise),
        cmocka_unit_test(test_findings__failed_checks),
        cmocka_unit_test(test_findings__failures),
        cmocka_unit_test(test_findings__a_flood_is_cut),
        cmocka_unit_test(test_findings__what_does_not_fit),
        cmocka_unit_test(test_findings__a_straggler),
        cmocka_unit_test(test_findings__even_ranks),
        cmocka_unit_test(test_findings__amdahl),
        cmocka_unit_test(test_findings__more_than_linear),
        cmocka_unit_test(test_findings__shared_devices),
        cmocka_unit_test(test_findings__communication),
        cmocka_unit_test(test_findings__nothing_to_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
