/* Steps as a whole: accumulation against the large batch, same bits for the same seed, plans
 * that are exact, presets of the right size. */
#include "train/trainer.h"

#include "base/mem.h"
#include "support/gold.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Outcome train(TrainerSetup setup, int threads, int updates)
{
    Backend *backend = cpu_backend_open(threads);
    Outcome out = small_run(setup, backend, updates);
    backend->close(backend);
    return out;
}

static void compare_accumulation(const char *preset)
{
    Outcome large = train(small_setup(preset, 8, 1, 17), 2, 1);
    Outcome small = train(small_setup(preset, 2, 4, 17), 2, 1);
    if (!(fabs(large.losses[0] - small.losses[0]) <= 1e-6 * large.losses[0])) {
        fail_msg("%s: loss %.9g of batch 8, %.9g of 4 x 2", preset, large.losses[0],
                 small.losses[0]);
    }
    if (!(fabs(large.norms[0] - small.norms[0]) <= 1e-6 * large.norms[0])) {
        fail_msg("%s: norm %.9g of batch 8, %.9g of 4 x 2", preset, large.norms[0], small.norms[0]);
    }
    free(large.params);
    free(small.params);
}

static void test_trainer__accumulation_equals_the_large_batch(void **state)
{
    (void)state;
    compare_accumulation("gpt2-124m");
    compare_accumulation("llama-22m");
}

/* Gradients, not parameters: AdamW's first steps turn the sign of a tiny gradient into a full
 * step. */
static void test_trainer__accumulated_gradients_equal_the_large_batch(void **state)
{
    (void)state;
    double *grads[2];
    int64_t count = 0;
    for (int i = 0; i < 2; i++) {
        TrainerSetup setup = small_setup("llama-22m", i == 0 ? 8 : 2, i == 0 ? 1 : 4, 13);
        Backend *backend = cpu_backend_open(2);
        TrainPlan plan;
        Trainer t;
        trainer_plan(&setup, backend, &plan);
        assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
        trainer_init_params(&t, 3);
        Tokens tokens = make_tokens(8, setup.seq, setup.batch, setup.spec.vocab);
        for (int64_t micro = 0; micro < setup.accum; micro++) {
            int64_t at = micro * setup.batch * setup.seq;
            trainer_micro_step(
                &t, (HostBatch){tokens.ids + at, tokens.targets + at, tokens.order + at, NULL},
                micro);
        }
        grads[i] = gold_download(backend, t.optimizer.grad);
        count = t.model.params.flat;
        free_tokens(tokens);
        trainer_close(&t);
        backend->close(backend);
    }
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(grads[0][i]));
        worst = fmax(worst, fabs(grads[0][i] - grads[1][i]));
    }
    if (!(worst <= 1e-6 * largest)) {
        fail_msg("gradients differ by %.3g, largest %.3g", worst, largest);
    }
    free(grads[0]);
    free(grads[1]);
}

/* Eight sequences, of whose tokens some count, in batches of 8 / accum: the weights after one
 * update by SGD with rate 1, whose difference to those before is the gradient. In f64 on ref.
 * only: the one token that counts; -1: two of three do, more of them in early sequences, and none
 * in the last. */
#define COUNTED_SEQ 5

static bool counts(int64_t i, int64_t only)
{
    int64_t sequence = i / COUNTED_SEQ;
    return only >= 0 ? i == only : sequence < 7 && i * i % (sequence + 2) != 1;
}

static double *counted_update(int64_t accum, double clip, int64_t only, double *loss, double *norm)
{
    TrainerSetup setup = small_setup("llama-22m", 8 / accum, accum, COUNTED_SEQ);
    SpecOverrides o = {.layers = 1, .width = 12, .heads = 2, .ffn = 10, .vocab = 17, .context = 9};
    assert_int_equal(spec_resolve("llama-22m", &o, 0, &setup.spec), 0);
    setup.dtype = DT_F64;
    setup.optimizer = (OptimizerSettings){.id = OPTIMIZER_SGD, .clip = clip};
    Backend *backend = ref_backend_open();
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    fill_params(&t);
    double *before = gold_download(backend, t.optimizer.param);
    Tokens tokens = make_tokens(8, setup.seq, setup.batch, setup.spec.vocab);
    int64_t count = 0;
    for (int64_t i = 0; i < 8 * setup.seq; i++) {
        tokens.targets[i] = counts(i, only) ? tokens.targets[i] : -1;
        count += counts(i, only);
    }
    for (int64_t micro = 0; micro < accum; micro++) {
        int64_t at = micro * setup.batch * setup.seq;
        trainer_micro_step(
            &t, (HostBatch){tokens.ids + at, tokens.targets + at, tokens.order + at, NULL}, micro);
    }
    trainer_update(&t, 1, 0);
    trainer_post(&t);
    trainer_fetch(&t, loss, norm);
    assert_true(t.fetched_counted == (double)count);
    double *gradient = gold_download(backend, t.optimizer.param);
    for (int64_t i = 0; i < t.model.params.flat; i++) {
        gradient[i] = before[i] - gradient[i];
    }
    free(before);
    free_tokens(tokens);
    trainer_close(&t);
    backend->close(backend);
    return gradient;
}

/* The mean over tokens that count is by definition that of the tokens one by one. */
static void test_trainer__the_mean_is_over_the_tokens_that_count(void **state)
{
    (void)state;
    TrainerSetup setup = small_setup("llama-22m", 1, 1, COUNTED_SEQ);
    SpecOverrides o = {.layers = 1, .width = 12, .heads = 2, .ffn = 10, .vocab = 17, .context = 9};
    assert_int_equal(spec_resolve("llama-22m", &o, 0, &setup.spec), 0);
    Model model;
    model_init(&model, &setup.spec, DT_F64, 1);
    int64_t flat = model.params.flat, count = 0;
    model_free(&model);
    double *mean = mem_zalloc((size_t)flat, sizeof *mean), mean_loss = 0, loss, norm;
    for (int64_t token = 0; token < 8 * COUNTED_SEQ; token++) {
        if (counts(token, -1)) {
            double *one = counted_update(1, 0, token, &loss, &norm);
            for (int64_t i = 0; i < flat; i++) {
                mean[i] += one[i];
            }
            mean_loss += loss;
            count++;
            free(one);
        }
    }
    double mean_norm = 0;
    for (int64_t i = 0; i < flat; i++) {
        mean[i] /= (double)count;
        mean_norm += mean[i] * mean[i];
    }
    mean_norm = sqrt(mean_norm);
    mean_loss /= (double)count;
    assert_true(count > 10 && count < 8 * COUNTED_SEQ - 10);
    for (int64_t accum = 1; accum <= 8; accum *= 2) {
        for (int clipped = 0; clipped < 2; clipped++) {
            double clip = clipped ? 0.5 * mean_norm : 0;
            double *found = counted_update(accum, clip, -1, &loss, &norm);
            assert_true(fabs(loss - mean_loss) <= 1e-12 * mean_loss);
            assert_true(fabs(norm - mean_norm) <= 1e-12 * mean_norm);
            double factor = clipped ? (double)(float)clip / (mean_norm + 1e-6) : 1;
            for (int64_t i = 0; i < flat; i++) {
                if (!(fabs(found[i] - factor * mean[i]) <= 1e-13)) {
                    fail_msg("accum %lld: gradient %lld is %.15g, by hand %.15g", (long long)accum,
                             (long long)i, found[i], factor * mean[i]);
                }
            }
            free(found);
        }
    }
    free(mean);
}

/* An update without a token that counts leaves the weights alone. */
static void test_trainer__nothing_counts(void **state)
{
    (void)state;
    double loss, norm;
    double *gradient = counted_update(2, 1, INT64_MAX, &loss, &norm);
    assert_true(loss == 0 && norm == 0 && gradient[0] == 0 && gradient[11] == 0);
    free(gradient);
}

static void test_trainer__same_seed_same_bits(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        Outcome a = train(small_setup("llama-22m", 4, 2, 40), threads, 3);
        Outcome b = train(small_setup("llama-22m", 4, 2, 40), threads, 3);
        assert_memory_equal(a.params, b.params, (size_t)a.count * sizeof *a.params);
        assert_memory_equal(a.losses, b.losses, sizeof a.losses);
        free(a.params);
        free(b.params);
    }
}

static void test_trainer__recompute_gives_the_same_bits(void **state)
{
    (void)state;
    const char *presets[] = {"gpt2-124m", "llama-22m"};
    for (int i = 0; i < 2; i++) {
        TrainerSetup setup = small_setup(presets[i], 4, 2, 33);
        Outcome kept = train(setup, 2, 3);
        setup.keep = KEEP_INPUTS;
        Outcome again = train(setup, 2, 3);
        assert_memory_equal(kept.params, again.params, (size_t)kept.count * sizeof *kept.params);
        free(kept.params);
        free(again.params);
    }
}

/* train() asserts that the peak equals the plan; this walks many shapes through it. */
static void test_trainer__plan_is_exact(void **state)
{
    (void)state;
    const char *presets[] = {"gpt2-124m", "llama-22m"};
    int checked = 0;
    for (int preset = 0; preset < 2; preset++) {
        for (int batch = 1; batch <= 8; batch *= 2) {
            for (int variant = 0; variant < 8; variant++) {
                TrainerSetup setup = small_setup(presets[preset], batch,
                                                 variant & 1 ? 8 / batch : 1, 7 + 5 * batch % 30);
                setup.attention = variant & 2 ? ATTENTION_NAIVE : ATTENTION_FLASH;
                setup.keep = (variant & 4) != 0 ? KEEP_INPUTS : KEEP_ALL;
                Outcome out = train(setup, 1 + variant % 2, 1);
                free(out.params);
                checked++;
            }
        }
    }
    assert_true(checked >= 30);
}

static void test_trainer__largest_batch_is_the_largest(void **state)
{
    (void)state;
    Backend *backend = cpu_backend_open(2);
    TrainerSetup setup = small_setup("llama-22m", 1, 1, 40);
    TrainPlan plan;
    for (size_t limit = 4 << 20; limit <= 64 << 20; limit *= 4) {
        int64_t largest = trainer_largest_batch(&setup, backend, limit);
        assert_true(largest > 0);
        setup.batch = largest;
        trainer_plan(&setup, backend, &plan);
        assert_true(plan.total <= limit);
        setup.batch = largest + 1;
        trainer_plan(&setup, backend, &plan);
        assert_true(plan.total > limit);
    }
    assert_int_equal(trainer_largest_batch(&setup, backend, 1000), 0);
    backend->close(backend);
}

/* Scales of a fresh fp8 run are guesses; those of its second update follow what was seen. */
static void test_trainer__guessed_scales_last_one_update(void **state)
{
    (void)state;
    Backend *ref = ref_backend_open();
    TrainerSetup setup = small_setup("gpt2-124m", 2, 1, 16);
    setup.dtype = DT_E4M3;
    setup.spec.ffn = 80;
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, ref, &plan);
    assert_int_equal(trainer_open(&t, &setup, ref, &plan), 0);
    trainer_init_params(&t, 11);
    Tokens tokens = make_tokens(2, 16, 2, setup.spec.vocab);
    trainer_micro_step(
        &t, (HostBatch){.ids = tokens.ids, .targets = tokens.targets, .order = tokens.order}, 0);
    int64_t count = tensor_count(t.quant.largest);
    float seen[64];
    assert_true(count <= 64);
    memcpy(seen, t.quant.largest.data, (size_t)count * sizeof *seen);
    trainer_update(&t, 1e-3, 0);
    const float *head = (const float *)t.quant.scales.data + (count - 1) * SCALE_COUNT;
    assert_true(seen[count - 1] == 0); /* by logits: at most 1 / tokens, which fills the range */
    assert_true(head[SCALE_FACTOR] / 32 <= 448 && head[SCALE_FACTOR] / 32 > 224);
    for (int64_t i = count / 3; i < count - 1; i++) { /* weights come first */
        const float *row = (const float *)t.quant.scales.data + i * SCALE_COUNT;
        assert_true(seen[i] > 0);
        assert_true(row[SCALE_HELD] == seen[i]);
        assert_true(row[SCALE_FACTOR] * seen[i] <= 224 && row[SCALE_FACTOR] * seen[i] > 112);
    }
    trainer_close(&t);
    free_tokens(tokens);
    ref->close(ref);
}

/* A checkpoint that goes on with other updates: gradients are divided by their tokens, and the
 * scale by logits, which follows nothing else, has to follow these. */
static void test_trainer__scales_of_gradients_follow_the_tokens_of_an_update(void **state)
{
    (void)state;
    Backend *ref = ref_backend_open();
    TrainerSetup setup = small_setup("gpt2-124m", 2, 4, 16);
    setup.dtype = DT_E4M3;
    setup.spec.ffn = 80;
    TrainPlan plan;
    Trainer from, to;
    trainer_plan(&setup, ref, &plan);
    assert_int_equal(trainer_open(&from, &setup, ref, &plan), 0);
    trainer_init_params(&from, 11);
    Tokens tokens = make_tokens(2, 16, 2, setup.spec.vocab);
    for (int64_t micro = 0; micro < 4; micro++) {
        HostBatch host = {.ids = tokens.ids, .targets = tokens.targets, .order = tokens.order};
        trainer_micro_step(&from, host, micro);
    }
    trainer_update(&from, 1e-3, 0);
    char *text;
    assert_int_equal(trainer_scales_text(&from, &text), 0);
    int64_t count = from.quant.scales.dim[0];
    const int64_t accums[] = {1, 4, 11};
    for (size_t a = 0; a < sizeof accums / sizeof accums[0]; a++) {
        setup.accum = accums[a];
        trainer_plan(&setup, ref, &plan);
        assert_int_equal(trainer_open(&to, &setup, ref, &plan), 0);
        float fresh[SCALE_COUNT];
        const float *scales = to.quant.scales.data, *before = from.quant.scales.data;
        memcpy(fresh, scales + (count - 1) * SCALE_COUNT, sizeof fresh);
        assert_int_equal(trainer_scales_take(&to, text), 0);
        assert_memory_equal(scales + (count - 1) * SCALE_COUNT, fresh, sizeof fresh);
        assert_memory_equal(scales, before, (size_t)(count / 3 * 2 * SCALE_COUNT) * sizeof *scales);
        for (int64_t i = count / 3 * 2; i < count - 1; i++) {
            const float *row = scales + i * SCALE_COUNT, *was = before + i * SCALE_COUNT;
            float expected = was[SCALE_HELD] * 4 / (float)accums[a];
            assert_true(fabsf(row[SCALE_HELD] - expected) <= 1e-6f * expected);
            assert_true(row[SCALE_FACTOR] * expected <= 224 && row[SCALE_FACTOR] * expected > 112);
            assert_true(row[SCALE_FACTOR] * row[SCALE_INVERSE] == 1);
        }
        trainer_close(&to);
    }
    free(text);
    free_tokens(tokens);
    trainer_close(&from);
    ref->close(ref);
}

static void test_trainer__presets_have_their_exact_size(void **state)
{
    (void)state;
    const struct {
        const char *name;
        int64_t parameters;
        SpecOverrides with;
    } known[] = {{"gpt2-124m", 124439808, {0}},
                 {"gpt2-350m", 354823168, {0}},
                 {"gpt2-774m", 774030080, {0}},
                 {"gpt2-1558m", 1557611200, {0}},
                 {"llama-22m", 22696448, {0}},
                 {"smollm2-135m", 134515008, {0}},
                 {"smollm2-360m", 361821120, {0}},
                 {"smollm2-1.7b", 1711376384, {0}},
                 {"qwen2.5-0.5b", 494032768, {0}},
                 {"qwen2.5-1.5b", 1543714304, {0}},
                 {"qwen3-0.6b", 596049920, {0}},
                 {"mistral-7b", 7248023552, {0}},
                 {"gemma-2-2b", 2614341888, {0}},
                 {"gemma-3-270m", 268098176, {0}},
                 {"gemma-3-1b", 999885952, {0}},
                 {"qwen2.5-3b", 3085938688, {0}},
                 {"llama-3.2-1b", 1235814400, {0}},
                 {"llama-3.2-3b", 3212749824, {0}},
                 {"ttt-125m", 124298064, {0}},
                 {"ttt-350m", 355986176, {0}},
                 {"ttt-760m", 761061120, {0}},
                 {"ttt-1b", 1322243200, {0}},
                 {"ttt-125m", 128463696, {.ttt = 1 + TTT_MLP}},
                 {"ttt-350m", 367094528, {.ttt = 1 + TTT_MLP}},
                 {"ttt-760m", 785981184, {.ttt = 1 + TTT_MLP}},
                 {"ttt-1b", 1344459904, {.ttt = 1 + TTT_MLP}},
                 {"ttt-125m", 110276688, {.vocab = 32000}},
                 {"ttt-760m", 757938432, {.vocab = 32000, .ttt = 1 + TTT_MLP}}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ModelSpec spec;
        SpecOverrides with = known[i].with;
        Model model;
        assert_int_equal(spec_resolve(known[i].name, &with, 0, &spec), 0);
        model_init(&model, &spec, DT_F32, 1);
        assert_int_equal(model.params.parameters, known[i].parameters);
        model_free(&model);
    }
}

/* FLOPs of a training step per token as N [8 D^2 + 6 D I + 2 H D + core] + 2 V D, three times;
 * the heads of this model need no padding. */
static void test_trainer__flops_of_ttt_are_those_of_its_products(void **state)
{
    (void)state;
    Backend *backend = cpu_backend_open(1);
    const struct {
        int ttt;
        double per_token;
    } known[] = {{1 + TTT_LINEAR, 7978561536.0},
                 {1 + TTT_MLP, 7978561536.0 + 3 * 24 * 2048 * (50.0 * 64 + 16.0 * 16)}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        TrainerSetup setup = {.batch = 3, .seq = 37, .accum = 1, .dtype = DT_F32};
        SpecOverrides with = {.ttt = known[i].ttt};
        assert_int_equal(spec_resolve("ttt-1b", &with, 0, &setup.spec), 0);
        TrainPlan plan;
        trainer_plan(&setup, backend, &plan);
        double found = plan.flops_update / (3 * 37);
        assert_true(fabs(found / known[i].per_token - 1) < 1e-12);
    }
    backend->close(backend);
}

static void test_trainer__init_follows_the_table(void **state)
{
    (void)state;
    ModelSpec spec;
    SpecOverrides o = {
        .layers = 8, .width = 64, .heads = 4, .ffn = 256, .vocab = 500, .context = 64};
    Model model;
    assert_int_equal(spec_resolve("gpt2-124m", &o, 0, &spec), 0);
    model_init(&model, &spec, DT_F32, 1);
    for (int r = 0; r < model.params.count; r++) {
        const Param *row = &model.params.rows[r];
        float *values = mem_alloc((size_t)row->count * sizeof *values);
        params_init_values(&model.params, r, 9, 0, row->count, values);
        double mean = 0, square = 0;
        for (int64_t i = 0; i < row->count; i++) {
            mean += values[i] / (double)row->count;
            square += (double)values[i] * values[i] / (double)row->count;
        }
        bool residual = strstr(row->name, "proj.weight") != NULL;
        bool norm = strstr(row->name, "ln_") != NULL && strstr(row->name, "weight") != NULL;
        double std = residual ? 0.02 / sqrt(16.0) : 0.02;
        if (row->rank == 2) {
            assert_true(fabs(sqrt(square) / std - 1) < 0.05);
            assert_true(fabs(mean) < 0.1 * std);
            assert_true(row->decay);
        } else {
            assert_true(mean == (norm ? 1.0 : 0.0));
            assert_false(row->decay);
        }
        /* Pieces agree with the whole. */
        float piece[7];
        int64_t n = row->count < 7 + 3 ? 1 : 7;
        params_init_values(&model.params, r, 9, row->count - n, n, piece);
        assert_memory_equal(piece, values + row->count - n, (size_t)n * sizeof *piece);
        free(values);
    }
    model_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer__accumulation_equals_the_large_batch),
        cmocka_unit_test(test_trainer__accumulated_gradients_equal_the_large_batch),
        cmocka_unit_test(test_trainer__the_mean_is_over_the_tokens_that_count),
        cmocka_unit_test(test_trainer__nothing_counts),
        cmocka_unit_test(test_trainer__same_seed_same_bits),
        cmocka_unit_test(test_trainer__recompute_gives_the_same_bits),
        cmocka_unit_test(test_trainer__plan_is_exact),
        cmocka_unit_test(test_trainer__largest_batch_is_the_largest),
        cmocka_unit_test(test_trainer__guessed_scales_last_one_update),
        cmocka_unit_test(test_trainer__scales_of_gradients_follow_the_tokens_of_an_update),
        cmocka_unit_test(test_trainer__presets_have_their_exact_size),
        cmocka_unit_test(test_trainer__flops_of_ttt_are_those_of_its_products),
        cmocka_unit_test(test_trainer__init_follows_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
