/* The noise scale against the exact gradients of single sequences: in f64 on ref, the estimates
 * from every way to draw an update, whose mean is their expectation; then drawn updates, smoothed,
 * against the exact ratio and the error that is stated with it. */
#include "train/noise.h"

#include "base/mem.h"
#include "base/rng.h"
#include "support/gold.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SEQUENCES 3
#define SEQ 5
#define VOCAB 17

static TrainerSetup setup_of(int64_t batch, int64_t accum, NoiseSource source)
{
    TrainerSetup setup = small_setup("llama-22m", batch, accum, SEQ);
    SpecOverrides o = {
        .layers = 1, .width = 12, .heads = 2, .ffn = 10, .vocab = VOCAB, .context = 9};
    assert_int_equal(spec_resolve("llama-22m", &o, 0, &setup.spec), 0);
    setup.dtype = DT_F64;
    setup.optimizer = (OptimizerSettings){.id = OPTIMIZER_SGD};
    setup.noise = source;
    return setup;
}

static void open_trainer(Trainer *t, Backend *backend, int64_t batch, int64_t accum,
                         NoiseSource source)
{
    TrainerSetup setup = setup_of(batch, accum, source);
    TrainPlan plan;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(t, &setup, backend, &plan), 0);
    fill_params(t);
}

/* An update of sequences that `draw` names, batch x accum of them, with rate 0. */
static void update(Trainer *t, const int32_t *ids, const int32_t *targets, const int *draw,
                   double *trace, double *mean_sq, double *piece_sq)
{
    int64_t batch = t->setup.batch, accum = t->setup.accum;
    int32_t tokens[8 * SEQ], wanted[8 * SEQ], order[8 * SEQ];
    double loss, norm;
    for (int64_t micro = 0; micro < accum; micro++) {
        for (int64_t i = 0; i < batch; i++) {
            int from = draw[micro * batch + i] * SEQ;
            memcpy(tokens + i * SEQ, ids + from, SEQ * sizeof *ids);
            memcpy(wanted + i * SEQ, targets + from, SEQ * sizeof *ids);
        }
        gold_sort_order(tokens, batch * SEQ, order);
        trainer_micro_step(t, (HostBatch){tokens, wanted, order, NULL}, micro);
    }
    trainer_update(t, 0, 0);
    trainer_post(t);
    trainer_fetch(t, &loss, &norm);
    *piece_sq = t->fetched_piece_sq;
    if (t->setup.noise == NOISE_GAINS && batch > 1) {
        noise_estimate(*piece_sq, t->fetched_whole_sq, 1, batch, trace, mean_sq);
    } else if (accum > 1) {
        assert_true(t->fetched_whole_sq == norm * norm);
        noise_estimate(*piece_sq, norm * norm, batch, accum, trace, mean_sq);
    } else {
        *piece_sq = norm * norm;
    }
}

/* Products of the sequences' own gradients. */
typedef struct {
    int32_t ids[SEQUENCES * SEQ], targets[SEQUENCES * SEQ];
    double gram[SEQUENCES][SEQUENCES];
    double trace, mean_sq; /* exact */
} Truth;

/* gains: of the norms' gains, which are all that does not decay in this model. */
static Truth exact(bool gains)
{
    Truth truth = {0};
    for (int i = 0; i < SEQUENCES * SEQ; i++) {
        truth.ids[i] = (int32_t)rng_below(7, 1, (uint64_t)i, VOCAB);
        truth.targets[i] = (int32_t)rng_below(7, 2, (uint64_t)i, VOCAB);
    }
    truth.targets[2] = truth.targets[2 * SEQ + 4] = -1; /* do not count: the update says how many */
    truth.targets[SEQ] = -1;
    Backend *backend = ref_backend_open();
    Trainer t;
    open_trainer(&t, backend, 1, 1, NOISE_PIECES);
    assert_true(t.model.params.decayed < t.model.params.flat);
    double *grads[SEQUENCES], unused;
    for (int i = 0; i < SEQUENCES; i++) {
        update(&t, truth.ids, truth.targets, &i, &unused, &unused, &unused);
        grads[i] = gold_download(backend, t.optimizer.grad);
        for (int64_t k = 0; k < t.model.params.flat; k++) { /* the mean over tokens that count */
            grads[i][k] *= (double)SEQ / (SEQ - 1);
        }
    }
    for (int i = 0; i < SEQUENCES; i++) {
        for (int j = 0; j < SEQUENCES; j++) {
            for (int64_t k = gains ? t.model.params.decayed : 0; k < t.model.params.flat; k++) {
                truth.gram[i][j] += grads[i][k] * grads[j][k];
            }
            truth.mean_sq += truth.gram[i][j] / (SEQUENCES * SEQUENCES);
        }
        truth.trace += truth.gram[i][i] / SEQUENCES;
    }
    truth.trace -= truth.mean_sq;
    for (int i = 0; i < SEQUENCES; i++) {
        free(grads[i]);
    }
    trainer_close(&t);
    backend->close(backend);
    return truth;
}

static void check_expectation(int64_t batch, int64_t accum, NoiseSource source)
{
    bool gains = source == NOISE_GAINS;
    Truth truth = exact(gains);
    Backend *backend = ref_backend_open();
    Trainer t;
    open_trainer(&t, backend, batch, accum, source);
    int draws = 1;
    for (int64_t i = 0; i < batch * accum; i++) {
        draws *= SEQUENCES;
    }
    double trace = 0, mean_sq = 0;
    for (int d = 0; d < draws; d++) {
        int draw[8] = {0}, left = d;
        for (int64_t i = 0; i < batch * accum; i++, left /= SEQUENCES) {
            draw[i] = left % SEQUENCES;
        }
        double one, other, piece_sq, expected = 0;
        update(&t, truth.ids, truth.targets, draw, &one, &other, &piece_sq);
        for (int64_t i = 0; gains && i < batch; i++) {
            expected += truth.gram[draw[i]][draw[i]] / (double)batch;
        }
        for (int64_t i = 0; !gains && i < batch * batch; i++) {
            expected += truth.gram[draw[i / batch]][draw[i % batch]] / (double)(batch * batch);
        }
        assert_true(fabs(piece_sq - expected) <= 1e-10 * expected);
        trace += one / draws;
        mean_sq += other / draws;
    }
    if (!(fabs(trace - truth.trace) <= 1e-10 * truth.trace) ||
        !(fabs(mean_sq - truth.mean_sq) <= 1e-10 * truth.mean_sq)) {
        fail_msg("%lld x %lld: trace %.12g, exact %.12g; mean %.12g, exact %.12g", (long long)batch,
                 (long long)accum, trace, truth.trace, mean_sq, truth.mean_sq);
    }
    trainer_close(&t);
    backend->close(backend);
}

static void test_noise__estimates_over_all_draws_are_exact(void **state)
{
    (void)state;
    check_expectation(1, 2, NOISE_PIECES);
    check_expectation(1, 3, NOISE_PIECES);
    check_expectation(2, 2, NOISE_PIECES);
    check_expectation(2, 1, NOISE_GAINS);
    check_expectation(4, 1, NOISE_GAINS);
}

/* A run whose weights stand still: updates drawn at random, piece and update from the products. */
static NoiseScale drawn_run(const Truth *truth, uint64_t seed, int updates, int pieces, int batch)
{
    Noise noise = {0};
    for (int u = 0; u < updates; u++) {
        int draw[16], count = pieces * batch;
        for (int i = 0; i < count; i++) {
            draw[i] = (int)rng_below(seed, 3, (uint64_t)(u * count + i), SEQUENCES);
        }
        double piece_sq = 0, update_sq = 0, trace, mean_sq;
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < count; j++) {
                double product = truth->gram[draw[i]][draw[j]];
                update_sq += product / (count * count);
                piece_sq += i < batch && j < batch ? product / (batch * batch) : 0;
            }
        }
        noise_estimate(piece_sq, update_sq, batch, pieces, &trace, &mean_sq);
        noise_add(&noise, trace, mean_sq);
    }
    return noise_scale(&noise);
}

static void test_noise__smoothed_scale_lies_within_its_stated_error(void **state)
{
    (void)state;
    Truth truth = exact(false);
    double scale = truth.trace / truth.mean_sq;
    static const int shapes[][2] = {{2, 2}, {4, 1}, {4, 4}};
    for (int k = 0; k < 3; k++) {
        int runs = 400, within = 0;
        double sum = 0;
        for (int run = 0; run < runs; run++) {
            NoiseScale found =
                drawn_run(&truth, (uint64_t)run + 1000, 300, shapes[k][0], shapes[k][1]);
            assert_true(found.scale.known && found.error.known);
            within += fabs(found.scale.number - scale) <= 2 * found.error.number;
            sum += found.scale.number / runs;
        }
        /* 95 % if errors were normal and known exactly. */
        if (!(within >= 0.88 * runs && within < runs) || !(fabs(sum / scale - 1) < 0.05)) {
            fail_msg("%d x %d: %d of %d within two errors; mean %.6g, exact %.6g", shapes[k][0],
                     shapes[k][1], within, runs, sum, scale);
        }
    }
}

static void test_noise__first_updates_are_not_biased_to_zero(void **state)
{
    (void)state;
    Noise noise = {0};
    assert_false(noise_scale(&noise).scale.known);
    noise_add(&noise, 12, 3);
    assert_true(noise_scale(&noise).scale.number == 4);
    assert_false(noise_scale(&noise).error.known);
    for (int i = 0; i < 5; i++) {
        noise_add(&noise, 12, 3);
    }
    assert_true(fabs(noise_scale(&noise).scale.number - 4) < 1e-12);
    assert_true(noise_scale(&noise).error.number < 1e-6);
    noise_add(&noise, 12, -1e6); /* the noise hides the gradient */
    assert_false(noise_scale(&noise).scale.known);
}

static void test_noise__state_survives_as_text_to_the_bit(void **state)
{
    (void)state;
    Noise noise = {0}, again = {.trace = 1}, none = {0};
    for (int i = 1; i < 9; i++) {
        noise_add(&noise, 1.0 / 3 * i, -1e-7 / i);
    }
    char *text = noise_text(&noise);
    assert_true(noise_take(&again, text));
    assert_memory_equal(&again, &noise, sizeof noise);
    text[20] = 'x';
    assert_false(noise_take(&again, text));
    assert_memory_equal(&again, &none, sizeof none);
    text[20] = '\0';
    assert_false(noise_take(&again, text));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise__estimates_over_all_draws_are_exact),
        cmocka_unit_test(test_noise__smoothed_scale_lies_within_its_stated_error),
        cmocka_unit_test(test_noise__first_updates_are_not_biased_to_zero),
        cmocka_unit_test(test_noise__state_survives_as_text_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
