/* The description of the machine, its measured rates, and the self-checks of a run over accounts
 * that add up and accounts with one planted fault. */
#include "metrics/checks.h"
#include "metrics/machine.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "support/json_assert.h"

#include <cblas.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_metrics__machine_describes_this_one(void **state)
{
    (void)state;
    Machine machine;
    machine_describe(&machine, "v3");
    char host[256];
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_string_equal(machine.host, host);
    assert_true(machine.cores >= 1 && machine.cores <= sysconf(_SC_NPROCESSORS_CONF));
    double pages = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    assert_true(fabs(machine.memory_bytes.number - pages) < 0.01 * pages);
    assert_true(strlen(machine.cpu) > 0 && strlen(machine.kernel) > 0);
    cJSON *json = machine_json(&machine);
    assert_text(json, "simd", "v3");
    assert_true(cJSON_IsNull(member(json, "sgemm_gflops")));
    assert_true(cJSON_IsNull(member(json, "ceiling_threads")));
#if defined PACER_HAVE_ONEDNN
    assert_non_null(strstr(machine.blas, "oneDNN"));
#elif defined PACER_HAVE_OPENBLAS
    assert_non_null(strstr(machine.blas, "OpenBLAS"));
#endif
    cJSON_Delete(json);
}

/* Against a clock around the same work: agreement within a factor finds a wrong unit or formula. */
static void test_metrics__rates_have_the_right_size(void **state)
{
    (void)state;
    Machine machine;
    machine_describe(&machine, NULL);
    machine_measure(&machine, 1, 0.02);
    assert_int_equal(machine.threads, 1);
    const int n = 512;
    float *block = mem_zalloc((size_t)(3 * n * n), sizeof *block);
    double best = INFINITY;
    for (int i = 0; i < 4; i++) {
        double start = clock_seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, block, n, block + n * n,
                    n, 0, block + 2 * n * n, n);
        best = fmin(best, clock_seconds() - start);
    }
    double gflops = 2.0 * n * n * n / best / 1e9;
    assert_true(machine.sgemm_gflops.known && machine.copy_gbs.known);
    assert_true(machine.sgemm_gflops.number > gflops / 20 &&
                machine.sgemm_gflops.number < gflops * 20);
    free(block);
    size_t bytes = (size_t)64 << 20;
    char *from = mem_alloc(bytes), *to = mem_alloc(bytes);
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    double start = clock_seconds();
    memcpy(to, from, bytes);
    double gbs = 2.0 * (double)bytes / (clock_seconds() - start) / 1e9;
    assert_int_equal(to[bytes - 1], 1);
    assert_true(machine.copy_gbs.number > gbs / 20 && machine.copy_gbs.number < gbs * 20);
    free(from);
    free(to);
}

typedef struct {
    Summary summary;
    CheckInput input;
    TimerReport phases;
} Account;

/* 100 steps of 4 x 2 x 16 on 3 ranks in 8 of 10 seconds: everything adds up. */
static void sound_account(Account *account)
{
    *account = (Account){0};
    account->phases.wall_s = 10;
    account->phases.unattributed_s = 0.1;
    account->phases.phases[PHASE_FORWARD].exclusive_s = 3;
    account->phases.phases[PHASE_BACKWARD].exclusive_s = 5;
    account->phases.phases[PHASE_INIT].exclusive_s = 1.9;
    account->phases.phases[PHASE_COMM_HIDDEN].total_s = 4; /* takes no wall time */
    account->summary = (Summary){.steps = value_of(100),
                                 .tokens = value_of(38400),
                                 .tok_s = value_of(4800),
                                 .wall_s = value_of(10),
                                 .train_s = value_of(8),
                                 .mfu_measured = value_of(0.7),
                                 .peak_bytes = value_of(1000),
                                 .planned_bytes = value_of(1000),
                                 .phases = &account->phases};
    account->input = (CheckInput){.batch = 4,
                                  .accum = 2,
                                  .seq = 16,
                                  .ranks = 3,
                                  .vocab = 10000,
                                  .first_loss = value_of(9.3),
                                  .timed_tokens = value_of(38400)};
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

static void test_metrics__sound_account_passes(void **state)
{
    (void)state;
    Account account;
    sound_account(&account);
    Checks checks;
    checks_run(&account.summary, &account.input, &checks);
    assert_int_equal(checks.count, 6);
    assert_int_equal(checks_worst(&checks), CHECK_PASS);
    assert_int_equal(checks_status(&checks), 0);
    char line[CHECK_LINE_SIZE];
    assert_string_equal(check_line(&checks.items[0], line),
                        "check tokens: pass: 38400 expected, 38400 found "
                        "(tokens = steps x batch x accum x seq x ranks)");
}

static void test_metrics__planted_faults_are_found(void **state)
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
    PLANT("phases", CHECK_PASS, a.phases.phases[PHASE_INIT].exclusive_s -= 0.09);
    PLANT("phases", CHECK_FAIL, a.phases.phases[PHASE_INIT].exclusive_s -= 0.11);
    PLANT("phases", CHECK_FAIL, a.phases.phases[PHASE_EVAL].exclusive_s = 0.31);
    PLANT("phases", CHECK_FAIL, a.phases.phases[PHASE_EVAL].exclusive_s = NAN);
    PLANT("phases", CHECK_FAIL, a.summary.wall_s.number = 11);
    PLANT("mfu", CHECK_PASS, a.summary.mfu_measured.number = 1);
    PLANT("mfu", CHECK_WARN, a.summary.mfu_measured.number = 1.04);
    PLANT("mfu", CHECK_FAIL, a.summary.mfu_measured.number = 1.06);
    PLANT("mfu", CHECK_FAIL, a.summary.mfu_measured.number = -0.1);
    PLANT("mfu", CHECK_FAIL, a.summary.mfu_measured.number = NAN);
    PLANT("memory", CHECK_FAIL, a.summary.peak_bytes.number = 1001);
    PLANT("memory", CHECK_FAIL, a.summary.peak_bytes.number = NAN);
    PLANT("memory", CHECK_PASS, a.summary.peak_bytes.number = 999);
#undef PLANT
    /* A short run: 40 ms of 1 s outside the phases is a warning. */
    Account account;
    sound_account(&account);
    account.phases = (TimerReport){.wall_s = 1};
    account.phases.phases[PHASE_FORWARD].exclusive_s = 0.96;
    account.summary.wall_s = value_of(1);
    assert_int_equal(verdict_of(&account, "phases"), CHECK_WARN);
}

static void test_metrics__tokens_of_a_run_resumed_with_another_batch(void **state)
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

static void test_metrics__missing_numbers_make_no_check(void **state)
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
    assert_int_equal(checks.count, 5);
}

static void test_metrics__failed_checks_reach_record_and_status(void **state)
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
    assert_string_equal(err_message(), "self-check failed: tokens, first_loss");
    cJSON *json = checks_json(&checks);
    assert_int_equal(cJSON_GetArraySize(json), 6);
    const cJSON *tokens = cJSON_GetArrayItem(json, 0), *loss = cJSON_GetArrayItem(json, 2);
    assert_text(tokens, "name", "tokens");
    assert_text(tokens, "verdict", "fail");
    assert_true(number(tokens, "expected") == 38400);
    assert_true(number(tokens, "found") == 7);
    assert_true(cJSON_IsNull(member(loss, "found")));
    assert_text(loss, "note", "found is NaN");
    assert_text(cJSON_GetArrayItem(json, 4), "verdict", "warn");
    cJSON_Delete(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics__machine_describes_this_one),
        cmocka_unit_test(test_metrics__rates_have_the_right_size),
        cmocka_unit_test(test_metrics__sound_account_passes),
        cmocka_unit_test(test_metrics__planted_faults_are_found),
        cmocka_unit_test(test_metrics__tokens_of_a_run_resumed_with_another_batch),
        cmocka_unit_test(test_metrics__missing_numbers_make_no_check),
        cmocka_unit_test(test_metrics__failed_checks_reach_record_and_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
