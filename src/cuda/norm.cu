/* Layer norm and RMS norm over rows of C (see ref/norm.c for the formulas), with f32 statistics.
 *
 * Forward: a row is read once into registers, up to KEPT_PIECES pieces of 16 bytes per thread, by
 * one warp or by a block where a warp does not suffice; mean and variance are two sums over the
 * registers.
 *
 * Backward: a thread owns one piece of columns and walks down the rows with its block, several rows
 * at a time. The next rows are on their way to shared memory meanwhile, each piece fetched by the
 * thread that uses it. The two sums that dx needs are taken over the block; the sums over rows that
 * dweight and dbias need stay in the thread, and end as one row of partial sums per block, which
 * are folded afterwards.
 *
 * Widths or addresses that do not allow 16-byte accesses, and very wide rows, take the plain
 * kernels, which read a row as often as they need it. */
#include "cuda/warp_sums.cuh"

#include <cuda_pipeline.h>

#define KEPT_PIECES 4
#define FORWARD_ROWS 4 /* rows of a block when a warp has one each */
#define MOST_THREADS 1024
#define PLAIN_THREADS 256
#define BACKWARD_ROWS 4 /* rows in flight, for blocks of up to BACKWARD_THREADS */
#define BACKWARD_THREADS 512

/* Operands of the forward kernels; h and r only when two inputs are added first. */
template <typename T> struct ForwardArgs {
    const T *x, *h, *weight, *bias; /* bias may be NULL */
    T *r, *y;                       /* y may be NULL */
    float *stats;                   /* (rows, 2) */
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
    await_previous();
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
        if (at < pieces && args.y != NULL) {
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
    await_previous();
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
    for (int64_t i = threadIdx.x; i < width && args.y != NULL; i += blockDim.x) {
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
        cuda_start(norm_forward_kept<T, ADD>, blocks, block, 0, stream, args);
    } else {
        cuda_start(norm_forward_plain<T, ADD>, (unsigned)args.rows, PLAIN_THREADS, 0, stream, args);
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

void cuda_norm_stats(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor stats)
{
    Tensor none = {};
    if (tensor_given(h)) {
        CUDA_FOR_TYPE(x.dtype, launch_add_norm, c, x, h, norm, r, none, stats);
    } else {
        CUDA_FOR_TYPE(x.dtype, launch_norm, c, x, norm, none, stats);
    }
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

/* Sums over the block, the same in every thread. turn: 0 and 1 alternately, since warps may come
 * to the next call before others have left this one. */
template <int COUNT> __device__ static void sum_over_block(float (&value)[COUNT], int turn)
{
    constexpr int share = WARP / COUNT;
    __shared__ __align__(16) float of_warp[2][WARP][COUNT];
    int lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    float sum = warp_sum_of(value);
    if (lane % share == 0) {
        of_warp[turn][threadIdx.x / WARP][lane / share] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        value[i] = of_warp[turn][0][i];
    }
    for (int w = 1; w < warps; w++) {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            value[i] += of_warp[turn][w][i];
        }
    }
}

/* Mean and rstd of ROWS rows from `first` on; 0 beyond the last. */
template <int ROWS> struct RowStats {
    float mean[ROWS], rstd[ROWS];

    __device__ void load(const float *stats, int64_t first, int64_t rows)
    {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            bool there = first + r < rows;
            mean[r] = there ? stats[(first + r) * 2] : 0;
            rstd[r] = there ? stats[(first + r) * 2 + 1] : 0;
        }
    }
};

/* Starts to copy a thread's pieces of ROWS rows of x from `first` on. to: (ROWS, threads) */
template <int ROWS, typename T>
__device__ static void fetch_rows(const T *x, int64_t first, int64_t rows, int64_t width, uint4 *to)
{
    int64_t column = threadIdx.x * wide_lanes<T>;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        if (column < width && first + r < rows) {
            __pipeline_memcpy_async(to + r * blockDim.x + threadIdx.x,
                                    x + (first + r) * width + column, 16);
        }
    }
}

/* ROWS rows at a time, one piece of columns per thread; threads beyond the width only help to
 * sum. */
template <typename T, int ROWS>
__global__ void __launch_bounds__(ROWS == 1 ? MOST_THREADS : BACKWARD_THREADS)
    norm_backward_owned(BackwardArgs<T> args)
{
    await_previous();
    extern __shared__ uint4 fetched_dy[]; /* (ROWS, threads), like the next two */
    uint4 *fetched_x = fetched_dy + ROWS * blockDim.x, *fetched_old = fetched_x + ROWS * blockDim.x;
    constexpr int lanes = wide_lanes<T>;
    int64_t column = threadIdx.x * lanes, step = (int64_t)gridDim.x * ROWS;
    int turn = 0;
    bool inside = column < args.width;
    float per_width = 1 / (float)args.width;
    float weight[lanes] = {}, dweight[lanes] = {}, dbias[lanes] = {};
    if (inside) {
        load_lanes(args.weight + column, weight);
    }
    RowStats<ROWS> stats, next_stats;
    int64_t start = (int64_t)blockIdx.x * ROWS;
    fetch_rows<ROWS>(args.dy, start, args.rows, args.width, fetched_dy);
    fetch_rows<ROWS>(args.x, start, args.rows, args.width, fetched_x);
    if (args.add) {
        fetch_rows<ROWS>(args.dx, start, args.rows, args.width, fetched_old);
    }
    __pipeline_commit();
    stats.load(args.stats, start, args.rows);
    for (int64_t first = start; first < args.rows; first += step) {
        uint4 dy[ROWS] = {}, x[ROWS] = {};
        float sums[2 * ROWS] = {};
        next_stats.load(args.stats, first + step, args.rows);
        __pipeline_wait_prior(0);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (inside && first + r < args.rows) {
                dy[r] = fetched_dy[r * blockDim.x + threadIdx.x];
                x[r] = fetched_x[r * blockDim.x + threadIdx.x];
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float slope[lanes], value[lanes];
            unpack<T>(dy[r], slope);
            unpack<T>(x[r], value);
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                float xhat = (value[k] - stats.mean[r]) * stats.rstd[r];
                float g = __fmul_rn(slope[k], weight[k]);
                sums[2 * r] += g;
                sums[2 * r + 1] += g * xhat;
                dweight[k] += slope[k] * xhat;
                dbias[k] += slope[k];
            }
        }
        fetch_rows<ROWS>(args.dy, first + step, args.rows, args.width, fetched_dy);
        fetch_rows<ROWS>(args.x, first + step, args.rows, args.width, fetched_x);
        sum_over_block(sums, turn);
        turn ^= 1;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (!inside || first + r >= args.rows) {
                continue;
            }
            float g_mean = args.layer ? sums[2 * r] * per_width : 0;
            float g_xhat_mean = sums[2 * r + 1] * per_width;
            float slope[lanes], value[lanes], before[lanes] = {};
            unpack<T>(dy[r], slope);
            unpack<T>(x[r], value);
            if (args.add) {
                unpack<T>(fetched_old[r * blockDim.x + threadIdx.x], before);
            }
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                float xhat = (value[k] - stats.mean[r]) * stats.rstd[r];
                float g = __fmul_rn(slope[k], weight[k]);
                value[k] = before[k] + stats.rstd[r] * (g - g_mean - xhat * g_xhat_mean);
            }
            store_lanes(args.dx + (first + r) * args.width + column, value);
        }
        if (args.add) {
            fetch_rows<ROWS>(args.dx, first + step, args.rows, args.width, fetched_old);
        }
        __pipeline_commit();
        stats = next_stats;
    }
    if (inside) {
        float *partial = args.partials + blockIdx.x * args.stride + column;
        store_lanes(partial, dweight);
        if (args.bias) {
            store_lanes(partial + args.width, dbias);
        }
    }
}

/* (g is rounded before its mean is taken off: a product that the compiler joins to the
 * difference would leave what rounding cut away, which rstd makes large where the row hardly
 * varies.) One row at a time; partial sums are kept in memory, each column by one thread. */
template <typename T>
__global__ void __launch_bounds__(PLAIN_THREADS) norm_backward_plain(BackwardArgs<T> args)
{
    await_previous();
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

template <typename T, int ROWS>
static void launch_owned(const BackwardArgs<T> &args, unsigned blocks, int64_t threads,
                         cudaStream_t stream)
{
    size_t shared = (args.add ? 3 : 2) * ROWS * (size_t)threads * sizeof(uint4);
    CUDA_CHECK(cudaFuncSetAttribute(norm_backward_owned<T, ROWS>,
                                    cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared));
    CUDA_CHECK(cudaFuncSetAttribute(norm_backward_owned<T, ROWS>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    cuda_start(norm_backward_owned<T, ROWS>, blocks, (unsigned)threads, shared, stream, args);
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
        cuda_start(norm_backward_plain<T>, blocks, PLAIN_THREADS, 0, stream, args);
    } else if (threads <= BACKWARD_THREADS) {
        launch_owned<T, BACKWARD_ROWS>(args, blocks, threads, stream);
    } else {
        launch_owned<T, 1>(args, blocks, threads, stream);
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

/* --- gradients by pieces of the rows --- */

#define PIECE_COLUMNS 32
#define PIECE_WARPS 8

/* A block has 32 columns of one piece; its warps take rows in turn, and their sums are added in
 * order. */
template <typename T>
__global__ void __launch_bounds__(PIECE_COLUMNS *PIECE_WARPS)
    norm_pieces(const T *dy, const T *x, const float *stats, int64_t rows, int64_t width,
                float *dweights)
{
    await_previous();
    __shared__ float sums[PIECE_WARPS][PIECE_COLUMNS];
    int64_t column = (int64_t)blockIdx.x * PIECE_COLUMNS + threadIdx.x;
    int64_t first = (int64_t)blockIdx.y * rows;
    float sum = 0;
    if (column < width) {
        for (int64_t row = first + threadIdx.y; row < first + rows; row += PIECE_WARPS) {
            float xhat = (to_f32(x[row * width + column]) - stats[2 * row]) * stats[2 * row + 1];
            sum += to_f32(dy[row * width + column]) * xhat;
        }
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < width) {
        for (int warp = 1; warp < PIECE_WARPS; warp++) {
            sum += sums[warp][threadIdx.x];
        }
        dweights[(int64_t)blockIdx.y * width + column] = sum;
    }
}

template <typename T>
static void launch_pieces(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights)
{
    int64_t width = x.dim[1], pieces = dweights.dim[0], rows = x.dim[0] / pieces;
    dim3 blocks((unsigned)ceil_div(width, PIECE_COLUMNS), (unsigned)pieces);
    dim3 threads(PIECE_COLUMNS, PIECE_WARPS);
    cuda_start(norm_pieces<T>, blocks, threads, 0, cuda_of(c)->stream, (const T *)dy.data,
               (const T *)x.data, (const float *)stats.data, rows, width, (float *)dweights.data);
    CUDA_LAUNCHED("norm_pieces");
}

void cuda_norm_pieces(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights)
{
    CUDA_FOR_TYPE(x.dtype, launch_pieces, c, dy, x, stats, dweights);
}
