/* Layer norm and RMS norm over rows of C (see ref/norm.c for the formulas), with f32 statistics.
 *
 * Forward: a row is read once into registers, up to KEPT_PIECES pieces of 16 bytes per thread, by
 * one warp or by a block where a warp does not suffice; mean and variance are two sums over the
 * registers.
 *
 * Backward: a thread owns one piece of columns and walks down the rows with its block, several rows
 * at a time. The two sums that dx needs are taken over the block; the sums over rows that dweight
 * and dbias need stay in the thread, and end as one row of partial sums per block, which are folded
 * afterwards.
 *
 * Widths or addresses that do not allow 16-byte accesses, and very wide rows, take the plain
 * kernels, which read a row as often as they need it. */
#include "cuda/device.cuh"

#define KEPT_PIECES 4
#define FORWARD_ROWS 4 /* rows of a block when a warp has one each */
#define MOST_THREADS 1024
#define PLAIN_THREADS 256
#define BACKWARD_ROWS 4 /* rows in flight, for blocks of up to BACKWARD_THREADS */
#define BACKWARD_THREADS 512

/* Operands of the forward kernels; h and r only when two inputs are added first. */
template <typename T> struct ForwardArgs {
    const T *x, *h, *weight, *bias; /* bias may be NULL */
    T *r, *y;
    float *stats; /* (rows, 2) */
    int64_t rows, width;
    float eps;
    bool layer;
};

/* Over the threads that share a row: one warp, or the block. */
__device__ static float row_sum(float value)
{
    return blockDim.x == WARP ? warp_sum(value) : block_sum(value);
}

/* Blocks of (threads of a row, rows); more than one row only when one warp has it. */
template <typename T, bool ADD>
__global__ void __launch_bounds__(MOST_THREADS) norm_forward_kept(ForwardArgs<T> args)
{
    constexpr int lanes = wide_lanes<T>;
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= args.rows) {
        return;
    }
    int pieces = (int)(args.width / lanes), step = blockDim.x;
    const uint4 *x = reinterpret_cast<const uint4 *>(args.x + row * args.width);
    uint4 kept[KEPT_PIECES] = {}, other[KEPT_PIECES] = {};
#pragma unroll
    for (int i = 0; i < KEPT_PIECES; i++) {
        int at = threadIdx.x + i * step;
        if (at < pieces) {
            kept[i] = x[at];
            if (ADD) {
                other[i] = reinterpret_cast<const uint4 *>(args.h + row * args.width)[at];
            }
        }
    }
    float value[lanes], sum = 0;
#pragma unroll
    for (int i = 0; i < KEPT_PIECES; i++) {
        if (ADD) {
            float more[lanes];
            unpack<T>(kept[i], value);
            unpack<T>(other[i], more);
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                value[k] += more[k];
            }
            kept[i] = pack<T>(value);
            int at = threadIdx.x + i * step;
            if (at < pieces) {
                reinterpret_cast<uint4 *>(args.r + row * args.width)[at] = kept[i];
            }
        }
        unpack<T>(kept[i], value);
#pragma unroll
        for (int k = 0; k < lanes; k++) {
            sum += value[k];
        }
    }
    float mean = args.layer ? row_sum(sum) / (float)args.width : 0, squares = 0;
#pragma unroll
    for (int i = 0; i < KEPT_PIECES; i++) {
        int at = threadIdx.x + i * step;
        if (at < pieces) {
            unpack<T>(kept[i], value);
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                squares += (value[k] - mean) * (value[k] - mean);
            }
        }
    }
    float rstd = 1 / sqrtf(row_sum(squares) / (float)args.width + args.eps);
#pragma unroll
    for (int i = 0; i < KEPT_PIECES; i++) {
        int at = threadIdx.x + i * step;
        if (at < pieces) {
            float weight[lanes], bias[lanes] = {};
            unpack<T>(kept[i], value);
            load_lanes(args.weight + at * lanes, weight);
            if (args.bias != NULL) {
                load_lanes(args.bias + at * lanes, bias);
            }
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                value[k] = (value[k] - mean) * rstd * weight[k] + bias[k];
            }
            store_lanes(args.y + row * args.width + at * lanes, value);
        }
    }
    if (threadIdx.x == 0) {
        args.stats[row * 2] = mean;
        args.stats[row * 2 + 1] = rstd;
    }
}

/* One block per row. */
template <typename T, bool ADD>
__global__ void __launch_bounds__(PLAIN_THREADS) norm_forward_plain(ForwardArgs<T> args)
{
    int64_t width = args.width, start = blockIdx.x * width;
    const T *from = (ADD ? args.r : args.x) + start;
    float sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        if (ADD) {
            args.r[start + i] = from_f32<T>(to_f32(args.x[start + i]) + to_f32(args.h[start + i]));
        }
        sum += to_f32(from[i]);
    }
    float mean = args.layer ? block_sum(sum) / (float)width : 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float distance = to_f32(from[i]) - mean;
        squares += distance * distance;
    }
    float rstd = 1 / sqrtf(block_sum(squares) / (float)width + args.eps);
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        float bias = args.bias != NULL ? to_f32(args.bias[i]) : 0;
        float value = (to_f32(from[i]) - mean) * rstd * to_f32(args.weight[i]) + bias;
        args.y[start + i] = from_f32<T>(value);
    }
    if (threadIdx.x == 0) {
        args.stats[blockIdx.x * 2LL] = mean;
        args.stats[blockIdx.x * 2LL + 1] = rstd;
    }
}

template <typename T, bool ADD>
static void launch_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y, Tensor stats)
{
    ForwardArgs<T> args;
    args.x = (const T *)x.data;
    args.h = (const T *)h.data;
    args.weight = (const T *)norm.weight.data;
    args.bias = tensor_given(norm.bias) ? (const T *)norm.bias.data : NULL;
    args.r = (T *)r.data;
    args.y = (T *)y.data;
    args.stats = (float *)stats.data;
    args.rows = x.dim[0];
    args.width = x.dim[1];
    args.eps = (float)norm.eps;
    args.layer = norm.kind == NORM_LAYER;

    cudaStream_t stream = cuda_of(c)->stream;
    constexpr int lanes = wide_lanes<T>;
    int64_t pieces = args.width / lanes;
    bool wide = args.width % lanes == 0 && pieces <= KEPT_PIECES * MOST_THREADS &&
                aligned_16(args.x, args.h, args.weight, args.bias, args.r, args.y);
    if (wide) {
        int threads = round_to_warps(ceil_div(pieces, KEPT_PIECES));
        int rows = threads == WARP ? FORWARD_ROWS : 1;
        dim3 block((unsigned)threads, (unsigned)rows);
        unsigned blocks = (unsigned)ceil_div(args.rows, rows);
        norm_forward_kept<T, ADD><<<blocks, block, 0, stream>>>(args);
    } else {
        norm_forward_plain<T, ADD><<<(unsigned)args.rows, PLAIN_THREADS, 0, stream>>>(args);
    }
    CUDA_LAUNCHED("norm_forward");
}

template <typename T> static void launch_norm(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats)
{
    Tensor none = {};
    launch_forward<T, false>(c, x, none, norm, none, y, stats);
}

template <typename T>
static void launch_add_norm(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y, Tensor stats)
{
    launch_forward<T, true>(c, x, h, norm, r, y, stats);
}

void cuda_norm_forward(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats)
{
    CUDA_FOR_TYPE(x.dtype, launch_norm, c, x, norm, y, stats);
}

void cuda_add_norm_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y, Tensor stats)
{
    CUDA_FOR_TYPE(x.dtype, launch_add_norm, c, x, h, norm, r, y, stats);
}

template <typename T> struct BackwardArgs {
    const T *dy, *x, *weight;
    const float *stats; /* (rows, 2) */
    T *dx;              /* may be dy */
    float *partials;    /* (blocks, stride): dweight, then dbias if there is one */
    int64_t rows, width, stride;
    bool layer, add, bias;
};

/* ROWS rows at a time, one piece of columns per thread; threads beyond the width only help to
 * sum. */
template <typename T, int ROWS>
__global__ void __launch_bounds__(ROWS == 1 ? MOST_THREADS : BACKWARD_THREADS)
    norm_backward_owned(BackwardArgs<T> args)
{
    constexpr int lanes = wide_lanes<T>;
    int64_t column = threadIdx.x * lanes;
    bool inside = column < args.width;
    float per_width = 1 / (float)args.width;
    float weight[lanes] = {}, dweight[lanes] = {}, dbias[lanes] = {};
    if (inside) {
        load_lanes(args.weight + column, weight);
    }
    for (int64_t first = (int64_t)blockIdx.x * ROWS; first < args.rows;
         first += (int64_t)gridDim.x * ROWS) {
        uint4 dy[ROWS] = {}, x[ROWS] = {}, old[ROWS] = {};
        float mean[ROWS] = {}, rstd[ROWS] = {}, sums[2 * ROWS] = {};
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int64_t row = first + r, at = row * args.width + column;
            if (inside && row < args.rows) {
                dy[r] = *reinterpret_cast<const uint4 *>(args.dy + at);
                x[r] = *reinterpret_cast<const uint4 *>(args.x + at);
                if (args.add) {
                    old[r] = *reinterpret_cast<const uint4 *>(args.dx + at);
                }
                mean[r] = args.stats[row * 2];
                rstd[r] = args.stats[row * 2 + 1];
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float slope[lanes], value[lanes];
            unpack<T>(dy[r], slope);
            unpack<T>(x[r], value);
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                float xhat = (value[k] - mean[r]) * rstd[r], g = __fmul_rn(slope[k], weight[k]);
                sums[2 * r] += g;
                sums[2 * r + 1] += g * xhat;
                dweight[k] += slope[k] * xhat;
                dbias[k] += slope[k];
            }
        }
        block_sums(sums);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!inside || first + r >= args.rows) {
                continue;
            }
            float g_mean = args.layer ? sums[2 * r] * per_width : 0;
            float g_xhat_mean = sums[2 * r + 1] * per_width;
            float slope[lanes], value[lanes], before[lanes];
            unpack<T>(dy[r], slope);
            unpack<T>(x[r], value);
            unpack<T>(old[r], before);
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                float xhat = (value[k] - mean[r]) * rstd[r], g = __fmul_rn(slope[k], weight[k]);
                value[k] = before[k] + rstd[r] * (g - g_mean - xhat * g_xhat_mean);
            }
            store_lanes(args.dx + (first + r) * args.width + column, value);
        }
    }
    if (inside) {
        float *partial = args.partials + blockIdx.x * args.stride + column;
        store_lanes(partial, dweight);
        if (args.bias) {
            store_lanes(partial + args.width, dbias);
        }
    }
}

/* (g is rounded before its mean is taken off: a product that the compiler joins to the difference would leave
 * what rounding cut away, which rstd makes large where the row hardly varies.)
 * One row at a time; partial sums are kept in memory, each column by one thread. */
template <typename T>
__global__ void __launch_bounds__(PLAIN_THREADS) norm_backward_plain(BackwardArgs<T> args)
{
    int64_t width = args.width;
    float *partial = args.partials + blockIdx.x * args.stride;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
        partial[i] = 0;
        if (args.bias) {
            partial[width + i] = 0;
        }
    }
    for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
        const T *dy = args.dy + row * width, *x = args.x + row * width;
        float mean = args.stats[row * 2], rstd = args.stats[row * 2 + 1], sums[2] = {};
        for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
            float slope = to_f32(dy[i]), xhat = (to_f32(x[i]) - mean) * rstd;
            float g = __fmul_rn(slope, to_f32(args.weight[i]));
            sums[0] += g;
            sums[1] += g * xhat;
            partial[i] += slope * xhat;
            if (args.bias) {
                partial[width + i] += slope;
            }
        }
        block_sums(sums);
        float g_mean = args.layer ? sums[0] / (float)width : 0;
        float g_xhat_mean = sums[1] / (float)width;
        for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
            float xhat = (to_f32(x[i]) - mean) * rstd;
            float g = __fmul_rn(to_f32(dy[i]), to_f32(args.weight[i]));
            float value = rstd * (g - g_mean - xhat * g_xhat_mean);
            T *dx = args.dx + row * width + i;
            *dx = from_f32<T>(args.add ? to_f32(*dx) + value : value);
        }
    }
}

/* Threads that own the columns of x, by shape and type alone; more than MOST_THREADS: plain. */
static int64_t owner_threads(Tensor x)
{
    return round_to_warps(ceil_div(x.dim[1] * (int64_t)dtype_size(x.dtype), 16));
}

/* As many as can be resident at once, so that all end together, and no more than have rows to
 * do. */
static int backward_blocks(const Ctx *c, Tensor x)
{
    int64_t threads = owner_threads(x);
    int64_t rows = threads <= BACKWARD_THREADS ? BACKWARD_ROWS : 1;
    int64_t per_processor = clamp_to(BACKWARD_THREADS / threads, 1, 8);
    return (int)clamp_to(ceil_div(x.dim[0], rows), 1, per_processor * cuda_of(c)->processors);
}

size_t cuda_norm_backward_ws(const Ctx *c, Tensor x)
{
    return (size_t)backward_blocks(c, x) * 2 * (size_t)x.dim[1] * sizeof(float);
}

template <typename T>
static void launch_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx,
                            Mode dx_mode, bool bias, void *ws)
{
    BackwardArgs<T> args;
    args.dy = (const T *)dy.data;
    args.x = (const T *)x.data;
    args.weight = (const T *)norm.weight.data;
    args.stats = (const float *)stats.data;
    args.dx = (T *)dx.data;
    args.partials = (float *)ws;
    args.rows = x.dim[0];
    args.width = x.dim[1];
    args.stride = bias ? 2 * args.width : args.width;
    args.layer = norm.kind == NORM_LAYER;
    args.add = dx_mode == MODE_ADD;
    args.bias = bias;

    cudaStream_t stream = cuda_of(c)->stream;
    unsigned blocks = (unsigned)backward_blocks(c, x);
    int64_t threads = owner_threads(x);
    bool wide = args.width % wide_lanes<T> == 0 && threads <= MOST_THREADS &&
                aligned_16(args.dy, args.x, args.weight, args.dx, args.partials);
    if (!wide) {
        norm_backward_plain<T><<<blocks, PLAIN_THREADS, 0, stream>>>(args);
    } else if (threads <= BACKWARD_THREADS) {
        norm_backward_owned<T, BACKWARD_ROWS><<<blocks, (unsigned)threads, 0, stream>>>(args);
    } else {
        norm_backward_owned<T, 1><<<blocks, (unsigned)threads, 0, stream>>>(args);
    }
    CUDA_LAUNCHED("norm_backward");
}

void cuda_norm_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx,
                        Mode dx_mode, Tensor dweight, Tensor dbias, Mode mode, void *ws)
{
    bool bias = tensor_given(dbias);
    CUDA_FOR_TYPE(x.dtype, launch_backward, c, dy, x, norm, stats, dx, dx_mode, bias, ws);
    cuda_fold_partials(cuda_of(c)->stream, (const float *)ws, backward_blocks(c, x), x.dim[1],
                       (float *)dweight.data, bias ? (float *)dbias.data : NULL, mode);
}
