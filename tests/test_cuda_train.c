/* Whole steps on a GPU: the same bits run after run and with or without recorded steps,
 * accumulation against the large batch, f32 against the CPU, bf16 with every kind of attention,
 * plans that are exact. Without a GPU the program says so. */
#include "analyse/verify.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cuda/cuda.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Backend *gpu;

/* Dimensions that the kernels on tensor cores take: heads of 32. */
static TrainerSetup gpu_setup(const char *preset, int64_t batch, int64_t accum, int64_t seq)
{
    TrainerSetup setup = small_setup(preset, batch, accum, seq);
    SpecOverrides o = {
        .layers = 2, .width = 128, .heads = 4, .ffn = 200, .vocab = 1003, .context = 300};
    assert_int_equal(spec_resolve(preset, &o, 0, &setup.spec), 0);
    setup.dtype = DT_BF16;
    setup.graph = true;
    return setup;
}

static void same_bits(Outcome a, Outcome b)
{
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.losses, b.losses, sizeof a.losses);
    assert_memory_equal(a.norms, b.norms, sizeof a.norms);
    assert_memory_equal(a.params, b.params, (size_t)a.count * sizeof *a.params);
    free(b.params);
}

static const char *const presets[] = {"gpt2-124m", "llama-22m"};

static void test_cuda_train__same_bits_with_and_without_graph(void **state)
{
    (void)state;
    const DType dtypes[] = {DT_BF16, DT_E4M3};
    for (int i = 0; i < 4; i++) {
        for (int kind = ATTENTION_NAIVE; kind <= ATTENTION_LIBRARY; kind++) {
            TrainerSetup setup = gpu_setup(presets[i % 2], 4, 2, 256);
            setup.attention = (AttentionKind)kind;
            setup.dtype = dtypes[i / 2];
            setup.spec.ffn = setup.dtype == DT_E4M3 ? 208 : setup.spec.ffn; /* of 16 */
            HeadShape heads = head_shape(4, 256, 4, 4, 32);
            if (backend_attention_refusal(gpu, setup.attention, heads, DT_BF16) != NULL ||
                (setup.dtype == DT_E4M3 && gpu->quant_refusal(gpu) != NULL)) {
                continue;
            }
            Outcome first = small_run(setup, gpu, 4);
            same_bits(first, small_run(setup, gpu, 4));
            setup.graph = false;
            same_bits(first, small_run(setup, gpu, 4));
            setup.keep = KEEP_INPUTS;
            same_bits(first, small_run(setup, gpu, 4));
            free(first.params);
        }
    }
}

/* Kernels in place before those ahead of them have ended, or launched behind them. */
static void test_cuda_train__same_bits_whenever_kernels_start(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        TrainerSetup setup = gpu_setup(presets[i % 2], 8, 1, 256);
        setup.graph = i < 2;
        Outcome first = small_run(setup, gpu, 4);
        for (int early = 0; early < 2; early++) {
            Backend *other;
            early == 1 ? unsetenv("PACER_PDL") : setenv("PACER_PDL", "0", 1);
            assert_int_equal(cuda_backend_open(0, &other), 0);
            same_bits(first, small_run(setup, other, 4));
            other->close(other);
        }
        free(first.params);
    }
}

/* Heads turned inside attention or by themselves. */
static void test_cuda_train__same_bits_with_and_without_turns(void **state)
{
    (void)state;
    bool (*turns)(const Ctx *c, HeadShape shape, DType dtype) = gpu->ops.attention_turns;
    for (int i = 0; i < 4; i++) {
        TrainerSetup setup = gpu_setup("llama-22m", i % 2 == 0 ? 8 : 4, 1 + i % 2, 256);
        setup.dtype = i < 2 ? DT_BF16 : DT_F32;
        Outcome first = small_run(setup, gpu, 4);
        gpu->ops.attention_turns = NULL;
        same_bits(first, small_run(setup, gpu, 4));
        setup.graph = false;
        same_bits(first, small_run(setup, gpu, 4));
        gpu->ops.attention_turns = turns;
        free(first.params);
    }
}

/* Copies of their own streams, and of the graph's branches: each kind of state, each grade of
 * recomputation that keeps another amount, pieces that divide nothing. */
static void test_cuda_train__offload_gives_the_same_bits(void **state)
{
    (void)state;
    const struct {
        const char *preset;
        DType dtype, state;
        OptimizerId optimizer;
        int64_t layers;
    } cases[] = {{"gpt2-124m", DT_BF16, DT_F32, OPTIMIZER_ADAMW, 5},
                 {"llama-22m", DT_BF16, DT_BF16, OPTIMIZER_ADAMW, 4},
                 {"llama-22m", DT_BF16, DT_BF16, OPTIMIZER_MUON, 3},
                 {"gpt2-124m", DT_F32, DT_BF16, OPTIMIZER_SGD, 5},
                 {"gpt2-124m", DT_E4M3, DT_F32, OPTIMIZER_ADAMW, 4},
                 {"llama-22m", DT_E4M3, DT_BF16, OPTIMIZER_ADAMW, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TrainerSetup setup = gpu_setup(cases[i].preset, 4, 2, 256);
        if (cases[i].dtype == DT_E4M3 && gpu->quant_refusal(gpu) != NULL) {
            continue;
        }
        setup.spec.layers = cases[i].layers;
        setup.dtype = cases[i].dtype;
        setup.spec.ffn = setup.dtype == DT_E4M3 ? 208 : setup.spec.ffn; /* of 16 */
        setup.optimizer.id = cases[i].optimizer;
        setup.optimizer.state = cases[i].state;
        setup.offload_piece = 5000;
        Outcome first = small_run(setup, gpu, 4);
        for (int n = 0; n < 12; n++) {
            setup.graph = n % 2 == 0;
            setup.keep = n < 6 ? KEEP_ALL : KEEP_INPUTS;
            setup.offload = (OffloadKind)(OFFLOAD_OPTIMIZER + n / 2 % 3);
            same_bits(first, small_run(setup, gpu, 4));
        }
        free(first.params);
        /* Of gradients there the norm is rounded otherwise: without clipping, no matter. */
        setup.optimizer.clip = 0;
        setup.offload = OFFLOAD_NONE;
        first = small_run(setup, gpu, 4);
        setup.offload = OFFLOAD_ALL;
        for (int n = 0; n < 4; n++) {
            setup.graph = n % 2 == 0;
            setup.ddp.bucket_bytes = n < 2 ? 0 : 1 << 20;
            Outcome moved = small_run(setup, gpu, 4);
            for (int u = 0; u < SMALL_UPDATES; u++) {
                assert_true(fabs(moved.norms[u] - first.norms[u]) <= 1e-5 * first.norms[u]);
            }
            memcpy(moved.norms, first.norms, sizeof moved.norms);
            same_bits(first, moved);
        }
        free(first.params);
    }
}

static void close_losses(Outcome a, Outcome b, double bound, const char *what)
{
    for (int u = 0; u < SMALL_UPDATES; u++) {
        if (!(fabs(a.losses[u] - b.losses[u]) <= bound * b.losses[u])) {
            fail_msg("%s: loss %d is %.9g and %.9g", what, u, a.losses[u], b.losses[u]);
        }
        if (!(fabs(a.norms[u] - b.norms[u]) <= 10 * bound * b.norms[u])) {
            fail_msg("%s: norm %d is %.9g and %.9g", what, u, a.norms[u], b.norms[u]);
        }
    }
}

static void test_cuda_train__f32_as_on_the_cpu(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2);
    for (int i = 0; i < 2; i++) {
        TrainerSetup setup = small_setup(presets[i], 4, 2, 33);
        setup.graph = true;
        Outcome there = small_run(setup, gpu, 4), here = small_run(setup, cpu, 4);
        close_losses(there, here, 1e-5, presets[i]);
        free(there.params);
        free(here.params);
    }
    cpu->close(cpu);
}

static void test_cuda_train__accumulation_equals_the_large_batch(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        TrainerSetup large = small_setup(presets[i], 8, 1, 17),
                     small = small_setup(presets[i], 2, 4, 17);
        Outcome a = small_run(large, gpu, 1), b = small_run(small, gpu, 1);
        if (!(fabs(a.losses[0] - b.losses[0]) <= 1e-6 * a.losses[0] &&
              fabs(a.norms[0] - b.norms[0]) <= 1e-6 * a.norms[0])) {
            fail_msg("%s: loss %.9g and %.9g, norm %.9g and %.9g", presets[i], a.losses[0],
                     b.losses[0], a.norms[0], b.norms[0]);
        }
        free(a.params);
        free(b.params);
    }
}

/* bf16 on tensor cores beside f32 on the CPU, from the same weights and tokens. */
static void test_cuda_train__bf16_near_f32(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2);
    for (int i = 0; i < 2; i++) {
        TrainerSetup setup = gpu_setup(presets[i], 4, 2, 200);
        setup.dtype = DT_F32;
        setup.graph = false;
        Outcome here = small_run(setup, cpu, 4);
        for (int kind = ATTENTION_NAIVE; kind <= ATTENTION_LIBRARY; kind++) {
            setup = gpu_setup(presets[i], 4, 2, 200);
            setup.attention = (AttentionKind)kind;
            HeadShape heads = head_shape(4, 200, 4, 4, 32);
            if (backend_attention_refusal(gpu, setup.attention, heads, DT_BF16) == NULL) {
                Outcome there = small_run(setup, gpu, 4);
                close_losses(there, here, 2e-3, attention_name(setup.attention));
                free(there.params);
            }
        }
        free(here.params);
    }
    cpu->close(cpu);
}

/* TTT layers of 128 / heads channels, of the shapes that tensor cores take and of others. */
static TrainerSetup ttt_setup(TttKind kind, int64_t heads, int64_t seq)
{
    TrainerSetup setup = gpu_setup("ttt-125m", 4, 2, seq);
    SpecOverrides o = {.layers = 2,
                       .width = 128,
                       .heads = heads,
                       .ffn = 200,
                       .vocab = 1003,
                       .context = 1024,
                       .ttt = 1 + (int)kind};
    assert_int_equal(spec_resolve("ttt-125m", &o, 0, &setup.spec), 0);
    return setup;
}

/* The same bits run after run, recorded or not, recomputed or not; bf16 near f32 on the CPU, and
 * f32 equal to it. */
static void test_cuda_train__ttt(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2);
    for (int i = 0; i < 4; i++) {
        const char *what = i / 2 == 0 ? "TTT-Linear" : "TTT-MLP";
        TrainerSetup setup = ttt_setup(i / 2 == 0 ? TTT_LINEAR : TTT_MLP, i % 2 == 0 ? 2 : 8, 100);
        Outcome first = small_run(setup, gpu, 4);
        same_bits(first, small_run(setup, gpu, 4));
        setup.graph = false;
        same_bits(first, small_run(setup, gpu, 4));
        setup.ttt_keep = true;
        same_bits(first, small_run(setup, gpu, 4));
        setup.keep = KEEP_INPUTS;
        same_bits(first, small_run(setup, gpu, 4));
        setup.dtype = DT_F32;
        Outcome there = small_run(setup, gpu, 4), here = small_run(setup, cpu, 4);
        close_losses(there, here, 1e-5, what);
        close_losses(first, here, 2e-3, what);
        free(first.params);
        free(there.params);
        free(here.params);
    }
    cpu->close(cpu);
}

/* One long sequence, by every kernel: the same bits run after run, recorded or not, and gradients
 * as near the CPU's as `bench step` asks for. */
static void test_cuda_train__ttt_chains(void **state)
{
    (void)state;
    static const char *const kernels[] = {"whole", "split", "passes"};
    Backend *cpu = cpu_backend_open(2);
    for (int i = 0; i < 3; i++) {
        setenv("PACER_TTT_KERNEL", kernels[i], 1);
        TrainerSetup setup = ttt_setup(TTT_LINEAR, 2, 1000);
        setup.batch = setup.accum = 1;
        setup.graph = false;
        TrainPlan plan;
        Trainer t;
        Verification found;
        trainer_plan(&setup, gpu, &plan);
        assert_int_equal(trainer_open(&t, &setup, gpu, &plan), 0);
        assert_int_equal(verify_against(&t, cpu, 1, &found), 0);
        if (verify_judge(&found) != 0) {
            fail_msg("%s: %s", kernels[i], err_message());
        }
        print_message("%s: %s, %.3g %%\n", kernels[i], found.worst, 100 * found.error);
        trainer_close(&t);
        Outcome first = small_run(setup, gpu, 4);
        setup.graph = true;
        same_bits(first, small_run(setup, gpu, 4));
        setup.ttt_keep = true;
        same_bits(first, small_run(setup, gpu, 4));
        free(first.params);
    }
    unsetenv("PACER_TTT_KERNEL");
    cpu->close(cpu);
}

/* small_run asserts that the peak is the plan's, to the byte: models, types, batches, accumulation,
 * recomputation and kernels. */
static void test_cuda_train__plans_are_exact(void **state)
{
    (void)state;
    static const DType dtypes[] = {DT_F32, DT_BF16, DT_E4M3};
    int types = gpu->quant_refusal(gpu) == NULL ? 3 : 2;
    int runs = 0;
    for (int i = 0; i < 2; i++) {
        for (int d = 0; d < types; d++) {
            for (int64_t accum = 1; accum <= 4; accum *= 2) {
                for (int variant = 0; variant < 6; variant++) {
                    TrainerSetup setup = gpu_setup(presets[i], 8 / accum, accum, 136);
                    setup.dtype = dtypes[d];
                    setup.spec.ffn = setup.dtype == DT_E4M3 ? 208 : setup.spec.ffn;
                    setup.attention = (AttentionKind)(variant / 2);
                    setup.keep = variant % 2 == 1 ? KEEP_INPUTS : KEEP_ALL;
                    HeadShape heads = head_shape(8 / accum, 136, 4, 4, 32);
                    if (backend_attention_refusal(gpu, setup.attention, heads,
                                                  dtype_act(setup.dtype)) == NULL) {
                        free(small_run(setup, gpu, 1).params);
                        runs++;
                    }
                }
            }
        }
    }
    printf("plans exact in %d runs\n", runs);
    assert_true(runs >= 48);
}

/* The device's own times: in order within an update and from one to the next, recorded or not,
 * and together not longer than the host's for the same steps. */
static void test_cuda_train__stamps_are_in_order_and_fill_the_step(void **state)
{
    (void)state;
    enum { ACCUM = 3, UPDATES = 8 };
    for (int graph = 0; graph < 2; graph++) {
        TrainerSetup setup = gpu_setup("llama-22m", 2, ACCUM, 256);
        setup.graph = graph == 1;
        TrainPlan plan;
        trainer_plan(&setup, gpu, &plan);
        Trainer t;
        assert_int_equal(trainer_open(&t, &setup, gpu, &plan), 0);
        trainer_init_params(&t, 1);
        trainer_warm(&t);
        double cost = trainer_stamp_cost(&t);
        assert_true(cost > 0 && cost < 50e-6);
        Tokens tokens = make_tokens(2 * ACCUM, 256, 2, setup.spec.vocab);
        int64_t last = 0, busy = 0;
        double started = clock_seconds(), loss, norm;
        for (int64_t update = 0; update < UPDATES; update++) {
            for (int64_t micro = 0; micro < ACCUM; micro++) {
                int64_t at = micro * 2 * 256;
                trainer_micro_step(
                    &t, (HostBatch){tokens.ids + at, tokens.targets + at, tokens.order + at, NULL},
                    micro);
            }
            trainer_update(&t, 1e-3, update);
            trainer_post(&t);
            trainer_fetch(&t, &loss, &norm);
            const int64_t *stamps = t.fetched_stamps;
            assert_non_null(stamps);
            for (int i = 0; i <= ACCUM * STAMP_MICRO; i++) {
                bool end = i == ACCUM * STAMP_MICRO; /* of the update */
                int64_t stamp = end ? stamps[i - STAMP_MICRO + STAMP_UPDATE] : stamps[i];
                if (stamp <= last) {
                    fail_msg("graph %d, update %d: stamp %d is %lld, the one before %lld", graph,
                             (int)update, i, (long long)stamp, (long long)last);
                }
                busy += end || i % STAMP_MICRO != 0 ? stamp - last : 0;
                last = stamp;
            }
        }
        double seconds = clock_seconds() - started;
        assert_true(1e-9 * (double)busy < seconds);
        printf("graph %s: %.3f ms of %.3f by the device's clock, %.2f us a stamp\n",
               graph == 1 ? "on" : "off", 1e-6 * (double)busy, 1e3 * seconds, 1e6 * cost);
        free_tokens(tokens);
        trainer_close(&t);
    }
}

int main(void)
{
    setenv("PACER_TUNE", "off", 1);
    if (cuda_backend_open(0, &gpu) != 0) {
        printf("skipped: %s\n", err_message());
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda_train__same_bits_with_and_without_graph),
        cmocka_unit_test(test_cuda_train__same_bits_whenever_kernels_start),
        cmocka_unit_test(test_cuda_train__same_bits_with_and_without_turns),
        cmocka_unit_test(test_cuda_train__offload_gives_the_same_bits),
        cmocka_unit_test(test_cuda_train__f32_as_on_the_cpu),
        cmocka_unit_test(test_cuda_train__accumulation_equals_the_large_batch),
        cmocka_unit_test(test_cuda_train__bf16_near_f32),
        cmocka_unit_test(test_cuda_train__ttt),
        cmocka_unit_test(test_cuda_train__ttt_chains),
        cmocka_unit_test(test_cuda_train__plans_are_exact),
        cmocka_unit_test(test_cuda_train__stamps_are_in_order_and_fill_the_step),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gpu->close(gpu);
    return failed;
}
