/* Generation token by token against whole passes over the same text. */
#include "base/mem.h"
#include "model/generate.h"
#include "support/gold.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define TOKENS 37

/* Logits of the last token of the text's first `count`, by one pass over all of them. */
static double *logits_of_pass(Trainer *t, const int32_t *text, int64_t count)
{
    Ctx *c = &t->ctx;
    t->backend->upload(t->backend, t->ids.data, text, (size_t)count * sizeof *text);
    model_forward(c, &t->model,
                  (DeviceBatch){.batch = 1, .seq = count, .ids = tensor_rows(t->ids, 0, count)},
                  KEEP_NOTHING);
    Tensor logits = ctx_scratch(c, MEM_HEAD, t->model.act, 1, t->model.vocab_rows);
    model_logits(c, &t->model, count - 1, logits);
    double *values = gold_download(t->backend, logits);
    model_end(c, &t->model);
    arena_release(&c->scratch, (ArenaMark){0});
    return values;
}

static void compare(const char *preset, int ttt, Backend *backend)
{
    TrainerSetup setup = {.batch = 1, .seq = TOKENS, .accum = 1, .dtype = DT_F32};
    setup.attention = ATTENTION_NAIVE;
    SpecOverrides o = {.layers = 2,
                       .width = 48,
                       .heads = 3,
                       .ffn = 56,
                       .vocab = 61,
                       .context = TOKENS,
                       .tied = -1,
                       .ttt = ttt};
    o.mini = ttt > 0 ? 8 : 0;
    assert_int_equal(spec_resolve(preset, &o, 0, &setup.spec), 0);
    TrainPlan plan;
    Trainer trainer;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&trainer, &setup, backend, &plan), 0);
    trainer_init_params(&trainer, 5);
    int32_t text[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        text[i] = (i * 17 + i * i) % 61;
    }
    Generator generator;
    assert_int_equal(generator_open(&generator, &trainer.model, backend), 0);
    for (int round = 0; round < 2;
         round++) { /* the second time from the start again, in larger strides */
        generator_restart(&generator);
        for (int64_t count = 1 + round; count <= TOKENS; count += 1 + 4 * round) {
            const float *got = generator_logits(&generator, text, count);
            double *want = logits_of_pass(&trainer, text, count);
            for (int64_t i = 0; i < setup.spec.vocab; i++) {
                assert_true(fabs(got[i] - want[i]) < 2e-5);
            }
            free(want);
        }
    }
    generator_close(&generator);
    trainer_close(&trainer);
}

static void compare_backends(const char *preset, int ttt)
{
    Backend *backends[] = {cpu_backend_open(2), ref_backend_open()};
    for (int i = 0; i < 2; i++) {
        compare(preset, ttt, backends[i]);
        backends[i]->close(backends[i]);
    }
}

static void test_generate__attention_looks_back(void **state)
{
    (void)state;
    compare_backends("llama-22m", 0);
}

static void test_generate__ttt_linear_goes_on_from_its_state(void **state)
{
    (void)state;
    compare_backends("ttt-125m", 1 + TTT_LINEAR);
}

static void test_generate__ttt_mlp_goes_on_from_its_state(void **state)
{
    (void)state;
    compare_backends("ttt-125m", 1 + TTT_MLP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generate__attention_looks_back),
        cmocka_unit_test(test_generate__ttt_linear_goes_on_from_its_state),
        cmocka_unit_test(test_generate__ttt_mlp_goes_on_from_its_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
