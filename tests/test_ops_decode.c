/* The ops of generation: what they must and must not touch, and that steps after a fill are the
 * rows of one attention over the whole text. How exact they are is tested with all other ops
 * (test_ops_ref, test_ops_cpu). */
#include "support/op_hand.h"

#include "ref/ref.h"
#include "support/op_harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define BYTES ((size_t)16 << 20)

static Tensor cache_of(Ctx *c, DType dtype, int64_t sequences, HeadShape s, int64_t context)
{
    Tensor flat = hand_filled(c, dtype, sequences * 2 * s.kv_heads * context, s.head_dim, NULL);
    return (Tensor){.data = flat.data,
                    .dtype = dtype,
                    .rank = 3,
                    .dim = {sequences, 2 * s.kv_heads * context, s.head_dim}};
}

static Tensor one_number(Ctx *c, int64_t value)
{
    return hand_flat(hand_filled(c, DT_I32, 1, 1, (double[]){(double)value}));
}

static Tensor rope_table(Ctx *c, DType dtype, int64_t rows, int64_t width)
{
    Tensor table = hand_filled(c, dtype, rows, width, NULL);
    for (int64_t e = 0; e < rows * width; e++) {
        double angle =
            (double)(e / width) * pow(100, -2.0 * (double)(e % (width / 2)) / (double)width);
        ref_put(table, e, e % width < width / 2 ? cos(angle) : sin(angle));
    }
    return table;
}

static Tensor copy_of(Ctx *c, Tensor t)
{
    Tensor copy = hand_filled(c, t.dtype, t.dim[0], t.dim[1], NULL);
    memcpy(copy.data, t.data, tensor_bytes(t));
    return copy;
}

/* Rows `t` of every sequence of a packed (B*T, width) tensor. */
static Tensor rows_at(Ctx *c, Tensor packed, HeadShape s, int64_t t)
{
    Tensor rows = hand_filled(c, packed.dtype, s.batch, packed.dim[1], NULL);
    size_t bytes = tensor_bytes(rows) / (size_t)s.batch;
    for (int64_t b = 0; b < s.batch; b++) {
        memcpy((char *)rows.data + (size_t)b * bytes,
               (const char *)packed.data + (size_t)(b * s.seq + t) * bytes, bytes);
    }
    return rows;
}

/* A fill with the first `filled` tokens, then steps: each gives the row of attention over the
 * whole text. What lies behind the text in the cache is NaN throughout, so it is neither read
 * nor made a number. */
static void fill_and_step(Ctx *c, DType dtype, HeadShape s, bool turned, int64_t filled,
                          int64_t context, double tolerance)
{
    int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim;
    Tensor rope =
        turned ? rope_table(c, dtype_accumulate(dtype), context, s.head_dim) : TENSOR_NONE;
    Tensor raw = hand_normals(c, dtype, s.batch * s.seq, width, 1), qkv = copy_of(c, raw);
    Tensor whole = hand_filled(c, dtype, s.batch * s.seq, s.heads * s.head_dim, NULL);
    if (turned) {
        op_rope(c, qkv, s, rope, false);
    }
    c->attention = ATTENTION_NAIVE;
    op_attention_forward(c, qkv, s, whole, op_attention_aux(c, s, dtype));

    Tensor cache = cache_of(c, dtype, s.batch, s, context);
    HeadShape head = s;
    head.seq = filled;
    Tensor beginning = hand_filled(c, dtype, s.batch * filled, width, NULL);
    size_t bytes = tensor_bytes(beginning) / (size_t)s.batch;
    for (int64_t b = 0; b < s.batch; b++) {
        memcpy((char *)beginning.data + (size_t)b * bytes, tensor_rows(qkv, b * s.seq, filled).data,
               bytes);
    }
    op_attention_fill(c, beginning, head, cache);
    Tensor out = hand_filled(c, dtype, s.batch, s.heads * s.head_dim, NULL);
    for (int64_t t = filled; t < s.seq; t++) {
        op_attention_step(c, rows_at(c, raw, s, t), s, rope, one_number(c, t), cache, out);
        Tensor want = rows_at(c, whole, s, t);
        for (int64_t e = 0; e < tensor_count(out); e++) {
            hand_close_to(ref_get(out, e), ref_get(want, e), tolerance);
        }
    }
    for (int64_t e = 0; e < tensor_count(cache); e++) {
        int64_t row = e / s.head_dim % context;
        assert_true(isnan(ref_get(cache, e)) == (row >= s.seq));
    }
}

static void fill_and_step_everywhere(Ctx *c, DType dtype, double tolerance)
{
    static const HeadShape shapes[] = {HEADS(1, 9, 1, 1, 4),
                                       HEADS(3, 7, 3, 1, 6),
                                       HEADS(2, 12, 4, 2, 20),
                                       HEADS(1, 140, 2, 1, 18),
                                       SEES(3, 9, 3, 1, 6, 2, 0.3, 0, 0),
                                       SEES(1, 300, 2, 1, 18, 131, 0, 0, 0),
                                       SEES(2, 12, 4, 2, 20, 1, 0, 2, 0),
                                       SEES(1, 40, 2, 2, 8, 40, 0, 1.5, 0)};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        HeadShape s = shapes[i];
        for (int turned = 0; turned < 2; turned++) {
            ArenaMark mark = arena_mark(&c->saved);
            fill_and_step(c, dtype, s, turned == 1, 1, s.seq, tolerance);
            fill_and_step(c, dtype, s, turned == 1, s.seq / 2, s.seq + 1, tolerance);
            fill_and_step(c, dtype, s, turned == 1, s.seq - 1, s.seq + 130, tolerance);
            arena_release(&c->saved, mark);
        }
    }
}

static void on_backend(Backend *backend, DType dtype, double tolerance)
{
    Ctx c;
    assert_non_null(backend);
    op_ctx_init(&c, backend, BYTES);
    fill_and_step_everywhere(&c, dtype, tolerance);
    op_ctx_free(&c);
    backend->close(backend);
}

static void test_ops_decode__steps_are_rows_of_a_whole_attention(void **state)
{
    (void)state;
    on_backend(ref_backend_open(), DT_F64, 1e-13);
    on_backend(cpu_backend_open(1), DT_F32, 2e-6);
    on_backend(cpu_backend_open(3), DT_F32, 2e-6);
}

/* Two beginnings for four sequences, by number: element values say where they come from. */
static void test_ops_decode__fill_hands_out_sequences_in_turn(void **state)
{
    Ctx *c = *state;
    HeadShape s = head_shape(2, 2, 1, 1, 2);
    double packed[24];
    for (int i = 0; i < 24; i++) {
        packed[i] = i;
    }
    Tensor qkv = hand_filled(c, DT_F32, 4, 6, packed), cache = cache_of(c, DT_F32, 4, s, 3);
    op_attention_fill(c, qkv, s, cache);
    const double wanted[2][8] = {{2, 3, 8, 9, 4, 5, 10, 11}, {14, 15, 20, 21, 16, 17, 22, 23}};
    for (int64_t sequence = 0; sequence < 4; sequence++) {
        for (int64_t part = 0; part < 2; part++) {
            for (int64_t e = 0; e < 6; e++) {
                double value = ref_get(cache, (sequence * 2 + part) * 6 + e);
                assert_true(e < 4 ? value == wanted[sequence % 2][part * 4 + e] : isnan(value));
            }
        }
    }
}

/* D = 1: q = 1 and keys ln 1, ln 3 give weights 1/4 and 3/4. */
static void test_ops_decode__step_by_hand(void **state)
{
    Ctx *c = *state;
    HeadShape s = head_shape(1, 1, 1, 1, 1);
    Tensor cache = cache_of(c, DT_F64, 1, s, 3), out = hand_filled(c, DT_F64, 1, 1, NULL);
    op_attention_step(c, hand_filled(c, DT_F64, 1, 3, (double[]){7, 0, 8}), s, TENSOR_NONE,
                      one_number(c, 0), cache, out);
    hand_close_to(ref_get(out, 0), 8, 1e-15);
    op_attention_step(c, hand_filled(c, DT_F64, 1, 3, (double[]){1, log(3), -4}), s, TENSOR_NONE,
                      one_number(c, 1), cache, out);
    hand_close_to(ref_get(out, 0), 0.25 * 8 - 0.75 * 4, 1e-14);
    op_attention_step(c, hand_filled(c, DT_F64, 1, 3, (double[]){2, 5, 6}), s, TENSOR_NONE,
                      one_number(c, 0), cache, out); /* again from the start */
    hand_close_to(ref_get(out, 0), 6, 1e-15);
}

static void test_ops_decode__embed_step_by_hand(void **state)
{
    Ctx *c = *state;
    Tensor table = hand_filled(c, DT_F32, 3, 2, (double[]){1, 2, 10, 20, 100, 200});
    Tensor positions = hand_filled(c, DT_F32, 3, 2, (double[]){0.5, 0.25, -1, -2, 7, 8});
    Tensor ids = hand_flat(hand_filled(c, DT_I32, 2, 1, (double[]){2, 0}));
    Tensor out = hand_filled(c, DT_F32, 2, 2, NULL);
    op_embed_step(c, ids, table, positions, one_number(c, 1), out);
    hand_expect_values(out, (double[]){99, 198, 0, 0}, 0);
    op_embed_step(c, ids, table, positions, one_number(c, 2), out);
    hand_expect_values(out, (double[]){107, 208, 8, 10}, 0);
    op_embed_step(c, ids, table, TENSOR_NONE, one_number(c, 77), out);
    hand_expect_values(out, (double[]){100, 200, 1, 2}, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_decode__steps_are_rows_of_a_whole_attention),
        HAND_TEST(test_ops_decode__fill_hands_out_sequences_in_turn),
        HAND_TEST(test_ops_decode__step_by_hand),
        HAND_TEST(test_ops_decode__embed_step_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
