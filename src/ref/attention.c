/* Causal attention, one query at a time. For query i of head h, with s_j = scale * q_i . k_j over
 * j <= i and scale = 1/sqrt(D):
 *   p = softmax(s),  out_i = sum_j p_j v_j,
 * and backward, from dout_i:
 *   dp_j = dout_i . v_j,  ds_j = p_j (dp_j - sum_k p_k dp_k),
 *   dq_i += scale ds_j k_j,  dk_j += scale ds_j q_i,  dv_j += p_j dout_i,
 * where heads that share a key/value head add to the same dk and dv.
 * Both kinds compute this. They differ in what aux keeps: NAIVE the probabilities p, zero above the
 * diagonal; FLASH log(sum_j exp(s_j)), from which backward makes p again. */
#include "ref/ref.h"

/* Where the parts of packed rows begin, in elements. */
static int64_t row_width(HeadShape s)
{
    return (s.heads + 2 * s.kv_heads) * s.head_dim;
}

static int64_t q_at(HeadShape s, int64_t row, int64_t h)
{
    return row * row_width(s) + h * s.head_dim;
}

static int64_t k_at(HeadShape s, int64_t row, int64_t h)
{
    return row * row_width(s) + (s.heads + h / (s.heads / s.kv_heads)) * s.head_dim;
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

/* scores[j] of query i for j <= i; rows of the sequence start at `first`. */
static void query_scores(Tensor qkv, HeadShape s, int64_t first, int64_t h, int64_t i,
                         double *scores)
{
    double scale = 1 / sqrt((double)s.head_dim);
    for (int64_t j = 0; j <= i; j++) {
        scores[j] = scale * dot(qkv, q_at(s, first + i, h), qkv, k_at(s, first + j, h), s.head_dim);
    }
}

static double log_sum_exp(const double *values, int64_t count)
{
    double largest = values[0], sum = 0;
    for (int64_t j = 1; j < count; j++) {
        largest = fmax(largest, values[j]);
    }
    for (int64_t j = 0; j < count; j++) {
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
                query_scores(qkv, s, first, h, i, p);
                double lse = log_sum_exp(p, i + 1);
                for (int64_t j = 0; j <= i; j++) {
                    p[j] = exp(p[j] - lse);
                }
                for (int64_t d = 0; d < s.head_dim; d++) {
                    double sum = 0;
                    for (int64_t j = 0; j <= i; j++) {
                        sum += p[j] * ref_get(qkv, v_at(s, first + j, h) + d);
                    }
                    ref_put(out, ((first + i) * s.heads + h) * s.head_dim + d, sum);
                }
                if (c->attention != ATTENTION_NAIVE) {
                    ref_put(aux, query, lse);
                } else {
                    for (int64_t j = 0; j < s.seq; j++) {
                        ref_put(aux, query * s.seq + j, j <= i ? p[j] : 0);
                    }
                }
            }
        }
    }
}

/* ws: p and ds of one query, then the gradient of one sequence, (T, (H+2G)D). */
static size_t attention_backward_ws(const Ctx *c, HeadShape shape, DType dtype)
{
    (void)c;
    (void)dtype;
    return (size_t)(shape.seq * (2 + row_width(shape))) * sizeof(double);
}

/* p[j] for j <= i as the forward found them. */
static void query_probabilities(Ctx *c, Tensor qkv, HeadShape s, Tensor aux, int64_t b, int64_t h,
                                int64_t i, double *p)
{
    int64_t query = (b * s.heads + h) * s.seq + i;
    if (c->attention != ATTENTION_NAIVE) {
        query_scores(qkv, s, b * s.seq, h, i, p);
    }
    for (int64_t j = 0; j <= i; j++) {
        p[j] = c->attention != ATTENTION_NAIVE ? exp(p[j] - ref_get(aux, query))
                                               : ref_get(aux, query * s.seq + j);
    }
}

/* Adds what query i of head h contributes to `sums`, the gradient of the sequence's qkv. */
static void query_backward(Tensor dout, Tensor qkv, HeadShape s, int64_t first, int64_t h,
                           int64_t i, const double *p, double *ds, double *sums)
{
    double scale = 1 / sqrt((double)s.head_dim);
    int64_t dout_at = ((first + i) * s.heads + h) * s.head_dim;
    double mean = 0;
    for (int64_t j = 0; j <= i; j++) {
        ds[j] = dot(dout, dout_at, qkv, v_at(s, first + j, h), s.head_dim);
        mean += p[j] * ds[j];
    }
    for (int64_t j = 0; j <= i; j++) {
        ds[j] = p[j] * (ds[j] - mean);
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
    double *p = ws, *ds = p + s.seq, *sums = ds + s.seq;
    int64_t count = s.seq * row_width(s);
    for (int64_t b = 0; b < s.batch; b++) {
        memset(sums, 0, (size_t)count * sizeof *sums);
        for (int64_t h = 0; h < s.heads; h++) {
            for (int64_t i = 0; i < s.seq; i++) {
                query_probabilities(c, qkv, s, aux, b, h, i, p);
                query_backward(dout, qkv, s, b * s.seq, h, i, p, ds, sums);
            }
        }
        for (int64_t i = 0; i < count; i++) {
            ref_put(dqkv, b * count + i, sums[i]);
        }
    }
}

void ref_fill_attention(Ops *ops)
{
    ops->attention_forward = attention_forward;
    ops->attention_forward_ws = attention_forward_ws;
    ops->attention_backward = attention_backward;
    ops->attention_backward_ws = attention_backward_ws;
}
