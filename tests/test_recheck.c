/* A record in which everything adds up passes when it is checked again, and with one planted
 * fault the check that is about it finds it. Damaged and hostile files are refused by name. */
#include "record/checks.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/own_folder.h"
#include "support/run_record.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Hundreds of files that are synced: better in memory. */
static int make_folder(void **state)
{
    setenv("TMPDIR", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", 0);
    return own_folder_make(state);
}

static void recheck(Checks *checks)
{
    must(recheck_dir(own_folder, checks));
}

static void print(const Checks *checks)
{
    for (int i = 0; i < checks->count; i++) {
        char line[CHECK_LINE_SIZE];
        print_message("%s\n", check_line(&checks->items[i], line));
    }
}

static const Check *find(const Checks *checks, const char *name)
{
    const Check *check = checks_find(checks, name);
    if (check == NULL) {
        print(checks);
        fail_msg("no check %s", name);
    }
    return check;
}

static void expect(const Checks *checks, const char *name, CheckVerdict verdict)
{
    if (find(checks, name)->verdict != verdict) {
        print(checks);
        fail_msg("%s is not %s", name, check_verdict_name(verdict));
    }
}

/* No verdict but these is worse than pass. */
static void expect_only(const Checks *checks, const char *const *names)
{
    for (int i = 0; i < checks->count; i++) {
        bool listed = false;
        for (int k = 0; names[k] != NULL; k++) {
            listed = listed || strcmp(checks->items[i].name, names[k]) == 0;
        }
        if (!listed && checks->items[i].verdict != CHECK_PASS) {
            print(checks);
            fail_msg("%s should pass", checks->items[i].name);
        }
    }
}

static void test_recheck__sound_records_pass(void **state)
{
    (void)state;
    static const char *const all[] = {
        "tokens",         "throughput",  "first_loss",  "phases",         "unattributed",
        "parts",          "step_times",  "step_spread", "timer_overhead", "phase_numbers",
        "step_quantiles", "mfu",         "mfu_peak",    "flops",          "memory",
        "allocated",      "memory_plan", "line_steps",  "line_tokens",    "line_rate",
        "last_line",      "line_time",   "train_loss",  "val_loss",       "best_val_loss",
        "ranks",          "rank_phases", "rank_memory", "slowest_wall",   "slowest_train",
        "throttled",      "gpu_alone",   "gpu_memory",  "stored",
    };
    for (int ranks = 1; ranks <= 4; ranks++) {
        Checks checks;
        run_record_write(own_folder, ranks);
        recheck(&checks);
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            expect(&checks, all[i], CHECK_PASS);
        }
        int more = 0;
        if (ranks > 1) {
            expect(&checks, "stragglers", CHECK_PASS);
            expect(&checks, "shared_device", CHECK_PASS);
            more = 2;
        }
        assert_int_equal(checks.count, (int)(sizeof all / sizeof all[0]) + more);
        assert_int_equal(checks_status(&checks), 0);
        assert_true(find(&checks, "tokens")->found == 100.0 * 128 * ranks);
        io_remove_tree(own_folder);
    }
}

typedef struct {
    const char *file, *path, *json; /* what is changed to what */
    const char *check;
    CheckVerdict verdict;
    const char *subject; /* part of it; NULL: any */
    const char *also;    /* another check that rightly finds it; NULL: none */
} Fault;

/* Of a record of three ranks. A changed number may break several rules: only the ones named. */
static const Fault faults[] = {
    {"run.json", "summary.tokens", "38401", "tokens", CHECK_FAIL, NULL, NULL},
    {"run.json", "summary.steps", "99", "tokens", CHECK_FAIL, NULL, "last_line"},
    {"run.json", "config.accum", "1", "tokens", CHECK_FAIL, NULL, "line_tokens"},
    {"run.json", "summary.tok_s", "4900", "throughput", CHECK_FAIL, NULL, NULL},
    {"run.json", "summary.train_s", "7", "line_time", CHECK_FAIL, NULL, "throughput"},
    {"metrics.jsonl", "1", "loss 7.5", "first_loss", CHECK_WARN, NULL, NULL},
    {"run.json", "config.vocab", "100", "first_loss", CHECK_WARN, NULL, NULL},
    {"run.json", "summary.phases.forward", NULL, "phases", CHECK_FAIL, NULL, NULL},
    {"run.json", "summary.phases.backward.exclusive_s", "4.7", "phases", CHECK_FAIL, NULL,
     "phase_numbers"},
    {"run.json", "summary.wall_s", "9", "phases", CHECK_FAIL, NULL, "parts"},
    {"run.json", "summary.phases.unattributed.exclusive_s", "0.25", "unattributed", CHECK_WARN,
     NULL, NULL},
    {"run.json", "summary.phases.eval.total_s", "0.4", "phase_numbers", CHECK_FAIL, "eval", NULL},
    {"run.json", "summary.phases.forward.count", "201", "phase_numbers", CHECK_FAIL, "forward",
     NULL},
    {"run.json", "summary.phases.forward.p50_s", "0.013", "phase_numbers", CHECK_FAIL, "forward",
     NULL},
    {"run.json", "summary.phases.forward.p99_s", "1", "phase_numbers", CHECK_FAIL, "forward", NULL},
    {"run.json", "summary.phases.forward.p95_s", NULL, "phase_numbers", CHECK_FAIL, "forward",
     NULL},
    {"run.json", "summary.init_s", "1.6", "parts", CHECK_FAIL, NULL, NULL},
    {"run.json", "summary.timer_overhead", "0.02", "timer_overhead", CHECK_WARN, NULL, NULL},
    {"run.json", "summary.timer_overhead", "-0.1", "timer_overhead", CHECK_WARN, NULL, NULL},
    {"run.json", "summary.step_p95_ms", "101", "step_spread", CHECK_WARN, NULL, NULL},
    {"run.json", "summary.step_max_ms", "79", "step_quantiles", CHECK_FAIL, NULL, NULL},
    {"run.json", "summary.mfu_measured", "1.2", "mfu", CHECK_WARN, NULL, "flops"},
    {"run.json", "summary.mfu_measured", "0.6", "flops", CHECK_FAIL, NULL, NULL},
    {"run.json", "machine.sgemm_gflops", "80", "flops", CHECK_FAIL, NULL, NULL},
    {"run.json", "summary.mfu_peak", "1.01", "mfu_peak", CHECK_WARN, NULL, NULL},
    {"run.json", "summary.peak_bytes", "1001", "memory", CHECK_FAIL, NULL, "allocated"},
    {"run.json", "summary.allocated_bytes", "999", "allocated", CHECK_FAIL, NULL, NULL},
    {"run.json", "memory_plan.1.bytes", "601", "memory_plan", CHECK_FAIL, NULL, NULL},
    {"run.json", "memory_plan.0", NULL, "memory_plan", CHECK_FAIL, NULL, NULL},
    {"metrics.jsonl", "3", "tokens 7681", "line_tokens", CHECK_FAIL, "metrics.jsonl:3", NULL},
    {"metrics.jsonl", "3", "step 10", "line_steps", CHECK_FAIL, "metrics.jsonl:3", "line_tokens"},
    {"metrics.jsonl", "4", "ms 81", "line_rate", CHECK_FAIL, "metrics.jsonl:4", NULL},
    {"metrics.jsonl", "4", "tok_s 5000", "line_rate", CHECK_FAIL, "metrics.jsonl:4", NULL},
    {"metrics.jsonl", "12", NULL, "last_line", CHECK_FAIL, NULL, NULL},
    {"metrics.jsonl", "13", "val_loss 0.05", "val_loss", CHECK_FAIL, NULL, "best_val_loss"},
    {"run.json", "summary.val_loss", "0.05", "val_loss", CHECK_FAIL, NULL, NULL},
    {"run.json", "summary.best_val_loss", "0.05", "best_val_loss", CHECK_FAIL, NULL, NULL},
    {"run.json", "summary.train_loss", "0.05", "train_loss", CHECK_FAIL, NULL, NULL},
    {"ranks/1.json", NULL, NULL, "ranks", CHECK_FAIL, "rank 1 missing", NULL},
    {"ranks/2.json", NULL, NULL, "ranks", CHECK_FAIL, "last ones missing", NULL},
    {"ranks/1.json", "ranks", "2", "ranks", CHECK_FAIL, "as rank 1 says", NULL},
    {"run.json", "config.ranks", "2", "ranks", CHECK_FAIL, NULL, "tokens"},
    {"ranks/1.json", "timers.backward", NULL, "rank_phases", CHECK_FAIL, "rank 1 on node1", NULL},
    {"ranks/2.json", "timers.eval.count", "3", "rank_phases", CHECK_FAIL, "cuda:2 (eval)", NULL},
    {"ranks/1.json", "memory.peak_bytes", "1001", "rank_memory", CHECK_FAIL,
     "rank 1 on node1 cuda:1", NULL},
    {"ranks/1.json", "memory.categories.0.planned_bytes", "401", "rank_memory", CHECK_FAIL,
     "rank 1", NULL},
    {"ranks/1.json", "memory.categories.0.peak_bytes", "399", "rank_memory", CHECK_FAIL, "rank 1",
     NULL},
    {"ranks/1.json", "wall_s", "12", "slowest_wall", CHECK_WARN, "rank 1 on node1", "rank_phases"},
    {"ranks/1.json", "timers.backward.exclusive_s", "4.8", "stragglers", CHECK_WARN,
     "rank 1 on node1 cuda:1", "rank_phases"},
    {"ranks/2.json", "uuid", "\"GPU-0000\"", "shared_device", CHECK_WARN,
     "rank 0 on node0 cuda:0, rank 2 on node0 cuda:2", NULL},
    {"ranks/2.json", "gpu.throttled_share", "0.06", "throttled", CHECK_WARN, "rank 2 on node0",
     NULL},
    {"ranks/2.json", "gpu.other_processes", "1", "gpu_alone", CHECK_WARN, "rank 2", NULL},
    {"ranks/2.json", "gpu.used_bytes.max", "2001", "gpu_memory", CHECK_WARN, "rank 2", NULL},
    {"ranks/2.json", "gpu.total_bytes", "950", "gpu_memory", CHECK_WARN, "rank 2", NULL},
    {"run.json", "summary.checks.0.verdict", "\"fail\"", "stored", CHECK_WARN,
     "tokens was fail, is pass", NULL},
    {"run.json", "summary.checks.0.name", "\"other\"", "stored", CHECK_WARN,
     "other was pass, cannot be repeated", NULL},
};

static void plant(const Fault *fault)
{
    if (fault->path == NULL) {
        char *path = io_join(own_folder, fault->file);
        assert_int_equal(unlink(path), 0);
        free(path);
    } else if (strcmp(fault->file, "metrics.jsonl") == 0) {
        char field[16] = "";
        const char *value = NULL;
        if (fault->json != NULL) {
            assert_int_equal(sscanf(fault->json, "%15s", field), 1);
            value = strchr(fault->json, ' ') + 1;
        }
        run_record_edit_line(own_folder, atol(fault->path), value != NULL ? field : NULL, value);
    } else {
        run_record_edit(own_folder, fault->file, fault->path, fault->json);
    }
}

static void test_recheck__each_planted_fault_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const Fault *fault = &faults[i];
        Checks checks;
        run_record_write(own_folder, 3);
        plant(fault);
        recheck(&checks);
        const Check *check = find(&checks, fault->check);
        if (check->verdict != fault->verdict ||
            (fault->subject != NULL && strstr(check->subject, fault->subject) == NULL)) {
            print(&checks);
            fail_msg("%s %s: %s is not %s of %s", fault->file, fault->path, fault->check,
                     check_verdict_name(fault->verdict), fault->subject);
        }
        if (fault->also != NULL) {
            expect(&checks, fault->also, CHECK_FAIL);
        } else {
            expect_only(&checks, (const char *const[]){fault->check, "stored", NULL});
        }
        io_remove_tree(own_folder);
    }
}

/* What the run said about itself is not believed. */
static void test_recheck__a_stored_pass_that_fails_now_is_a_failure(void **state)
{
    (void)state;
    Checks checks;
    run_record_write(own_folder, 1);
    run_record_edit(own_folder, "run.json", "summary.tokens", "1");
    recheck(&checks);
    const Check *stored = find(&checks, "stored");
    assert_int_equal(stored->verdict, CHECK_FAIL);
    assert_string_equal(stored->subject, "tokens was pass, is fail");
    assert_int_equal(checks_status(&checks), ERR_CHECK);
    assert_string_equal(err_message(), "self-check failed: tokens, stored");
    /* The account of a run that says itself that it failed is no lie. */
    run_record_edit(own_folder, "run.json", "summary.checks.0.verdict", "\"fail\"");
    recheck(&checks);
    expect(&checks, "tokens", CHECK_FAIL);
    expect(&checks, "stored", CHECK_PASS);
}

static void test_recheck__missing_numbers_make_no_check(void **state)
{
    (void)state;
    Checks checks;
    run_record_write(own_folder, 1);
    run_record_edit(own_folder, "run.json", "summary.mfu_measured", "null");
    run_record_edit(own_folder, "run.json", "summary.peak_bytes", NULL);
    run_record_edit(own_folder, "ranks/0.json", "gpu", "null");
    recheck(&checks);
    static const char *const gone[] = {"mfu", "flops", "memory", "throttled", "gpu_memory"};
    for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++) {
        assert_null(checks_find(&checks, gone[i]));
    }
    /* ... but a verdict without its numbers is seen. */
    expect(&checks, "stored", CHECK_WARN);
    /* A number that was measured and is none fails. */
    run_record_edit(own_folder, "run.json", "summary.note",
                    "\"wall_s is NaN, mfu_measured is NaN\"");
    recheck(&checks);
    expect(&checks, "flops", CHECK_FAIL);
    run_record_edit(own_folder, "run.json", "summary.tok_s", "1e308");
    recheck(&checks);
    expect(&checks, "throughput", CHECK_FAIL);
}

/* A session with fewer ranks than the one before, whose files pacer 0.1 left there; but a rank
 * too many of the same session is one. */
static void test_recheck__files_of_ranks_of_an_earlier_session_do_not_count(void **state)
{
    (void)state;
    Checks checks;
    run_record_write(own_folder, 4);
    char *ranks = io_join(own_folder, "ranks"), *kept = io_join(own_folder, "kept");
    assert_int_equal(rename(ranks, kept), 0);
    run_record_write(own_folder, 2);
    for (int rank = 2; rank < 4; rank++) {
        char *from = mem_format("%s/%d.json", kept, rank);
        char *to = mem_format("%s/%d.json", ranks, rank);
        assert_int_equal(rename(from, to), 0);
        free(from);
        free(to);
    }
    recheck(&checks);
    expect_only(&checks, (const char *const[]){NULL});
    assert_true(find(&checks, "ranks")->found == 2);
    run_record_edit(own_folder, "ranks/3.json", "ranks", "2");
    recheck(&checks);
    expect(&checks, "ranks", CHECK_FAIL);
    free(kept);
    free(ranks);
}

/* Sixty steps of half the batch, resumed at 30 and 60; the second resume undid one at 80. */
static void resumed_record(void)
{
    run_record_write(own_folder, 1);
    for (long line = 1; line <= 13; line++) {
        long step = line == 1 ? 1 : line <= 6 ? 10 * (line - 1) : 10 * (line - 2);
        if (line == 7 || line == 13) { /* an evaluation */
            continue;
        }
        long tokens = step <= 60 ? 64 * step : 64 * 60 + 128 * (step - 60);
        char text[32];
        snprintf(text, sizeof text, "%ld", tokens);
        run_record_edit_line(own_folder, line, "tokens", text);
        if (step <= 60) {
            run_record_edit_line(own_folder, line, "tok_s", "800");
        }
    }
    run_record_edit(own_folder, "run.json", "resumed",
                    "[{\"step\": 30}, {\"step\": 80}, {\"step\": 60}]");
    run_record_edit(own_folder, "run.json", "summary.tokens", "8960");
    run_record_edit(own_folder, "run.json", "summary.train_s", "3.2");
    run_record_edit(own_folder, "run.json", "summary.phases.backward.exclusive_s", "0");
    run_record_edit(own_folder, "run.json", "summary.phases.init.exclusive_s", "5");
    run_record_edit(own_folder, "run.json", "summary.phases.init.total_s", "5");
    run_record_edit(own_folder, "run.json", "summary.phases.init.mean_s", "5");
    run_record_edit(own_folder, "run.json", "summary.phases.init.max_s", "5");
    run_record_edit(own_folder, "ranks/0.json", "timers.backward.exclusive_s", "0");
    run_record_edit(own_folder, "ranks/0.json", "timers.forward.exclusive_s", "1.5");
    run_record_edit(own_folder, "ranks/0.json", "timers.init.exclusive_s", "6");
    run_record_edit(own_folder, "ranks/0.json", "timers.init.total_s", "6");
    run_record_edit(own_folder, "ranks/0.json", "timers.init.mean_s", "6");
    run_record_edit(own_folder, "ranks/0.json", "timers.init.max_s", "6");
}

static void test_recheck__sessions_with_other_batches(void **state)
{
    (void)state;
    Checks checks;
    resumed_record();
    recheck(&checks);
    expect_only(&checks, (const char *const[]){NULL});
    assert_true(find(&checks, "throughput")->expected == 40 * 128);
    run_record_edit(own_folder, "run.json", "summary.tokens", "8961");
    run_record_edit_line(own_folder, 3, "tokens", "1281");
    recheck(&checks);
    expect(&checks, "tokens", CHECK_FAIL);
    expect(&checks, "line_tokens", CHECK_FAIL);
    assert_string_equal(find(&checks, "line_tokens")->subject, "metrics.jsonl:3");
    /* A run that went on from another one's checkpoint has no lines from before. */
    resumed_record();
    for (int i = 0; i < 8; i++) {
        run_record_edit_line(own_folder, 1, NULL, NULL);
    }
    recheck(&checks);
    expect(&checks, "tokens", CHECK_PASS);
    expect(&checks, "line_tokens", CHECK_PASS);
    assert_null(checks_find(&checks, "first_loss"));
    run_record_edit(own_folder, "run.json", "summary.tokens", "8959");
    recheck(&checks);
    expect(&checks, "tokens", CHECK_FAIL);
}

static void test_recheck__runs_that_did_not_end(void **state)
{
    (void)state;
    Checks checks;
    run_record_write(own_folder, 2);
    run_record_edit(own_folder, "run.json", "status", "\"stopped\"");
    run_record_edit(own_folder, "run.json", "summary.steps", "103");
    run_record_edit(own_folder, "run.json", "summary.tokens", "26368");
    recheck(&checks);
    expect(&checks, "last_line", CHECK_PASS);
    expect(&checks, "tokens", CHECK_PASS);
    /* Killed: no summary, a torn line. */
    run_record_edit(own_folder, "run.json", "status", "\"running\"");
    recheck(&checks); /* the ranks' files are those of the session before */
    expect(&checks, "tokens", CHECK_PASS);
    assert_null(checks_find(&checks, "ranks"));
    run_record_edit(own_folder, "run.json", "summary", NULL);
    char *path = io_join(own_folder, "metrics.jsonl");
    FILE *file = fopen(path, "a");
    fputs("{\"step\":110,\"tok", file);
    fclose(file);
    free(path);
    recheck(&checks);
    assert_int_equal(checks_worst(&checks), CHECK_PASS);
    expect(&checks, "line_tokens", CHECK_PASS);
    assert_null(checks_find(&checks, "ranks"));
    assert_null(checks_find(&checks, "tokens"));
}

static void test_recheck__damaged_records_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *file, *path, *json, *says;
    } bad[] = {
        {"run.json", "schema", "2",
         "run.json: written by a newer pacer: \"schema\" 2, this one reads"},
        {"run.json", "schema", "0", "run.json: \"schema\""},
        {"run.json", "schema", "\"1\"", "run.json: \"schema\""},
        {"run.json", "status", "\"fine\"", "run.json: \"status\""},
        {"run.json", "status", "3", "run.json: \"status\" is not text"},
        {"run.json", "config", "[]", "run.json: \"config\" is not an object"},
        {"run.json", "config.batch", "\"4\"", "run.json: \"config.batch\" is not a number"},
        {"run.json", "config.batch", "1e300", "run.json: \"config.batch\" is not a whole"},
        {"run.json", "config.seq", "-1", "run.json: \"config.seq\" is not a whole"},
        {"run.json", "config.accum", "1.5", "run.json: \"config.accum\" is not a whole"},
        {"run.json", "resumed", "{}", "run.json: \"resumed\" is not an array"},
        {"run.json", "resumed", "[7]", "run.json: \"resumed.step\""},
        {"run.json", "memory_plan.0.bytes", "\"1\"", "run.json: \"memory_plan.bytes\""},
        {"run.json", "summary", NULL, "run.json: \"summary\""},
        {"run.json", "summary.wall_s", "\"10\"", "run.json: \"summary.wall_s\" is not a number"},
        {"run.json", "summary.phases.forward", "3", "run.json: \"summary.phases.forward\""},
        {"run.json", "summary.phases.forward.count", "1e99",
         "run.json: \"summary.phases.forward.count\""},
        {"run.json", "summary.checks.0.verdict", "\"good\"", "run.json: \"summary.checks.verdict"},
        {"ranks/0.json", "rank", "1", "ranks/0.json: \"rank\""},
        {"ranks/0.json", "ranks", "0", "ranks/0.json: \"ranks\""},
        {"ranks/0.json", "timers.loss.p50_s", "true", "ranks/0.json: \"timers.loss.p50_s\""},
        {"ranks/0.json", "gpu.used_bytes", "5", "ranks/0.json: \"gpu.used_bytes\""},
    };
    Checks checks;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        run_record_write(own_folder, 1);
        run_record_edit(own_folder, bad[i].file, bad[i].path, bad[i].json);
        int code = recheck_dir(own_folder, &checks);
        if (code != ERR_INPUT || strstr(err_message(), bad[i].says) == NULL) {
            fail_msg("%s = %s: %d, %s", bad[i].path, bad[i].json, code, err_message());
        }
        assert_int_equal(checks.count, 0);
    }
    run_record_write(own_folder, 1);
    run_record_edit_line(own_folder, 5, "ms", "\"fast\"");
    assert_int_equal(recheck_dir(own_folder, &checks), ERR_INPUT);
    assert_non_null(strstr(err_message(), "metrics.jsonl:5: \"ms\" is not a number"));
    char *path = io_join(own_folder, "metrics.jsonl");
    assert_int_equal(io_write_atomic(path, "{}\n", 3), 0);
    assert_int_equal(recheck_dir(own_folder, &checks), ERR_INPUT);
    assert_int_equal(io_write_atomic(path, "torn\n{\"step\":1}\n", 16), 0);
    assert_int_equal(recheck_dir(own_folder, &checks), ERR_INPUT);
    assert_non_null(strstr(err_message(), "metrics.jsonl:1"));
    free(path);
    assert_int_equal(recheck_dir("/no/such/run", &checks), ERR_INPUT);
    assert_non_null(strstr(err_message(), "/no/such/run/run.json"));
}

/* Counts that no memory or loop could follow, and names that would upset a terminal. */
static void test_recheck__hostile_values_do_no_harm(void **state)
{
    (void)state;
    Checks checks;
    run_record_write(own_folder, 2);
    run_record_edit(own_folder, "run.json", "config.ranks", "1000000000000000");
    run_record_edit(own_folder, "run.json", "config.batch", "1000000000000000");
    run_record_edit(own_folder, "run.json", "summary.steps", "-1e308");
    run_record_edit(own_folder, "run.json", "resumed", "[{\"step\": 1000000000000000}]");
    run_record_edit(own_folder, "ranks/0.json", "host", "\"a\\u001b[31m\\nb\"");
    recheck(&checks);
    expect(&checks, "ranks", CHECK_FAIL);
    assert_non_null(strstr(find(&checks, "slowest_wall")->subject, "a?[31m?b"));
    run_record_edit(own_folder, "ranks/0.json", "ranks", "999999999999999");
    run_record_edit(own_folder, "ranks/0.json", "timers",
                    "{\"forward\": {\"exclusive_s\": 1e308}}");
    recheck(&checks);
    assert_int_equal(checks_worst(&checks), CHECK_FAIL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_folder, own_folder_remove)
    const struct CMUnitTest tests[] = {
        CASE(test_recheck__sound_records_pass),
        CASE(test_recheck__each_planted_fault_is_found),
        CASE(test_recheck__a_stored_pass_that_fails_now_is_a_failure),
        CASE(test_recheck__missing_numbers_make_no_check),
        CASE(test_recheck__files_of_ranks_of_an_earlier_session_do_not_count),
        CASE(test_recheck__sessions_with_other_batches),
        CASE(test_recheck__runs_that_did_not_end),
        CASE(test_recheck__damaged_records_are_refused_by_name),
        CASE(test_recheck__hostile_values_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
