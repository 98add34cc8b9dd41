/* Attention of one new token of each sequence over kept keys and values. It reads the
 * cache once and does little with each number. The positions of a query head are cut into parts
 * of PART_ROWS, whatever the number of threads; a part gives its greatest score, the sum of
 * exponentials against it and the values weighted by them, and the parts of a head are joined in
 * order. So results depend on the shapes alone, and a single sequence with few heads keeps all
 * threads busy once its text is long. */
#include "cpu/cpu.h"

#include "base/assert.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

#include <math.h>

#define PART_ROWS 128
#define ROWS_AT_ONCE 4 /* of keys */

/* Sizes of one call, in floats. */
typedef struct {
    int64_t heads, kv_heads, depth, width; /* H, G, D, and D in whole vectors */
    int64_t context;                       /* rows of a head in the cache */
    int64_t first, count;                  /* those that are attended to */
    int64_t row, parts;                    /* a packed row; parts of a head */
    float scale, cap;                      /* cap 0: none */
} StepLayout;

/* After `tokens` tokens of a sequence, the new one included. */
static StepLayout step_layout(HeadShape s, int64_t context, int64_t tokens)
{
    int64_t count = keys_at_most(s, tokens);
    return (StepLayout){.heads = s.heads,
                        .kv_heads = s.kv_heads,
                        .depth = s.head_dim,
                        .width = round_up(s.head_dim, VEC_LANES),
                        .context = context,
                        .first = tokens - count,
                        .count = count,
                        .row = packed_width(s),
                        .parts = (count + PART_ROWS - 1) / PART_ROWS,
                        .scale = (float)score_scale(s),
                        .cap = (float)s.cap};
}

/* A part in the workspace: greatest score, sum, then the weighted values. */
static int64_t part_floats(const StepLayout *l)
{
    return 2 + l->width;
}

static size_t attention_step_ws(const Ctx *c, HeadShape shape, DType dtype, int64_t context)
{
    (void)c;
    (void)dtype;
    StepLayout l = step_layout(shape, context, context);
    return (size_t)(shape.batch * l.heads * l.parts * part_floats(&l)) * sizeof(float);
}

/* Head `head` of a sequence in the cache: 0 .. G-1 are keys, G .. 2G-1 values. */
static Elem *cache_head(const StepLayout *l, Tensor cache, int64_t sequence, int64_t head)
{
    return (Elem *)cache.data + (sequence * 2 * l->kv_heads + head) * l->context * l->depth;
}

/* scores (rows) = keys (rows, D) q, scaled and capped; rows is a constant at each use, so that the
 * sums are in registers and do not wait for each other. */
VEC_INLINE void score_group(int rows, const StepLayout *l, const Elem *q, const Elem *keys,
                            float *scores)
{
    Vec sums[ROWS_AT_ONCE] = {{0}};
    for (int64_t i = 0; i < l->depth; i += VEC_LANES) {
        Vec x = elem_load_within(q, i, l->depth);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            sums[r] = vec_fma(x, elem_load_within(keys + r * l->depth, i, l->depth), sums[r]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        float score = vec_sum(sums[r]) * l->scale;
        scores[r] = l->cap > 0 ? l->cap * tanhf(score / l->cap) : score;
    }
}

static void score_rows(const StepLayout *l, const Elem *q, const Elem *keys, int64_t count,
                       float *scores)
{
    int64_t j = 0;
    for (; j + ROWS_AT_ONCE <= count; j += ROWS_AT_ONCE) {
        score_group(ROWS_AT_ONCE, l, q, keys + j * l->depth, scores + j);
    }
    for (; j < count; j++) {
        score_group(1, l, q, keys + j * l->depth, scores + j);
    }
}

/* Scores become exp(score - greatest); gives their sum. NaN passes through. */
static float exponentials(float *scores, int64_t count, float greatest)
{
    Vec sum = {0};
    for (int64_t j = 0; j < count; j += VEC_LANES) {
        int64_t lanes = lesser(VEC_LANES, count - j);
        Vec e = vec_exp(vec_load_part(scores + j, lanes) - greatest);
        vec_store_part(scores + j, e, lanes);
        sum += vec_load_part(scores + j, lanes);
    }
    return vec_sum(sum);
}

/* out (width) = weights (count) times values (count, D). A column of four vectors stays in
 * registers. */
static void weigh_rows(const StepLayout *l, const float *weights, const Elem *values, int64_t count,
                       float *out)
{
    int64_t i = 0;
    for (; i + 4 * VEC_LANES <= l->depth; i += 4 * VEC_LANES) {
        Vec sums[4] = {{0}};
        for (int64_t j = 0; j < count; j++) {
            Vec w = vec_set(weights[j]);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) {
                const Elem *at = values + j * l->depth + i + v * VEC_LANES;
                sums[v] = vec_fma(w, elem_load(at), sums[v]);
            }
        }
        for (int v = 0; v < 4; v++) {
            vec_store(out + i + v * VEC_LANES, sums[v]);
        }
    }
    for (; i < l->depth; i += VEC_LANES) {
        Vec even = {0}, odd = {0};
        int64_t j = 0;
        for (; j + 2 <= count; j += 2) {
            const Elem *v = values + j * l->depth;
            even = vec_fma(vec_set(weights[j]), elem_load_within(v, i, l->depth), even);
            odd =
                vec_fma(vec_set(weights[j + 1]), elem_load_within(v + l->depth, i, l->depth), odd);
        }
        if (j < count) {
            const Elem *v = values + j * l->depth;
            even = vec_fma(vec_set(weights[j]), elem_load_within(v, i, l->depth), even);
        }
        vec_store(out + i, even + odd);
    }
}

/* One part of the positions of one query head. */
static void attend_part(const StepLayout *l, const Elem *q, const Elem *keys, const Elem *values,
                        int64_t part, float *result)
{
    int64_t before = part * PART_ROWS, first = l->first + before;
    int64_t rows = lesser(PART_ROWS, l->count - before);
    float scores[PART_ROWS];
    score_rows(l, q, keys + first * l->depth, rows, scores);
    float greatest = scores[0];
    for (int64_t j = 1; j < rows; j++) {
        greatest = scores[j] > greatest ? scores[j] : greatest;
    }
    result[0] = greatest;
    result[1] = exponentials(scores, rows, greatest);
    weigh_rows(l, scores, values + first * l->depth, rows, result + 2);
}

/* out (D) of a query head from its parts, whose greatest scores become their factors. */
static void join_parts(const StepLayout *l, float *parts, Elem *out)
{
    int64_t stride = part_floats(l);
    float greatest = parts[0], total = 0;
    for (int64_t p = 1; p < l->parts; p++) {
        greatest = parts[p * stride] > greatest ? parts[p * stride] : greatest;
    }
    for (int64_t p = 0; p < l->parts; p++) {
        float *part = parts + p * stride;
        part[0] = expf(part[0] - greatest);
        total += part[0] * part[1];
    }
    for (int64_t i = 0; i < l->depth; i += VEC_LANES) {
        Vec sum = {0};
        for (int64_t p = 0; p < l->parts; p++) {
            const float *part = parts + p * stride;
            sum = vec_fma(vec_set(part[0]), vec_load(part + 2 + i), sum);
        }
        elem_store_within(out, i, l->depth, sum / total);
    }
}

/* Keys and values of a packed row into row `at` of the sequence. */
static void keep_row(const StepLayout *l, const Elem *packed, Tensor cache, int64_t sequence,
                     int64_t at)
{
    for (int64_t head = 0; head < 2 * l->kv_heads; head++) {
        memcpy(cache_head(l, cache, sequence, head) + at * l->depth,
               packed + (l->heads + head) * l->depth, (size_t)l->depth * sizeof *packed);
    }
}

static void attention_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                           Tensor cache, Tensor out, void *ws)
{
    int64_t at = ((const int32_t *)position.data)[0], context = cache.dim[1] / (2 * shape.kv_heads);
    PACER_ASSERT(at >= 0 && at < context, "position %lld, context %lld", (long long)at,
                 (long long)context);
    StepLayout l = step_layout(shape, context, at + 1);
    shape.seq = 1;
    if (tensor_given(rope)) {
        ops_for(c, qkv.dtype)->rope(c, qkv, shape, tensor_rows(rope, at, 1), false);
    }
    for (int64_t sequence = 0; sequence < shape.batch; sequence++) {
        keep_row(&l, (const Elem *)qkv.data + sequence * l.row, cache, sequence, at);
    }
    int64_t heads = shape.batch * l.heads, group = l.heads / l.kv_heads;
    int64_t part_size = part_floats(&l);
    float *parts = ws;
    int threads = threads_for(c, heads * l.count * l.depth);
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (int64_t unit = 0; unit < heads * l.parts; unit++) {
            int64_t head = unit / l.parts, sequence = head / l.heads, h = head % l.heads;
            const Elem *q = (const Elem *)qkv.data + sequence * l.row + h * l.depth;
            attend_part(&l, q, cache_head(&l, cache, sequence, h / group),
                        cache_head(&l, cache, sequence, l.kv_heads + h / group), unit % l.parts,
                        parts + unit * part_size);
        }
#pragma omp for schedule(static)
        for (int64_t head = 0; head < heads; head++) {
            join_parts(&l, parts + head * l.parts * part_size, (Elem *)out.data + head * l.depth);
        }
    }
}

static void attention_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache)
{
    StepLayout l = step_layout(shape, cache.dim[1] / (2 * shape.kv_heads), shape.seq);
    int64_t sequences = cache.dim[0];
    int threads = threads_for(c, sequences * shape.seq * 2 * l.kv_heads * l.depth);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < sequences * shape.seq; row++) {
        int64_t sequence = row / shape.seq, t = row % shape.seq;
        int64_t from = sequence % shape.batch * shape.seq + t;
        keep_row(&l, (const Elem *)qkv.data + from * l.row, cache, sequence, t);
    }
}

void PACER_ISA_NAME(decode_fill)(Ops *ops)
{
    ops->attention_fill = attention_fill;
    ops->attention_step = attention_step;
    ops->attention_step_ws = attention_step_ws;
}
