/* Attention of new tokens to kept keys and values (ops.h: op_attention_step), limited by latency
 * and by reading the cache once.
 *
 * A block has a part of the positions of one query head of one sequence. GROUP lanes of a warp read
 * a row together, and the groups go down the part side by side, ROWS rows each at a time. A group
 * keeps the largest score, the sum of exponentials and the weighted sum of values over what it has
 * seen; these are joined over the groups of a warp, the warps of a block, and the parts of a head.
 * The parts of a head are the blocks of a cluster, of which the first joins them; where there are
 * no clusters, or too many parts, a second kernel does.
 *
 * How many parts there are depends on shape and context alone, since only the device knows the
 * position; the positions that are seen are shared out evenly. Key and value of the new token go
 * into the cache, and reach their queries past it. */
#include "cuda/decode.cuh"

#include <cooperative_groups.h>
#include <math.h>

#define STEP_WARPS 8
#define PART_ROWS 128 /* fewer are not worth a block of their own */
#define CLUSTER_MOST 8
#define CLUSTER_KEYS 8192 /* of more, more parts are worth a second kernel */
#define JOIN_THREADS 128

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

/* What LANES elements as they lie in memory are. */
template <typename T, int LANES>
__device__ static void spread(typename Raw<T, LANES>::type raw, float (&to)[LANES])
{
    if constexpr (LANES == 1) {
        to[0] = to_f32(raw);
    } else {
        unpack<T>(raw, to);
    }
}

/* What becomes of scores, and how many rows count: the last `window`, 1 .. context. cap 0: none. */
struct StepSight {
    int window;
    float scale, cap;
};

/* rope may be NULL. parts: where they lie until a second kernel joins them; NULL: a cluster's. */
template <typename T> struct StepArgs {
    const T *qkv;
    CacheShape shape;
    const float *rope;
    const int32_t *position;
    T *cache, *out;
    StepSight sight;
    float *parts;
};

/* Rows [first, last) of the cache, the new token's among them. */
struct Span {
    int first, last;
};

__device__ static Span span_of(int rows, int window, int part, int parts)
{
    int seen = rows < window ? rows : window;
    int share = (int)((unsigned)(seen + parts - 1) / (unsigned)parts);
    Span span;
    span.first = rows - seen + part * share;
    span.last = span.first + share < rows ? span.first + share : rows;
    return span;
}

/* q, k and v of a head and its group for the new token, q and k turned: next (3, stride). */
template <typename T>
__device__ static void turn_next(const StepArgs<T> &a, int64_t sequence, int head, int kv, int row,
                                 T *next, int stride)
{
    const CacheShape &s = a.shape;
    int half = s.dim / 2, items = half + s.dim % 2;
    for (int item = threadIdx.x; item < 3 * items; item += blockDim.x) {
        int which = item / items, i = item % items, j = i + half;
        bool pair = i < half; /* the last element of an odd width stands alone, at j */
        int place = which == 0 ? head : s.heads + (which == 1 ? kv : s.kv_heads + kv);
        const T *from = a.qkv + sequence * s.width + (int64_t)place * s.dim;
        T *to = next + which * stride, low = from[pair ? i : j], high = from[j];
        if (a.rope != NULL && which < 2 && pair) {
            const float *turn = a.rope + (int64_t)row * s.dim + i;
            float cosine = turn[0], sine = turn[half];
            float x = to_f32(low), y = to_f32(high);
            low = from_f32<T>(x * cosine - y * sine);
            high = from_f32<T>(x * sine + y * cosine);
        }
        if (pair) {
            to[i] = low;
        }
        to[j] = high;
    }
}

/* The parts of a head, one in the shared memory of each block of a cluster, joined by the first. */
template <typename T>
__device__ static void join_cluster(const StepArgs<T> &a, float *part, int64_t place)
{
#if __CUDA_ARCH__ >= 900
    cooperative_groups::cluster_group cluster = cooperative_groups::this_cluster();
    cluster.sync();
    for (int at = threadIdx.x; blockIdx.x == 0 && at < a.shape.dim; at += blockDim.x) {
        float all = part[2 + at], top = part[0], sum = part[1];
        for (unsigned p = 1; p < gridDim.x; p++) {
            const float *other = cluster.map_shared_rank(part, p);
            float kept, taken;
            join(top, sum, other[0], other[1], kept, taken);
            all = all * kept + other[2 + at] * taken;
        }
        a.out[place * a.shape.dim + at] = from_f32<T>(all / sum);
    }
    cluster.sync(); /* the others' memory is there until it has been read */
#endif
}

/* What a lane of a group has of the rows that the group has seen: LANES elements at each of PER
 * places. */
template <int LANES, int PER> struct Seen {
    float top, sum, values[PER][LANES];
};

/* ROWS more rows, of which the first `count` are there; q is scaled. */
template <typename T, int LANES, int GROUP, int PER, int ROWS>
__device__ static void see(Seen<LANES, PER> &seen, const float (&q)[PER][LANES],
                           const typename Raw<T, LANES>::type (&key)[ROWS][PER],
                           const typename Raw<T, LANES>::type (&value)[ROWS][PER], int count,
                           float cap)
{
    float score[ROWS], most = seen.top, element[LANES];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float dot = 0;
#pragma unroll
        for (int p = 0; p < PER; p++) {
            spread<T, LANES>(key[r][p], element);
#pragma unroll
            for (int e = 0; e < LANES; e++) {
                dot = fmaf(q[p][e], element[e], dot);
            }
        }
#pragma unroll
        for (int distance = GROUP / 2; distance > 0; distance /= 2) {
            dot += __shfl_xor_sync(0xFFFFFFFFu, dot, distance);
        }
        dot = cap > 0 ? cap * tanhf(dot / cap) : dot;
        score[r] = r < count ? dot : -INFINITY;
        most = fmaxf(most, score[r]);
    }
    float keep = seen.sum == 0 ? 0.0f : expf(seen.top - most);
    seen.top = most;
    seen.sum *= keep;
#pragma unroll
    for (int p = 0; p < PER; p++) {
#pragma unroll
        for (int e = 0; e < LANES; e++) {
            seen.values[p][e] *= keep;
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float weight = r < count ? expf(score[r] - most) : 0.0f;
        seen.sum += weight;
#pragma unroll
        for (int p = 0; p < PER; p++) {
            spread<T, LANES>(value[r][p], element);
#pragma unroll
            for (int e = 0; e < LANES; e++) {
                seen.values[p][e] = fmaf(weight, element[e], seen.values[p][e]);
            }
        }
    }
}

/* Over the groups of a warp. */
template <int GROUP, int LANES, int PER> __device__ static void join_groups(Seen<LANES, PER> &seen)
{
#pragma unroll
    for (int distance = GROUP; distance < WARP; distance *= 2) {
        float kept, taken;
        join(seen.top, seen.sum, __shfl_xor_sync(0xFFFFFFFFu, seen.top, distance),
             __shfl_xor_sync(0xFFFFFFFFu, seen.sum, distance), kept, taken);
#pragma unroll
        for (int p = 0; p < PER; p++) {
#pragma unroll
            for (int e = 0; e < LANES; e++) {
                float other = __shfl_xor_sync(0xFFFFFFFFu, seen.values[p][e], distance);
                seen.values[p][e] = seen.values[p][e] * kept + other * taken;
            }
        }
    }
}

/* Over the warps of a block, of_warps (STEP_WARPS, stride): a part, or where it is the only one the
 * head's result. */
template <typename T>
__device__ static void join_warps(const StepArgs<T> &a, const float *of_warps, int stride,
                                  int64_t place, float *part)
{
    for (int at = threadIdx.x; at < a.shape.dim; at += blockDim.x) {
        float all = of_warps[2 + at], top = of_warps[0], sum = of_warps[1];
        for (int w = 1; w < STEP_WARPS; w++) {
            const float *other = of_warps + w * stride;
            float kept, taken;
            join(top, sum, other[0], other[1], kept, taken);
            all = all * kept + other[2 + at] * taken;
        }
        if (gridDim.x == 1) {
            a.out[place * a.shape.dim + at] = from_f32<T>(all / sum);
            continue;
        }
        part[2 + at] = all;
        if (at == 0) {
            part[0] = top;
            part[1] = sum;
        }
    }
}

/* D <= GROUP LANES PER. Blocks (parts, H, S). */
template <typename T, int LANES, int GROUP, int PER, int ROWS>
__global__ void __launch_bounds__(WARP *STEP_WARPS) attend_next(StepArgs<T> a)
{
    typedef typename Raw<T, LANES>::type Piece;
    constexpr int most = GROUP * LANES * PER, groups = WARP / GROUP, side = STEP_WARPS * groups;
    /* Of the new token; later the block's part. */
    __shared__ __align__(16) unsigned char shared[3 * most * sizeof(T) + 16];
    __shared__ float of_warps[STEP_WARPS][2 + most];
    T *next = reinterpret_cast<T *>(shared);
    const T *next_key = next + most, *next_value = next + 2 * most;
    const CacheShape &s = a.shape;
    int lane = threadIdx.x % WARP, member = lane % GROUP, group = threadIdx.x / GROUP;
    int head = blockIdx.y, sharing = s.heads / s.kv_heads, kv = head / sharing;
    int64_t sequence = blockIdx.z, place = sequence * s.heads + head;
    T *keys = a.cache + cache_at(s, sequence, kv, 0);
    T *values = a.cache + cache_at(s, sequence, s.kv_heads + kv, 0);

    let_next_begin();
    { /* what stands in the cache already; where the position is old, something else does */
        int most_rows = (int)s.context, guess = *a.position;
        guess = guess < 0 ? 0 : guess < most_rows ? guess : most_rows - 1;
        Span span = span_of(guess, a.sight.window, blockIdx.x, gridDim.x);
        int64_t start = (int64_t)span.first * s.dim;
        int64_t bytes = (int64_t)(span.last - span.first) * s.dim * (int64_t)sizeof(T);
        fetch_lines(keys + start, bytes);
        fetch_lines(values + start, bytes);
    }
    await_kernels_before();
    int position = *a.position;
    turn_next(a, sequence, head, kv, position, next, most);
    __syncthreads();
    Span span = span_of(position + 1, a.sight.window, blockIdx.x, gridDim.x);
    if (span.first <= position && position < span.last && head % sharing == 0) {
        for (int at = threadIdx.x; at < s.dim; at += blockDim.x) {
            keys[(int64_t)position * s.dim + at] = next_key[at];
            values[(int64_t)position * s.dim + at] = next_value[at];
        }
    }

    Seen<LANES, PER> seen = {-INFINITY, 0, {}};
    float q[PER][LANES];
#pragma unroll
    for (int p = 0; p < PER; p++) {
        int at = (p * GROUP + member) * LANES;
#pragma unroll
        for (int e = 0; e < LANES; e++) {
            q[p][e] = at < s.dim ? a.sight.scale * to_f32(next[at + e]) : 0.0f;
        }
    }
    for (int first = span.first; first < span.last; first += side * ROWS) {
        Piece key[ROWS][PER] = {}, value[ROWS][PER] = {};
        int count = 0;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int row = first + r * side + group;
            bool fresh = row == position;
            const T *from_key = fresh ? next_key : keys + (int64_t)row * s.dim;
            const T *from_value = fresh ? next_value : values + (int64_t)row * s.dim;
            count += row < span.last;
#pragma unroll
            for (int p = 0; p < PER; p++) {
                int at = (p * GROUP + member) * LANES;
                if (row < span.last && at < s.dim) {
                    key[r][p] = *reinterpret_cast<const Piece *>(from_key + at);
                    value[r][p] = *reinterpret_cast<const Piece *>(from_value + at);
                }
            }
        }
        see<T, LANES, GROUP>(seen, q, key, value, count, a.sight.cap);
    }
    join_groups<GROUP>(seen);
    float *mine = of_warps[threadIdx.x / WARP];
    if (lane == 0) {
        mine[0] = seen.top;
        mine[1] = seen.sum;
    }
#pragma unroll
    for (int p = 0; p < PER; p++) {
#pragma unroll
        for (int e = 0; e < LANES; e++) {
            if (lane < GROUP) {
                mine[2 + (p * GROUP + member) * LANES + e] = seen.values[p][e];
            }
        }
    }
    __syncthreads();
    float *part = a.parts != NULL ? a.parts + (place * gridDim.x + blockIdx.x) * (2 + s.dim)
                                  : reinterpret_cast<float *>(shared);
    join_warps(a, of_warps[0], 2 + most, place, part);
    if (gridDim.x > 1 && a.parts == NULL) {
        join_cluster(a, part, place);
    }
}

/* out (S*H, D) from the parts of each head; a block per head of a sequence. */
template <typename T> __global__ void join_parts(const float *parts, int count, int dim, T *out)
{
    let_next_begin();
    await_kernels_before();
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

static int power_of_2_from(int64_t least)
{
    int power = 1;
    while (power < least) {
        power *= 2;
    }
    return power;
}

/* Enough blocks to fill the GPU twice, where the context gives them something to do. */
static int part_count(const Ctx *c, HeadShape s, int64_t context)
{
    int64_t keys = keys_at_most(s, context);
    int64_t wanted = ceil_div(2 * cuda_of(c)->processors, s.batch * s.heads);
    int64_t count = clamp_to(wanted, 1, ceil_div(keys, PART_ROWS));
    if (cuda_clusters && (count <= CLUSTER_MOST || keys <= CLUSTER_KEYS)) {
        return power_of_2_from(count < CLUSTER_MOST ? count : CLUSTER_MOST);
    }
    return (int)count;
}

static bool joined_by_cluster(int parts)
{
    return cuda_clusters && parts <= CLUSTER_MOST;
}

size_t cuda_attention_step_ws(const Ctx *c, HeadShape shape, DType dtype, int64_t context)
{
    (void)dtype;
    int parts = part_count(c, shape, context);
    size_t of_part = (size_t)(2 + shape.head_dim) * sizeof(float);
    return parts == 1 || joined_by_cluster(parts)
               ? 0
               : (size_t)(shape.batch * shape.heads * parts) * of_part;
}

/* The kernel for rows of this width, whole pieces of 16 bytes or not. */
template <typename T> static void (*step_kernel(int dim, bool wide))(StepArgs<T>)
{
    constexpr int lanes = wide_lanes<T>;
    if (wide && dim <= 8 * lanes) {
        return attend_next<T, lanes, 8, 1, 4>;
    }
    if (wide && dim <= 16 * lanes) {
        return attend_next<T, lanes, 16, 1, 4>;
    }
    if (wide && dim <= 32 * lanes) {
        return attend_next<T, lanes, 32, 1, 4>;
    }
    if (wide && dim <= 64 * lanes) {
        return attend_next<T, lanes, 32, 2, 4>;
    }
    return dim <= 2 * WARP    ? attend_next<T, 1, 32, 2, 4>
           : dim <= 8 * WARP  ? attend_next<T, 1, 32, 8, 2>
           : dim <= 32 * WARP ? attend_next<T, 1, 32, 32, 1>
                              : NULL;
}

template <typename T>
static void launch_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                        Tensor cache, Tensor out, void *ws)
{
    const CudaBackend *backend = cuda_of(c);
    StepArgs<T> args;
    args.qkv = (const T *)qkv.data;
    args.shape = cache_shape(shape, context_of(shape, cache));
    args.rope = tensor_given(rope) ? (const float *)rope.data : NULL;
    args.position = (const int32_t *)position.data;
    args.cache = (T *)cache.data;
    args.out = (T *)out.data;
    args.sight = {(int)keys_at_most(shape, args.shape.context), (float)score_scale(shape),
                  (float)shape.cap};
    int count = part_count(c, shape, args.shape.context), dim = args.shape.dim;
    bool by_cluster = joined_by_cluster(count);
    args.parts = count > 1 && !by_cluster ? (float *)ws : NULL;
    bool wide = dim % wide_lanes<T> == 0 && aligned_16(args.cache);
    void (*kernel)(StepArgs<T>) = step_kernel<T>(dim, wide);
    if (kernel == NULL) {
        cuda_fail("attention_step", "heads wider than 1024 are not covered", __FILE__, __LINE__);
    }
    dim3 blocks((unsigned)count, (unsigned)shape.heads, (unsigned)shape.batch);
    cuda_start_clusters(by_cluster ? (unsigned)count : 1, kernel, blocks, WARP * STEP_WARPS, 0,
                        backend->stream, args);
    CUDA_LAUNCHED("attend_next");
    if (args.parts != NULL) {
        cuda_start(join_parts<T>, (unsigned)(shape.batch * shape.heads), JOIN_THREADS, 0,
                   backend->stream, (const float *)args.parts, count, dim, args.out);
        CUDA_LAUNCHED("join_parts");
    }
}

void cuda_attention_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                         Tensor cache, Tensor out, void *ws)
{
    CUDA_FOR_TYPE(qkv.dtype, launch_step, c, qkv, shape, rope, position, cache, out, ws);
}
