/* Rope and attention of ref against values worked out by hand and against what must hold for any
 * values. */
#include "support/op_hand.h"

#include "ref/ref.h"
#include "support/op_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static Tensor rope_table(Ctx *c, int64_t seq, int64_t width)
{
    Tensor table = hand_filled(c, DT_F64, seq, width, NULL);
    for (int64_t t = 0; t < seq; t++) {
        for (int64_t i = 0; i < width / 2; i++) {
            double angle = (double)t * pow(10000, -2.0 * (double)i / (double)width);
            ref_put(table, t * width + i, cos(angle));
            ref_put(table, t * width + width / 2 + i, sin(angle));
        }
    }
    return table;
}

/* One head of width 4 at position 1 of 2, quarter turn for pair 0, half turn for pair 1. */
static void test_ops_attention__rope_turns_pairs(void **state)
{
    Ctx *c = *state;
    HeadShape shape = head_shape(1, 2, 1, 1, 4);
    double row[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, both[24];
    memcpy(both, row, sizeof row);
    memcpy(both + 12, row, sizeof row);
    Tensor qkv = hand_filled(c, DT_F64, 2, 12, both);
    Tensor table = hand_filled(c, DT_F64, 2, 4, (double[]){1, 1, 0, 0, 0, -1, 1, 0});
    op_rope(c, qkv, shape, table, false);
    hand_expect_values(tensor_rows(qkv, 0, 1), row, 0);
    double turned[] = {-3, -2, 1, -4, -7, -6, 5, -8, 9, 10, 11, 12};
    hand_expect_values(tensor_rows(qkv, 1, 1), turned, 0);
    op_rope(c, qkv, shape, table, true);
    hand_expect_values(qkv, both, 0);
}

static void test_ops_attention__rope_keeps_lengths_and_relative_angles(void **state)
{
    Ctx *c = *state;
    HeadShape shape = head_shape(2, 9, 3, 1, 6);
    int64_t width = 5 * 6;
    Tensor qkv = hand_normals(c, DT_F64, 18, width, 1),
           old = hand_filled(c, DT_F64, 18, width, NULL);
    memcpy(old.data, qkv.data, tensor_bytes(qkv));
    op_rope(c, qkv, shape, rope_table(c, 9, 6), false);
    for (int64_t head = 0; head < 18 * 5; head++) {
        double before = 0, after = 0;
        for (int64_t d = 0; d < 6; d++) {
            before += ref_get(old, head * 6 + d) * ref_get(old, head * 6 + d);
            after += ref_get(qkv, head * 6 + d) * ref_get(qkv, head * 6 + d);
            if (head % 5 == 4) { /* v */
                assert_true(ref_get(qkv, head * 6 + d) == ref_get(old, head * 6 + d));
            }
        }
        hand_close_to(after, before, 1e-12);
    }
    /* Equal vectors everywhere: q_i . k_j depends on i - j only. */
    for (int64_t i = 0; i < 18 * width; i++) {
        ref_put(qkv, i, ref_get(old, i % width));
    }
    op_rope(c, qkv, shape, rope_table(c, 9, 6), false);
    double first = 0, later = 0;
    for (int64_t d = 0; d < 6; d++) {
        first += ref_get(qkv, 2 * width + d) * ref_get(qkv, 0 * width + 18 + d);
        later += ref_get(qkv, 8 * width + d) * ref_get(qkv, 6 * width + 18 + d);
    }
    hand_close_to(later, first, 1e-12);
}

typedef struct {
    Tensor out, aux;
} Attended;

static Attended attend(Ctx *c, Tensor qkv, HeadShape shape, AttentionKind kind)
{
    c->attention = kind;
    Attended a = {.out = hand_filled(c, qkv.dtype, qkv.dim[0], shape.heads * shape.head_dim, NULL)};
    a.aux = op_attention_aux(c, shape, qkv.dtype);
    op_attention_forward(c, qkv, shape, a.out, a.aux);
    return a;
}

/* The first token sees itself only; equal keys average the values; rows of p sum to 1. */
static void test_ops_attention__first_token_and_averages(void **state)
{
    Ctx *c = *state;
    HeadShape shape = head_shape(2, 7, 4, 2, 6);
    int64_t width = 8 * 6;
    Tensor qkv = hand_normals(c, DT_F64, 14, width, 1);
    Attended a = attend(c, qkv, shape, ATTENTION_NAIVE);
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t h = 0; h < 4; h++) {
            for (int64_t d = 0; d < 6; d++) {
                double v = ref_get(qkv, b * 7 * width + (6 + h / 2) * 6 + d);
                hand_close_to(ref_get(a.out, b * 7 * 24 + h * 6 + d), v, 1e-14);
            }
        }
    }
    for (int64_t row = 0; row < 2 * 4 * 7; row++) {
        double sum = 0;
        for (int64_t j = 0; j < 7; j++) {
            double p = ref_get(a.aux, row * 7 + j);
            assert_true(j <= row % 7 ? p > 0 : p == 0);
            sum += p;
        }
        hand_close_to(sum, 1, 1e-14);
    }
    for (int64_t n = 0; n < 14; n++) { /* k = 0: all scores are 0 */
        for (int64_t i = 0; i < 12; i++) {
            ref_put(qkv, n * width + 24 + i, 0);
        }
    }
    a = attend(c, qkv, shape, ATTENTION_FLASH);
    double mean = 0;
    for (int64_t j = 0; j < 7; j++) {
        hand_close_to(ref_get(a.aux, j), log((double)(j + 1)), 1e-14);
        mean += ref_get(qkv, j * width + 36) / 7;
    }
    hand_close_to(ref_get(a.out, 6 * 24), mean, 1e-14);
}

/* D = 4, two tokens: scores of the second are q.k/2 = (0, ln 3), so its weights are 1/4 and 3/4. */
static void test_ops_attention__of_two_tokens(void **state)
{
    Ctx *c = *state;
    double ln3 = 1.09861228866810969;
    Tensor qkv = hand_filled(c, DT_F64, 2, 12, (double[]){9, 9, 9, 9, 0,   1, 1, 1, 4, 8, 0, -4, //
                                                          2, 0, 0, 0, ln3, 5, 5, 5, 8, 0, 4, 0});
    Attended a = attend(c, qkv, head_shape(1, 2, 1, 1, 4), ATTENTION_NAIVE);
    hand_expect_values(tensor_rows(a.out, 1, 1), (double[]){7, 2, 3, -1}, 1e-14);
    hand_expect_values(a.aux, (double[]){1, 0, 0.25, 0.75}, 1e-14);
    a = attend(c, qkv, head_shape(1, 2, 1, 1, 4), ATTENTION_FLASH);
    hand_expect_values(tensor_rows(a.out, 1, 1), (double[]){7, 2, 3, -1}, 1e-14);
    hand_close_to(ref_get(a.aux, 1), log(4), 1e-14);
}

static void test_ops_attention__naive_and_flash_agree(void **state)
{
    Ctx *c = *state;
    HeadShape shape = head_shape(2, 17, 6, 2, 8);
    Tensor qkv = hand_normals(c, DT_F64, 34, 80, 2), dout = hand_normals(c, DT_F64, 34, 48, 1);
    Tensor gradient[2];
    Attended a[2];
    for (int kind = 0; kind < 2; kind++) {
        a[kind] = attend(c, qkv, shape, kind == 0 ? ATTENTION_NAIVE : ATTENTION_FLASH);
        gradient[kind] = hand_filled(c, DT_F64, 34, 80, NULL);
        op_attention_backward(c, dout, qkv, a[kind].out, a[kind].aux, shape, gradient[kind]);
    }
    hand_expect_values(a[1].out, a[0].out.data, 1e-13);
    hand_expect_values(gradient[1], gradient[0].data, 1e-12);
    for (int64_t q = 0; q < 2 * 6 * 17;
         q++) { /* p of a query with itself, from its score and lse */
        int64_t b = q / 17 / 6, h = q / 17 % 6, i = q % 17;
        double score = 0;
        for (int64_t d = 0; d < 8; d++) {
            int64_t row = (b * 17 + i) * 80;
            score += ref_get(qkv, row + h * 8 + d) * ref_get(qkv, row + (6 + h / 3) * 8 + d);
        }
        hand_close_to(exp(score / sqrt(8) - ref_get(a[1].aux, q)), ref_get(a[0].aux, q * 17 + i),
                      1e-13);
    }
}

/* Scores in the thousands: a query takes the value of its best key, and nothing overflows. */
static void test_ops_attention__survives_large_scores(void **state)
{
    Ctx *c = *state;
    HeadShape shape = head_shape(1, 9, 1, 1, 2);
    Tensor qkv = hand_normals(c, DT_F64, 9, 6, 100);
    Attended a = attend(c, qkv, shape, ATTENTION_FLASH);
    for (int64_t i = 0; i < 9; i++) {
        double best_score = -INFINITY;
        int64_t best = 0;
        for (int64_t j = 0; j <= i; j++) {
            double score = (ref_get(qkv, i * 6) * ref_get(qkv, j * 6 + 2) +
                            ref_get(qkv, i * 6 + 1) * ref_get(qkv, j * 6 + 3)) /
                           sqrt(2);
            best = score > best_score ? j : best;
            best_score = fmax(score, best_score);
        }
        hand_close_to(ref_get(a.aux, i), best_score, 1e-6);
        hand_close_to(ref_get(a.out, i * 2), ref_get(qkv, best * 6 + 4), 1e-6);
    }
    Tensor gradient = hand_filled(c, DT_F64, 9, 6, NULL);
    op_attention_backward(c, a.out, qkv, a.out, a.aux, shape, gradient);
    for (int64_t i = 0; i < 9 * 6; i++) {
        assert_true(isfinite(ref_get(gradient, i)));
    }
}

/* D = 4, three tokens, the scores of the third q.k/2 = (ln 2, 0, ln 3). Those of which it sees two
 * leave weights 1/4 and 3/4; a scale of 1/4 is half of 1/sqrt(D). */
static void test_ops_attention__of_seen_tokens(void **state)
{
    Ctx *c = *state;
    double ln2 = 0.693147180559945309, ln3 = 1.09861228866810969;
    double values[] = {9, 9, 9, 9, ln2, 1, 1, 1, 4, 8, 0, -4, //
                       2, 0, 0, 0, 0,   1, 1, 1, 4, 8, 0, -4, //
                       2, 0, 0, 0, ln3, 5, 5, 5, 8, 0, 4, 0};
    Tensor qkv = hand_filled(c, DT_F64, 3, 12, values);
    Tensor starts = hand_flat(hand_filled(c, DT_I32, 3, 1, (double[]){0, 1, 1}));
    HeadShape window = head_shape(1, 3, 1, 1, 4), document = window, scaled = window;
    window.window = 2;
    document.starts = starts;
    scaled.scale = 0.25;
    for (AttentionKind kind = ATTENTION_NAIVE; kind <= ATTENTION_FLASH; kind++) {
        Attended a = attend(c, qkv, window, kind);
        hand_expect_values(tensor_rows(a.out, 2, 1), (double[]){7, 2, 3, -1}, 1e-14);
        a = attend(c, qkv, document, kind);
        hand_expect_values(tensor_rows(a.out, 1, 1), (double[]){4, 8, 0, -4}, 1e-14);
        hand_expect_values(tensor_rows(a.out, 2, 1), (double[]){7, 2, 3, -1}, 1e-14);
        a = attend(c, qkv, scaled, kind);
        double total = sqrt(2) + 1 + sqrt(3), last = sqrt(3) / total;
        hand_close_to(ref_get(a.out, 8), 4 * (1 - last) + 8 * last, 1e-14);
    }
    Attended a = attend(c, qkv, window, ATTENTION_NAIVE);
    hand_expect_values(a.aux, (double[]){1, 0, 0, 2.0 / 3, 1.0 / 3, 0, 0, 0.25, 0.75}, 1e-14);
    a = attend(c, qkv, document, ATTENTION_FLASH);
    hand_expect_values(hand_flat(a.aux), (double[]){ref_get(a.aux, 0), 0, log(4)}, 1e-14);
}

/* D = 1: scores of the second token 8 and 1000 become 2 tanh 4 and 2 under a cap of 2. */
static void test_ops_attention__of_capped_scores(void **state)
{
    Ctx *c = *state;
    Tensor qkv = hand_filled(c, DT_F64, 2, 3, (double[]){1, 0.8, 1, 10, 100, 0});
    HeadShape shape = head_shape(1, 2, 1, 1, 1);
    shape.cap = 2;
    Attended a = attend(c, qkv, shape, ATTENTION_FLASH);
    double first = exp(2 * tanh(4)), second = exp(2);
    hand_close_to(ref_get(a.out, 1), first / (first + second), 1e-14);
    hand_close_to(ref_get(a.aux, 1), log(first + second), 1e-14);
}

typedef struct {
    Tensor out, dqkv;
} Pass;

static Pass pass_of(Ctx *c, Tensor qkv, Tensor dout, HeadShape shape, AttentionKind kind)
{
    Attended a = attend(c, qkv, shape, kind);
    Pass pass = {a.out, hand_filled(c, qkv.dtype, qkv.dim[0], qkv.dim[1], NULL)};
    op_attention_backward(c, dout, qkv, a.out, a.aux, shape, pass.dqkv);
    return pass;
}

/* Sequences of documents against each document by itself, and windows that hide nothing against
 * none. */
static void seen_by_parts(Ctx *c, DType dtype, AttentionKind kind, int64_t window, double tolerance)
{
    static const int64_t lengths[] = {1, 1, 7, 50, 1, 64, 3, 30, 100, 1}; /* 157 and 101 in all */
    HeadShape shape = head_shape(2, 129, 4, 2, 12);
    int64_t rows = shape.batch * shape.seq;
    Tensor qkv = hand_normals(c, dtype, rows, packed_width(shape), 1);
    Tensor dout = hand_normals(c, dtype, rows, 48, 1);
    Tensor starts = hand_flat(hand_filled(c, DT_I32, rows, 1, NULL));
    int64_t first = 0;
    for (int i = 0; first < rows; i++) { /* cut where a sequence ends */
        int64_t left = shape.seq - first % shape.seq;
        int64_t length = lengths[i % 10] < left ? lengths[i % 10] : left;
        for (int64_t n = first; n < first + length; n++) {
            ref_put(starts, n, (double)(first % shape.seq));
        }
        first += length;
    }
    shape.window = window;
    HeadShape packed = shape;
    packed.starts = starts;
    Pass together = pass_of(c, qkv, dout, packed, kind);
    for (int64_t n = 0; n < rows;) {
        int64_t last = n + 1;
        while (last < rows && last % shape.seq != 0 &&
               ref_index(starts, last) == ref_index(starts, n)) {
            last++;
        }
        HeadShape alone = shape;
        alone.batch = 1;
        alone.seq = last - n;
        Pass apart =
            pass_of(c, tensor_rows(qkv, n, last - n), tensor_rows(dout, n, last - n), alone, kind);
        Tensor parts[][2] = {{apart.out, tensor_rows(together.out, n, last - n)},
                             {apart.dqkv, tensor_rows(together.dqkv, n, last - n)}};
        for (int p = 0; p < 2; p++) {
            for (int64_t e = 0; e < tensor_count(parts[p][0]); e++) {
                hand_close_to(ref_get(parts[p][1], e), ref_get(parts[p][0], e), tolerance);
            }
        }
        n = last;
    }
}

static void on_backend(Backend *backend, DType dtype, double tolerance)
{
    for (AttentionKind kind = ATTENTION_NAIVE; kind <= ATTENTION_FLASH; kind++) {
        for (int64_t window = 0; window < 80; window += 37) {
            Ctx c;
            op_ctx_init(&c, backend, (size_t)8 << 20);
            seen_by_parts(&c, dtype, kind, window, tolerance);
            op_ctx_free(&c);
        }
    }
    backend->close(backend);
}

static void test_ops_attention__documents_are_apart(void **state)
{
    (void)state;
    on_backend(ref_backend_open(), DT_F64, 1e-13);
    on_backend(cpu_backend_open(2), DT_F32, 3e-6);
}

/* FLOPs of a window of 3 over 5 tokens: 1 + 2 + 3 + 3 + 3 keys, a product each for scores and
 * values; one beyond the sequence counts and gives what none does. */
static void test_ops_attention__windows_cost_what_they_see(void **state)
{
    Ctx *c = *state;
    HeadShape shape = head_shape(2, 5, 3, 1, 4);
    Tensor qkv = hand_normals(c, DT_F64, 10, packed_width(shape), 1);
    Attended all = attend(c, qkv, shape, ATTENTION_FLASH);
    assert_true(c->stats[OP_ATTENTION_FORWARD].flops == 2 * 3 * 4 * 4.0 * 15);
    shape.window = 5;
    Attended beyond = attend(c, qkv, shape, ATTENTION_FLASH);
    assert_true(c->stats[OP_ATTENTION_FORWARD].flops == 2 * 3 * 4 * 4.0 * 30);
    hand_expect_values(beyond.out, all.out.data, 0);
    shape.window = 3;
    attend(c, qkv, shape, ATTENTION_FLASH);
    assert_true(c->stats[OP_ATTENTION_FORWARD].flops == 2 * 3 * 4 * 4.0 * 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        HAND_TEST(test_ops_attention__rope_turns_pairs),
        HAND_TEST(test_ops_attention__rope_keeps_lengths_and_relative_angles),
        HAND_TEST(test_ops_attention__first_token_and_averages),
        HAND_TEST(test_ops_attention__of_two_tokens),
        HAND_TEST(test_ops_attention__naive_and_flash_agree),
        HAND_TEST(test_ops_attention__survives_large_scores),
        HAND_TEST(test_ops_attention__of_seen_tokens),
        HAND_TEST(test_ops_attention__of_capped_scores),
        cmocka_unit_test(test_ops_attention__documents_are_apart),
        HAND_TEST(test_ops_attention__windows_cost_what_they_see),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
