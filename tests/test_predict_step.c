/* Predictions of whole steps: a small model's, against sums and schedules worked out by hand. */
#include "base/mem.h"
#include "model/model.h"
#include "support/predict_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A small model of three layers, whose times are made up: 2 ms a layer, 1 ms before and behind
 * them. */
typedef struct {
    Model model;
    PredictModel predict;
} Small;

static void small_open_in(Small *s, DdpKind kind, DType dtype)
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
    model_init(&s->model, &spec, dtype, 1);
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

static void small_open(Small *s, DdpKind kind)
{
    small_open_in(s, kind, DT_F32);
}

static void small_close(Small *s)
{
    predict_times_free(&s->predict.times);
    model_free(&s->model);
}

#define STEP 17e-3 /* before, backward and update */

static void test_predict_step__one_rank_is_the_measured_one(void **state)
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

static void test_predict_step__an_infinitely_fast_link_is_never_waited_for(void **state)
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

static void test_predict_step__flat_adds_one_all_reduce(void **state)
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

static void test_predict_step__naive_adds_one_per_parameter(void **state)
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
static void test_predict_step__overlap_sends_what_is_ready(void **state)
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

static void test_predict_step__zero1_updates_a_part_and_gathers(void **state)
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
static void test_predict_step__zero1_gathers_beside_the_forward_pass(void **state)
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
        s.predict.at_once = true;
        assert_true(predict_step(&s.predict, 8, 1, 1).step_s == all.step_s);
        s.predict.at_once = false;
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

/* What a step of the small model does where each of its parts is a bucket: 0 head, 1 to 3 layers
 * from the last to the first, 4 embeddings, 5 norms and biases. Layers 3 and 1 share a room, head
 * and embeddings another. Played with a clock for the computation and one for the link, which
 * carries one message after the other. */
typedef enum { GATHER, GATHERED, SUM, SUMMED, LOSS, COMPUTE, ALL } Action;
typedef struct {
    Action action;
    int of; /* bucket; COMPUTE: tenths of a millisecond */
} Played;

/* Weights come for the bucket that is needed and the next one, but where rooms have them. Of the
 * first micro-step, and of one behind another. */
static const Played first_forward[] = {
    {GATHER, 5}, {GATHERED, 5}, {GATHER, 4},  {GATHER, 3},   {GATHERED, 4}, {COMPUTE, 1},
    {GATHER, 2}, {GATHERED, 3}, {COMPUTE, 2}, {GATHER, 1},   {GATHERED, 2}, {COMPUTE, 2},
    {GATHER, 0}, {GATHERED, 1}, {COMPUTE, 2}, {GATHERED, 0}, {COMPUTE, 63}};
static const Played next_forward[] = {{GATHER, 4},  {GATHERED, 4}, {COMPUTE, 1}, {COMPUTE, 2},
                                      {GATHER, 1},  {COMPUTE, 2},  {GATHER, 0},  {GATHERED, 1},
                                      {COMPUTE, 2}, {GATHERED, 0}, {COMPUTE, 63}};
/* zero2's, which waits for all weights of the step before where it needs them. */
static const Played early_forward[] = {
    {GATHER, 5},   {GATHER, 4},   {GATHER, 3},  {GATHER, 2},   {GATHER, 1},  {GATHER, 0},
    {GATHERED, 5}, {GATHERED, 4}, {COMPUTE, 1}, {GATHERED, 3}, {COMPUTE, 2}, {GATHERED, 2},
    {COMPUTE, 2},  {GATHERED, 1}, {COMPUTE, 2}, {GATHERED, 0}, {COMPUTE, 63}};
static const Played whole_forward[] = {{COMPUTE, 70}};
static const Played loss[] = {{LOSS, 0}};
static const Played roomy_back[] = {{SUM, 0},      {COMPUTE, 30}, {SUM, 1},    {GATHER, 3},
                                    {COMPUTE, 20}, {SUM, 2},      {SUMMED, 1}, {GATHERED, 3},
                                    {COMPUTE, 20}, {SUM, 3},      {SUMMED, 0}, {COMPUTE, 10},
                                    {SUM, 4},      {SUM, 5},      {ALL, 0}};
static const Played whole_back[] = {
    {SUM, 0}, {COMPUTE, 30}, {SUM, 1},      {COMPUTE, 20}, {SUM, 2}, {SUMMED, 1}, {COMPUTE, 20},
    {SUM, 3}, {SUMMED, 0},   {COMPUTE, 10}, {SUM, 4},      {SUM, 5}, {ALL, 0}};

typedef struct {
    double gather[6], sum[6], loss; /* how long each takes */
    double now, link, exposed, busy, gathered[6], summed[6];
} Player;

static void wait_until(Player *p, double when)
{
    p->exposed += fmax(when - p->now, 0);
    p->now = fmax(when, p->now);
}

static double carry(Player *p, double seconds)
{
    p->busy += seconds;
    return p->link = fmax(p->link, p->now) + seconds;
}

static void play_actions(Player *p, const Played *actions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int of = actions[i].of;
        switch (actions[i].action) {
        case GATHER:
            p->gathered[of] = carry(p, p->gather[of]);
            break;
        case GATHERED:
            wait_until(p, p->gathered[of]);
            break;
        case SUM:
            p->summed[of] = carry(p, p->sum[of]);
            break;
        case SUMMED:
            wait_until(p, p->summed[of]);
            break;
        case LOSS:
            carry(p, p->loss);
            break;
        case COMPUTE:
            p->now += of * 1e-4;
            break;
        case ALL:
            wait_until(p, p->link);
            break;
        }
    }
}

#define PLAY(player, actions) play_actions(player, actions, sizeof actions / sizeof actions[0])

/* The small model in buckets of one part each; needed: when a forward pass reads each. */
static void small_open_roomy(Small *s, DdpKind kind, DType dtype)
{
    small_open_in(s, kind, dtype);
    const ParamTable *table = &s->model.params;
    PredictReady *needed = mem_zalloc(4, sizeof *needed);
    for (int i = 0; i < 3; i++) {
        int row = params_first_decayed(table, i);
        needed[i] = (PredictReady){table->rows[row].offset, 0.1e-3 + 0.2e-3 * i};
    }
    needed[3] = (PredictReady){table->rows[s->model.row_head].offset, 0.7e-3};
    s->predict.times.needed = needed;
    s->predict.times.needed_count = 4;
}

static Player player_of(const Small *s, int ranks)
{
    const ParamTable *table = &s->model.params;
    const PredictNetwork *network = &s->predict.network;
    int64_t layer = 64 * 64 * 4 + 2 * 64 * 256; /* of matrices */
    int64_t vocab = s->model.vocab_rows * 64, others = table->flat - table->decayed;
    int64_t counts[] = {vocab, layer, layer, layer, vocab + 32 * 64, others};
    Player p = {.loss = predict_all_reduce(network, ranks, 4)};
    for (int i = 0; i < 6; i++) {
        int64_t parts = counts[i] / (ranks * 64) * 64 * ranks, rest = counts[i] - parts;
        bool coded = s->predict.ddp.codes && i < 4;
        double weights = (double)(coded ? 1 : dtype_size(s->predict.weights)) * (double)parts;
        double wire = (double)dtype_size(s->predict.wire);
        p.gather[i] = parts > 0 ? predict_reduce_scatter(network, ranks, weights) : 0;
        p.sum[i] = parts > 0 ? predict_reduce_scatter(network, ranks, wire * (double)parts) : 0;
        p.sum[i] += rest > 0 ? predict_all_reduce(network, ranks, wire * (double)rest) : 0;
    }
    return p;
}

/* From a link that nearly hides all to one that everything waits for; weights in f32 and bf16, and
 * in bf16 but for linear maps, whose codes travel. */
static void test_predict_step__zero2_and_zero3_as_played(void **state)
{
    (void)state;
    for (int trial = 0; trial < 2 * 3 * 5; trial++) {
        bool cuts_weights = trial % 2 != 0, low = trial / 2 % 3 != 0, codes = trial / 2 % 3 == 2;
        Small s;
        small_open_roomy(&s, cuts_weights ? DDP_ZERO3 : DDP_ZERO2, codes ? DT_E4M3 : DT_F32);
        s.predict.ddp.codes = codes && cuts_weights;
        s.predict.network.link.bytes_per_s = 1e11 / pow(10, trial / 6);
        s.predict.weights = low ? DT_BF16 : DT_F32;
        s.predict.wire = low ? DT_BF16 : DT_F32;
        for (int accum = 1; accum <= 3; accum += 2) {
            Player p = player_of(&s, 8);
            double norm = p.loss, computed = 0;
            for (int micro = 0; micro < accum; micro++) {
                if (cuts_weights && micro == 0) {
                    PLAY(&p, first_forward);
                } else if (cuts_weights) {
                    PLAY(&p, next_forward);
                } else if (micro == 0) {
                    PLAY(&p, early_forward);
                } else {
                    PLAY(&p, whole_forward);
                }
                if (micro + 1 == accum) {
                    PLAY(&p, loss);
                }
                if (cuts_weights) {
                    PLAY(&p, roomy_back);
                } else {
                    PLAY(&p, whole_back);
                }
                computed += 15e-3;
            }
            Prediction found = predict_step(&s.predict, 8, accum, accum);
            assert_close(found.exposed_s, p.exposed + norm);
            assert_close(found.hidden_s, p.busy - p.exposed);
            assert_close(p.now, computed + p.exposed);
            assert_true(found.step_s > p.now + norm && found.step_s < p.now + norm + 2e-3);
            s.predict.contention = 1;
            found = predict_step(&s.predict, 8, accum, accum);
            assert_close(found.exposed_s, p.busy + norm);
            s.predict.contention = 0;
        }
        small_close(&s);
    }
}

/* Layers that all take the same: three of them tell of seven. */
static void test_predict_step__layers_that_were_not_measured_are_like_the_others(void **state)
{
    (void)state;
    LayerTimes t = {.layers = 3,
                    .micro_s = 10e-3 + 3 * 6e-3,
                    .before_s = 5e-3 + 3 * 2e-3,
                    .backward_s = 3e-3 + 3 * 4e-3,
                    .cast_s = 1e-3,
                    .update_s = 6e-3};
    t.begins = mem_zalloc(4, sizeof *t.begins);
    t.ends = mem_zalloc(3, sizeof *t.ends);
    for (int i = 0; i < 4; i++) {
        t.begins[i] = 0.5e-3 + 2e-3 * i;
    }
    for (int i = 0; i < 3; i++) {
        t.ends[i] = 1e-3 + 4e-3 * (3 - i);
    }
    layer_times_stretch(&t, 7, 1.5);
    assert_int_equal(t.layers, 7);
    assert_close(t.micro_s, 10e-3 + 7 * 6e-3);
    assert_close(t.before_s, 5e-3 + 7 * 2e-3);
    assert_close(t.backward_s, 3e-3 + 7 * 4e-3);
    assert_close(t.cast_s, 1.5e-3);
    assert_close(t.update_s, 9e-3);
    for (int i = 0; i < 8; i++) {
        assert_close(t.begins[i], 0.5e-3 + 2e-3 * i);
    }
    for (int i = 0; i < 7; i++) {
        assert_close(t.ends[i], 1e-3 + 4e-3 * (7 - i));
    }
    t.micro_s = 0; /* of one micro-step there is no earlier one */
    layer_times_stretch(&t, 9, 1);
    assert_close(t.micro_s, 0);
    layer_times_free(&t);
}

/* But for sharded state, where more ranks mean a smaller update. */
static void test_predict_step__slower_links_and_more_ranks_take_longer(void **state)
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
        cmocka_unit_test(test_predict_step__one_rank_is_the_measured_one),
        cmocka_unit_test(test_predict_step__an_infinitely_fast_link_is_never_waited_for),
        cmocka_unit_test(test_predict_step__flat_adds_one_all_reduce),
        cmocka_unit_test(test_predict_step__naive_adds_one_per_parameter),
        cmocka_unit_test(test_predict_step__overlap_sends_what_is_ready),
        cmocka_unit_test(test_predict_step__zero1_updates_a_part_and_gathers),
        cmocka_unit_test(test_predict_step__zero1_gathers_beside_the_forward_pass),
        cmocka_unit_test(test_predict_step__zero2_and_zero3_as_played),
        cmocka_unit_test(test_predict_step__layers_that_were_not_measured_are_like_the_others),
        cmocka_unit_test(test_predict_step__slower_links_and_more_ranks_take_longer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
