/* Generation token by token from kept keys and values. Row j of the keys and values of one
 * sequence and head is token j; the attention of a new token is that of attention.c for the last
 * query of a sequence. Turned q and k are rounded to the activation type, as op_rope rounds them
 * before a whole pass. */
#include "ref/ref.h"

#include "base/assert.h"

static void embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                       Tensor out)
{
    (void)c;
    int64_t width = out.dim[1], vocab = table.dim[0], at = ref_index(position, 0);
    PACER_ASSERT(!tensor_given(positions) || (at >= 0 && at < positions.dim[0]),
                 "position %lld of %lld", (long long)at, (long long)positions.dim[0]);
    for (int64_t s = 0; s < out.dim[0]; s++) {
        int64_t id = ref_index(ids, s);
        PACER_ASSERT(id >= 0 && id < vocab, "token %lld of sequence %lld, vocabulary %lld",
                     (long long)id, (long long)s, (long long)vocab);
        for (int64_t i = 0; i < width; i++) {
            double value = ref_get(table, id * width + i);
            if (tensor_given(positions)) {
                value += ref_get(positions, at * width + i);
            }
            ref_put(out, s * width + i, value);
        }
    }
}

/* Where row `row` of a head of the cache begins, in elements: heads 0 .. G-1 are keys, G .. 2G-1
 * values. */
static int64_t cache_at(HeadShape s, Tensor cache, int64_t sequence, int64_t head, int64_t row)
{
    int64_t context = cache.dim[1] / (2 * s.kv_heads);
    return ((sequence * 2 * s.kv_heads + head) * context + row) * s.head_dim;
}

static int64_t row_width(HeadShape s)
{
    return (s.heads + 2 * s.kv_heads) * s.head_dim;
}

/* Keys and values of a packed row of qkv into row `row` of the sequence. */
static void keep_row(Tensor qkv, int64_t packed_row, HeadShape s, Tensor cache, int64_t sequence,
                     int64_t row)
{
    for (int64_t head = 0; head < 2 * s.kv_heads; head++) {
        int64_t from = packed_row * row_width(s) + (s.heads + head) * s.head_dim;
        int64_t to = cache_at(s, cache, sequence, head, row);
        for (int64_t d = 0; d < s.head_dim; d++) {
            ref_put(cache, to + d, ref_get(qkv, from + d));
        }
    }
}

static void attention_fill(Ctx *c, Tensor qkv, HeadShape s, Tensor cache)
{
    (void)c;
    for (int64_t sequence = 0; sequence < cache.dim[0]; sequence++) {
        for (int64_t t = 0; t < s.seq; t++) {
            keep_row(qkv, sequence % s.batch * s.seq + t, s, cache, sequence, t);
        }
    }
}

/* ws: the scores of one query. */
static size_t attention_step_ws(const Ctx *c, HeadShape shape, DType dtype, int64_t context)
{
    (void)c;
    (void)shape;
    (void)dtype;
    return (size_t)context * sizeof(double);
}

/* out (D) of one query head over `count` rows of its keys and values. */
static void attend(Tensor qkv, HeadShape s, Tensor cache, int64_t sequence, int64_t h,
                   int64_t count, Tensor out, double *p)
{
    int64_t kv = h / (s.heads / s.kv_heads);
    int64_t q = sequence * row_width(s) + h * s.head_dim;
    int64_t keys = cache_at(s, cache, sequence, kv, 0);
    int64_t values = cache_at(s, cache, sequence, s.kv_heads + kv, 0);
    double largest = -INFINITY, total = 0;
    for (int64_t j = 0; j < count; j++) {
        double sum = 0;
        for (int64_t d = 0; d < s.head_dim; d++) {
            sum += ref_get(qkv, q + d) * ref_get(cache, keys + j * s.head_dim + d);
        }
        p[j] = sum / sqrt((double)s.head_dim);
        largest = fmax(largest, p[j]);
    }
    for (int64_t j = 0; j < count; j++) {
        p[j] = exp(p[j] - largest);
        total += p[j];
    }
    for (int64_t d = 0; d < s.head_dim; d++) {
        double sum = 0;
        for (int64_t j = 0; j < count; j++) {
            sum += p[j] * ref_get(cache, values + j * s.head_dim + d);
        }
        ref_put(out, (sequence * s.heads + h) * s.head_dim + d, sum / total);
    }
}

static void attention_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                           Tensor cache, Tensor out, void *ws)
{
    int64_t at = ref_index(position, 0), context = cache.dim[1] / (2 * shape.kv_heads);
    PACER_ASSERT(at >= 0 && at < context, "position %lld, context %lld", (long long)at,
                 (long long)context);
    if (tensor_given(rope)) {
        HeadShape single = shape;
        single.seq = 1;
        c->backend->ops.rope(c, qkv, single, tensor_rows(rope, at, 1), false);
    }
    for (int64_t sequence = 0; sequence < shape.batch; sequence++) {
        keep_row(qkv, sequence, shape, cache, sequence, at);
        for (int64_t h = 0; h < shape.heads; h++) {
            attend(qkv, shape, cache, sequence, h, at + 1, out, ws);
        }
    }
}

void ref_fill_decode(Ops *ops)
{
    ops->embed_step = embed_step;
    ops->attention_fill = attention_fill;
    ops->attention_step = attention_step;
    ops->attention_step_ws = attention_step_ws;
}
