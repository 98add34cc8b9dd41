/* Gradients of whole models against central differences of their loss, in f64 on ref: for every
 * parameter the derivative along a random direction. Each kind of feed-forward, norm, mixer and
 * layout comes with each other at least once. */
#include "base/rng.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define STEP 2e-6
#define BOUND 1e-6 /* of the larger of both, or of 1e-3 */

typedef struct {
    const char *preset;
    SpecOverrides o;
    bool recompute;
} Case;

static const Case cases[] = {
    {"gpt2-124m", {.ffn_kind = 1 + FFN_GELU}, false},
    {"gpt2-124m", {.ffn_kind = 1 + FFN_RELU2, .norm = 1 + NORM_RMS}, true},
    {"gpt2-124m", {.ffn_kind = 1 + FFN_SWIGLU, .head_dim = 6, .tied = 1}, false},
    {"llama-22m", {.ffn_kind = 1 + FFN_SWIGLU, .kv_heads = 1}, false},
    {"llama-22m", {.ffn_kind = 1 + FFN_GEGLU, .head_dim = 8, .norm = 1 + NORM_LAYER}, true},
    {"llama-22m", {.ffn_kind = 1 + FFN_RELU2, .tied = 2}, false},
    {"llama-22m", {.ffn_kind = 1 + FFN_GELU}, false},
    {"llama-22m", {.qkv_bias = 2, .rope_scaling = 1 + ROPE_LINEAR, .rope_factor = 2}, false},
    {"llama-22m",
     {.qkv_bias = 2,
      .kv_heads = 1,
      .rope_scaling = 1 + ROPE_LLAMA3,
      .rope_factor = 8,
      .rope_low = 1,
      .rope_high = 4,
      .rope_context = 16},
     true},
    {"llama-22m",
     {.rope_scaling = 1 + ROPE_YARN,
      .rope_factor = 4,
      .rope_low = 1,
      .rope_high = 2,
      .rope_context = 16},
     false},
    {"llama-22m", {.qk_norm = 2, .kv_heads = 1, .qkv_bias = 2}, false},
    {"llama-22m", {.qk_norm = 2, .post_norm = 2, .tied = 2, .embed_scale = 3}, true},
    {"gpt2-124m", {.qk_norm = 2, .post_norm = 2, .embed_scale = 0.5, .logit_cap = 2}, false},
    {"llama-22m", {.window = 3, .full_every = 2, .rope_local_base = 50, .score_scale = 0.9}, false},
    {"gemma-2-2b", {.window = 3, .score_cap = 0.8, .score_scale = 0.7, .head_dim = 6}, false},
    {"gemma-3-1b", {.window = 4, .full_every = 2, .kv_heads = 1, .logit_cap = 3}, true},
    {"ttt-125m", {.ffn_kind = 1 + FFN_GEGLU}, false},
    {"ttt-125m", {.post_norm = 2, .embed_scale = 2, .logit_cap = 4}, false},
};

static double normal(uint64_t stream, uint64_t row, uint64_t i)
{
    float value;
    rng_normals(stream, row, i, 1, &value);
    return value;
}

static void check(const Case *k)
{
    TrainerSetup setup = {.dtype = DT_F64,
                          .attention = ATTENTION_FLASH,
                          .batch = 2,
                          .accum = 1,
                          .seq = 7,
                          .keep = k->recompute ? KEEP_INPUTS : KEEP_ALL};
    SpecOverrides o = k->o;
    o.layers = 2;
    o.width = 12;
    o.heads = 3;
    o.ffn = 10;
    o.vocab = 17;
    o.context = 9;
    o.mini = k->preset[0] == 't' ? 4 : 0;
    assert_int_equal(spec_resolve(k->preset, &o, 0, &setup.spec), 0);
    Backend *backend = ref_backend_open();
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    double *param = t.optimizer.param.data;
    const ParamTable *table = &t.model.params;
    fill_params(&t);
    Tokens tokens = make_tokens(setup.batch, setup.seq, setup.batch, setup.spec.vocab);
    HostBatch batch = {tokens.ids, tokens.targets, tokens.order, NULL};
    trainer_micro_step(&t, batch, 0);
    const double *grad = t.optimizer.grad.data;
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        double along = 0, ends[2];
        for (int side = 0; side < 2; side++) {
            for (int64_t i = 0; i < row->count; i++) {
                double d = normal(4, (uint64_t)r, (uint64_t)i);
                along += side == 0 ? d * grad[row->offset + i] : 0;
                param[row->offset + i] += (side == 0 ? STEP : -2 * STEP) * d;
            }
            ends[side] = trainer_evaluate(&t, batch);
        }
        for (int64_t i = 0; i < row->count; i++) {
            param[row->offset + i] += STEP * normal(4, (uint64_t)r, (uint64_t)i);
        }
        double slope = (ends[0] - ends[1]) / (2 * STEP);
        double scale = fmax(fmax(fabs(along), fabs(slope)), 1e-3);
        if (!(fabs(along - slope) <= BOUND * scale)) {
            fail_msg("%s, ffn %d: %s: gradient %.10g, differences %.10g", k->preset,
                     (int)setup.spec.ffn_kind, row->name, along, slope);
        }
    }
    free_tokens(tokens);
    trainer_close(&t);
    backend->close(backend);
}

static void test_model_grad__equals_differences_of_the_loss(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        check(&cases[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_grad__equals_differences_of_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
