/* The model against PyTorch: logits, loss, every gradient and ten training losses of stored
 * models with odd dimensions, on the reference in f64 and f32, on the CPU in f32, and on a GPU
 * in f32 and bf16 where there is one. */
#include "cuda/cuda.h"
#include "support/gold.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef enum { REF, CPU, GPU } Place;

typedef struct {
    const char *label;
    Place place;
    int threads;
    DType dtype;
    AttentionKind attention;
    bool recompute;
    double logits, loss, gradient, losses; /* bounds: absolute, absolute, relative, relative */
} Variant;

#define BF16_BOUNDS 0.12, 0.01, 0.5, 0.24

/* Losses and norms of the f64 runs drift by the rounding of the rates, which the backend holds
 * in f32. */
static const Variant variants[] = {
    {"ref f64", REF, 1, DT_F64, ATTENTION_FLASH, false, 1e-10, 1e-11, 1e-9, 1e-6},
    {"ref f64 naive recompute", REF, 1, DT_F64, ATTENTION_NAIVE, true, 1e-10, 1e-11, 1e-9, 1e-6},
    {"ref f32", REF, 1, DT_F32, ATTENTION_FLASH, false, 1e-5, 1e-5, 1e-4, 1e-4},
    {"cpu f32 flash", CPU, 2, DT_F32, ATTENTION_FLASH, false, 1e-5, 1e-5, 1e-4, 1e-4},
    {"cpu f32 naive", CPU, 1, DT_F32, ATTENTION_NAIVE, false, 1e-5, 1e-5, 1e-4, 1e-4},
    {"cpu f32 flash recompute", CPU, 3, DT_F32, ATTENTION_FLASH, true, 1e-5, 1e-5, 1e-4, 1e-4},
    {"gpu f32 flash", GPU, 1, DT_F32, ATTENTION_FLASH, false, 1e-5, 1e-5, 1e-4, 1e-4},
    {"gpu f32 naive", GPU, 1, DT_F32, ATTENTION_NAIVE, false, 1e-5, 1e-5, 1e-4, 1e-4},
    {"gpu f32 flash recompute", GPU, 1, DT_F32, ATTENTION_FLASH, true, 1e-5, 1e-5, 1e-4, 1e-4},
    /* bf16 keeps 8 bits: the bounds are about twice what ref needs in it (of the losses and norms
     * of ten updates 0.12). */
    {"ref bf16", REF, 1, DT_BF16, ATTENTION_NAIVE, false, BF16_BOUNDS},
    {"gpu bf16 naive", GPU, 1, DT_BF16, ATTENTION_NAIVE, false, BF16_BOUNDS},
};

static void check(bool good, const char *model, const Variant *v, const char *what, double error,
                  double bound)
{
    if (!good) {
        fail_msg("%s, %s: %s off by %.3g, bound %.3g", model, v->label, what, error, bound);
    }
}

static void check_logits(const Gold *gold, const char *model, const Variant *v, Trainer *t)
{
    int64_t count;
    double *want = gold_values(gold, "logits", &count);
    Ctx *c = &t->ctx;
    HostBatch host = gold_batch(gold, 0);
    Backend *backend = t->backend;
    backend->upload(backend, t->ids.data, host.ids, tensor_bytes(t->ids));
    backend->upload(backend, t->targets.data, host.targets, tensor_bytes(t->targets));
    model_forward(c, &t->model,
                  (DeviceBatch){.batch = t->setup.batch, .seq = t->setup.seq, .ids = t->ids},
                  KEEP_NOTHING);
    int64_t vocab = t->setup.spec.vocab, width = t->model.vocab_rows;
    Tensor logits = ctx_scratch(c, MEM_HEAD, v->dtype, t->ids.dim[0], width);
    assert_int_equal(t->ids.dim[0] * vocab, count);
    model_logits(c, &t->model, 0, logits);
    double *got = gold_download(t->backend, logits), worst = 0;
    for (int64_t i = 0; i < count; i++) {
        double error = fabs(got[i / vocab * width + i % vocab] - want[i]);
        worst = error <= worst ? worst : error;
    }
    check(worst <= v->logits, model, v, "logits", worst, v->logits);
    model_end(c, &t->model);
    arena_release(&c->scratch, (ArenaMark){0});
    free(got);
    free(want);
}

static void check_gradients(const Gold *gold, const char *model, const Variant *v, Trainer *t)
{
    const ParamTable *table = &t->model.params;
    for (int r = 0; r < table->count; r++) {
        char name[96];
        snprintf(name, sizeof name, "grad.%s", table->rows[r].name);
        int64_t count;
        double *want = gold_values(gold, name, &count);
        double *got =
            gold_download(t->backend, tensor_rows(t->optimizer.grad, table->rows[r].offset, count));
        double error = gold_relative_error(got, want, count);
        check(error <= v->gradient, model, v, name, error, v->gradient);
        free(got);
        free(want);
    }
}

static void check_training(const Gold *gold, const char *model, const Variant *v, Trainer *t)
{
    int64_t steps;
    double *want = gold_values(gold, "losses", &steps), *norms = gold_values(gold, "norms", &steps);
    assert_int_equal(steps, 10);
    for (int64_t step = 0; step < steps; step++) {
        double loss, norm;
        trainer_micro_step(t, gold_batch(gold, 0), 0);
        if (step == 0) {
            check_gradients(gold, model, v, t);
        }
        trainer_update(t, gold->rate, step);
        trainer_post(t);
        trainer_fetch(t, &loss, &norm);
        double bound = step == 0 ? v->loss : v->losses * want[step];
        check(fabs(loss - want[step]) <= bound, model, v, "loss", fabs(loss - want[step]), bound);
        bound = (step == 0 ? v->gradient : v->losses) * norms[step];
        check(fabs(norm - norms[step]) <= bound, model, v, "gradient norm",
              fabs(norm - norms[step]), bound);
    }
    free(want);
    free(norms);
}

static void compare(const char *model)
{
    Gold gold;
    gold_open(&gold, model);
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        const Variant *v = &variants[i];
        Backend *backend = v->place == CPU ? cpu_backend_open(v->threads) : ref_backend_open();
        if (v->place == GPU) {
            backend->close(backend);
            if (cuda_backend_open(0, &backend) != 0) {
                continue;
            }
        }
        TrainerSetup setup = gold.setup;
        setup.graph = true;
        setup.dtype = v->dtype;
        setup.attention = v->attention;
        setup.keep = v->recompute ? KEEP_INPUTS : KEEP_ALL;
        Trainer trainer;
        gold_trainer(&gold, &setup, backend, &trainer);
        check_logits(&gold, model, v, &trainer);
        check_training(&gold, model, v, &trainer);
        trainer_close(&trainer);
        backend->close(backend);
    }
    gold_close(&gold);
}

static void test_model_parity__gpt2(void **state)
{
    (void)state;
    compare("gpt2");
}

static void test_model_parity__llama(void **state)
{
    (void)state;
    compare("llama");
}

static void test_model_parity__llama_grouped_query_tied(void **state)
{
    (void)state;
    compare("llama_gqa");
}

static void test_model_parity__ttt_linear(void **state)
{
    (void)state;
    compare("ttt_linear_model");
}

static void test_model_parity__ttt_mlp(void **state)
{
    (void)state;
    compare("ttt_mlp_model");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_parity__gpt2),
        cmocka_unit_test(test_model_parity__llama),
        cmocka_unit_test(test_model_parity__llama_grouped_query_tied),
        cmocka_unit_test(test_model_parity__ttt_linear),
        cmocka_unit_test(test_model_parity__ttt_mlp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
