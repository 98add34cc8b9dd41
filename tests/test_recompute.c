/* Grades of recomputation: each gives the losses, gradient norms and weights of keeping everything,
 * to the bit, in the memory that its plan says, which is less than that of the grade before. */
#include "base/mem.h"
#include "cpu/cpu.h"
#include "data/loader.h"
#include "ref/ref.h"
#include "support/gold.h"
#include "support/small_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define UPDATES 2
#define BATCH 2
#define ACCUM 2
#define SEQ 8
#define END 7 /* the token that documents begin with */

typedef struct {
    const char *preset;
    SpecOverrides o;
    bool naive;
} Case;

static const Case cases[] = {
    {"gpt2-124m", {.kv_heads = 2}, false},
    {"gpt2-124m", {.ffn_kind = 1 + FFN_RELU2, .tied = 1}, true},
    {"llama-22m", {.kv_heads = 2, .qkv_bias = 2}, false},
    {"llama-22m", {.ffn_kind = 1 + FFN_GELU, .post_norm = 2}, true},
    {"gemma-3-1b", {.window = 5, .full_every = 2, .kv_heads = 1}, false},
    {"ttt-125m", {.mini = 4}, false},
    {"ttt-125m", {.mini = 8, .ttt = 1 + TTT_MLP, .post_norm = 2}, false},
};
#define CASES (sizeof cases / sizeof cases[0])

static TrainerSetup setup_of(const Case *k, int64_t layers)
{
    SpecOverrides o = k->o;
    TrainerSetup setup = small_setup("tiny", BATCH, ACCUM, SEQ);
    o.layers = layers;
    o.width = 32;
    o.heads = 2;
    o.head_dim = 16;
    o.ffn = 48;
    o.vocab = 64;
    o.context = 8;
    assert_int_equal(spec_resolve(k->preset, &o, 0, &setup.spec), 0);
    setup.attention = k->naive ? ATTENTION_NAIVE : ATTENTION_FLASH;
    setup.separate = setup.spec.mixer == MIXER_ATTENTION;
    return setup;
}

static Outcome run(TrainerSetup setup, Backend *backend, size_t *bytes)
{
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    if (setup.dtype == DT_F64) {
        fill_params(&t);
    } else {
        trainer_init_params(&t, 11);
    }
    Tokens tokens = make_tokens(UPDATES * BATCH * ACCUM, SEQ, BATCH, 20);
    int32_t starts[UPDATES * ACCUM * BATCH * SEQ];
    document_starts(tokens.ids, UPDATES * ACCUM * BATCH * SEQ, SEQ, END, starts);
    Outcome out = {0};
    for (int u = 0; u < UPDATES; u++) {
        HostBatch batch = {0};
        for (int micro = 0; micro < ACCUM; micro++) {
            int at = (u * ACCUM + micro) * BATCH * SEQ;
            batch =
                (HostBatch){tokens.ids + at, tokens.targets + at, tokens.order + at, starts + at};
            trainer_micro_step(&t, batch, micro);
        }
        trainer_update(&t, 1e-2, u);
        trainer_post(&t);
        trainer_fetch(&t, &out.losses[u], &out.norms[u]);
        out.losses[UPDATES + u] = trainer_evaluate(&t, batch);
    }
    out.count = t.model.params.flat;
    out.params = gold_download(backend, t.optimizer.param);
    assert_int_equal(trainer_peak_bytes(&t), plan.blocks);
    *bytes = plan.blocks;
    free_tokens(tokens);
    trainer_close(&t);
    return out;
}

static void compare_grades(const Case *k, Backend *backend, DType dtype)
{
    TrainerSetup setup = setup_of(k, 2);
    setup.dtype = dtype;
    size_t most, bytes;
    Outcome kept = run(setup, backend, &most);
    assert_true(kept.losses[0] != kept.losses[1] && kept.norms[0] > 0);
    for (int keep = KEEP_NO_NORMS; keep <= KEEP_INPUTS; keep++) {
        setup.keep = (Keep)keep;
        Outcome again = run(setup, backend, &bytes);
        if (memcmp(kept.losses, again.losses, sizeof kept.losses) != 0 ||
            memcmp(kept.norms, again.norms, sizeof kept.norms) != 0 ||
            memcmp(kept.params, again.params, (size_t)kept.count * sizeof *kept.params) != 0) {
            fail_msg("%s, %s, grade %d: other bits", k->preset, dtype_name(dtype), keep);
        }
        assert_true(bytes < most);
        free(again.params);
    }
    free(kept.params);
}

static void test_recompute__gives_the_same_bits_on_the_cpu(void **state)
{
    (void)state;
    Backend *backend = cpu_backend_open(2);
    for (size_t i = 0; i < CASES; i++) {
        compare_grades(&cases[i], backend, DT_F32);
    }
    backend->close(backend);
}

static void test_recompute__gives_the_same_bits_on_ref(void **state)
{
    (void)state;
    static const DType dtypes[] = {DT_F32, DT_F64, DT_BF16, DT_E4M3};
    Backend *backend = ref_backend_open();
    for (size_t i = 0; i < CASES; i++) {
        bool slow = cases[i].o.ttt == 1 + TTT_MLP; /* in the lower precisions alone */
        for (int d = slow ? 2 : 0; d < 4; d++) {
            compare_grades(&cases[i], backend, dtypes[d]);
        }
    }
    backend->close(backend);
}

/* In models of some depth; with few layers a block made again may be larger than what was kept. */
static void test_recompute__keeps_less_in_each_grade(void **state)
{
    (void)state;
    Backend *backend = ref_backend_open();
    for (size_t i = 0; i < CASES; i++) {
        for (int d = 0; d < 2; d++) {
            TrainerSetup setup = setup_of(&cases[i], 12);
            TrainPlan plan, before;
            setup.dtype = d == 0 ? DT_F32 : DT_E4M3;
            trainer_plan(&setup, backend, &before);
            for (int keep = KEEP_NO_NORMS; keep <= KEEP_INPUTS; keep++) {
                setup.keep = (Keep)keep;
                trainer_plan(&setup, backend, &plan);
                assert_true(plan.blocks < before.blocks);
                assert_true(plan.flops_update >= before.flops_update);
                assert_true(keep >= KEEP_NO_FFN ? plan.flops_update > before.flops_update
                                                : plan.flops_update == before.flops_update);
                before = plan;
            }
        }
    }
    backend->close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recompute__gives_the_same_bits_on_the_cpu),
        cmocka_unit_test(test_recompute__gives_the_same_bits_on_ref),
        cmocka_unit_test(test_recompute__keeps_less_in_each_grade),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
