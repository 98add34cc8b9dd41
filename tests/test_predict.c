/* Links and collectives against formulas, and schedules against some worked out by hand and played
 * in small steps of time. */
#include "config/config.h"
#include "support/predict_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_predict__named_links_have_numbers(void **state)
{
    (void)state;
    assert_null(predict_link(CONFIG_LINK_NONE));
    assert_null(predict_link(CONFIG_LINK_MEASURED));
    double last = INFINITY;
    static const int by_speed[] = {CONFIG_LINK_NVLINK, CONFIG_LINK_IB400, CONFIG_LINK_PCIE,
                                   CONFIG_LINK_ETH100, CONFIG_LINK_ETH10};
    for (int i = 0; i < 5; i++) {
        const PredictLink *link = predict_link(by_speed[i]);
        assert_true(link->latency_s > 0 && link->bytes_per_s > 0 && link->bytes_per_s < last);
        last = link->bytes_per_s;
    }
}

static void test_predict__collectives_follow_the_formulas(void **state)
{
    (void)state;
    PredictNetwork n = plain_network();
    /* 4 ranks, 8 MB: the ring sends 12 MB in 6 messages; the trees would send 16. */
    assert_close(predict_all_reduce(&n, 4, 8e6), 60e-6 + 12e-3);
    assert_close(predict_reduce_scatter(&n, 4, 8e6), 30e-6 + 6e-3);
    /* 1024 ranks, 1 kB: 20 messages and 2 kB by tree, 2046 messages by ring. */
    assert_close(predict_all_reduce(&n, 1024, 1e3), 200e-6 + 2e-6);
    assert_close(predict_all_reduce(&n, 1000, 1e3), 200e-6 + 2e-6);
    assert_close(predict_reduce_scatter(&n, 1024, 1024), 1023 * 10e-6 + 1023e-9);
    assert_close(predict_all_reduce(&n, 1, 1e9), 0);
    assert_close(predict_reduce_scatter(&n, 1, 1e9), 0);
}

static void test_predict__nodes_sum_within_before_they_sum_between(void **state)
{
    (void)state;
    PredictNetwork n = plain_network();
    n.node_link = (PredictLink){"fast", 1e-6, 100e9, false};
    n.per_node = 8;
    /* 8 ranks are one node: 7/8 of the data, twice, in 14 messages. */
    assert_close(predict_all_reduce(&n, 8, 8e6), 14e-6 + 14e6 / 100e9);
    assert_close(predict_all_reduce(&n, 4, 8e6), fmin(6e-6 + 12e6 / 100e9, 4e-6 + 16e6 / 100e9));
    /* 16 are two: each rank brings an eighth across, of which a half goes each way, twice. */
    double within = 14e-6 + 14e6 / 100e9;
    assert_close(predict_all_reduce(&n, 16, 8e6), within + 20e-6 + 1e-3);
    assert_close(predict_all_reduce(&n, 9, 8e6), within + 20e-6 + 1e-3);
    assert_close(predict_reduce_scatter(&n, 16, 8e6), within / 2 + 10e-6 + 0.5e-3);
    n.link.per_node = true; /* the eight share one card */
    assert_close(predict_all_reduce(&n, 16, 8e6), within + 20e-6 + 8e-3);
}

static void test_predict__fit_finds_the_link_again(void **state)
{
    (void)state;
    PredictNetwork n = {.link = {"test", 7e-6, 3e9, false}, .per_node = 1};
    LinkPoint points[5];
    for (int i = 0; i < 5; i++) {
        points[i].bytes = 1e5 * pow(4, i);
        points[i].seconds = 6 * 7e-6 + 1.5 * points[i].bytes / 3e9; /* the ring of 4 */
    }
    PredictLink link = predict_fit(points, 5, 4);
    assert_close(link.latency_s, n.link.latency_s);
    assert_close(link.bytes_per_s, n.link.bytes_per_s);
    /* Times from which a negative latency would follow. */
    LinkPoint odd[] = {{1e3, 1e-6}, {5e3, 10e-6}};
    link = predict_fit(odd, 2, 2);
    assert_true(link.latency_s == 0 && link.bytes_per_s > 0);
    /* More bytes in less time, as on a machine that was busy at first. */
    LinkPoint busy[] = {{1e3, 90e-6}, {5e3, 40e-6}, {25e3, 30e-6}};
    link = predict_fit(busy, 3, 2);
    assert_true(link.latency_s == 0 && link.bytes_per_s > 0 && isfinite(link.bytes_per_s));
}

static void test_predict__three_messages_by_hand(void **state)
{
    (void)state;
    PredictMessage m[] = {{1, 3}, {2, 1}, {9, 4}};
    /* 1-4, 4-5, 9-13, beside a computation until 10. */
    PredictSchedule s = predict_schedule(m, 3, 10, 0);
    assert_close(s.computed_s, 10);
    assert_close(s.end_s, 13);
    assert_close(s.hidden_s, 5);
    /* At half the speed: 1-7, 7-9, from 9 a half of the last until 10, and the other 3.5 behind. */
    s = predict_schedule(m, 3, 10, 0.5);
    assert_close(s.computed_s, 10);
    assert_close(s.end_s, 13.5);
    assert_close(s.hidden_s, 4.5);
    /* Not at all until 10. */
    s = predict_schedule(m, 3, 10, 1);
    assert_close(s.computed_s, 10);
    assert_close(s.end_s, 18);
    assert_close(s.hidden_s, 0);
    /* All of it behind the computation, and nothing at all. */
    PredictMessage late[] = {{10, 1}, {10, 2}, {10, 0}};
    s = predict_schedule(late, 3, 10, 1);
    assert_close(s.computed_s, 10);
    assert_close(s.end_s, 13);
    s = predict_schedule(NULL, 0, 10, 1);
    assert_close(s.end_s, 10);
}

#define TICK 1e-4

/* The same rules, one tick after the other. */
static PredictSchedule play(const PredictMessage *m, int count, double compute_s, double contention)
{
    PredictSchedule s = {0};
    double computed = 0, sent = 0;
    int next = 0;
    while (computed < compute_s || next < count) {
        bool computing = computed < compute_s;
        bool sending = next < count && m[next].ready_s <= computed;
        s.end_s += TICK;
        if (computing) {
            computed += TICK;
            s.computed_s = s.end_s;
        }
        if (sending) {
            s.hidden_s += computing ? TICK * (1 - contention) : 0;
            sent += TICK * (computing ? 1 - contention : 1);
            if (sent >= m[next].comm_s) {
                next++;
                sent = 0;
            }
        }
    }
    return s;
}

static void test_predict__schedules_equal_those_played_in_ticks(void **state)
{
    (void)state;
    srand(5);
    for (int trial = 0; trial < 60; trial++) {
        PredictMessage m[6];
        int count = rand() % 7;
        double at = 0;
        for (int i = 0; i < count; i++) {
            at += rand() % 100 * 0.003;
            m[i] = (PredictMessage){fmin(at, 1), rand() % 100 * 0.004 + 0.001};
        }
        double contention = trial % 3 * 0.5;
        PredictSchedule a = predict_schedule(m, count, 1, contention),
                        b = play(m, count, 1, contention);
        double off = fmax(fabs(a.end_s - b.end_s), fabs(a.computed_s - b.computed_s));
        off = fmax(off, fabs(a.hidden_s - b.hidden_s));
        if (off > 20 * TICK) {
            fail_msg("trial %d: end %g, computed %g, hidden %g; played %g, %g, %g", trial, a.end_s,
                     a.computed_s, a.hidden_s, b.end_s, b.computed_s, b.hidden_s);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_predict__named_links_have_numbers),
        cmocka_unit_test(test_predict__collectives_follow_the_formulas),
        cmocka_unit_test(test_predict__nodes_sum_within_before_they_sum_between),
        cmocka_unit_test(test_predict__fit_finds_the_link_again),
        cmocka_unit_test(test_predict__three_messages_by_hand),
        cmocka_unit_test(test_predict__schedules_equal_those_played_in_ticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
