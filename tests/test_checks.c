/* The self-checks of a run over accounts that add up, accounts with one planted fault, and
 * comparisons of runs. Records on disk are test_recheck's. */
#include "record/checks.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/json_assert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    Summary summary;
    CheckInput input;
    TimerReport phases;
} Account;

static void spend(TimerReport *report, Phase phase, double seconds, int64_t count)
{
    double mean = seconds / (double)count;
    report->phases[phase] = (PhaseReport){seconds, seconds, mean, mean, mean, mean, mean, count};
}

/* 100 steps of 4 x 2 x 16 on 3 ranks in 8 of 10 seconds: everything adds up. */
static void sound_account(Account *account)
{
    *account = (Account){0};
    account->phases.wall_s = 10;
    account->phases.unattributed_s = 0.1;
    spend(&account->phases, PHASE_FORWARD, 3, 200);
    spend(&account->phases, PHASE_BACKWARD, 5, 200);
    spend(&account->phases, PHASE_INIT, 1.9, 1);
    spend(&account->phases, PHASE_COMM_HIDDEN, 4, 100);
    account->phases.phases[PHASE_COMM_HIDDEN].exclusive_s = 0; /* takes no wall time */
    account->summary = (Summary){.steps = value_of(100),
                                 .tokens = value_of(38400),
                                 .tok_s = value_of(4800),
                                 .wall_s = value_of(10),
                                 .train_s = value_of(8),
                                 .val_s = value_of(0),
                                 .init_s = value_of(1.9),
                                 .mfu_measured = value_of(0.7),
                                 .mfu_peak = value_of(0.4),
                                 .step_p50_ms = value_of(80),
                                 .step_p95_ms = value_of(90),
                                 .step_max_ms = value_of(120),
                                 .timer_overhead = value_of(0.002),
                                 .peak_bytes = value_of(1000),
                                 .allocated_bytes = value_of(1000),
                                 .planned_bytes = value_of(1000),
                                 .phases = &account->phases};
    account->input = (CheckInput){.batch = 4,
                                  .accum = 2,
                                  .seq = 16,
                                  .ranks = 3,
                                  .vocab = 10000,
                                  .first_loss = value_of(9.3),
                                  .timed_tokens = value_of(38400),
                                  .plan_bytes = value_of(1000),
                                  .flops_update = value_of(56e9),
                                  .ceiling = value_of(1e12),
                                  .complete = true};
}

static CheckVerdict verdict_of(const Account *account, const char *name)
{
    Checks checks;
    checks_run(&account->summary, &account->input, &checks);
    for (int i = 0; i < checks.count; i++) {
        if (strcmp(checks.items[i].name, name) == 0) {
            return checks.items[i].verdict;
        }
    }
    fail_msg("no check %s", name);
    return CHECK_FAIL;
}

static void test_checks__sound_account_passes(void **state)
{
    (void)state;
    Account account;
    sound_account(&account);
    Checks checks;
    checks_run(&account.summary, &account.input, &checks);
    assert_int_equal(checks.count, 17);
    assert_int_equal(checks_worst(&checks), CHECK_PASS);
    assert_int_equal(checks_status(&checks), 0);
    char line[CHECK_LINE_SIZE];
    assert_string_equal(check_line(&checks.items[0], line),
                        "check tokens: pass: 38400 expected, 38400 found "
                        "(tokens = steps x batch x accum x seq x ranks, or the sum over a ramp)");
}

static void test_checks__planted_faults_are_found(void **state)
{
    (void)state;
#define PLANT(name, verdict, change)               \
    do {                                           \
        Account a;                                 \
        sound_account(&a);                         \
        change;                                    \
        if (verdict_of(&a, name) != verdict) {     \
            fail_msg("%s with %s", name, #change); \
        }                                          \
    } while (0)
    PLANT("tokens", CHECK_FAIL, a.summary.tokens.number += 1);
    PLANT("tokens", CHECK_FAIL, a.summary.steps.number = 99);
    PLANT("tokens", CHECK_FAIL, a.input.ranks = 1);
    PLANT("tokens", CHECK_FAIL, a.input.accum = 1);
    PLANT("tokens", CHECK_FAIL, a.summary.tokens.number = NAN);
    PLANT("throughput", CHECK_PASS, a.summary.tok_s.number *= 1.009);
    PLANT("throughput", CHECK_FAIL, a.summary.tok_s.number *= 1.011);
    PLANT("throughput", CHECK_FAIL, a.summary.tok_s.number *= 0.989);
    PLANT("throughput", CHECK_FAIL, a.summary.train_s.number = 10);
    PLANT("throughput", CHECK_FAIL, a.summary.tok_s.number = NAN);
    PLANT("throughput", CHECK_FAIL, a.summary.tok_s.number = INFINITY);
    PLANT("first_loss", CHECK_PASS, a.input.first_loss.number = 1.09 * log(10000));
    PLANT("first_loss", CHECK_WARN, a.input.first_loss.number = 1.11 * log(10000));
    PLANT("first_loss", CHECK_WARN, a.input.first_loss.number = 0.89 * log(10000));
    PLANT("first_loss", CHECK_FAIL, a.input.first_loss.number = NAN);
    PLANT("phases", CHECK_PASS,
          (a.input.ranks = 1, a.phases.phases[PHASE_INIT].exclusive_s -= 0.19));
    PLANT("phases", CHECK_FAIL,
          (a.input.ranks = 1, a.phases.phases[PHASE_INIT].exclusive_s -= 0.21));
    PLANT("phases", CHECK_FAIL,
          (a.input.ranks = 1, a.phases.phases[PHASE_EVAL].exclusive_s = 0.21));
    PLANT("phases", CHECK_FAIL, (a.input.ranks = 1, a.phases.phases[PHASE_EVAL].exclusive_s = NAN));
    PLANT("phases", CHECK_FAIL, (a.input.ranks = 1, a.summary.wall_s.number = 11));
    PLANT("phases", CHECK_FAIL, (a.input.ranks = 1, a.input.other_phases = value_of(0.3)));
    PLANT("phases", CHECK_PASS, (a.input.ranks = 2, a.summary.wall_s.number = 60));
    PLANT("phases", CHECK_FAIL, (a.input.ranks = 2, a.summary.wall_s.number = 9.7));
    PLANT("unattributed", CHECK_PASS, a.phases.unattributed_s = 0.199);
    PLANT("unattributed", CHECK_WARN, a.phases.unattributed_s = 0.201);
    PLANT("unattributed", CHECK_WARN, a.phases.unattributed_s = 9);
    PLANT("unattributed", CHECK_WARN, a.phases.unattributed_s = NAN);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.unattributed_s = -0.01);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.unattributed_s = NAN);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].total_s = 2.9);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].total_s = 3.1);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].count = 199);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].count = 0);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].p50_s = 0.016);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].p95_s = 0.016);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].p99_s = 0.016);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].p99_s = NAN);
    PLANT("phase_numbers", CHECK_FAIL, a.phases.phases[PHASE_FORWARD].exclusive_s = -1);
    PLANT("parts", CHECK_PASS, a.summary.val_s.number = 0.1);
    PLANT("parts", CHECK_FAIL, a.summary.val_s.number = 0.11);
    PLANT("parts", CHECK_FAIL, a.summary.val_s.number = -0.1);
    PLANT("parts", CHECK_FAIL, a.summary.train_s.number = NAN);
    PLANT("timer_overhead", CHECK_PASS, a.summary.timer_overhead.number = 0.01);
    PLANT("timer_overhead", CHECK_WARN, a.summary.timer_overhead.number = 0.011);
    PLANT("timer_overhead", CHECK_WARN, a.summary.timer_overhead.number = 1.5);
    PLANT("timer_overhead", CHECK_WARN, a.summary.timer_overhead.number = NAN);
    PLANT("step_quantiles", CHECK_FAIL, a.summary.step_p50_ms.number = 91);
    PLANT("step_quantiles", CHECK_FAIL, a.summary.step_max_ms.number = 89);
    PLANT("step_quantiles", CHECK_FAIL, a.summary.step_p50_ms.number = -1);
    PLANT("step_times", CHECK_WARN, a.summary.train_s.number = 12.8);
    PLANT("step_spread", CHECK_PASS, a.summary.step_p95_ms.number = 100);
    PLANT("step_spread", CHECK_WARN, a.summary.step_p95_ms.number = 101);
    PLANT("step_spread", CHECK_WARN, a.summary.step_p95_ms.number = NAN);
    PLANT("mfu_peak", CHECK_PASS, a.summary.mfu_peak.number = 1);
    PLANT("mfu_peak", CHECK_WARN, a.summary.mfu_peak.number = 1.001);
    PLANT("mfu_peak", CHECK_WARN, a.summary.mfu_peak.number = -0.1);
    PLANT("flops", CHECK_PASS, a.summary.mfu_measured.number = 0.705);
    PLANT("flops", CHECK_FAIL, a.summary.mfu_measured.number = 0.71);
    PLANT("flops", CHECK_FAIL, a.input.steps_before = 50);
    PLANT("allocated", CHECK_FAIL, a.summary.allocated_bytes.number = 999);
    PLANT("memory_plan", CHECK_FAIL, a.input.plan_bytes.number = 999);
    PLANT("mfu", CHECK_PASS, a.summary.mfu_measured.number = 1);
    PLANT("mfu", CHECK_WARN, a.summary.mfu_measured.number = 1.04);
    PLANT("mfu", CHECK_WARN, a.summary.mfu_measured.number = 3.1);
    PLANT("mfu", CHECK_WARN, a.summary.mfu_measured.number = -0.1);
    PLANT("flops", CHECK_FAIL, a.summary.mfu_measured.number = -0.1);
    PLANT("flops", CHECK_FAIL, a.summary.mfu_measured.number = NAN);
    PLANT("memory", CHECK_FAIL, a.summary.peak_bytes.number = 1001);
    PLANT("memory", CHECK_FAIL, a.summary.peak_bytes.number = NAN);
    PLANT("memory", CHECK_PASS, a.summary.peak_bytes.number = 999);
    PLANT("memory", CHECK_FAIL, a.summary.planned_bytes.number = INFINITY);
#undef PLANT
    Account account;
    /* A run that broke off inside a phase: its time is more than that of the finished visits. */
    sound_account(&account);
    account.phases.phases[PHASE_FORWARD].total_s = 3.1;
    account.input.complete = false;
    assert_int_equal(verdict_of(&account, "phase_numbers"), CHECK_PASS);
    account.phases.phases[PHASE_FORWARD].mean_s *= 1.1;
    assert_int_equal(verdict_of(&account, "phase_numbers"), CHECK_FAIL);
}

static void test_checks__tokens_of_a_run_resumed_with_another_batch(void **state)
{
    (void)state;
    Account account;
    sound_account(&account);
    account.input.steps_before = 40;
    account.input.tokens_before = 40 * 16;
    double steps = account.summary.steps.number;
    account.summary.tokens = value_of(40 * 16 + (steps - 40) * 4 * 2 * 16 * 3);
    assert_int_equal(verdict_of(&account, "tokens"), CHECK_PASS);
    account.summary.tokens.number += 1;
    assert_int_equal(verdict_of(&account, "tokens"), CHECK_FAIL);
}

static void test_checks__missing_numbers_make_no_check(void **state)
{
    (void)state;
    Summary summary = {0};
    CheckInput input = {.batch = 4, .accum = 2, .seq = 16, .ranks = 3, .vocab = 10000};
    Checks checks;
    checks_run(&summary, &input, &checks);
    assert_int_equal(checks.count, 0);
    assert_int_equal(checks_status(&checks), 0);
    Account account;
    sound_account(&account);
    account.input.first_loss = (Value){0};
    checks_run(&account.summary, &account.input, &checks);
    assert_int_equal(checks.count, 16);
    /* Nineteen steps have no 95th percentile. */
    sound_account(&account);
    account.input.steps_before = 81;
    checks_run(&account.summary, &account.input, &checks);
    assert_null(checks_find(&checks, "step_spread"));
}

static void test_checks__failed_checks_reach_record_and_status(void **state)
{
    (void)state;
    Account account;
    sound_account(&account);
    account.summary.tokens.number = 7;
    account.input.first_loss.number = NAN;
    account.summary.mfu_measured.number = 1.02;
    Checks checks;
    checks_run(&account.summary, &account.input, &checks);
    assert_int_equal(checks_worst(&checks), CHECK_FAIL);
    assert_int_equal(checks_status(&checks), ERR_CHECK);
    assert_string_equal(err_message(), "self-check failed: tokens, first_loss, flops");
    cJSON *json = checks_json(&checks);
    assert_int_equal(cJSON_GetArraySize(json), 17);
    assert_null(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(json, 0), "subject"));
    const cJSON *tokens = cJSON_GetArrayItem(json, 0), *loss = cJSON_GetArrayItem(json, 2);
    assert_text(tokens, "name", "tokens");
    assert_text(tokens, "verdict", "fail");
    assert_true(number(tokens, "expected") == 38400);
    assert_true(number(tokens, "found") == 7);
    assert_true(cJSON_IsNull(member(loss, "found")));
    assert_text(loss, "note", "found is NaN");
    for (int i = 0; i < checks.count; i++) {
        const cJSON *item = cJSON_GetArrayItem(json, i);
        assert_text(item, "name", checks.items[i].name);
        assert_text(item, "verdict", check_verdict_name(checks.items[i].verdict));
    }
    const Check *mfu = checks_find(&checks, "mfu");
    assert_int_equal(mfu->verdict, CHECK_WARN);
    assert_non_null(strstr(mfu->rule, "the ceiling was measured while the machine was busy"));
    cJSON_Delete(json);
}

/* Whatever the numbers, a timed check warns and a counted one fails; docs/reference/metrics.md says
 * which is which. */
static void test_checks__clocks_only_warn(void **state)
{
    (void)state;
    size_t count, timed = 0;
    const CheckRow *rows = checks_rows(&count);
    char *text = NULL;
    size_t size;
    const char *path = PACER_GOLD_DIR "/../../docs/reference/metrics.md";
    assert_int_equal(io_read_all(path, 1 << 20, &text, &size), 0);
    for (size_t i = 0; i < count; i++) {
        Checks checks = {0};
        checks_put(&checks, rows[i].name, CHECK_FAIL, 1, 2, NULL);
        checks_put(&checks, rows[i].name, CHECK_PASS, 1, NAN, NULL);
        CheckVerdict worst = rows[i].kind == CHECK_TIMED ? CHECK_WARN : CHECK_FAIL;
        timed += rows[i].kind == CHECK_TIMED;
        assert_int_equal(checks.items[0].verdict, worst);
        assert_int_equal(checks.items[1].verdict, worst);
        assert_int_equal(checks_status(&checks), worst == CHECK_FAIL ? ERR_CHECK : 0);
        char row[96];
        snprintf(row, sizeof row, "\n| `%s` | %s |", rows[i].name,
                 rows[i].kind == CHECK_TIMED ? "timed" : "counted");
        if (strstr(text, row) == NULL) {
            fail_msg("docs/reference/metrics.md has no row \"%s\"", row + 1);
        }
    }
    assert_true(timed > 0 && timed < count);
    free(text);
}

/* Sixteen ranks of 8 busy seconds; rank k has GPU k of its host. */
static CheckRank *sixteen_ranks(void)
{
    CheckRank *ranks = mem_zalloc(16, sizeof *ranks);
    for (int i = 0; i < 16; i++) {
        ranks[i] = (CheckRank){.rank = i, .ranks = 16, .has_timers = true};
        snprintf(ranks[i].host, sizeof ranks[i].host, "host%d", i / 8);
        snprintf(ranks[i].device, sizeof ranks[i].device, "cuda:%d", i % 8);
        spend(&ranks[i].timers, PHASE_BACKWARD, 8, 10);
        ranks[i].timers.phases[PHASE_COMM_EXPOSED].exclusive_s = 16 - i; /* waiting is not work */
    }
    return ranks;
}

static void judge_ranks(const CheckRank *ranks, Checks *checks)
{
    Summary summary = {.train_s = value_of(30)};
    CheckInput input = {.ranks = 16};
    *checks = (Checks){0};
    checks_ranks(&summary, &input, ranks, 16, checks);
}

static void test_checks__stragglers_are_named(void **state)
{
    (void)state;
    CheckRank *ranks = sixteen_ranks();
    Checks checks;
    judge_ranks(ranks, &checks);
    assert_int_equal(checks_find(&checks, "stragglers")->verdict, CHECK_PASS);
    assert_int_equal(checks_find(&checks, "shared_device")->verdict, CHECK_PASS);
    assert_true(checks_find(&checks, "slowest_train")->expected == 24);
    ranks[9].timers.phases[PHASE_BACKWARD].exclusive_s = 8.79;
    judge_ranks(ranks, &checks);
    assert_int_equal(checks_find(&checks, "stragglers")->verdict, CHECK_PASS);
    ranks[9].timers.phases[PHASE_BACKWARD].exclusive_s = 8.81;
    judge_ranks(ranks, &checks);
    const Check *check = checks_find(&checks, "stragglers");
    assert_int_equal(check->verdict, CHECK_WARN);
    assert_string_equal(check->subject, "rank 9 on host1 cuda:1 (8.81 s)");
    assert_true(fabs(check->expected - 8.8) < 1e-9 && check->found == 8.81);
    char line[CHECK_LINE_SIZE];
    assert_string_equal(check_line(check, line),
                        "check stragglers, rank 9 on host1 cuda:1 (8.81 s): warn: 8.8 expected, "
                        "8.81 found (busy seconds of a rank, at most 1.1 x the median of all)");
    for (int i = 0; i < 7; i++) { /* the median is now 8.405 s: rank 9 lags no more */
        ranks[i].timers.phases[PHASE_BACKWARD].exclusive_s = 20;
    }
    judge_ranks(ranks, &checks);
    check = checks_find(&checks, "stragglers");
    assert_int_equal(strncmp(check->subject, "rank 0 on host0 cuda:0 (20 s), rank 1", 37), 0);
    size_t named = 0;
    for (const char *at = check->subject; (at = strstr(at, "rank ")) != NULL; at++) {
        named++;
    }
    char more[32];
    snprintf(more, sizeof more, " and %zu more", 7 - named);
    assert_string_equal(check->subject + strlen(check->subject) - strlen(more), more);
    free(ranks);
}

static void test_checks__shared_devices_are_labelled(void **state)
{
    (void)state;
    CheckRank *ranks = sixteen_ranks();
    Checks checks;
    strcpy(ranks[12].device, "cuda:0");
    judge_ranks(ranks, &checks);
    const Check *check = checks_find(&checks, "shared_device");
    assert_int_equal(check->verdict, CHECK_WARN);
    assert_true(check->expected == 16 && check->found == 15);
    assert_non_null(strstr(check->subject, "rank 8 on host1 cuda:0"));
    assert_non_null(strstr(check->subject, "rank 12 on host1 cuda:0"));
    /* The same name, but GPUs of their own. */
    strcpy(ranks[8].uuid, "0000:1B:00.0");
    strcpy(ranks[12].uuid, "0000:1C:00.0");
    judge_ranks(ranks, &checks);
    assert_int_equal(checks_find(&checks, "shared_device")->verdict, CHECK_PASS);
    /* On one host an address is one GPU; it says nothing about another host. */
    strcpy(ranks[12].uuid, "0000:1B:00.0");
    judge_ranks(ranks, &checks);
    assert_int_equal(checks_find(&checks, "shared_device")->verdict, CHECK_WARN);
    strcpy(ranks[12].host, "host9");
    judge_ranks(ranks, &checks);
    assert_int_equal(checks_find(&checks, "shared_device")->verdict, CHECK_PASS);
    free(ranks);
}

static void test_checks__throttling_says_why(void **state)
{
    (void)state;
    CheckRank *ranks = sixteen_ranks();
    Checks checks;
    ranks[3].throttled_share = value_of(0.05);
    judge_ranks(ranks, &checks);
    assert_int_equal(checks_find(&checks, "throttled")->verdict, CHECK_PASS);
    ranks[3].throttled_share = value_of(0.5);
    strcpy(ranks[3].throttle, "power cap, thermal");
    judge_ranks(ranks, &checks);
    const Check *check = checks_find(&checks, "throttled");
    assert_int_equal(check->verdict, CHECK_WARN);
    assert_string_equal(check->subject, "rank 3 on host0 cuda:3 (power cap, thermal)");
    ranks[3].throttled_share = value_of(NAN);
    judge_ranks(ranks, &checks);
    assert_int_equal(checks_find(&checks, "throttled")->verdict, CHECK_WARN);
    free(ranks);
}

static void test_checks__batch_sizes_under_one_rate_are_flagged(void **state)
{
    (void)state;
    Checks checks = {0};
    checks_confounded_rates((double[]){8, 16, 32}, (double[]){3e-4, 3e-4, 3e-4}, 3, &checks);
    assert_int_equal(checks.items[0].verdict, CHECK_WARN);
    checks_confounded_rates((double[]){8, 16, 32}, (double[]){3e-4, 6e-4, 3e-4}, 3, &checks);
    assert_int_equal(checks.items[1].verdict, CHECK_PASS);
    checks_confounded_rates((double[]){8, 8}, (double[]){3e-4, 3e-4}, 2, &checks);
    checks_confounded_rates((double[]){8}, (double[]){3e-4}, 1, &checks);
    checks_confounded_rates(NULL, NULL, 0, &checks);
    assert_int_equal(checks.count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checks__sound_account_passes),
        cmocka_unit_test(test_checks__planted_faults_are_found),
        cmocka_unit_test(test_checks__tokens_of_a_run_resumed_with_another_batch),
        cmocka_unit_test(test_checks__missing_numbers_make_no_check),
        cmocka_unit_test(test_checks__failed_checks_reach_record_and_status),
        cmocka_unit_test(test_checks__clocks_only_warn),
        cmocka_unit_test(test_checks__stragglers_are_named),
        cmocka_unit_test(test_checks__shared_devices_are_labelled),
        cmocka_unit_test(test_checks__throttling_says_why),
        cmocka_unit_test(test_checks__batch_sizes_under_one_rate_are_flagged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
