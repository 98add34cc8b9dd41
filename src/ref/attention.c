/* Rotary positions, and causal attention one query at a time. For query i of head h, with
 * s_j = scale * q_i . k_j, or c tanh(scale * q_i . k_j / c) with a cap c, over the j <= i it sees:
 *   p = softmax(s),  out_i = sum_j p_j v_j,
 * and backward, from dout_i:
 *   dp_j = dout_i . v_j,  ds_j = p_j (dp_j - sum_k p_k dp_k), times 1 - (s_j / c)^2 under a cap,
 *   dq_i += scale ds_j k_j,  dk_j += scale ds_j q_i,  dv_j += p_j dout_i,
 * where heads that share a key/value head add to the same dk and dv.
 * Both kinds compute this. They differ in what aux keeps: NAIVE the probabilities p, zero where i
 * does not see; FLASH log(sum_j exp(s_j)), from which backward makes p again. */
#include "ref/ref.h"

#include "base/assert.h"

/* Turns the pairs (i, i + D/2) of each q and k head by the angle of the row's position, in place:
 * (a, b) becomes (a cos - b sin, a sin + b cos); inverse negates the angle. A row of qkv starts
 * with the H + G heads to turn; its v heads stay. */
static void rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse)
{
    (void)c;
    int64_t half = shape.head_dim / 2, width = packed_width(shape);
    for (int64_t n = 0; n < shape.batch * shape.seq; n++) {
        int64_t angles = row_position(shape.starts, n, shape.seq) * shape.head_dim;
        for (int64_t h = 0; h < shape.heads + shape.kv_heads; h++) {
            int64_t head = n * width + h * shape.head_dim;
            for (int64_t i = 0; i < half; i++) {
                double cosine = ref_get(table, angles + i);
                double sine = ref_get(table, angles + half + i) * (inverse ? -1 : 1);
                double a = ref_get(qkv, head + i), b = ref_get(qkv, head + half + i);
                ref_put(qkv, head + i, a * cosine - b * sine);
                ref_put(qkv, head + half + i, a * sine + b * cosine);
            }
        }
    }
}

/* Where the parts of packed rows begin, in elements. */
static int64_t q_at(HeadShape s, int64_t row, int64_t h)
{
    return row * packed_width(s) + h * s.head_dim;
}

static int64_t k_at(HeadShape s, int64_t row, int64_t h)
{
    return row * packed_width(s) + (s.heads + h / (s.heads / s.kv_heads)) * s.head_dim;
}

static int64_t v_at(HeadShape s, int64_t row, int64_t h)
{
    return k_at(s, row, h) + s.kv_heads * s.head_dim;
}

static double dot(Tensor a, int64_t a_at, Tensor b, int64_t b_at, int64_t count)
{
    double sum = 0;
    for (int64_t d = 0; d < count; d++) {
        sum += ref_get(a, a_at + d) * ref_get(b, b_at + d);
    }
    return sum;
}

/* The first key that query i sees; rows of the sequence start at `first`. */
static int64_t first_key(HeadShape s, int64_t first, int64_t i)
{
    int64_t start = tensor_given(s.starts) ? ref_index(s.starts, first + i) : 0;
    PACER_ASSERT(start >= 0 && start <= i, "token %lld of a document from %lld on", (long long)i,
                 (long long)start);
    int64_t outside = i + 1 - keys_at_most(s, i + 1);
    return start > outside ? start : outside;
}

static double capped(HeadShape s, double score)
{
    return s.cap > 0 ? s.cap * tanh(score / s.cap) : score;
}

/* scores[j] of query i for those j that it sees. */
static void query_scores(Tensor qkv, HeadShape s, int64_t first, int64_t h, int64_t i,
                         double *scores)
{
    for (int64_t j = first_key(s, first, i); j <= i; j++) {
        double product = dot(qkv, q_at(s, first + i, h), qkv, k_at(s, first + j, h), s.head_dim);
        scores[j] = capped(s, score_scale(s) * product);
    }
}

static double log_sum_exp(const double *values, int64_t from, int64_t to)
{
    double largest = values[from], sum = 0;
    for (int64_t j = from + 1; j < to; j++) {
        largest = fmax(largest, values[j]);
    }
    for (int64_t j = from; j < to; j++) {
        sum += exp(values[j] - largest);
    }
    return largest + log(sum);
}

/* ws: the scores of one query. */
static size_t attention_forward_ws(const Ctx *c, HeadShape shape, DType dtype)
{
    (void)c;
    (void)dtype;
    return (size_t)shape.seq * sizeof(double);
}

static void attention_forward(Ctx *c, Tensor qkv, HeadShape s, Tensor out, Tensor aux, void *ws)
{
    double *p = ws;
    for (int64_t b = 0; b < s.batch; b++) {
        for (int64_t h = 0; h < s.heads; h++) {
            for (int64_t i = 0; i < s.seq; i++) {
                int64_t first = b * s.seq, query = (b * s.heads + h) * s.seq + i;
                int64_t from = first_key(s, first, i);
                query_scores(qkv, s, first, h, i, p);
                double lse = log_sum_exp(p, from, i + 1);
                for (int64_t j = from; j <= i; j++) {
                    p[j] = exp(p[j] - lse);
                }
                for (int64_t d = 0; d < s.head_dim; d++) {
                    double sum = 0;
                    for (int64_t j = from; j <= i; j++) {
                        sum += p[j] * ref_get(qkv, v_at(s, first + j, h) + d);
                    }
                    ref_put(out, ((first + i) * s.heads + h) * s.head_dim + d, sum);
                }
                if (c->attention != ATTENTION_NAIVE) {
                    ref_put(aux, query, lse);
                } else {
                    for (int64_t j = 0; j < s.seq; j++) {
                        ref_put(aux, query * s.seq + j, j >= from && j <= i ? p[j] : 0);
                    }
                }
            }
        }
    }
}

/* ws: p, slopes and ds of one query, then the gradient of one sequence, (T, (H+2G)D). */
static size_t attention_backward_ws(const Ctx *c, HeadShape shape, DType dtype)
{
    (void)c;
    (void)dtype;
    return (size_t)(shape.seq * (3 + packed_width(shape))) * sizeof(double);
}

/* p[j] as the forward found them, and the slope of the cap at each score. */
static void query_probabilities(Ctx *c, Tensor qkv, HeadShape s, Tensor aux, int64_t b, int64_t h,
                                int64_t i, double *p, double *slopes)
{
    int64_t query = (b * s.heads + h) * s.seq + i;
    query_scores(qkv, s, b * s.seq, h, i, p);
    for (int64_t j = first_key(s, b * s.seq, i); j <= i; j++) {
        slopes[j] = s.cap > 0 ? 1 - p[j] / s.cap * (p[j] / s.cap) : 1;
        p[j] = c->attention != ATTENTION_NAIVE ? exp(p[j] - ref_get(aux, query))
                                               : ref_get(aux, query * s.seq + j);
    }
}

/* Adds what query i of head h contributes to `sums`, the gradient of the sequence's qkv. */
static void query_backward(Tensor dout, Tensor qkv, HeadShape s, int64_t first, int64_t h,
                           int64_t i, const double *p, const double *slopes, double *ds,
                           double *sums)
{
    double scale = score_scale(s), mean = 0;
    int64_t dout_at = ((first + i) * s.heads + h) * s.head_dim, from = first_key(s, first, i);
    for (int64_t j = from; j <= i; j++) {
        ds[j] = dot(dout, dout_at, qkv, v_at(s, first + j, h), s.head_dim);
        mean += p[j] * ds[j];
    }
    for (int64_t j = from; j <= i; j++) {
        ds[j] = p[j] * (ds[j] - mean) * slopes[j];
        for (int64_t d = 0; d < s.head_dim; d++) {
            double q = ref_get(qkv, q_at(s, first + i, h) + d);
            double k = ref_get(qkv, k_at(s, first + j, h) + d);
            sums[q_at(s, i, h) + d] += scale * ds[j] * k;
            sums[k_at(s, j, h) + d] += scale * ds[j] * q;
            sums[v_at(s, j, h) + d] += p[j] * ref_get(dout, dout_at + d);
        }
    }
}

static void attention_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux, HeadShape s,
                               Tensor dqkv, void *ws)
{
    (void)out; /* sum_k p_k dp_k equals dout_i . out_i, but is not rounded */
    double *p = ws, *slopes = p + s.seq, *ds = slopes + s.seq, *sums = ds + s.seq;
    int64_t count = s.seq * packed_width(s);
    for (int64_t b = 0; b < s.batch; b++) {
        memset(sums, 0, (size_t)count * sizeof *sums);
        for (int64_t h = 0; h < s.heads; h++) {
            for (int64_t i = 0; i < s.seq; i++) {
                query_probabilities(c, qkv, s, aux, b, h, i, p, slopes);
                query_backward(dout, qkv, s, b * s.seq, h, i, p, slopes, ds, sums);
            }
        }
        for (int64_t i = 0; i < count; i++) {
            ref_put(dqkv, b * count + i, sums[i]);
        }
    }
}

/* --- token by token from kept keys and values: row j of the keys and values of one sequence and
 * head is token j; the attention of a new token is that of the last query of a sequence. Turned q
 * and k are rounded to the activation type, as op_rope rounds them before a whole pass --- */

/* Where row `row` of a head of the cache begins, in elements: heads 0 .. G-1 are keys, G .. 2G-1
 * values. */
static int64_t cache_at(HeadShape s, Tensor cache, int64_t sequence, int64_t head, int64_t row)
{
    int64_t context = cache.dim[1] / (2 * s.kv_heads);
    return ((sequence * 2 * s.kv_heads + head) * context + row) * s.head_dim;
}

/* Keys and values of a packed row of qkv into row `row` of the sequence. */
static void keep_row(Tensor qkv, int64_t packed_row, HeadShape s, Tensor cache, int64_t sequence,
                     int64_t row)
{
    for (int64_t head = 0; head < 2 * s.kv_heads; head++) {
        int64_t from = packed_row * packed_width(s) + (s.heads + head) * s.head_dim;
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

/* out (D) of one query head over the rows of its keys and values, `count`, that it sees. */
static void attend(Tensor qkv, HeadShape s, Tensor cache, int64_t sequence, int64_t h,
                   int64_t count, Tensor out, double *p)
{
    int64_t kv = h / (s.heads / s.kv_heads);
    int64_t q = sequence * packed_width(s) + h * s.head_dim;
    int64_t keys = cache_at(s, cache, sequence, kv, 0);
    int64_t values = cache_at(s, cache, sequence, s.kv_heads + kv, 0);
    int64_t from = count - keys_at_most(s, count);
    double largest = -INFINITY, total = 0;
    for (int64_t j = from; j < count; j++) {
        double product = dot(qkv, q, cache, keys + j * s.head_dim, s.head_dim);
        p[j] = capped(s, score_scale(s) * product);
        largest = fmax(largest, p[j]);
    }
    for (int64_t j = from; j < count; j++) {
        p[j] = exp(p[j] - largest);
        total += p[j];
    }
    for (int64_t d = 0; d < s.head_dim; d++) {
        double sum = 0;
        for (int64_t j = from; j < count; j++) {
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
        ops_for(c, qkv.dtype)->rope(c, qkv, single, tensor_rows(rope, at, 1), false);
    }
    for (int64_t sequence = 0; sequence < shape.batch; sequence++) {
        keep_row(qkv, sequence, shape, cache, sequence, at);
        for (int64_t h = 0; h < shape.heads; h++) {
            attend(qkv, shape, cache, sequence, h, at + 1, out, ws);
        }
    }
}

void ref_fill_attention(Ops *ops)
{
    ops->rope = rope;
    ops->attention_forward = attention_forward;
    ops->attention_forward_ws = attention_forward_ws;
    ops->attention_backward = attention_backward;
    ops->attention_backward_ws = attention_backward_ws;
    ops->attention_fill = attention_fill;
    ops->attention_step = attention_step;
    ops->attention_step_ws = attention_step_ws;
}
