/* RMS norm of every head of q and k in packed rows (see ref/norm.c for the formulas), f32 sums.
 *
 * A group of threads, part of a warp, has a head at a time and reads it twice, the second time from
 * the cache. Backward: a thread has the same columns of every head, whose share of the weights'
 * gradients it sums in shared memory; blocks end with a row of partial sums each, which are folded
 * afterwards. */
#include "cuda/device.cuh"

#define HEAD_THREADS 256
#define HEAD_ITEMS 32 /* heads to a block of the backward, at least */
#define HEAD_BLOCKS 4 /* blocks to a processor, at most */
#define HEAD_SHARED 32768

template <typename T> struct HeadArgs {
    const T *qkv, *dout, *q, *k;
    T *out;
    float *partials; /* (blocks, 2, width): of q, of k */
    int64_t rows;
    int heads, normed, all; /* of a row: of q, with k's, with v's */
    int width, group;       /* threads of a head, a power of 2 */
    float eps;
};

/* The same in every thread of a group; every thread of the warp must call it. */
__device__ static float group_sum(float value, int group)
{
    for (int distance = group / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xFFFFFFFFu, value, distance);
    }
    return value;
}

template <typename T, int LANES>
__global__ void __launch_bounds__(HEAD_THREADS) head_norm(HeadArgs<T> args)
{
    await_previous();
    int64_t n = ((int64_t)blockIdx.x * HEAD_THREADS + threadIdx.x) / args.group;
    int first = (int)(threadIdx.x % args.group) * LANES, step = args.group * LANES;
    bool there = n < args.rows * args.all;
    int head = there ? (int)(n % args.all) : 0;
    bool normed = there && head < args.normed;
    const T *x = args.qkv + (there ? n * args.width : 0);
    float squares = 0, value[LANES], weight[LANES];
    for (int i = first; normed && i < args.width; i += step) {
        load_lanes(x + i, value);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            squares += value[k] * value[k];
        }
    }
    float rstd = 1 / sqrtf(group_sum(squares, args.group) / (float)args.width + args.eps);
    if (!there || (!normed && args.out == args.qkv)) {
        return;
    }
    const T *weights = head < args.heads ? args.q : args.k;
    for (int i = first; i < args.width; i += step) {
        load_lanes(x + i, value);
        if (normed) {
            load_lanes(weights + i, weight);
#pragma unroll
            for (int k = 0; k < LANES; k++) {
                value[k] *= rstd * weight[k];
            }
        }
        store_lanes(args.out + n * args.width + i, value);
    }
}

/* Blocks (., 0) have the heads of q, (., 1) those of k. sums: (groups, width). */
template <typename T, int LANES>
__global__ void __launch_bounds__(HEAD_THREADS) head_norm_slopes(HeadArgs<T> args)
{
    await_previous();
    extern __shared__ float sums[];
    int begin = blockIdx.y == 0 ? 0 : args.heads;
    int count = blockIdx.y == 0 ? args.heads : args.normed - args.heads;
    const T *weights = blockIdx.y == 0 ? args.q : args.k;
    int groups = (int)blockDim.x / args.group, mine = (int)threadIdx.x / args.group;
    int first = (int)(threadIdx.x % args.group) * LANES, step = args.group * LANES;
    float *own = sums + mine * args.width;
    for (int i = first; i < args.width; i += step) {
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            own[i + k] = 0;
        }
    }
    int64_t items = args.rows * count;
    for (int64_t base = (int64_t)blockIdx.x * groups; base < items;
         base += (int64_t)gridDim.x * groups) {
        int64_t n = base + mine;
        bool there = n < items;
        int64_t at = there ? (n / count * args.all + begin + n % count) * args.width : 0;
        float squares = 0, along = 0, x[LANES], dy[LANES], weight[LANES];
        for (int i = first; there && i < args.width; i += step) {
            load_lanes(args.qkv + at + i, x);
            load_lanes(args.dout + at + i, dy);
            load_lanes(weights + i, weight);
#pragma unroll
            for (int k = 0; k < LANES; k++) {
                squares += x[k] * x[k];
                along += dy[k] * weight[k] * x[k];
            }
        }
        float rstd = 1 / sqrtf(group_sum(squares, args.group) / (float)args.width + args.eps);
        float mean = group_sum(along, args.group) * rstd / (float)args.width;
        for (int i = first; there && i < args.width; i += step) {
            load_lanes(args.qkv + at + i, x);
            load_lanes(args.dout + at + i, dy);
            load_lanes(weights + i, weight);
#pragma unroll
            for (int k = 0; k < LANES; k++) {
                float xhat = x[k] * rstd;
                own[i + k] += dy[k] * xhat;
                x[k] = rstd * (__fmul_rn(dy[k], weight[k]) - xhat * mean);
            }
            store_lanes(args.out + at + i, x);
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < args.width; i += blockDim.x) {
        float sum = 0;
        for (int g = 0; g < groups; g++) {
            sum += sums[g * args.width + i];
        }
        args.partials[(2LL * blockIdx.x + blockIdx.y) * args.width + i] = sum;
    }
}

template <typename T>
static HeadArgs<T> head_args(Tensor qkv, HeadShape s, HeadNorm norm, Tensor out)
{
    HeadArgs<T> args = {};
    args.qkv = (const T *)qkv.data;
    args.q = (const T *)norm.q.data;
    args.k = (const T *)norm.k.data;
    args.out = (T *)out.data;
    args.rows = qkv.dim[0];
    args.heads = (int)s.heads;
    args.normed = (int)(s.heads + s.kv_heads);
    args.all = (int)(s.heads + 2 * s.kv_heads);
    args.width = (int)s.head_dim;
    args.eps = (float)norm.eps;
    return args;
}

/* Threads for the pieces of a head. */
static int head_group(int64_t pieces)
{
    int group = 1;
    while (group < WARP && group < pieces) {
        group *= 2;
    }
    return group;
}

template <typename T, int LANES> static void launch_head_norm(Ctx *c, HeadArgs<T> args)
{
    args.group = head_group(args.width / LANES);
    int64_t threads = args.rows * args.all * args.group;
    cuda_start(head_norm<T, LANES>, (unsigned)ceil_div(threads, HEAD_THREADS), HEAD_THREADS, 0,
               cuda_of(c)->stream, args);
    CUDA_LAUNCHED("head_norm");
}

template <typename T>
static void head_norm_of(Ctx *c, Tensor qkv, HeadShape s, HeadNorm norm, Tensor out)
{
    HeadArgs<T> args = head_args<T>(qkv, s, norm, out);
    if (args.width % wide_lanes<T> == 0 && aligned_16(args.qkv, args.q, args.k, args.out)) {
        launch_head_norm<T, wide_lanes<T>>(c, args);
    } else {
        launch_head_norm<T, 1>(c, args);
    }
}

void cuda_head_norm_forward(Ctx *c, Tensor qkv, HeadShape s, HeadNorm norm, Tensor out)
{
    CUDA_FOR_TYPE(qkv.dtype, head_norm_of, c, qkv, s, norm, out);
}

static int64_t slope_blocks(const Ctx *c, HeadShape s)
{
    return clamp_to(ceil_div(s.batch * s.seq * s.heads, HEAD_ITEMS), 1,
                    HEAD_BLOCKS * (int64_t)cuda_of(c)->processors);
}

size_t cuda_head_norm_backward_ws(const Ctx *c, HeadShape s)
{
    return (size_t)(slope_blocks(c, s) * 2 * s.head_dim) * sizeof(float);
}

template <typename T, int LANES>
static void launch_slopes(Ctx *c, HeadArgs<T> args, unsigned blocks)
{
    args.group = head_group(args.width / LANES);
    int64_t row = (int64_t)args.width * (int64_t)sizeof(float);
    int64_t groups = clamp_to(HEAD_SHARED / row, 1, HEAD_THREADS / args.group);
    /* Whole warps, since sums over groups are taken by them. */
    int64_t threads = clamp_to(groups * args.group / WARP * WARP, WARP, HEAD_THREADS);
    size_t shared = (size_t)(threads / args.group * row);
    cuda_start(head_norm_slopes<T, LANES>, dim3(blocks, 2), (unsigned)threads, shared,
               cuda_of(c)->stream, args);
    CUDA_LAUNCHED("head_norm_slopes");
}

template <typename T>
static void head_slopes_of(Ctx *c, Tensor dout, Tensor qkv, HeadShape s, HeadNorm norm, Tensor dqkv,
                           void *ws)
{
    HeadArgs<T> args = head_args<T>(qkv, s, norm, dqkv);
    args.dout = (const T *)dout.data;
    args.partials = (float *)ws;
    unsigned blocks = (unsigned)slope_blocks(c, s);
    if (args.width % wide_lanes<T> == 0 &&
        aligned_16(args.qkv, args.dout, args.q, args.k, args.out)) {
        launch_slopes<T, wide_lanes<T>>(c, args, blocks);
    } else {
        launch_slopes<T, 1>(c, args, blocks);
    }
    if (args.dout != args.out) { /* v */
        size_t first = (size_t)args.normed * args.width, pitch = (size_t)args.all * args.width;
        CUDA_CHECK(cudaMemcpy2DAsync(args.out + first, pitch * sizeof(T), args.dout + first,
                                     pitch * sizeof(T), (pitch - first) * sizeof(T),
                                     (size_t)args.rows, cudaMemcpyDeviceToDevice,
                                     cuda_of(c)->stream));
    }
}

void cuda_head_norm_backward(Ctx *c, Tensor dout, Tensor qkv, HeadShape s, HeadNorm norm,
                             Tensor dqkv, Tensor dq, Tensor dk, Mode mode, void *ws)
{
    CUDA_FOR_TYPE(qkv.dtype, head_slopes_of, c, dout, qkv, s, norm, dqkv, ws);
    cuda_fold_partials(cuda_of(c)->stream, (const float *)ws, (int)slope_blocks(c, s), s.head_dim,
                       (float *)dq.data, (float *)dk.data, mode);
}
