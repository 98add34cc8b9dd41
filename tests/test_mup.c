/* The maximal update parametrization: training against the rule as it is published
 * (tests/gold/make_optim.py), standard's bits at the base's width, initial weights, and the
 * coordinate check: what a few updates change does not grow with the width. */
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

static const MupBase gold_base = {.width = 12, .ffn = 20, .head_dim = 2};

static void check_training(const Gold *gold, Backend *backend, DType dtype, double bound)
{
    TrainerSetup setup = gold->setup;
    Trainer t;
    int64_t steps, count;
    double *want = gold_values(gold, "losses", &steps), weights = 0;
    setup.dtype = dtype;
    setup.mup = gold_base;
    mup_scale_scores(&setup.spec, &setup.mup);
    gold_trainer(gold, &setup, backend, &t);
    for (int64_t step = 0; step < steps; step++) {
        double loss, norm;
        trainer_micro_step(&t, gold_batch(gold, 0), 0);
        trainer_update(&t, gold->rate, step);
        trainer_post(&t);
        trainer_fetch(&t, &loss, &norm);
        if (!(fabs(loss - want[step]) <= bound * want[step])) {
            fail_msg("%s, update %lld: loss %.9g, not %.9g", dtype_name(dtype), (long long)step,
                     loss, want[step]);
        }
    }
    for (int r = 0; r < t.model.params.count; r++) {
        const Param *row = &t.model.params.rows[r];
        char name[96];
        snprintf(name, sizeof name, "end.%s", row->name);
        double *end = gold_values(gold, name, &count);
        double *got = gold_download(backend, tensor_rows(t.optimizer.param, row->offset, count));
        weights = fmax(weights, gold_relative_error(got, end, count));
        free(got);
        free(end);
    }
    if (!(weights <= 100 * bound)) {
        fail_msg("%s: weights are off by %.3g", dtype_name(dtype), weights);
    }
    free(want);
    trainer_close(&t);
}

static void test_mup__trains_as_the_rule_says(void **state)
{
    (void)state;
    Gold gold;
    gold_open(&gold, "mup");
    Backend *ref = ref_backend_open(), *cpu = cpu_backend_open(2);
    check_training(&gold, ref, DT_F64, 1e-7);
    check_training(&gold, cpu, DT_F32, 1e-5);
    ref->close(ref);
    cpu->close(cpu);
    gold_close(&gold);
}

static void test_mup__is_standard_at_the_base(void **state)
{
    (void)state;
    const char *const presets[] = {"gpt2-124m", "llama-22m", "gemma-2-2b"};
    Backend *backend = cpu_backend_open(2);
    for (size_t i = 0; i < 2 * sizeof presets / sizeof presets[0]; i++) {
        Outcome outcomes[3];
        for (int k = 0; k < 3; k++) {
            TrainerSetup setup = small_setup(presets[i / 2], 4, 2, 13);
            setup.optimizer.id = i % 2 == 0 ? OPTIMIZER_ADAMW : OPTIMIZER_MUON;
            setup.mup = (MupBase){k == 0 ? 0 : k == 1 ? setup.spec.width : 24, 0, 0};
            mup_scale_scores(&setup.spec, &setup.mup);
            outcomes[k] = small_run(setup, backend, 3);
        }
        size_t bytes = (size_t)outcomes[0].count * sizeof(double);
        assert_memory_equal(outcomes[0].params, outcomes[1].params, bytes);
        assert_true(memcmp(outcomes[0].params, outcomes[2].params, bytes) != 0);
        for (int k = 0; k < 3; k++) {
            free(outcomes[k].params);
        }
    }
    backend->close(backend);
}

/* Root mean square of a row's initial values. */
static double initial_size(const ParamTable *table, const char *name)
{
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        if (strcmp(row->name, name) == 0) {
            float *values = mem_alloc((size_t)row->count * sizeof *values);
            double sum = 0;
            params_init_values(table, r, 5, 0, row->count, values);
            for (int64_t i = 0; i < row->count; i++) {
                sum += (double)values[i] * values[i];
            }
            free(values);
            return sqrt(sum / (double)row->count);
        }
    }
    fail_msg("no %s", name);
    return 0;
}

static void test_mup__initial_weights(void **state)
{
    (void)state;
    SpecOverrides o = {
        .layers = 2, .width = 128, .heads = 4, .ffn = 200, .vocab = 301, .context = 64};
    ModelSpec spec;
    assert_int_equal(spec_resolve("gpt2-124m", &o, 0, &spec), 0);
    MupBase base = {.width = 32, .ffn = 100, .head_dim = 8};
    mup_scale_scores(&spec, &base);
    assert_true(fabs(spec.score_scale - sqrt(8) / 32) <= 1e-14);
    Model model;
    model_init(&model, &spec, DT_F32, 1);
    mup_scale_params(&model, &base);
    const struct {
        const char *name;
        double size;
    } rows[] = {{"wte.weight", 0.02},
                {"wpe.weight", 0.02},
                {"h.1.attn.qkv.weight", 0.02 / 2},
                {"h.1.attn.proj.weight", 0.02 / 2 / 2}, /* and by the depth, sqrt(2 x 2) */
                {"h.1.mlp.fc.weight", 0.02 / 2},
                {"h.1.mlp.proj.weight", 0.02 / 2 / sqrt(2)},
                {"h.1.ln_1.weight", 1},
                {"ln_f.weight", 0.25}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double found = initial_size(&model.params, rows[i].name);
        if (!(fabs(found - rows[i].size) <= 0.03 * rows[i].size)) {
            fail_msg("%s: %.6g, not %.6g", rows[i].name, found, rows[i].size);
        }
    }
    model_free(&model);
    base.head_dim = 0; /* more heads */
    spec.score_scale = 0;
    mup_scale_scores(&spec, &base);
    assert_true(spec.score_scale == 0);
}

/* Muon's last row of hyperparameters is that of its step. */
static void test_mup__rates_of_muon(void **state)
{
    (void)state;
    OptimizerSettings settings = {.weight_decay = 0.5};
    float hyper[OPTIMIZER_HYPERS * HYPER_COUNT];
    rule_muon.fill_hyper(&settings, 3, 4, 0, hyper);
    const float *step = hyper + (rule_muon.hypers - 1) * HYPER_COUNT;
    assert_true(step[HYPER_LR] == 1.5f && step[HYPER_DECAY] == 1);
}

enum { STREAM, LOGITS, PLACES };

static double *at_place(Trainer *t, const Tokens *tokens, int place)
{
    Ctx *c = &t->ctx;
    Backend *backend = t->backend;
    backend->upload(backend, t->ids.data, tokens->ids, tensor_bytes(t->ids));
    model_forward(c, &t->model,
                  (DeviceBatch){.batch = t->setup.batch, .seq = t->setup.seq, .ids = t->ids},
                  KEEP_NOTHING);
    Tensor seen = t->model.rf; /* the stream after the last block */
    if (place == LOGITS) {
        seen = ctx_scratch(c, MEM_HEAD, DT_F32, t->ids.dim[0], t->model.vocab_rows);
        model_logits(c, &t->model, 0, seen);
    }
    double *values = gold_download(backend, seen);
    model_end(c, &t->model);
    arena_release(&c->scratch, (ArenaMark){0});
    return values;
}

/* By how much updates at one rate change the stream and the logits of a model of this width, as
 * root mean squares. */
static void measure_change(int64_t width, bool mup, OptimizerId id, double changes[PLACES])
{
    TrainerSetup setup = small_setup("llama-22m", 4, 1, 24);
    SpecOverrides o = {.layers = 2,
                       .width = width,
                       .heads = width / 16,
                       .ffn = 3 * width,
                       .vocab = 101,
                       .context = 24};
    assert_int_equal(spec_resolve("llama-22m", &o, 0, &setup.spec), 0);
    setup.optimizer.id = id;
    setup.mup.width = mup ? 32 : 0;
    Backend *backend = cpu_backend_open(1);
    Trainer t;
    TrainPlan plan;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    trainer_init_params(&t, 3);
    Tokens tokens = make_tokens(4, setup.seq, 4, setup.spec.vocab);
    double *before[] = {at_place(&t, &tokens, STREAM), at_place(&t, &tokens, LOGITS)};
    for (int step = 0; step < 4; step++) {
        trainer_micro_step(&t, (HostBatch){tokens.ids, tokens.targets, tokens.order, NULL}, 0);
        trainer_update(&t, 4e-3, step);
    }
    for (int place = 0; place < PLACES; place++) {
        double *after = at_place(&t, &tokens, place), sum = 0;
        int64_t count = setup.batch * setup.seq * (place == STREAM ? width : t.model.vocab_rows);
        for (int64_t i = 0; i < count; i++) {
            sum += (after[i] - before[place][i]) * (after[i] - before[place][i]);
        }
        changes[place] = sqrt(sum / (double)count);
        free(after);
        free(before[place]);
    }
    free_tokens(tokens);
    trainer_close(&t);
    backend->close(backend);
}

/* From width 32 to 256. */
static void test_mup__coordinate_check(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        OptimizerId id = k / 2 == 0 ? OPTIMIZER_ADAMW : OPTIMIZER_MUON;
        bool mup = k % 2 == 1;
        double narrow[PLACES], wide[PLACES];
        measure_change(32, mup, id, narrow);
        measure_change(256, mup, id, wide);
        for (int place = 0; place < PLACES; place++) {
            double growth = wide[place] / narrow[place];
            print_message("%s, %s, %s: %.3g to %.3g, x %.3g\n", optimizer_kind(id)->name,
                          mup ? "mup" : "standard", place == STREAM ? "stream" : "logits",
                          narrow[place], wide[place], growth);
            if (mup ? !(growth > 0.5 && growth < 1.2) : !(growth > 2)) {
                fail_msg("the change grows by a factor of %.3g", growth);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mup__trains_as_the_rule_says),
        cmocka_unit_test(test_mup__is_standard_at_the_base),
        cmocka_unit_test(test_mup__initial_weights),
        cmocka_unit_test(test_mup__rates_of_muon),
        cmocka_unit_test(test_mup__coordinate_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
