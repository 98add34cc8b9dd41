/* Phase timers under a clock that the test turns: nesting, sums, quantiles, and phases left in the
 * wrong order. */
#include "record/timers.h"

#include "base/rng.h"
#include "support/json_assert.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Whether the function ends the process by abort(), as a broken contract must. */
static bool aborts(void (*function)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGABRT, SIG_DFL);
        if (freopen("/dev/null", "w", stderr) != NULL) {
            function();
        }
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#define NS INT64_C(1000000000)

static double fake_now;

static double fake_clock(void)
{
    return fake_now;
}

static void assert_seconds(double found, double expected)
{
    if (!(fabs(found - expected) < 1e-9)) {
        fail_msg("%.12g s, expected %.12g s", found, expected);
    }
}

static void test_timers__phases_nest_and_add_up(void **state)
{
    (void)state;
    Timers timers;
    TimerReport report;
    fake_now = 1000;
    timers_init(&timers, fake_clock);
    fake_now += 0.5; /* unattributed */
    timers_enter(&timers, PHASE_FORWARD);
    fake_now += 2;
    timers_enter(&timers, PHASE_LOSS);
    fake_now += 0.25;
    timers_leave(&timers, PHASE_LOSS);
    fake_now += 1;
    timers_leave(&timers, PHASE_FORWARD);
    fake_now += 0.125; /* unattributed */
    timers_enter(&timers, PHASE_FORWARD);
    fake_now += 4;
    timers_leave(&timers, PHASE_FORWARD);
    timers_report(&timers, &report);
    const PhaseReport *forward = &report.phases[PHASE_FORWARD];
    assert_seconds(report.wall_s, 7.875);
    assert_seconds(report.unattributed_s, 0.625);
    assert_seconds(forward->total_s, 7.25);
    assert_seconds(forward->exclusive_s, 7);
    assert_seconds(forward->mean_s, 3.625);
    assert_seconds(forward->max_s, 4);
    assert_seconds(forward->p50_s, 3.625); /* between 3.25 and 4 */
    assert_int_equal(forward->count, 2);
    assert_seconds(report.phases[PHASE_LOSS].total_s, 0.25);
    assert_seconds(report.phases[PHASE_LOSS].exclusive_s, 0.25);
    assert_int_equal(report.phases[PHASE_EVAL].count, 0);
    assert_true(isnan(report.phases[PHASE_EVAL].mean_s));

    /* Open phases count up to now; a phase inside itself is one visit and is not counted twice. */
    timers_enter(&timers, PHASE_EVAL);
    fake_now += 1;
    timers_enter(&timers, PHASE_EVAL);
    fake_now += 1;
    timers_leave(&timers, PHASE_EVAL);
    timers_report(&timers, &report);
    assert_seconds(report.phases[PHASE_EVAL].total_s, 2);
    assert_seconds(report.phases[PHASE_EVAL].exclusive_s, 2);
    assert_int_equal(report.phases[PHASE_EVAL].count, 0);
    timers_leave(&timers, PHASE_EVAL);
    timers_report(&timers, &report);
    assert_int_equal(report.phases[PHASE_EVAL].count, 1);
    assert_seconds(report.phases[PHASE_EVAL].total_s, 2);
    assert_seconds(report.wall_s, 9.875);
    timers_free(&timers);
    timers_free(&timers);
}

/* A random walk over enter and leave: the sums must agree to the nanosecond at every report. */
static void test_timers__any_nesting_sums_to_wall(void **state)
{
    (void)state;
    Timers timers;
    fake_now = 54321.987;
    timers_init(&timers, fake_clock);
    Phase stack[TIMERS_DEPTH];
    int depth = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        fake_now += 1e-3 * rng_uniform(1, 1, i);
        bool enter = depth == 0 || (depth < TIMERS_DEPTH && rng_below(1, 2, i, 2) == 0);
        if (enter) {
            stack[depth] = (Phase)rng_below(1, 3, i, CLOCK_COUNT);
            timers_enter(&timers, stack[depth++]);
        } else {
            timers_leave(&timers, stack[--depth]);
        }
        if (i % 97 == 0) {
            TimerReport report;
            timers_report(&timers, &report);
            int64_t sum = timers.unattributed_ns;
            for (int p = 0; p < PHASE_COUNT; p++) {
                sum += timers.phases[p].exclusive_ns;
                assert_true(report.phases[p].exclusive_s <= report.wall_s + 1e-9);
            }
            assert_int_equal(sum, llround(fake_now * 1e9) - timers.start_ns);
            assert_int_equal(sum, timers.last_ns - timers.start_ns);
        }
    }
    timers_free(&timers);
}

static void test_timers__hidden_time_takes_no_wall(void **state)
{
    (void)state;
    Timers timers;
    TimerReport report;
    fake_now = 5;
    timers_init(&timers, fake_clock);
    timers_enter(&timers, PHASE_BACKWARD);
    fake_now += 3;
    timers_add_hidden(&timers, PHASE_COMM_HIDDEN, 2.5);
    timers_leave(&timers, PHASE_BACKWARD);
    timers_report(&timers, &report);
    assert_seconds(report.phases[PHASE_COMM_HIDDEN].total_s, 2.5);
    assert_seconds(report.phases[PHASE_COMM_HIDDEN].exclusive_s, 0);
    assert_int_equal(report.phases[PHASE_COMM_HIDDEN].count, 1);
    assert_seconds(report.phases[PHASE_BACKWARD].exclusive_s, 3);
    assert_seconds(report.wall_s, 3);
    timers_free(&timers);
}

/* Visits of 1, 2, ..., n ms: quantiles are known, however many samples were dropped. */
static void test_timers__quantiles_stay_close_when_samples_are_thinned(void **state)
{
    (void)state;
    static const int counts[] = {1, 100, TIMERS_SAMPLES, TIMERS_SAMPLES + 1, 50000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int n = counts[c];
        Timers timers;
        TimerReport report;
        fake_now = 1;
        timers_init(&timers, fake_clock);
        for (int i = 1; i <= n; i++) {
            timers_enter(&timers, PHASE_LOG);
            fake_now += 1e-3 * i;
            timers_leave(&timers, PHASE_LOG);
        }
        timers_report(&timers, &report);
        const PhaseReport *log = &report.phases[PHASE_LOG];
        assert_int_equal(log->count, n);
        assert_in_range(timers.phases[PHASE_LOG].sample_count, 1, TIMERS_SAMPLES);
        double slack = n <= TIMERS_SAMPLES ? 1e-9 : 1e-3 * n * 0.002;
        const double p[] = {0.5, 0.95, 0.99}, found[] = {log->p50_s, log->p95_s, log->p99_s};
        for (int q = 0; q < 3; q++) {
            double exact = 1e-3 * (1 + p[q] * (n - 1));
            if (!(fabs(found[q] - exact) <= slack)) {
                fail_msg("n %d: p%g is %g, expected %g", n, 100 * p[q], found[q], exact);
            }
        }
        assert_true(fabs(log->max_s - 1e-3 * n) < 1e-8);
        timers_free(&timers);
    }
}

static void leave_wrong_phase(void)
{
    Timers timers;
    timers_init(&timers, NULL);
    timers_enter(&timers, PHASE_FORWARD);
    timers_leave(&timers, PHASE_BACKWARD);
}

static void leave_nothing(void)
{
    Timers timers;
    timers_init(&timers, NULL);
    timers_leave(&timers, PHASE_BACKWARD);
}

static void nest_too_deep(void)
{
    Timers timers;
    timers_init(&timers, NULL);
    for (int i = 0; i <= TIMERS_DEPTH; i++) {
        timers_enter(&timers, PHASE_FORWARD);
    }
}

static void test_timers__misnested_phases_abort(void **state)
{
    (void)state;
    assert_true(aborts(leave_wrong_phase));
    assert_true(aborts(leave_nothing));
    assert_true(aborts(nest_too_deep));
}

static void test_timers__real_clock_measures_sleep(void **state)
{
    (void)state;
    Timers timers;
    TimerReport report;
    timers_init(&timers, NULL);
    timers_enter(&timers, PHASE_DATA_LOAD);
    usleep(20000);
    timers_leave(&timers, PHASE_DATA_LOAD);
    timers_report(&timers, &report);
    assert_true(report.phases[PHASE_DATA_LOAD].exclusive_s >= 0.0199);
    assert_true(report.phases[PHASE_DATA_LOAD].exclusive_s <= report.wall_s);
    timers_free(&timers);
}

static void test_timers__timer_json_has_every_phase(void **state)
{
    (void)state;
    static const char *const names[] = {"data_load", "data_move",    "forward",     "loss",
                                        "backward",  "comm_exposed", "comm_hidden", "optimizer",
                                        "launch",    "wait",         "eval",        "checkpoint",
                                        "log",       "init",         "unattributed"};
    Timers timers;
    TimerReport report;
    fake_now = 1;
    timers_init(&timers, fake_clock);
    timers_enter(&timers, PHASE_OPTIMIZER);
    fake_now = 3;
    timers_leave(&timers, PHASE_OPTIMIZER);
    fake_now = 3.5;
    timers_report(&timers, &report);
    cJSON *json = timers_json(&report);
    assert_int_equal(cJSON_GetArraySize(json), sizeof names / sizeof *names);
    double sum = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cJSON *phase = member(json, names[i]);
        sum += number(phase, "exclusive_s");
        assert_true(number(phase, "total_s") >= 0);
        member(phase, "count");
        member(phase, "mean_s");
    }
    assert_seconds(sum, 2.5);
    assert_seconds(number(member(json, "optimizer"), "mean_s"), 2);
    assert_true(cJSON_IsNull(member(member(json, "eval"), "mean_s")));
    assert_seconds(number(member(json, "unattributed"), "total_s"), 0.5);
    cJSON_Delete(json);
    timers_free(&timers);
}

/* The device worked through the host's launching, waiting and logging: that wall time is the
 * device's, and only the rest is the host's. */
static void test_timers__device_takes_the_time_it_worked(void **state)
{
    (void)state;
    Timers timers;
    TimerReport report;
    fake_now = 100;
    timers_init(&timers, fake_clock);
    timers_follow_device(&timers);
    timers_enter(&timers, SPAN_TRAINING);
    timers_enter(&timers, PHASE_LAUNCH); /* 100 to 102 */
    fake_now = 102;
    timers_leave(&timers, PHASE_LAUNCH);
    timers_enter(&timers, PHASE_WAIT); /* 102 to 109 */
    fake_now = 109;
    timers_leave(&timers, PHASE_WAIT);
    fake_now = 110; /* in the span, in no phase */
    timers_leave(&timers, SPAN_TRAINING);
    timers_device(&timers, PHASE_FORWARD, 101 * NS, 104 * NS);
    timers_device(&timers, PHASE_BACKWARD, 104 * NS, 109 * NS + NS / 2);
    timers_report(&timers, &report);
    const PhaseReport *phases = report.phases;
    assert_seconds(phases[PHASE_LAUNCH].total_s, 2);
    assert_seconds(phases[PHASE_LAUNCH].exclusive_s, 1);
    assert_seconds(phases[PHASE_WAIT].total_s, 7);
    assert_seconds(phases[PHASE_WAIT].exclusive_s, 0);
    assert_seconds(phases[PHASE_FORWARD].exclusive_s, 3);
    assert_seconds(phases[PHASE_BACKWARD].total_s, 5.5);
    assert_seconds(phases[PHASE_BACKWARD].exclusive_s, 5.5);
    assert_seconds(phases[SPAN_TRAINING].exclusive_s, 0.5);
    assert_seconds(report.unattributed_s, 0.5);
    assert_int_equal(phases[PHASE_FORWARD].count, 1);
    timers_free(&timers);
}

/* Clocks disagree: an interval that reaches into the past that is told, or into the future,
 * keeps its length as a total but takes no wall time twice. */
static void test_timers__device_intervals_are_cut_at_the_known_past(void **state)
{
    (void)state;
    Timers timers;
    TimerReport report;
    fake_now = 10;
    timers_init(&timers, fake_clock);
    timers_follow_device(&timers);
    timers_enter(&timers, PHASE_WAIT);
    fake_now = 20;
    timers_device(&timers, PHASE_FORWARD, 8 * NS, 14 * NS);   /* from before the beginning */
    timers_device(&timers, PHASE_LOSS, 13 * NS, 15 * NS);     /* overlaps the last */
    timers_device(&timers, PHASE_BACKWARD, 18 * NS, 23 * NS); /* beyond now */
    timers_report(&timers, &report);
    assert_seconds(report.phases[PHASE_FORWARD].total_s, 6);
    assert_seconds(report.phases[PHASE_FORWARD].exclusive_s, 4);
    assert_seconds(report.phases[PHASE_LOSS].exclusive_s, 1);
    assert_seconds(report.phases[PHASE_BACKWARD].total_s, 5);
    assert_seconds(report.phases[PHASE_BACKWARD].exclusive_s, 2);
    assert_seconds(report.phases[PHASE_WAIT].exclusive_s, 3);
    assert_seconds(report.unattributed_s, 0);
    timers_free(&timers);
}

/* Random host phases with random device intervals told late: compared with a model that owns every
 * microsecond. */
static void test_timers__device_account_equals_a_model_of_each_microsecond(void **state)
{
    (void)state;
    enum { MICROSECONDS = 60000 };
    static signed char owner[MICROSECONDS];
    static const Phase device_phases[] = {PHASE_FORWARD, PHASE_LOSS, PHASE_BACKWARD};
    Timers timers;
    fake_now = 0;
    timers_init(&timers, fake_clock);
    timers_follow_device(&timers);
    int64_t now = 0, told = 0;
    for (uint64_t i = 0; now < MICROSECONDS - 200; i++) {
        bool inside = rng_below(7, 0, i, 4) != 0;
        Phase phase = (Phase)rng_below(7, 1, i, CLOCK_COUNT);
        int64_t length = 1 + (int64_t)rng_below(7, 2, i, 100);
        if (inside) {
            timers_enter(&timers, phase);
        }
        memset(owner + now, inside && phase < PHASE_COUNT ? (int)phase : -1, (size_t)length);
        now += length;
        fake_now = (double)now * 1e-6;
        if (inside) {
            timers_leave(&timers, phase);
        }
        if (rng_below(7, 3, i, 5) == 0 && told + 3 < now) { /* one interval in what is not told */
            Phase device = device_phases[rng_below(7, 4, i, 3)];
            int64_t from = told + (int64_t)rng_below(7, 5, i, (uint64_t)(now - told));
            int64_t to = from + (int64_t)rng_below(7, 6, i, (uint64_t)(now - from + 1));
            timers_device(&timers, device, from * 1000, to * 1000);
            memset(owner + from, (int)device, (size_t)(to - from));
            told = to;
        }
    }
    int64_t counted[PHASE_COUNT] = {0}, none = 0;
    for (int64_t i = 0; i < now; i++) {
        *(owner[i] >= 0 ? &counted[(int)owner[i]] : &none) += 1000;
    }
    TimerReport report;
    timers_report(&timers, &report);
    for (int p = 0; p < PHASE_COUNT; p++) {
        assert_int_equal(timers.phases[p].exclusive_ns, counted[p]);
    }
    assert_int_equal(timers.unattributed_ns, none);
    timers_free(&timers);
}

/* Results reach the host late by anything from 5 to 500 microseconds, and the device's clock
 * runs 20 ppm slow: after a few results the offset is right within what was the shortest way. */
static void test_device_clock__finds_the_offset_and_follows_drift(void **state)
{
    (void)state;
    DeviceClock clock = {0};
    int64_t worst = 0;
    for (int64_t i = 0; i < 5000; i++) {
        int64_t host = i * 1000000;
        int64_t device = 777000000000 + host - host / 50000;
        int64_t late = 5000 + (int64_t)rng_below(3, 0, (uint64_t)i, 495000);
        device_clock_learn(&clock, device, host + late);
        int64_t error = device_clock_to_host(&clock, device) - host;
        if (i > 200) {
            assert_true(error >= 0);
            worst = error > worst ? error : worst;
        }
    }
    assert_true(worst < 60000);
}

static void test_timers__spans_contain_the_phases(void **state)
{
    (void)state;
    Timers timers;
    TimerReport report;
    fake_now = 0;
    timers_init(&timers, fake_clock);
    timers_enter(&timers, PHASE_INIT);
    fake_now = 1;
    timers_leave(&timers, PHASE_INIT);
    fake_now = 1.5; /* outside */
    timers_enter(&timers, SPAN_WORKER);
    for (int epoch = 0; epoch < 2; epoch++) {
        timers_enter(&timers, SPAN_EPOCH);
        timers_enter(&timers, SPAN_TRAINING);
        timers_enter(&timers, PHASE_FORWARD);
        fake_now += 2;
        timers_leave(&timers, PHASE_FORWARD);
        fake_now += 0.25;
        timers_leave(&timers, SPAN_TRAINING);
        timers_enter(&timers, PHASE_EVAL);
        fake_now += 1;
        timers_leave(&timers, PHASE_EVAL);
        timers_leave(&timers, SPAN_EPOCH);
    }
    timers_leave(&timers, SPAN_WORKER);
    timers_report(&timers, &report);
    cJSON *json = timers_spans_json(&report);
    assert_seconds(number(member(json, "total"), "total_s"), 8);
    assert_seconds(number(member(json, "total"), "exclusive_s"), 0.5);
    assert_seconds(number(member(json, "worker"), "total_s"), 6.5);
    assert_seconds(number(member(json, "epoch"), "mean_s"), 3.25);
    assert_seconds(number(member(json, "training"), "total_s"), 4.5);
    assert_seconds(number(member(json, "training"), "exclusive_s"), 0.5);
    assert_seconds(number(member(json, "validation"), "total_s"), 2);
    assert_seconds(report.unattributed_s, 1);
    cJSON_Delete(json);
    timers_free(&timers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers__phases_nest_and_add_up),
        cmocka_unit_test(test_timers__any_nesting_sums_to_wall),
        cmocka_unit_test(test_timers__hidden_time_takes_no_wall),
        cmocka_unit_test(test_timers__quantiles_stay_close_when_samples_are_thinned),
        cmocka_unit_test(test_timers__misnested_phases_abort),
        cmocka_unit_test(test_timers__real_clock_measures_sleep),
        cmocka_unit_test(test_timers__timer_json_has_every_phase),
        cmocka_unit_test(test_timers__device_takes_the_time_it_worked),
        cmocka_unit_test(test_timers__device_intervals_are_cut_at_the_known_past),
        cmocka_unit_test(test_timers__device_account_equals_a_model_of_each_microsecond),
        cmocka_unit_test(test_timers__spans_contain_the_phases),
        cmocka_unit_test(test_device_clock__finds_the_offset_and_follows_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
