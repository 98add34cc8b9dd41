/* What was timed is verified: right steps of both families pass, in f32 and in bf16, and each
 * planted fault is found and named: a gradient of the wrong size, one left out, a mask that lets
 * the next token through, sequences mixed up, an update that forgets something. */
#include "analyse/verify.h"

#include "base/err.h"
#include "support/capture.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const presets[] = {"gpt2-124m", "llama-22m"};

static void open_trainer(Trainer *t, const TrainerSetup *setup, Backend *backend)
{
    TrainPlan plan;
    trainer_plan(setup, backend, &plan);
    assert_int_equal(trainer_open(t, setup, backend, &plan), 0);
    trainer_init_params(t, 3);
}

static Verification verify(const TrainerSetup *setup, Backend *backend, Backend *trusted,
                           int sequences)
{
    Trainer t;
    Verification found;
    open_trainer(&t, setup, backend);
    assert_int_equal(verify_against(&t, trusted, sequences, &found), 0);
    trainer_close(&t);
    return found;
}

static void passes(const TrainerSetup *setup, Backend *backend, Backend *trusted, int sequences)
{
    Verification found = verify(setup, backend, trusted, sequences);
    if (verify_judge(&found) != 0) {
        fail_msg("%s: %s", setup->spec.name, err_message());
    }
    assert_true(found.tensors > 10 && found.error > 0 && found.expected_norm > 0.1);
    assert_true(fabs(found.expected_loss - log((double)setup->spec.vocab)) < 0.5);
}

static void test_verify__f32_on_the_cpu_passes(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2), *ref = ref_backend_open();
    for (int i = 0; i < 2; i++) {
        TrainerSetup setup = small_setup(presets[i], 3, 2, 17);
        passes(&setup, cpu, ref, 2);
        setup.keep = KEEP_INPUTS;
        setup.attention = ATTENTION_NAIVE;
        passes(&setup, cpu, ref, 1);
        setup = small_setup(presets[i], 1, 1, 9);
        passes(&setup, cpu, ref, 1);
    }
    ref->close(ref);
    cpu->close(cpu);
}

/* Some matrices have no copy in bf16, and what comes behind them lies elsewhere in it. */
static void test_verify__fp8_passes(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2), *ref = ref_backend_open();
    for (int i = 0; i < 2; i++) {
        TrainerSetup setup = small_setup(presets[i], 2, 2, 16);
        setup.dtype = DT_E4M3;
        setup.spec.ffn = 80;
        passes(&setup, ref, cpu, 2);
        setup.plain_products = 1;
        passes(&setup, ref, cpu, 1);
    }
    ref->close(ref);
    cpu->close(cpu);
}

/* Grouped keys, a head of its own, more micro-steps than sequences in each. */
static void test_verify__bf16_passes(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2), *ref = ref_backend_open();
    for (int i = 0; i < 2; i++) {
        TrainerSetup setup = small_setup(presets[i], 2, 3, 19);
        SpecOverrides o = {.layers = 3,
                           .width = 48,
                           .heads = 6,
                           .kv_heads = i == 0 ? 6 : 2,
                           .ffn = 72,
                           .vocab = 101,
                           .context = 40,
                           .tied = 1 + i};
        assert_int_equal(spec_resolve(presets[i], &o, 0, &setup.spec), 0);
        setup.dtype = DT_BF16;
        Verification found = verify(&setup, ref, cpu, 2);
        assert_int_equal(verify_judge(&found), 0);
        assert_true(found.error > 1e-3); /* the rounding of bf16 shows */
        setup.dtype = DT_F32;
        passes(&setup, ref, cpu, 2);
    }
    ref->close(ref);
    cpu->close(cpu);
}

/* Rates of TTT layers learn from all tokens, not from the few that are not at an end of the
 * sigmoid: rounding shows there no more than elsewhere. */
static void test_verify__bf16_rates_are_not_at_their_ends(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2), *ref = ref_backend_open();
    TrainerSetup setup = small_setup("ttt-125m", 1, 1, 60);
    SpecOverrides o = {
        .layers = 3, .width = 256, .heads = 4, .ffn = 72, .vocab = 101, .context = 60};
    assert_int_equal(spec_resolve("ttt-125m", &o, 0, &setup.spec), 0);
    setup.dtype = DT_BF16;
    Verification found = verify(&setup, ref, cpu, 1);
    if (!(found.error < 0.045)) {
        fail_msg("the gradient of %s is %.3g %% off", found.worst, 100 * found.error);
    }
    ref->close(ref);
    cpu->close(cpu);
}

/* The right slots, which the wrong ones below call first. */
static Ops right;

static void scale(Tensor t, double by)
{
    float *data = t.data;
    for (int64_t i = 0; i < tensor_count(t); i++) {
        data[i] *= (float)by;
    }
}

static void scaled_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode, void *ws)
{
    right.linear_backward_weight(c, x, dy, dw, dbias, mode, ws);
    if (dw.dim[0] == 48 && dw.dim[1] == 48) {
        scale(dw, 1.3);
    }
}

static void dropped_bias(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode, void *ws)
{
    right.linear_backward_weight(c, x, dy, dw, dbias, mode, ws);
    if (tensor_given(dbias) && dbias.dim[0] == 72) {
        scale(dbias, 0);
    }
}

/* Gradients of later micro-steps replace those before. */
static void not_added(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx, Mode dx_mode,
                      Tensor dweight, Tensor dbias, Mode mode, void *ws)
{
    (void)mode;
    right.norm_backward(c, dy, x, norm, stats, dx, dx_mode, dweight, dbias, MODE_SET, ws);
}

/* As if each token saw the one behind it: its output is taken from there. */
static void shifted_mask(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux, void *ws)
{
    right.attention_forward(c, qkv, shape, out, aux, ws);
    size_t row = tensor_bytes(out) / (size_t)out.dim[0];
    memmove(out.data, (char *)out.data + row, tensor_bytes(out) - row);
}

/* All sequences of a micro-step attend to the first one's tokens. */
static void mixed_sequences(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux, void *ws)
{
    right.attention_forward(c, qkv, shape, out, aux, ws);
    size_t sequence = tensor_bytes(out) / (size_t)shape.batch;
    for (int64_t s = 1; s < shape.batch; s++) {
        memcpy((char *)out.data + (size_t)s * sequence, out.data, sequence);
    }
}

static void wrong_scale_of_queries(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux,
                                   HeadShape shape, Tensor dqkv, void *ws)
{
    right.attention_backward(c, dout, qkv, out, aux, shape, dqkv, ws);
    for (int64_t row = 0; row < dqkv.dim[0]; row++) {
        Tensor q = tensor_rows(dqkv, row, 1);
        q.dim[1] = shape.heads * shape.head_dim;
        scale(q, sqrt(2));
    }
}

static void no_bias_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y)
{
    (void)bias;
    right.linear_forward(c, x, w, TENSOR_NONE, y);
}

static void no_decay(Ctx *c, UpdateArgs args)
{
    args.decay = false;
    right.adamw(c, args);
}

static void not_a_number(Ctx *c, Tensor x, double by, Tensor out, Mode mode)
{
    right.sum(c, x, by, out, mode);
    *(float *)out.data = NAN;
}

/* A low copy of the weights that is written in another place than it is read from would stay as
 * it was. */
static void stale_low(Ctx *c, UpdateArgs args)
{
    args.low = TENSOR_NONE;
    right.adamw(c, args);
}

typedef struct {
    const char *preset, *message; /* a part of it */
    DType dtype;
    void (*plant)(Ops *ops);
} Fault;

#define PLANT(slot, wrong)              \
    static void plant_##wrong(Ops *ops) \
    {                                   \
        ops->slot = wrong;              \
    }
PLANT(linear_backward_weight, scaled_weight)
PLANT(linear_backward_weight, dropped_bias)
PLANT(norm_backward, not_added)
PLANT(attention_forward, shifted_mask)
PLANT(attention_forward, mixed_sequences)
PLANT(attention_backward, wrong_scale_of_queries)
PLANT(linear_forward, no_bias_forward)
PLANT(adamw, no_decay)
PLANT(sum, not_a_number)
PLANT(adamw, stale_low)

static const Fault faults[] = {
    {"gpt2-124m", "attn.proj.weight", DT_F32, plant_scaled_weight},
    {"gpt2-124m", "attn.proj.weight", DT_BF16, plant_scaled_weight},
    {"llama-22m", "self_attn.o_proj.weight", DT_F32, plant_scaled_weight},
    {"llama-22m", "self_attn.o_proj.weight", DT_BF16, plant_scaled_weight},
    {"gpt2-124m", "mlp.fc.bias is 100 % off", DT_F32, plant_dropped_bias},
    {"gpt2-124m", "mlp.fc.bias is 100 % off", DT_BF16, plant_dropped_bias},
    {"gpt2-124m", "ln_", DT_BF16, plant_not_added},
    {"llama-22m", "norm.weight", DT_BF16, plant_not_added},
    {"gpt2-124m", "the gradient of h.", DT_BF16, plant_shifted_mask},
    {"llama-22m", "the gradient of model.layers.", DT_BF16, plant_shifted_mask},
    {"gpt2-124m", "the gradient of h.", DT_BF16, plant_mixed_sequences},
    {"llama-22m", "the gradient of model.layers.", DT_BF16, plant_mixed_sequences},
    {"llama-22m", "self_attn.q_proj.weight", DT_F32, plant_wrong_scale_of_queries},
    {"gpt2-124m", "attn.qkv", DT_F32, plant_wrong_scale_of_queries},
    {"gpt2-124m", "the gradient of h.", DT_BF16, plant_no_bias_forward},
    {"gpt2-124m", "after an update", DT_F32, plant_no_decay},
    {"llama-22m", "after an update", DT_BF16, plant_no_decay},
    {"llama-22m", "its loss is nan", DT_F32, plant_not_a_number},
    {"llama-22m", "after an update", DT_BF16, plant_stale_low},
};

static void test_verify__planted_faults_are_found_and_named(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        const Fault *fault = &faults[i];
        Backend *faulty = ref_backend_open();
        right = faulty->ops;
        fault->plant(&faulty->ops);
        TrainerSetup setup = small_setup(fault->preset, 2, 2, 13);
        setup.dtype = fault->dtype;
        Verification found = verify(&setup, faulty, cpu, 2);
        if (verify_judge(&found) != ERR_CHECK || strstr(err_message(), fault->message) == NULL) {
            fail_msg("fault %zu: '%s' is not in '%s'", i, fault->message, err_message());
        }
        faulty->close(faulty);
    }
    cpu->close(cpu);
}

/* What verify_trainer prints; caller frees. */
static char *printed(const TrainerSetup *setup, Backend *backend, VerifyOptions options, int status)
{
    Trainer t;
    open_trainer(&t, setup, backend);
    capture_begin(STDOUT_FILENO);
    int code = verify_trainer(&t, options);
    char *text = capture_end();
    trainer_close(&t);
    assert_int_equal(code, status);
    return text;
}

static void expect_printed(const TrainerSetup *setup, Backend *backend, VerifyOptions options,
                           const char *expected)
{
    char *text = printed(setup, backend, options, 0);
    if (strncmp(text, expected, strlen(expected)) != 0) {
        fail_msg("'%s' does not begin with '%s'", text, expected);
    }
    free(text);
}

static void test_verify__what_takes_too_long_is_cut_down(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2), *ref = ref_backend_open();
    TrainerSetup setup = small_setup("llama-22m", 2, 1, 40);
    VerifyOptions plenty = {.threads = 2, .seconds = 10}, hurry = plenty, tight = plenty;
    expect_printed(&setup, cpu, plenty, "verified: loss 4.6");
    expect_printed(&setup, ref, plenty, "verified: loss 4.6");
    hurry.seconds = 0.008; /* for about 16 million operations per sequence */
    expect_printed(
        &setup, cpu, hurry,
        "verified at batch 2 x seq 20 x accum 2 (the timed shape would take ref too long; it "
        "agrees with its sequences taken alone): loss 4.");
    hurry.seconds = 1e-4;
    expect_printed(&setup, cpu, hurry, "not verified: even 10 tokens would take ref about");
    tight.host_memory = 1 << 20;
    expect_printed(&setup, cpu, tight, "not verified: that needs ");
    ref->close(ref);
    cpu->close(cpu);
}

static void test_verify__a_fault_is_an_error_of_the_command(void **state)
{
    (void)state;
    Backend *faulty = ref_backend_open();
    right = faulty->ops;
    plant_scaled_weight(&faulty->ops);
    TrainerSetup setup = small_setup("llama-22m", 2, 1, 16);
    char *text = printed(&setup, faulty, (VerifyOptions){.threads = 2, .seconds = 10}, ERR_CHECK);
    assert_string_equal(text, "");
    assert_non_null(strstr(err_message(), "off the CPU's in f32"));
    free(text);
    faulty->close(faulty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify__f32_on_the_cpu_passes),
        cmocka_unit_test(test_verify__fp8_passes),
        cmocka_unit_test(test_verify__bf16_passes),
        cmocka_unit_test(test_verify__bf16_rates_are_not_at_their_ends),
        cmocka_unit_test(test_verify__planted_faults_are_found_and_named),
        cmocka_unit_test(test_verify__what_takes_too_long_is_cut_down),
        cmocka_unit_test(test_verify__a_fault_is_an_error_of_the_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
