/* The ops of test-time training against stored PyTorch results, and rules of their contract that
 * no comparison of single calls shows: tokens one by one give what whole sequences give, outputs
 * depend on earlier tokens of their own sequence alone, padding is not read. */
#include "support/op_hand.h"

#include "base/mem.h"
#include "ref/ref.h"
#include "support/op_harness.h"
#include "tensor/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define STORED_TOLERANCE 1e-10 /* of the largest element */
#define STEP_TOLERANCE 1e-12
#define STEP_TOLERANCE_F32 2e-5
#define ARENA_BYTES ((size_t)16 << 20)

/* A call of the op: shape, input, parameters. */
typedef struct {
    TttShape shape;
    Tensor x, rope;
    TttWeights w;
} Layer;

/* The tensor of a file on the saved arena, f64; none where the file has none. */
static Tensor stored(Ctx *c, const SafeFile *file, const char *name)
{
    const SafeTensor *s = safetensors_find(file, name);
    if (s == NULL) {
        return TENSOR_NONE;
    }
    assert_true(s->supported && s->dtype == DT_F64);
    Tensor t = arena_push(&c->saved, MEM_SCRATCH, DT_F64, s->rank, s->dim);
    assert_int_equal(safetensors_read(s, 0, t.data, s->bytes), 0);
    return t;
}

/* The parameters of a file, or with "d" in front of their names the gradients. */
static TttWeights stored_weights(Ctx *c, const SafeFile *file, const char *prefix)
{
    static const char *const names[] = {"index", "rate_bias", "gamma", "beta",
                                        "w1",    "b1",        "w2",    "b2"};
    Tensor t[8];
    for (int i = 0; i < 8; i++) {
        char *name = mem_format("%s%s", prefix, names[i]);
        t[i] = stored(c, file, name);
        free(name);
    }
    return (TttWeights){t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]};
}

static double number(const SafeFile *file, const char *key)
{
    const char *text = safetensors_metadata(file, key);
    assert_non_null(text);
    return atof(text);
}

static Layer stored_layer(Ctx *c, const SafeFile *file)
{
    Layer l = {.x = stored(c, file, "x"), .rope = stored(c, file, "rope")};
    bool mlp = strcmp(safetensors_metadata(file, "kind"), "mlp") == 0;
    l.shape = (TttShape){.kind = mlp ? TTT_MLP : TTT_LINEAR,
                         .batch = (int64_t)number(file, "batch"),
                         .seq = (int64_t)number(file, "seq"),
                         .heads = (int64_t)number(file, "heads"),
                         .head_dim = (int64_t)number(file, "head_dim"),
                         .mini = (int64_t)number(file, "mini"),
                         .width = l.x.dim[1],
                         .base_rate = number(file, "base_rate"),
                         .eps = number(file, "eps")};
    l.w = stored_weights(c, file, "");
    return l;
}

static Tensor like(Ctx *c, Tensor t)
{
    Tensor copy = tensor_given(t) ? arena_push(&c->saved, MEM_SCRATCH, t.dtype, t.rank, t.dim) : t;
    for (int64_t i = 0; i < tensor_count(copy); i++) {
        ref_put(copy, i, NAN);
    }
    return copy;
}

static void expect_close(const char *what, Tensor got, Tensor wanted, double tolerance)
{
    double largest = 0;
    assert_int_equal(tensor_count(got), tensor_count(wanted));
    for (int64_t i = 0; i < tensor_count(wanted); i++) {
        largest = fmax(largest, fabs(ref_get(wanted, i)));
    }
    for (int64_t i = 0; i < tensor_count(wanted); i++) {
        if (!(fabs(ref_get(got, i) - ref_get(wanted, i)) <= tolerance * largest)) {
            fail_msg("%s[%lld] is %.15g, expected %.15g", what, (long long)i, ref_get(got, i),
                     ref_get(wanted, i));
        }
    }
}

static void check_stored(Ctx *c, const char *name)
{
    SafeFile file;
    char *path = mem_format("%s/%s.safetensors", PACER_GOLD_DIR, name);
    assert_int_equal(safetensors_open(path, &file), 0);
    Layer l = stored_layer(c, &file);
    Tensor wanted = stored(c, &file, "out"), out = like(c, wanted);
    Tensor dx = like(c, l.x), dout = stored(c, &file, "dout");
    TttWeights dw = stored_weights(c, &file, "d");
    TttWeights got = {like(c, dw.index), like(c, dw.rate_bias), like(c, dw.gamma), like(c, dw.beta),
                      like(c, dw.w1),    like(c, dw.b1),        like(c, dw.w2),    like(c, dw.b2)};
    op_ttt_forward(c, l.x, &l.shape, &l.w, l.rope, out, TENSOR_NONE);
    expect_close("out", out, wanted, STORED_TOLERANCE);
    Tensor states = op_ttt_states(c, &l.shape, l.x.dtype);
    op_ttt_forward(c, l.x, &l.shape, &l.w, l.rope, out, states);
    op_ttt_backward(c, dout, l.x, &l.shape, &l.w, l.rope, states, dx, &got, MODE_SET);
    expect_close("dx", dx, stored(c, &file, "dx"), STORED_TOLERANCE);
    expect_close("dindex", got.index, dw.index, STORED_TOLERANCE);
    expect_close("drate_bias", got.rate_bias, dw.rate_bias, STORED_TOLERANCE);
    expect_close("dgamma", got.gamma, dw.gamma, STORED_TOLERANCE);
    expect_close("dbeta", got.beta, dw.beta, STORED_TOLERANCE);
    expect_close("dw1", got.w1, dw.w1, STORED_TOLERANCE);
    expect_close("db1", got.b1, dw.b1, STORED_TOLERANCE);
    expect_close("dw2", got.w2, dw.w2, STORED_TOLERANCE);
    expect_close("db2", got.b2, dw.b2, STORED_TOLERANCE);
    assert_true(ref_get(got.index, 1) == 0); /* the files clamp tau of the second token */
    safetensors_close(&file);
    free(path);
}

static void test_ops_ttt__stored_results_of_a_linear_model(void **state)
{
    check_stored(*state, "ttt_linear");
}

static void test_ops_ttt__stored_results_of_an_mlp(void **state)
{
    check_stored(*state, "ttt_mlp");
    check_stored(*state, "ttt_long");
}

static void test_ops_ttt__stored_results_of_less_than_a_mini_batch(void **state)
{
    check_stored(*state, "ttt_short");
}

static Layer random_layer(Ctx *c, TttShape s, DType act)
{
    int64_t d = s.head_dim, f = ttt_inner(&s);
    Layer l = {.shape = s};
    l.x = hand_normals(c, act, s.batch * s.seq, s.width, 1);
    l.rope = ctx_save(c, MEM_SCRATCH, dtype_accumulate(act), s.mini, d);
    for (int64_t e = 0; e < s.mini * d; e++) {
        double angle = (double)(e / d) * pow(10000, -2.0 * (double)(e % (d / 2)) / (double)d);
        ref_put(l.rope, e, e % d < d / 2 ? cos(angle) : sin(angle));
    }
    l.w = (TttWeights){.index = hand_normals(c, act, s.mini, 1, 0.05),
                       .rate_bias = hand_normals(c, act, s.heads, 1, 0.3),
                       .gamma = hand_normals(c, act, s.heads, d, 0.2),
                       .beta = hand_normals(c, act, s.heads, d, 0.2),
                       .w1 = hand_normals(c, act, s.heads * d, f, 0.3),
                       .b1 = hand_normals(c, act, s.heads, f, 0.2)};
    for (int64_t e = 0; e < s.heads * d; e++) {
        ref_put(l.w.gamma, e, 1 + ref_get(l.w.gamma, e));
    }
    if (s.kind == TTT_MLP) {
        l.w.w2 = hand_normals(c, act, s.heads * f, d, 0.3);
        l.w.b2 = hand_normals(c, act, s.heads, d, 0.2);
    }
    return l;
}

static Tensor forward(Ctx *c, const Layer *l)
{
    const TttShape *s = &l->shape;
    Tensor out = ctx_save(c, MEM_SCRATCH, l->x.dtype, s->batch * s->seq, s->heads * s->head_dim);
    op_ttt_forward(c, l->x, s, &l->w, l->rope, out, TENSOR_NONE);
    return out;
}

/* Rows [first, first + rows) of t. */
static Tensor rows_of(Tensor t, int64_t first, int64_t rows)
{
    char *at = (char *)t.data + (size_t)(first * t.dim[1]) * dtype_size(t.dtype);
    return tensor_2d(at, t.dtype, rows, t.dim[1]);
}

/* Every token through op_ttt_step, against op_ttt_forward of the whole. */
static void check_steps(Backend *backend, DType act, TttShape s, double tolerance)
{
    Ctx c;
    op_ctx_init(&c, backend, ARENA_BYTES);
    Layer l = random_layer(&c, s, act);
    int64_t count = ttt_state(&s);
    Tensor whole = forward(&c, &l);
    Tensor state = ctx_save(&c, MEM_SCRATCH, dtype_accumulate(act), s.batch * s.heads, 2 * count);
    Tensor x = ctx_save(&c, MEM_SCRATCH, act, s.batch, s.width);
    Tensor out = ctx_save(&c, MEM_SCRATCH, act, s.batch, s.heads * s.head_dim);
    Tensor wanted = ctx_save(&c, MEM_SCRATCH, act, s.batch, s.heads * s.head_dim);
    Tensor position = hand_flat(hand_filled(&c, DT_I32, 1, 1, (double[]){0}));
    op_ttt_start(&c, &s, &l.w, state);
    for (int64_t t = 0; t < s.seq; t++) {
        for (int64_t b = 0; b < s.batch; b++) {
            Tensor from = rows_of(l.x, b * s.seq + t, 1), result = rows_of(whole, b * s.seq + t, 1);
            memcpy(rows_of(x, b, 1).data, from.data, tensor_bytes(from));
            memcpy(rows_of(wanted, b, 1).data, result.data, tensor_bytes(result));
        }
        ref_put(position, 0, (double)t);
        op_ttt_step(&c, x, &s, &l.w, l.rope, position, state, out);
        expect_close("step", out, wanted, tolerance);
        /* The sums are those of a mini-batch that has begun. */
        double sums = 0;
        for (int64_t e = 0; e < count; e++) {
            sums += fabs(ref_get(state, count + e));
        }
        assert_true((sums == 0) == ((t + 1) % s.mini == 0));
    }
    op_ctx_free(&c);
}

/* Both kinds; whole mini-batches, a rest, less than one, and mini-batches of one token. */
static void check_all_steps(Backend *backend, DType act, double tolerance)
{
    for (int kind = 0; kind < 2; kind++) {
        const TttShape shapes[] = {{(TttKind)kind, 2, 10, 2, 6, 5, 40, 1, 1e-6},
                                   {(TttKind)kind, 1, 11, 3, 4, 4, 39, 1, 1e-6},
                                   {(TttKind)kind, 3, 3, 1, 8, 16, 25, 1, 1e-6},
                                   {(TttKind)kind, 1, 4, 2, 8, 1, 50, 1, 1e-6},
                                   {(TttKind)kind, 1, 18, 1, 64, 16, 200, 1, 1e-6}};
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            check_steps(backend, act, shapes[i], tolerance);
        }
    }
}

static void test_ops_ttt__steps_are_the_forward_pass(void **state)
{
    check_all_steps(((Ctx *)*state)->backend, DT_F64, STEP_TOLERANCE);
}

static void test_ops_ttt__steps_are_the_forward_pass_on_cpu(void **state)
{
    (void)state;
    Backend *cpu = cpu_backend_open(2);
    assert_non_null(cpu);
    check_all_steps(cpu, DT_F32, STEP_TOLERANCE_F32);
    cpu->close(cpu);
}

/* What comes later, other sequences and the padding make no difference: not in a single bit. */
static void test_ops_ttt__outputs_depend_on_earlier_tokens_of_their_sequence(void **state)
{
    Ctx *c = *state;
    for (int kind = 0; kind < 2; kind++) {
        TttShape s = {(TttKind)kind, 2, 11, 2, 6, 4, 41, 1, 1e-6};
        Layer l = random_layer(c, s, DT_F64), part = l;
        Tensor whole = forward(c, &l);
        for (int64_t row = 0; row < l.x.dim[0]; row++) {
            for (int64_t e = 38; e < s.width; e++) {
                ref_put(l.x, row * s.width + e, 1e300);
            }
        }
        for (int64_t first = 0; first < 2; first++) {
            for (int64_t length = 1; length <= s.seq; length++) {
                part.shape.batch = 1;
                part.shape.seq = length;
                part.x = rows_of(l.x, first * s.seq, length);
                Tensor out = forward(c, &part), wanted = rows_of(whole, first * s.seq, length);
                assert_memory_equal(out.data, wanted.data, tensor_bytes(out));
            }
        }
    }
}

/* A rate of zero leaves the inner model as it is; then every token is q + norm(q w1 + b1). */
static void test_ops_ttt__without_a_rate_nothing_is_learned(void **state)
{
    Ctx *c = *state;
    Tensor x = hand_filled(c, DT_F64, 2, 7, (double[]){3, 1, 9, 9, 9, 9, 9, -1, 2, 9, 9, 9, 9, 9});
    Tensor rope = hand_filled(c, DT_F64, 2, 2, (double[]){1, 0, 0, 1}); /* a quarter turn */
    TttShape s = {TTT_LINEAR, 1, 2, 1, 2, 2, 7, 0, 0};
    TttWeights w = {.index = hand_filled(c, DT_F64, 2, 1, (double[]){0, 0}),
                    .rate_bias = hand_filled(c, DT_F64, 1, 1, (double[]){0}),
                    .gamma = hand_filled(c, DT_F64, 1, 2, (double[]){2, 3}),
                    .beta = hand_filled(c, DT_F64, 1, 2, (double[]){0.5, 0.25}),
                    .w1 = hand_filled(c, DT_F64, 2, 2, (double[]){1, 0, 0, 2}),
                    .b1 = hand_filled(c, DT_F64, 1, 2, (double[]){0, 4})};
    Tensor out = hand_filled(c, DT_F64, 2, 2, NULL);
    op_ttt_forward(c, x, &s, &w, rope, out, TENSOR_NONE);
    /* (3,1) stays: inner (3,6), normed (-1,1). (-1,2) becomes (-2,-1): inner (-2,2), normed
     * (-1,1). */
    hand_expect_values(out, (double[]){3 - 2 + 0.5, 1 + 3 + 0.25, -2 - 2 + 0.5, -1 + 3 + 0.25},
                       1e-14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HAND_TEST(test_ops_ttt__stored_results_of_a_linear_model),
        HAND_TEST(test_ops_ttt__stored_results_of_an_mlp),
        HAND_TEST(test_ops_ttt__stored_results_of_less_than_a_mini_batch),
        HAND_TEST(test_ops_ttt__steps_are_the_forward_pass),
        HAND_TEST(test_ops_ttt__steps_are_the_forward_pass_on_cpu),
        HAND_TEST(test_ops_ttt__outputs_depend_on_earlier_tokens_of_their_sequence),
        HAND_TEST(test_ops_ttt__without_a_rate_nothing_is_learned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
