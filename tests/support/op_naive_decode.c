/* Generation from kept keys and values, as one would write it down first. */
#include "support/op_naive.h"

#include "support/op_naive_parts.h"

static void embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                       Tensor out)
{
    (void)c;
    int64_t width = out.dim[1];
    for (int64_t e = 0; e < tensor_count(out); e++) {
        float added = tensor_given(positions)
                          ? get(positions, ref_index(position, 0) * width + e % width)
                          : 0;
        float value = get(table, ref_index(ids, e / width) * width + e % width);
        put(out, e, value + added, MODE_SET);
    }
}

/* Element e of the cache belongs to dimension d of row `row` of head `head` (keys, then values)
 * of a sequence. */
typedef struct {
    int64_t sequence, head, row, d;
} Place;

static Place place_of(HeadShape s, Tensor cache, int64_t e)
{
    int64_t context = cache.dim[1] / (2 * s.kv_heads);
    return (Place){e / s.head_dim / context / (2 * s.kv_heads),
                   e / s.head_dim / context % (2 * s.kv_heads), e / s.head_dim % context,
                   e % s.head_dim};
}

static void attention_fill(Ctx *c, Tensor qkv, HeadShape s, Tensor cache)
{
    (void)c;
    for (int64_t e = 0; e < tensor_count(cache); e++) {
        Place at = place_of(s, cache, e);
        if (at.row < s.seq) {
            int64_t row = at.sequence % s.batch * s.seq + at.row;
            put(cache, e, get(qkv, row * qkv.dim[1] + (s.heads + at.head) * s.head_dim + at.d),
                MODE_SET);
        }
    }
}

static void turn(Tensor qkv, HeadShape s, Tensor rope, int64_t t)
{
    int64_t half = s.head_dim / 2;
    for (int64_t row = 0; row < s.batch; row++) {
        for (int64_t e = 0; e < (s.heads + s.kv_heads) * half; e++) {
            int64_t first = row * qkv.dim[1] + e / half * s.head_dim + e % half;
            float cosine = get(rope, t * s.head_dim + e % half);
            float sine = get(rope, t * s.head_dim + half + e % half);
            float a = get(qkv, first), b = get(qkv, first + half);
            put(qkv, first, a * cosine - b * sine, MODE_SET);
            put(qkv, first + half, a * sine + b * cosine, MODE_SET);
        }
    }
}

static size_t attention_step_ws(const Ctx *c, HeadShape shape, DType dtype, int64_t context)
{
    (void)c;
    (void)shape;
    (void)dtype;
    return (size_t)context * sizeof(float);
}

static void attention_step(Ctx *c, Tensor qkv, HeadShape s, Tensor rope, Tensor position,
                           Tensor cache, Tensor out, void *ws)
{
    (void)c;
    int64_t t = ref_index(position, 0), context = cache.dim[1] / (2 * s.kv_heads), d = s.head_dim;
    float *p = ws;
    if (tensor_given(rope)) {
        turn(qkv, s, rope, t);
    }
    for (int64_t e = 0; e < tensor_count(cache); e++) {
        Place at = place_of(s, cache, e);
        if (at.row == t) {
            put(cache, e, get(qkv, at.sequence * qkv.dim[1] + (s.heads + at.head) * d + at.d),
                MODE_SET);
        }
    }
    for (int64_t unit = 0; unit < s.batch * s.heads; unit++) {
        int64_t sequence = unit / s.heads, h = unit % s.heads, g = h / (s.heads / s.kv_heads);
        int64_t keys = (sequence * 2 * s.kv_heads + g) * context * d;
        int64_t values = keys + s.kv_heads * context * d;
        float largest = -INFINITY, total = 0;
        int64_t from = s.window > 0 && s.window <= t ? t + 1 - s.window : 0;
        for (int64_t j = from; j <= t; j++) {
            float score = 0;
            for (int64_t i = 0; i < d; i++) {
                score += get(qkv, sequence * qkv.dim[1] + h * d + i) * get(cache, keys + j * d + i);
            }
            p[j] = score_of(s, score);
            largest = fmaxf(largest, p[j]);
        }
        for (int64_t j = from; j <= t; j++) {
            p[j] = expf(p[j] - largest);
            total += p[j];
        }
        for (int64_t i = 0; i < d; i++) {
            float sum = 0;
            for (int64_t j = from; j <= t; j++) {
                sum += p[j] / total * get(cache, values + j * d + i);
            }
            put(out, unit * d + i, sum, MODE_SET);
        }
    }
}

void op_naive_fill_decode(Ops *ops)
{
    ops->embed_step = embed_step;
    ops->attention_fill = attention_fill;
    ops->attention_step = attention_step;
    ops->attention_step_ws = attention_step_ws;
}
