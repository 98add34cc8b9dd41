/* Predictions against formulas and schedules worked out by hand, and against a schedule played
 * in small steps of time. */
#include "analyse/predict.h"

#include "base/mem.h"
#include "config/config.h"
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_close(a, b) check_close((a), (b), #a, __LINE__)

static void check_close(double a, double b, const char *what, int line)
{
    if (!(fabs(a - b) <= 1e-12 + 1e-9 * fabs(b))) {
        fail_msg("line %d: %s is %.12g, not %.12g", line, what, a, b);
    }
}

/* Latency 10 us, 1 GB/s, between ranks that are nodes of their own. */
static PredictNetwork plain_network(void)
{
    return (PredictNetwork){.link = {"test", 10e-6, 1e9, false}, .per_node = 1};
}

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

/* A small model of three layers, whose times are made up: 2 ms a layer, 1 ms before and behind
 * them. */
typedef struct {
    Model model;
    PredictModel predict;
} Small;

static void small_open(Small *s, DdpKind kind)
{
    ModelSpec spec = {.name = "small",
                      .layers = 3,
                      .width = 64,
                      .heads = 4,
                      .kv_heads = 4,
                      .head_dim = 16,
                      .ffn = 256,
                      .vocab = 1000,
                      .context = 32,
                      .learned_positions = true,
                      .bias = true};
    memset(s, 0, sizeof *s);
    model_init(&s->model, &spec, DT_F32, 1);
    s->predict = (PredictModel){.table = &s->model.params,
                                .ddp = {.kind = kind},
                                .wire = DT_F32,
                                .weights = DT_F32,
                                .tokens = 100,
                                .network = plain_network(),
                                .times = {.micro_s = 15e-3,
                                          .before_s = 7e-3,
                                          .backward_s = 8e-3,
                                          .update_s = 2e-3,
                                          .ready_count = 4}};
    PredictReady *ready = mem_zalloc(4, sizeof *ready);
    ready[0].from = s->model.params.rows[s->model.row_head].offset;
    for (int i = 1; i < 4; i++) {
        int row = params_first_decayed(&s->model.params, 3 - i);
        ready[i] = (PredictReady){s->model.params.rows[row].offset, 1e-3 + 2e-3 * i};
    }
    s->predict.times.ready = ready;
}

static void small_close(Small *s)
{
    predict_times_free(&s->predict.times);
    model_free(&s->model);
}

#define STEP 17e-3 /* before, backward and update */

static void test_predict__one_rank_is_the_measured_one(void **state)
{
    (void)state;
    for (int kind = DDP_NAIVE; kind < DDP_COUNT; kind++) {
        Small s;
        small_open(&s, (DdpKind)kind);
        Prediction p = predict_step(&s.predict, 1, 3, 3);
        assert_close(p.step_s, 2 * 15e-3 + STEP);
        assert_close(p.tokens_per_s, 300 / (2 * 15e-3 + STEP));
        assert_close(p.efficiency, 1);
        assert_true(p.exposed_s == 0 && p.hidden_s == 0);
        small_close(&s);
    }
}

static void test_predict__an_infinitely_fast_link_is_never_waited_for(void **state)
{
    (void)state;
    for (int kind = DDP_NAIVE; kind < DDP_COUNT; kind++) {
        Small s;
        small_open(&s, (DdpKind)kind);
        s.predict.network.link = (PredictLink){"ideal", 0, INFINITY, false};
        Prediction p = predict_step(&s.predict, 64, 1, 1);
        assert_close(p.exposed_s, 0);
        if (kind >= DDP_ZERO1) { /* less to update */
            assert_true(p.step_s < STEP && p.step_s > STEP - 2e-3 && p.efficiency > 1);
        } else {
            assert_close(p.step_s, STEP);
            assert_close(p.efficiency, 1);
        }
        small_close(&s);
    }
}

static void test_predict__flat_adds_one_all_reduce(void **state)
{
    (void)state;
    Small s;
    small_open(&s, DDP_FLAT);
    double bytes = 4.0 * (double)s.model.params.flat;
    double comm = 2 * 10e-6 * 7 + 1.75 * bytes / 1e9; /* the ring of 8 */
    double loss = 6 * 10e-6 + 2 * 4 / 1e9;            /* the trees; hidden */
    Prediction p = predict_step(&s.predict, 8, 1, 1);
    assert_close(p.step_s, STEP + comm);
    assert_close(p.exposed_s, comm);
    assert_close(p.hidden_s, loss);
    assert_close(p.efficiency, STEP / (STEP + comm));
    /* Once per update, however many micro-steps there are. */
    Prediction four = predict_step(&s.predict, 8, 4, 4);
    assert_close(four.step_s, p.step_s + 3 * 15e-3);
    assert_close(four.exposed_s, p.exposed_s);
    /* Half of the bytes, and a pass over the gradients before and behind. */
    s.predict.wire = DT_BF16;
    s.predict.times.cast_s = 0.5e-3;
    comm = 2 * 10e-6 * 7 + 1.75 * bytes / 2 / 1e9;
    p = predict_step(&s.predict, 8, 1, 1);
    assert_close(p.exposed_s, comm);
    assert_close(p.step_s, STEP + comm + 1e-3);
    small_close(&s);
}

static void test_predict__naive_adds_one_per_parameter(void **state)
{
    (void)state;
    Small s;
    small_open(&s, DDP_NAIVE);
    double comm = 0;
    for (int i = 0; i < s.model.params.count; i++) {
        comm +=
            predict_all_reduce(&s.predict.network, 8, 4.0 * (double)s.model.params.rows[i].count);
    }
    Prediction p = predict_step(&s.predict, 8, 1, 1);
    assert_close(p.exposed_s, comm);
    assert_close(p.step_s, STEP + comm);
    small_close(&s);
}

/* Each of head, layers, embeddings, norms and biases a bucket of its own, ready at 0, 3, 5, 7,
 * 8, 8 ms. */
static void test_predict__overlap_sends_what_is_ready(void **state)
{
    (void)state;
    Small s;
    small_open(&s, DDP_OVERLAP);
    const ParamTable *table = &s.model.params;
    int64_t layer = 64 * 64 * 4 + 2 * 64 * 256; /* of matrices */
    int64_t counts[] = {1000 * 64, layer, layer, layer, 1032 * 64, table->flat - table->decayed};
    double ready[] = {0, 3e-3, 5e-3, 7e-3, 8e-3, 8e-3};
    for (int gbs = 1; gbs <= 1000; gbs *= 10) {
        s.predict.network.link.bytes_per_s = 1e8 * gbs;
        double end = 6 * 10e-6 + 8 / (1e8 * gbs), busy = end; /* the loss */
        for (int i = 0; i < 6; i++) {
            double comm = predict_all_reduce(&s.predict.network, 8, 4.0 * (double)counts[i]);
            end = fmax(end, ready[i]) + comm;
            busy += comm;
        }
        Prediction p = predict_step(&s.predict, 8, 1, 1);
        assert_close(p.exposed_s, end - 8e-3);
        assert_close(p.step_s, STEP + end - 8e-3);
        assert_close(p.hidden_s, busy - p.exposed_s);
    }
    small_close(&s);
}

static void test_predict__zero1_updates_a_part_and_gathers(void **state)
{
    (void)state;
    Small s;
    small_open(&s, DDP_ZERO1);
    s.predict.ddp.bucket_bytes = 1000000000; /* all that decays; the rest */
    const ParamTable *table = &s.model.params;
    int64_t sizes[] = {table->decayed, table->flat - table->decayed};
    double end = predict_all_reduce(&s.predict.network, 8, 4), gather = end, kept = 0;
    end = fmax(end, 8e-3);
    for (int i = 0; i < 2; i++) {
        int64_t part = sizes[i] / (8 * 64) * 64, rest = sizes[i] - 8 * part;
        double ring = 7 * 10e-6 + 7 * 4.0 * (double)part / 1e9;
        end +=
            ring + (rest > 0 ? predict_all_reduce(&s.predict.network, 8, 4.0 * (double)rest) : 0);
        gather += ring;
        kept += (double)(part + rest);
    }
    Prediction p = predict_step(&s.predict, 8, 1, 1);
    assert_close(p.exposed_s, end - 8e-3 + gather);
    assert_close(p.step_s, 7e-3 + end + 2e-3 * kept / (double)table->flat + gather);
    s.predict.weights = DT_BF16;
    assert_true(predict_step(&s.predict, 8, 1, 1).step_s < p.step_s);
    small_close(&s);
}

/* Weights come back in the order of the forward pass, each bucket before it is needed or waited
 * for: played here bucket by bucket, with the clock of the computation and that of the link. */
static void test_predict__zero1_gathers_beside_the_forward_pass(void **state)
{
    (void)state;
    Small s;
    small_open(&s, DDP_ZERO1);
    const ParamTable *table = &s.model.params;
    PredictReady *needed = mem_zalloc(4, sizeof *needed);
    int64_t end[5] = {0}, offset[5] = {0};
    for (int i = 0; i < 3; i++) {
        offset[i + 1] = table->rows[params_first_decayed(table, i)].offset;
        needed[i] = (PredictReady){offset[i + 1], 0.1e-3 + 0.2e-3 * i};
    }
    offset[4] = table->rows[s.model.row_head].offset;
    needed[3] = (PredictReady){offset[4], 0.7e-3};
    s.predict.times.needed = needed;
    s.predict.times.needed_count = 4;
    for (int i = 0; i < 5; i++) { /* embeddings, three layers, head */
        end[i] = i < 4 ? offset[i + 1] : table->decayed;
    }
    for (int slow = 0; slow < 3; slow++) { /* what is hidden: nearly all, some, little */
        s.predict.network.link.bytes_per_s = slow == 0 ? 1e10 : slow == 1 ? 1e9 : 3e7;
        s.predict.network.link.latency_s = slow == 0 ? 1e-6 : 10e-6;
        double latency = s.predict.network.link.latency_s,
               rate = s.predict.network.link.bytes_per_s;
        double now = 0, link = 0, stalled = 0, busy = 0;
        for (int i = -1; i < 5; i++) { /* norms and biases go first */
            int64_t count = i < 0 ? table->flat - table->decayed : end[i] - offset[i];
            int64_t part = count / (8 * 64) * 64;
            double lasts = part > 0 ? 7 * latency + 7 * 4.0 * (double)part / rate : 0;
            link += lasts;
            busy += lasts;
            now = i < 1                                ? now
                  : now - stalled < needed[i - 1].at_s ? needed[i - 1].at_s + stalled
                                                       : now;
            if (link > now) {
                stalled += link - now;
                now = link;
            }
        }
        s.predict.times.needed_count = 0; /* all is needed at once, and waited for */
        Prediction all = predict_step(&s.predict, 8, 1, 1);
        s.predict.times.needed_count = 4;
        Prediction p = predict_step(&s.predict, 8, 1, 1);
        assert_close(all.exposed_s - p.exposed_s, busy - stalled);
        assert_close(all.step_s - p.step_s, busy - stalled);
        assert_close(p.hidden_s - all.hidden_s, busy - stalled);
        assert_true(stalled > 0 && stalled < busy);
        s.predict.contention = 1; /* nothing gets on beside the computation */
        assert_true(predict_step(&s.predict, 8, 1, 1).step_s >= all.step_s - 1e-12);
        s.predict.contention = 0;
    }
    small_close(&s);
}

/* But for sharded state, where more ranks mean a smaller update. */
static void test_predict__slower_links_and_more_ranks_take_longer(void **state)
{
    (void)state;
    for (int kind = DDP_NAIVE; kind < DDP_COUNT; kind++) {
        Small s;
        small_open(&s, (DdpKind)kind);
        for (int trial = 0; trial < (kind >= DDP_ZERO1 ? 2 : 3); trial++) {
            double last = 0;
            for (int i = 0; i < 12; i++) {
                s.predict.network.link.bytes_per_s = trial == 0 ? 1e11 / pow(3, i) : 1e9;
                s.predict.network.link.latency_s = trial == 1 ? 1e-7 * pow(3, i) : 10e-6;
                s.predict.contention = 0;
                Prediction p = predict_step(&s.predict, trial == 2 ? 2 << i : 64, 1, 1);
                assert_true(p.step_s >= last && p.exposed_s >= 0 && p.hidden_s >= 0);
                last = p.step_s;
                s.predict.contention = 1;
                assert_true(predict_step(&s.predict, p.ranks, 1, 1).step_s >= p.step_s - 1e-12);
            }
        }
        small_close(&s);
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
        cmocka_unit_test(test_predict__one_rank_is_the_measured_one),
        cmocka_unit_test(test_predict__an_infinitely_fast_link_is_never_waited_for),
        cmocka_unit_test(test_predict__flat_adds_one_all_reduce),
        cmocka_unit_test(test_predict__naive_adds_one_per_parameter),
        cmocka_unit_test(test_predict__overlap_sends_what_is_ready),
        cmocka_unit_test(test_predict__zero1_updates_a_part_and_gathers),
        cmocka_unit_test(test_predict__zero1_gathers_beside_the_forward_pass),
        cmocka_unit_test(test_predict__slower_links_and_more_ranks_take_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
