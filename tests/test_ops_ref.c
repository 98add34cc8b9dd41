/* Ops of ref against values worked out by hand or by another formula, the storage types,
 * and the rules of the contract that no gradient shows. */
#include "support/op_check.h"
#include "support/op_hand.h"

#include "base/mem.h"
#include "optim/optimizer.h"
#include "ref/ref.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void test_ops_ref__backend_memory_is_aligned_and_copied(void **state)
{
    Backend *backend = ((Ctx *)*state)->backend;
    assert_null(ops_missing(&backend->ops));
    assert_string_equal(backend->name, "ref");
    for (size_t bytes = 0; bytes < 2000; bytes += 333) {
        char *block = backend->alloc(backend, bytes);
        char *host = mem_alloc(bytes + 1);
        assert_int_equal((uintptr_t)block % ARENA_ALIGN, 0);
        memset(host, 7, bytes);
        backend->upload(backend, block, host, bytes);
        memset(host, 0, bytes);
        backend->download(backend, host, block, bytes);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(host[i], 7);
        }
        backend->zero(backend, block, bytes);
        for (size_t i = 0; i < bytes; i++) {
            assert_int_equal(block[i], 0);
        }
        free(host);
        backend->release(backend, block);
    }
    assert_null(backend->alloc(backend, SIZE_MAX - 8));
    backend->release(backend, NULL);
}

static double through(DType dtype, double value)
{
    return op_round(dtype, value);
}

static void test_ops_ref__bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    /* bf16 numbers around 1 are 2^-7 apart. */
    assert_true(through(DT_BF16, 1) == 1);
    assert_true(through(DT_BF16, 1 + 0x1p-8) == 1);                    /* tie: to even, down */
    assert_true(through(DT_BF16, 1 + 0x1p-8 + 0x1p-20) == 1 + 0x1p-7); /* above the tie */
    assert_true(through(DT_BF16, 1 + 3 * 0x1p-8) == 1 + 0x1p-6);       /* tie: to even, up */
    assert_true(through(DT_BF16, -(1 + 3 * 0x1p-8)) == -(1 + 0x1p-6));
    assert_true(through(DT_BF16, 3.14159265358979) == 3.140625);
    assert_true(through(DT_BF16, 1 - 0x1p-10) == 1); /* carries into the exponent */
    assert_true(through(DT_BF16, FLT_MAX) == INFINITY);
    assert_true(through(DT_BF16, -INFINITY) == -INFINITY);
    assert_true(through(DT_BF16, 0x1p-133) == 0x1p-133); /* smallest of all */
    assert_true(isnan(through(DT_BF16, NAN)));
    uint32_t bits = 0x7F800001; /* a NaN whose upper half alone reads as infinity */
    float value;
    memcpy(&value, &bits, sizeof value);
    assert_true(isnan(f32_from_bf16(bf16_from_f32(value))));
    for (uint32_t half = 0; half < 0x7F80; half++) { /* every finite number survives */
        assert_int_equal(bf16_from_f32(f32_from_bf16((uint16_t)half)), half);
    }
}

static void test_ops_ref__f32_and_f64_storage(void **state)
{
    (void)state;
    assert_true(through(DT_F32, 1.0 / 3) == (double)(1.0f / 3.0f));
    assert_true(through(DT_F32, 1 + 0x1p-24) == 1);
    assert_true(through(DT_F64, 1.0 / 3) == 1.0 / 3);
    assert_true(through(DT_I32, -7) == -7);
}

/* Every op in the types that models use: within the rule of op_check.h of its own f64 result. */
static void check_type(DType act)
{
    Backend *ref = ref_backend_open();
    for (int op = 0; op < OP_QUANTISE; op++) { /* test_quant has those behind it */
        op_check_devices(&(OpDevice){.name = "ref", .backend = ref}, 1, (OpId)op, act, 1e6);
    }
    ref->close(ref);
}

static void test_ops_ref__f32_agrees_with_f64(void **state)
{
    (void)state;
    check_type(DT_F32);
}

static void test_ops_ref__bf16_agrees_with_f64(void **state)
{
    (void)state;
    check_type(DT_BF16);
}

static void test_ops_ref__embed(void **state)
{
    Ctx *c = *state;
    Tensor table = hand_filled(c, DT_F32, 3, 2, (double[]){1, 2, 10, 20, 100, 200});
    Tensor positions = hand_filled(c, DT_F32, 3, 2, (double[]){0.5, 0.25, -1, -2, 7, 7});
    Tensor ids = hand_flat(hand_filled(c, DT_I32, 4, 1, (double[]){2, 0, 0, 2}));
    Tensor out = hand_filled(c, DT_F32, 4, 2, NULL);
    op_embed_forward(c, ids, table, positions, TENSOR_NONE, 2, out);
    hand_expect_values(out, (double[]){100.5, 200.25, 0, 0, 1.5, 2.25, 99, 198}, 0);
    op_embed_forward(c, ids, table, TENSOR_NONE, TENSOR_NONE, 4, out);
    hand_expect_values(out, (double[]){100, 200, 1, 2, 1, 2, 100, 200}, 0);
}

/* Token 0 comes twice, token 1 never, token 2 twice; position 2 lies beyond the sequence. */
static void test_ops_ref__embed_backward_repeated_and_absent_tokens(void **state)
{
    Ctx *c = *state;
    Tensor ids = hand_flat(hand_filled(c, DT_I32, 4, 1, (double[]){2, 0, 0, 2}));
    Tensor order = hand_flat(hand_filled(c, DT_I32, 4, 1, (double[]){1, 2, 0, 3}));
    Tensor dout = hand_filled(c, DT_F32, 4, 1, (double[]){1, 10, 100, 1000});
    Tensor dtable = hand_filled(c, DT_F32, 3, 1, NULL),
           dpositions = hand_filled(c, DT_F32, 3, 1, NULL);
    op_embed_backward(c, ids, order, dout, dtable, dpositions, TENSOR_NONE, 2, MODE_SET, MODE_SET);
    hand_expect_values(dtable, (double[]){110, 0, 1001}, 0);
    hand_expect_values(dpositions, (double[]){101, 1010, 0}, 0);
    op_embed_backward(c, ids, order, dout, dtable, dpositions, TENSOR_NONE, 2, MODE_ADD, MODE_SET);
    hand_expect_values(dtable, (double[]){220, 0, 2002}, 0);
    hand_expect_values(dpositions, (double[]){101, 1010, 0}, 0);
    op_embed_backward(c, ids, order, dout, dtable, dpositions, TENSOR_NONE, 1, MODE_SET, MODE_ADD);
    hand_expect_values(dtable, (double[]){110, 0, 1001}, 0);
    hand_expect_values(dpositions, (double[]){101 + 1111, 1010, 0}, 0);
}

static void test_ops_ref__linear(void **state)
{
    Ctx *c = *state;
    Tensor x = hand_filled(c, DT_F32, 2, 3, (double[]){1, 2, 3, -1, 0, 2});
    Tensor w = hand_filled(c, DT_F32, 2, 3, (double[]){1, 0, -1, 2, 1, 0.5});
    Tensor bias = hand_flat(hand_filled(c, DT_F32, 2, 1, (double[]){10, 20}));
    Tensor y = hand_filled(c, DT_F32, 2, 2, NULL);
    op_linear_forward(c, x, w, TENSOR_NONE, y);
    hand_expect_values(y, (double[]){-2, 5.5, -3, -1}, 0);
    op_linear_forward(c, x, w, bias, y);
    hand_expect_values(y, (double[]){8, 25.5, 7, 19}, 0);
    Tensor dy = hand_filled(c, DT_F32, 2, 2, (double[]){1, 2, 3, 4}),
           dx = hand_filled(c, DT_F32, 2, 3, NULL);
    op_linear_backward_input(c, dy, w, dx, MODE_SET);
    hand_expect_values(dx, (double[]){5, 2, 0, 11, 4, -1}, 0);
    op_linear_backward_input(c, dy, w, dx, MODE_ADD);
    hand_expect_values(dx, (double[]){10, 4, 0, 22, 8, -2}, 0);
    Tensor dw = hand_filled(c, DT_F32, 2, 3, NULL),
           dbias = hand_flat(hand_filled(c, DT_F32, 2, 1, NULL));
    op_linear_backward_weight(c, x, dy, dw, dbias, MODE_SET);
    hand_expect_values(dw, (double[]){-2, 2, 9, -2, 4, 14}, 0);
    hand_expect_values(dbias, (double[]){4, 6}, 0);
}

/* 16777216 + 1 - 16777216 is 1 in double and 0 in float. */
static void test_ops_ref__sums_in_double(void **state)
{
    Ctx *c = *state;
    Tensor x = hand_filled(c, DT_F32, 1, 3, (double[]){16777216, 1, -16777216});
    Tensor ones = hand_filled(c, DT_F32, 1, 3, (double[]){1, 1, 1});
    Tensor out = hand_filled(c, DT_F32, 1, 1, NULL);
    op_linear_forward(c, x, ones, TENSOR_NONE, out);
    assert_true(ref_get(out, 0) == 1);
    op_sum(c, hand_flat(x), 3, hand_flat(out), MODE_SET);
    assert_true(ref_get(out, 0) == 3);
    op_sum(c, hand_flat(x), 3, hand_flat(out), MODE_ADD);
    assert_true(ref_get(out, 0) == 6);
    op_sum_squares(c, hand_flat(ones), hand_flat(out), MODE_ADD);
    assert_true(ref_get(out, 0) == 9);
}

static void test_ops_ref__add(void **state)
{
    Ctx *c = *state;
    Tensor a = hand_filled(c, DT_F32, 1, 2, (double[]){1, 2}),
           b = hand_filled(c, DT_F32, 1, 2, (double[]){10, 20});
    op_add(c, a, b, a);
    hand_expect_values(a, (double[]){11, 22}, 0);
    op_add(c, a, b, b);
    hand_expect_values(b, (double[]){21, 42}, 0);
}

/* Row (1, 2, 3, 4): mean 2.5, variance 1.25, mean square 7.5. */
static void test_ops_ref__norms_of_one_row(void **state)
{
    Ctx *c = *state;
    Tensor x = hand_filled(c, DT_F64, 1, 4, (double[]){1, 2, 3, 4});
    Norm norm = {.kind = NORM_LAYER, .eps = 0.1};
    norm.weight = hand_flat(hand_filled(c, DT_F64, 4, 1, (double[]){1, 2, 1, -1}));
    norm.bias = hand_flat(hand_filled(c, DT_F64, 4, 1, (double[]){0, 0, 5, 0}));
    Tensor y = hand_filled(c, DT_F64, 1, 4, NULL), stats = hand_filled(c, DT_F64, 1, 2, NULL);
    op_norm_forward(c, x, norm, y, stats);
    double rstd = 0.860662965823870; /* 1.35^-1/2 */
    hand_expect_values(stats, (double[]){2.5, rstd}, 1e-14);
    hand_expect_values(y, (double[]){-1.5 * rstd, -rstd, 5 + 0.5 * rstd, -1.5 * rstd}, 1e-14);
    norm.kind = NORM_RMS;
    norm.bias = TENSOR_NONE;
    op_norm_forward(c, x, norm, y, stats);
    rstd = 0.362738125055006; /* 7.6^-1/2 */
    hand_expect_values(stats, (double[]){0, rstd}, 1e-14);
    hand_expect_values(y, (double[]){rstd, 4 * rstd, 3 * rstd, -4 * rstd}, 1e-14);
}

/* Unit weights: rows leave the layer norm with mean 0 and variance var / (var + eps). */
static void test_ops_ref__layer_norm_standardises_rows(void **state)
{
    Ctx *c = *state;
    int64_t rows = 7, width = 33;
    Tensor x = hand_normals(c, DT_F64, rows, width, 3),
           y = hand_filled(c, DT_F64, rows, width, NULL);
    Tensor stats = hand_filled(c, DT_F64, rows, 2, NULL);
    Norm norm = {.kind = NORM_LAYER, .eps = 1e-5};
    norm.weight = hand_flat(hand_normals(c, DT_F64, width, 1, 0));
    norm.bias = hand_flat(hand_normals(c, DT_F64, width, 1, 0));
    for (int64_t i = 0; i < width; i++) {
        ref_put(norm.weight, i, 1);
    }
    op_norm_forward(c, x, norm, y, stats);
    for (int64_t n = 0; n < rows; n++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < width; i++) {
            sum += ref_get(y, n * width + i);
            squares += ref_get(y, n * width + i) * ref_get(y, n * width + i);
        }
        double rstd = ref_get(stats, n * 2 + 1);
        hand_close_to(sum, 0, 1e-12);
        hand_close_to(squares / (double)width, 1 - 1e-5 * rstd * rstd, 1e-12);
    }
}

/* The norm reads the sum as it is stored, rounded to the activation type. */
static void test_ops_ref__add_norm_reads_the_rounded_sum(void **state)
{
    Ctx *c = *state;
    Tensor x = hand_filled(c, DT_BF16, 1, 2, (double[]){1, -1});
    Tensor h = hand_filled(c, DT_BF16, 1, 2, (double[]){0x1p-9, 0}); /* below half a step: lost */
    Tensor y = hand_filled(c, DT_BF16, 1, 2, NULL), stats = hand_filled(c, DT_F32, 1, 2, NULL);
    Norm norm = {.kind = NORM_LAYER, .eps = 0};
    norm.weight = hand_flat(hand_filled(c, DT_BF16, 2, 1, (double[]){1, 1}));
    norm.bias = hand_flat(hand_filled(c, DT_BF16, 2, 1, (double[]){0, 0}));
    op_add_norm_forward(c, x, h, norm, x, y, stats);
    hand_expect_values(x, (double[]){1, -1}, 0);
    hand_expect_values(stats, (double[]){0, 1}, 0);
}

static void test_ops_ref__swiglu(void **state)
{
    Ctx *c = *state;
    double ln3 = 1.09861228866810969; /* sigmoid(ln 3) = 3/4, sigmoid(-ln 3) = 1/4 */
    Tensor gate_up = hand_filled(c, DT_F64, 1, 6, (double[]){ln3, -ln3, 0, 2, 4, 8});
    Tensor y = hand_filled(c, DT_F64, 1, 3, NULL);
    op_gated_forward(c, ACT_SILU, gate_up, y);
    hand_expect_values(y, (double[]){1.5 * ln3, -ln3, 0}, 1e-14);
    Tensor dy = hand_filled(c, DT_F64, 1, 3, (double[]){1, 1, 3});
    op_gated_backward(c, ACT_SILU, dy, gate_up, gate_up);
    double slope = 0.75 + ln3 * 0.75 * 0.25, mirrored = 0.25 - ln3 * 0.75 * 0.25;
    hand_expect_values(gate_up, (double[]){2 * slope, 4 * mirrored, 12, 0.75 * ln3, -0.25 * ln3, 0},
                       1e-14);
}

/* The tanh form at 1, 2, 0.5 and far out, from a separate evaluation in 30 digits. */
static void test_ops_ref__gelu(void **state)
{
    Ctx *c = *state;
    Tensor x = hand_filled(c, DT_F64, 1, 8, (double[]){0, 1, -1, 2, -2, 0.5, 40, -40});
    Tensor y = hand_filled(c, DT_F64, 1, 8, NULL);
    op_act_forward(c, ACT_GELU, x, y);
    hand_expect_values(y,
                       (double[]){0, 0.84119199060827665, -0.15880800939172329, 1.954597694087775,
                                  -0.04540230591222498, 0.34571400982514394, 40, 0},
                       1e-14);
    Tensor dy = hand_filled(c, DT_F64, 1, 8, (double[]){2, 1, 1, 1, 1, 1, 5, 5});
    op_act_backward(c, ACT_GELU, dy, x, dy);
    hand_expect_values(dy,
                       (double[]){1, 1.0829640838457826, -0.082964083845782549, 1.0860992566236183,
                                  -0.086099256623618378, 0.86736990353464227, 5, 0},
                       1e-14);
}

static void test_ops_ref__relu2(void **state)
{
    Ctx *c = *state;
    Tensor x = hand_filled(c, DT_F64, 1, 4, (double[]){0, 3, -3, 0.5});
    Tensor y = hand_filled(c, DT_F64, 1, 4, NULL);
    op_act_forward(c, ACT_RELU2, x, y);
    hand_expect_values(y, (double[]){0, 9, 0, 0.25}, 0);
    Tensor dy = hand_filled(c, DT_F64, 1, 4, (double[]){5, 2, 7, 3});
    op_act_backward(c, ACT_RELU2, dy, x, dy);
    hand_expect_values(dy, (double[]){0, 12, 0, 3}, 0);
}

static void test_ops_ref__xent_of_uniform_logits(void **state)
{
    Ctx *c = *state;
    double values[3 * 97];
    for (int i = 0; i < 3 * 97; i++) {
        values[i] = i < 97 ? 0 : i < 2 * 97 ? 1000 : -1000;
    }
    Tensor logits = hand_filled(c, DT_F64, 3, 97, values),
           losses = hand_flat(hand_filled(c, DT_F64, 3, 1, NULL));
    Tensor targets = hand_flat(hand_filled(c, DT_I32, 3, 1, (double[]){0, 96, 50}));
    op_xent(c, logits, logits.dim[1], 0, targets, losses, 1, false);
    double uniform = 4.57471097850338; /* ln 97 */
    hand_expect_values(losses, (double[]){uniform, uniform, uniform}, 1e-12);
    hand_expect_values(logits, values, 0);
    op_xent(c, logits, logits.dim[1], 0, targets, losses, 97, true);
    for (int64_t i = 0; i < 3 * 97; i++) {
        hand_close_to(ref_get(logits, i), i == 0 || i == 97 + 96 || i == 2 * 97 + 50 ? 1 - 97 : 1,
                      1e-10);
    }
}

/* exp of the logits is 1, 2, 5. A negative target gives nothing, whatever its logits. */
static void test_ops_ref__xent_by_hand_and_without_target(void **state)
{
    Ctx *c = *state;
    double ln2 = 0.693147180559945309, ln5 = 1.60943791243410037;
    Tensor logits = hand_filled(c, DT_F64, 2, 3, (double[]){0, ln2, ln5, 3, 2, 1});
    Tensor targets = hand_flat(hand_filled(c, DT_I32, 2, 1, (double[]){1, -1}));
    Tensor losses = hand_flat(hand_filled(c, DT_F64, 2, 1, NULL));
    op_xent(c, logits, logits.dim[1], 0, targets, losses, 0.5, true);
    hand_expect_values(losses, (double[]){2 * ln2, 0}, 1e-14); /* -ln(2/8) */
    hand_expect_values(logits, (double[]){1 / 16.0, -6 / 16.0, 5 / 16.0, 0, 0, 0}, 1e-15);
}

/* Three steps of one parameter by the textbook form, where moments are divided by 1 - beta^t. */
static void test_ops_ref__adamw_three_steps(void **state)
{
    Ctx *c = *state;
    double gradients[] = {0.5, -1.25, 2}, lr = 0.125, b1 = 0.75, b2 = 0.875, eps = 0.0625,
           decay = 0.25;
    UpdateArgs args = {.param = hand_flat(hand_filled(c, DT_F64, 2, 1, (double[]){3, 3})),
                       .decay = true};
    args.state[0] = hand_flat(hand_filled(c, DT_F64, 2, 1, (double[]){0, 0}));
    args.state[1] = hand_flat(hand_filled(c, DT_F64, 2, 1, (double[]){0, 0}));
    args.hyper = hand_flat(hand_filled(c, DT_F32, HYPER_COUNT, 1, NULL));
    args.norm_sq = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){1e9}));
    args.low = hand_flat(hand_filled(c, DT_BF16, 2, 1, NULL));
    ref_put(args.hyper, HYPER_LR, lr);
    ref_put(args.hyper, HYPER_BETA1, b1);
    ref_put(args.hyper, HYPER_BETA2, b2);
    ref_put(args.hyper, HYPER_REST1, 1 - b1);
    ref_put(args.hyper, HYPER_REST2, 1 - b2);
    ref_put(args.hyper, HYPER_EPS, eps);
    ref_put(args.hyper, HYPER_DECAY, decay);
    ref_put(args.hyper, HYPER_CLIP, 0);
    double p = 3, m = 0, v = 0;
    for (int t = 1; t <= 3; t++) {
        double g = gradients[t - 1];
        args.grad = hand_flat(hand_filled(c, DT_F64, 2, 1, (double[]){g, -g}));
        ref_put(args.hyper, HYPER_CORRECTION1, 1 - pow(b1, t)); /* exact in f32 for these betas */
        ref_put(args.hyper, HYPER_CORRECTION2, 1 - pow(b2, t));
        op_adamw(c, args);
        m = b1 * m + (1 - b1) * g;
        v = b2 * v + (1 - b2) * g * g;
        double step = m / (1 - pow(b1, t)) / (sqrt(v / (1 - pow(b2, t))) + eps);
        p = p * (1 - lr * decay) - lr * step;
        hand_close_to(ref_get(args.param, 0), p, 1e-14);
        hand_close_to(ref_get(args.state[0], 0), m, 1e-14);
        hand_close_to(ref_get(args.state[1], 1), v, 1e-14);
        assert_true(ref_get(args.low, 0) == through(DT_BF16, p));
    }
    /* First step in literals: p = 3 - 3/32 - (1/8) (1/2) / (1/2 + 1/16). */
    ref_put(args.param, 0, 3);
    ref_put(args.state[0], 0, 0);
    ref_put(args.state[1], 0, 0);
    ref_put(args.grad, 0, 0.5);
    ref_put(args.hyper, HYPER_CORRECTION1, 1 - b1);
    ref_put(args.hyper, HYPER_CORRECTION2, 1 - b2);
    op_adamw(c, args);
    hand_close_to(ref_get(args.param, 0), 3 - 3 / 32.0 - 1 / 9.0, 1e-15);
}

/* Whatever the betas, the first update moves a weight by the rate, against its gradient's sign. */
static void test_ops_ref__adamw_first_update_at_any_beta(void **state)
{
    Ctx *c = *state;
    const double betas[] = {0, 0.9, 0.999, 0.999999, 0.9999999};
    for (size_t i = 0; i < sizeof betas / sizeof betas[0]; i++) {
        OptimizerSettings settings = {.beta1 = betas[i], .beta2 = betas[i], .eps = 1e-20};
        float hyper[HYPER_COUNT] = {0};
        optimizer_kind(OPTIMIZER_ADAMW)->others->fill_hyper(&settings, 0.5, 1, 0, hyper);
        UpdateArgs args = {.param = hand_flat(hand_filled(c, DT_F64, 2, 1, (double[]){3, 3}))};
        args.state[0] = hand_flat(hand_filled(c, DT_F64, 2, 1, (double[]){0, 0}));
        args.state[1] = hand_flat(hand_filled(c, DT_F64, 2, 1, (double[]){0, 0}));
        args.grad = hand_flat(hand_filled(c, DT_F64, 2, 1, (double[]){0.25, -8}));
        args.norm_sq = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){1}));
        args.hyper = hand_flat(hand_filled(c, DT_F32, HYPER_COUNT, 1, NULL));
        for (int k = 0; k < HYPER_COUNT; k++) {
            ref_put(args.hyper, k, hyper[k]);
        }
        op_adamw(c, args);
        hand_close_to(ref_get(args.param, 0), 2.5, 1e-7);
        hand_close_to(ref_get(args.param, 1), 3.5, 1e-7);
    }
}

/* A norm of 5 clipped to 1 divides the gradient by 5 (and a hair); one of 0.5 is left alone. */
static void test_ops_ref__adamw_clips_and_skips_decay(void **state)
{
    Ctx *c = *state;
    double hyper[HYPER_COUNT] = {
        [HYPER_LR] = 0.5, [HYPER_REST1] = 1,       [HYPER_REST2] = 1,       [HYPER_DECAY] = 0.5,
        [HYPER_EPS] = 1,  [HYPER_CORRECTION1] = 1, [HYPER_CORRECTION2] = 1, [HYPER_CLIP] = 1};
    UpdateArgs args = {.param = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){3}))};
    args.state[0] = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){7}));
    args.state[1] = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){7}));
    args.grad = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){-4}));
    args.hyper = hand_flat(hand_filled(c, DT_F32, HYPER_COUNT, 1, hyper));
    args.norm_sq = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){25}));
    op_adamw(c, args); /* betas are 0: the moments are g and g^2 */
    double g = -4 / (5 + 1e-6);
    hand_close_to(ref_get(args.state[0], 0), g, 1e-14);
    hand_close_to(ref_get(args.state[1], 0), g * g, 1e-14);
    hand_close_to(ref_get(args.param, 0), 3 - 0.5 * g / (1 - g), 1e-14);
    ref_put(args.norm_sq, 0, 0.25);
    op_adamw(c, args);
    assert_true(ref_get(args.state[0], 0) == -4);
}

/* Two steps by hand; the second is clipped: a norm of 4 to 1. */
static void test_ops_ref__sgd_two_steps(void **state)
{
    Ctx *c = *state;
    double hyper[HYPER_COUNT] = {
        [HYPER_LR] = 0.5, [HYPER_BETA1] = 0.75, [HYPER_DECAY] = 0.25, [HYPER_CLIP] = 1};
    UpdateArgs args = {.param = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){3})),
                       .decay = true};
    args.state[0] = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){2}));
    args.grad = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){0.5}));
    args.hyper = hand_flat(hand_filled(c, DT_F32, HYPER_COUNT, 1, hyper));
    args.norm_sq = hand_flat(hand_filled(c, DT_F64, 1, 1, (double[]){0.25}));
    op_sgd(c, args); /* m = 1.5 + 0.5; p = 3 - (2 + 0.75) / 2 */
    assert_true(ref_get(args.state[0], 0) == 2 && ref_get(args.param, 0) == 1.625);
    ref_put(args.grad, 0, 4);
    ref_put(args.norm_sq, 0, 16);
    args.decay = false;
    op_sgd(c, args);
    hand_close_to(ref_get(args.state[0], 0), 1.5 + 4 / (4 + 1e-6), 1e-14);
    hand_close_to(ref_get(args.param, 0), 1.625 - 0.5 * (1.5 + 4 / (4 + 1e-6)), 1e-14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HAND_TEST(test_ops_ref__backend_memory_is_aligned_and_copied),
        HAND_TEST(test_ops_ref__bf16_rounds_to_nearest_even),
        HAND_TEST(test_ops_ref__f32_and_f64_storage),
        HAND_TEST(test_ops_ref__f32_agrees_with_f64),
        HAND_TEST(test_ops_ref__bf16_agrees_with_f64),
        HAND_TEST(test_ops_ref__embed),
        HAND_TEST(test_ops_ref__embed_backward_repeated_and_absent_tokens),
        HAND_TEST(test_ops_ref__linear),
        HAND_TEST(test_ops_ref__sums_in_double),
        HAND_TEST(test_ops_ref__add),
        HAND_TEST(test_ops_ref__norms_of_one_row),
        HAND_TEST(test_ops_ref__layer_norm_standardises_rows),
        HAND_TEST(test_ops_ref__add_norm_reads_the_rounded_sum),
        HAND_TEST(test_ops_ref__swiglu),
        HAND_TEST(test_ops_ref__gelu),
        HAND_TEST(test_ops_ref__relu2),
        HAND_TEST(test_ops_ref__xent_of_uniform_logits),
        HAND_TEST(test_ops_ref__xent_by_hand_and_without_target),
        HAND_TEST(test_ops_ref__adamw_three_steps),
        HAND_TEST(test_ops_ref__adamw_first_update_at_any_beta),
        HAND_TEST(test_ops_ref__adamw_clips_and_skips_decay),
        HAND_TEST(test_ops_ref__sgd_two_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
