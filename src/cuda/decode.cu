/* Generation from kept keys and values (ops.h: op_attention_step). All of it is limited by latency
 * and by reading the cache once.
 *
 * Attention of the new tokens: a block has a part of the positions of one query head of one
 * sequence, and each of its warps every STEP_WARPS-th run of STEP_ROWS rows there. A warp keeps
 * the largest score, the sum of exponentials and the weighted sum of values over what it has
 * seen; lane l holds elements l, l + 32, ... of a row. The warps of a block are then joined, and
 * the parts of a head by a second kernel. How many parts there are depends on shape and context
 * alone, not on the position, which only the device knows: parts behind it are empty. Of a window
 * only its positions are shared out. */
#include "cuda/device.cuh"

#include <math.h>

#define STEP_WARPS 8
#define STEP_ROWS 4   /* rows that a warp has in flight */
#define PART_ROWS 256 /* fewer are not worth a block of their own */
#define STORE_THREADS 256

/* --- embedding --- */

/* out (S,C) = table[ids] + positions[*position]; a block per sequence. */
template <typename T>
__global__ void embed_next(const int32_t *__restrict__ ids, const T *__restrict__ table,
                           const T *__restrict__ positions, const int32_t *__restrict__ position,
                           int64_t width, T *__restrict__ out)
{
    const T *token = table + ids[blockIdx.x] * width;
    for (int64_t at = threadIdx.x; at < width; at += blockDim.x) {
        float value = to_f32(token[at]);
        if (positions != NULL) {
            value += to_f32(positions[*position * width + at]);
        }
        out[blockIdx.x * width + at] = from_f32<T>(value);
    }
}

template <typename T>
static void launch_embed(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                         Tensor out)
{
    const T *added = tensor_given(positions) ? (const T *)positions.data : NULL;
    embed_next<T><<<(unsigned)out.dim[0], STORE_THREADS, 0, cuda_of(c)->stream>>>(
        (const int32_t *)ids.data, (const T *)table.data, added, (const int32_t *)position.data,
        out.dim[1], (T *)out.data);
    CUDA_LAUNCHED("embed_next");
}

void cuda_embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                     Tensor out)
{
    CUDA_FOR_TYPE(out.dtype, launch_embed, c, ids, table, positions, position, out);
}

/* --- the cache --- */

struct CacheShape {
    int heads, kv_heads, dim;
    int64_t context, width; /* rows of a head in the cache; (H+2G)D of packed rows */
};

static CacheShape cache_shape(HeadShape s, int64_t context)
{
    CacheShape shape;
    shape.heads = (int)s.heads;
    shape.kv_heads = (int)s.kv_heads;
    shape.dim = (int)s.head_dim;
    shape.context = context;
    shape.width = (s.heads + 2 * s.kv_heads) * s.head_dim;
    return shape;
}

static int64_t context_of(HeadShape s, Tensor cache)
{
    return cache.dim[1] / (2 * s.kv_heads);
}

/* Offset of row `row` of head `head` of a sequence: heads 0 .. G-1 are keys, G .. 2G-1 values. */
__device__ static int64_t cache_at(const CacheShape &s, int64_t sequence, int head, int64_t row)
{
    return ((sequence * 2 * s.kv_heads + head) * s.context + row) * s.dim;
}

/* Keys and values of row blockIdx.x of the prompt, into sequence blockIdx.y of the cache. */
template <typename T>
__global__ void fill_cache(const T *__restrict__ qkv, CacheShape s, int64_t batch, int64_t seq,
                           T *__restrict__ cache)
{
    int64_t sequence = blockIdx.y, row = blockIdx.x;
    const T *from = qkv + (sequence % batch * seq + row) * s.width + (int64_t)s.heads * s.dim;
    for (int at = threadIdx.x; at < 2 * s.kv_heads * s.dim; at += blockDim.x) {
        cache[cache_at(s, sequence, at / s.dim, row) + at % s.dim] = from[at];
    }
}

template <typename T> static void launch_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache)
{
    dim3 blocks((unsigned)shape.seq, (unsigned)cache.dim[0]);
    fill_cache<T><<<blocks, STORE_THREADS, 0, cuda_of(c)->stream>>>(
        (const T *)qkv.data, cache_shape(shape, context_of(shape, cache)), shape.batch, shape.seq,
        (T *)cache.data);
    CUDA_LAUNCHED("fill_cache");
}

void cuda_attention_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache)
{
    CUDA_FOR_TYPE(qkv.dtype, launch_fill, c, qkv, shape, cache);
}

/* Turns q and k of a sequence's new token in place and puts k and v into the cache. A block per
 * sequence; a thread has pairs (i, i + D/2) of heads, so that it alone reads and writes both. */
template <typename T>
__global__ void store_next(T *__restrict__ qkv, CacheShape s, const float *__restrict__ rope,
                           const int32_t *__restrict__ position, T *__restrict__ cache)
{
    int64_t sequence = blockIdx.x, row = *position;
    int half = s.dim / 2, items = half + s.dim % 2;
    T *packed = qkv + sequence * s.width;
    for (int item = threadIdx.x; item < (s.heads + 2 * s.kv_heads) * items; item += blockDim.x) {
        int head = item / items, i = item % items, j = i + half;
        bool pair = i < half; /* the last element of an odd width stands alone, at j */
        T *at = packed + (int64_t)head * s.dim;
        if (rope != NULL && head < s.heads + s.kv_heads && pair) {
            float cosine = rope[row * s.dim + i], sine = rope[row * s.dim + half + i];
            float a = to_f32(at[i]), b = to_f32(at[j]);
            at[i] = from_f32<T>(a * cosine - b * sine);
            at[j] = from_f32<T>(a * sine + b * cosine);
        }
        if (head >= s.heads) {
            T *to = cache + cache_at(s, sequence, head - s.heads, row);
            to[j] = at[j];
            if (pair) {
                to[i] = at[i];
            }
        }
    }
}

/* --- attention --- */

/* A part's result, or a head's: the largest score, the sum of exponentials of the others against
 * it, and the sum of values weighted by them. In the workspace: (S*H*parts) of 2 + D floats. */
__device__ static void join(float &top, float &sum, float other_top, float other_sum, float &keep,
                            float &take)
{
    float both = fmaxf(top, other_top);
    keep = other_sum == 0 ? 1 : sum == 0 ? 0 : expf(top - both);
    take = other_sum == 0 ? 0 : sum == 0 ? 1 : expf(other_top - both);
    sum = sum * keep + other_sum * take;
    top = both;
}

/* What becomes of scores, and how many rows count: the last `window`, 1 .. context. cap 0: none. */
struct StepSight {
    int64_t window;
    float scale, cap;
};

/* PER: elements of a row that a lane holds, D <= 32 PER. Blocks (parts, H, S). With one part the
 * result goes to out, else to parts. */
template <typename T, int PER>
__global__ void __launch_bounds__(WARP *STEP_WARPS)
    attend_next(const T *__restrict__ qkv, CacheShape s, const int32_t *__restrict__ position,
                const T *__restrict__ cache, StepSight sight, T *__restrict__ out,
                float *__restrict__ parts)
{
    __shared__ float of_warps[STEP_WARPS][2 + PER * WARP];
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int head = blockIdx.y, kv = head / (s.heads / s.kv_heads);
    int64_t sequence = blockIdx.z, rows = *position + 1;
    int64_t share = (sight.window + gridDim.x - 1) / gridDim.x;
    int64_t first = (rows > sight.window ? rows - sight.window : 0) + blockIdx.x * share;
    int64_t last = first + share < rows ? first + share : rows;
    const T *keys = cache + cache_at(s, sequence, kv, 0);
    const T *values = cache + cache_at(s, sequence, s.kv_heads + kv, 0);
    const T *query = qkv + sequence * s.width + (int64_t)head * s.dim;

    float q[PER], sum_values[PER], top = -INFINITY, sum = 0;
#pragma unroll
    for (int e = 0; e < PER; e++) {
        int at = e * WARP + lane;
        q[e] = at < s.dim ? sight.scale * to_f32(query[at]) : 0.0f;
        sum_values[e] = 0;
    }
    for (int64_t row = first + warp * STEP_ROWS; row < last; row += STEP_WARPS * STEP_ROWS) {
        float score[STEP_ROWS];
#pragma unroll
        for (int r = 0; r < STEP_ROWS; r++) {
            float dot = 0;
#pragma unroll
            for (int e = 0; e < PER; e++) {
                int at = e * WARP + lane;
                if (at < s.dim && row + r < last) {
                    dot = fmaf(q[e], to_f32(keys[(row + r) * s.dim + at]), dot);
                }
            }
            score[r] = dot;
        }
        float most = top;
#pragma unroll
        for (int r = 0; r < STEP_ROWS; r++) {
            score[r] = row + r < last ? warp_sum(score[r]) : -INFINITY;
            if (sight.cap > 0 && row + r < last) {
                score[r] = sight.cap * tanhf(score[r] / sight.cap);
            }
            most = fmaxf(most, score[r]);
        }
        float keep = sum == 0 ? 0.0f : expf(top - most);
        top = most;
        sum *= keep;
#pragma unroll
        for (int e = 0; e < PER; e++) {
            sum_values[e] *= keep;
        }
#pragma unroll
        for (int r = 0; r < STEP_ROWS; r++) {
            if (row + r >= last) {
                break;
            }
            float weight = expf(score[r] - top);
            sum += weight;
#pragma unroll
            for (int e = 0; e < PER; e++) {
                int at = e * WARP + lane;
                if (at < s.dim) {
                    sum_values[e] =
                        fmaf(weight, to_f32(values[(row + r) * s.dim + at]), sum_values[e]);
                }
            }
        }
    }
    float *mine = of_warps[warp];
    if (lane == 0) {
        mine[0] = top;
        mine[1] = sum;
    }
#pragma unroll
    for (int e = 0; e < PER; e++) {
        mine[2 + e * WARP + lane] = sum_values[e];
    }
    __syncthreads();
    for (int at = threadIdx.x; at < s.dim; at += blockDim.x) {
        float all = of_warps[0][2 + at], all_top = of_warps[0][0], all_sum = of_warps[0][1];
        for (int w = 1; w < STEP_WARPS; w++) {
            float kept, taken;
            join(all_top, all_sum, of_warps[w][0], of_warps[w][1], kept, taken);
            all = all * kept + of_warps[w][2 + at] * taken;
        }
        int64_t place = sequence * s.heads + head;
        if (gridDim.x == 1) {
            out[place * s.dim + at] = from_f32<T>(all / all_sum);
        } else {
            float *part = parts + (place * gridDim.x + blockIdx.x) * (2 + s.dim);
            part[2 + at] = all;
            if (at == 0) {
                part[0] = all_top;
                part[1] = all_sum;
            }
        }
    }
}

/* out (S*H, D) from the parts of each head; a block per head of a sequence. */
template <typename T>
__global__ void join_parts(const float *__restrict__ parts, int count, int dim, T *__restrict__ out)
{
    const float *first = parts + (int64_t)blockIdx.x * count * (2 + dim);
    for (int at = threadIdx.x; at < dim; at += blockDim.x) {
        float all = first[2 + at], top = first[0], sum = first[1];
        for (int p = 1; p < count; p++) {
            const float *part = first + (int64_t)p * (2 + dim);
            float kept, taken;
            join(top, sum, part[0], part[1], kept, taken);
            all = all * kept + part[2 + at] * taken;
        }
        out[(int64_t)blockIdx.x * dim + at] = from_f32<T>(all / sum);
    }
}

/* Enough blocks to fill the GPU twice, where the context gives them something to do. */
static int part_count(const Ctx *c, HeadShape s, int64_t context)
{
    int64_t wanted = ceil_div(2 * cuda_of(c)->processors, s.batch * s.heads);
    return (int)clamp_to(wanted, 1, ceil_div(keys_at_most(s, context), PART_ROWS));
}

size_t cuda_attention_step_ws(const Ctx *c, HeadShape shape, DType dtype, int64_t context)
{
    (void)dtype;
    int parts = part_count(c, shape, context);
    size_t of_part = (size_t)(2 + shape.head_dim) * sizeof(float);
    return parts > 1 ? (size_t)(shape.batch * shape.heads * parts) * of_part : 0;
}

template <typename T>
static void launch_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                        Tensor cache, Tensor out, void *ws)
{
    cudaStream_t stream = cuda_of(c)->stream;
    CacheShape s = cache_shape(shape, context_of(shape, cache));
    const int32_t *at = (const int32_t *)position.data;
    T *packed = (T *)qkv.data, *kept = (T *)cache.data, *to = (T *)out.data;
    const float *table = tensor_given(rope) ? (const float *)rope.data : NULL;
    StepSight sight = {keys_at_most(shape, s.context), (float)score_scale(shape), (float)shape.cap};
    float *parts = (float *)ws;
    int count = part_count(c, shape, s.context);
    dim3 blocks((unsigned)count, (unsigned)shape.heads, (unsigned)shape.batch);
    store_next<T><<<(unsigned)shape.batch, STORE_THREADS, 0, stream>>>(packed, s, table, at, kept);
    CUDA_LAUNCHED("store_next");
    if (s.dim <= 2 * WARP) {
        attend_next<T, 2>
            <<<blocks, WARP * STEP_WARPS, 0, stream>>>(packed, s, at, kept, sight, to, parts);
    } else if (s.dim <= 4 * WARP) {
        attend_next<T, 4>
            <<<blocks, WARP * STEP_WARPS, 0, stream>>>(packed, s, at, kept, sight, to, parts);
    } else if (s.dim <= 32 * WARP) {
        attend_next<T, 32>
            <<<blocks, WARP * STEP_WARPS, 0, stream>>>(packed, s, at, kept, sight, to, parts);
    } else {
        cuda_fail("attention_step", "heads wider than 1024 are not covered", __FILE__, __LINE__);
    }
    CUDA_LAUNCHED("attend_next");
    if (count > 1) {
        join_parts<T><<<(unsigned)(shape.batch * shape.heads), WARP * 4, 0, stream>>>(parts, count,
                                                                                      s.dim, to);
        CUDA_LAUNCHED("join_parts");
    }
}

void cuda_attention_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                         Tensor cache, Tensor out, void *ws)
{
    CUDA_FOR_TYPE(qkv.dtype, launch_step, c, qkv, shape, rope, position, cache, out, ws);
}
