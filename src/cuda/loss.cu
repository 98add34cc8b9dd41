/* Cross-entropy over the vocabulary, and the sum of the losses.
 *
 * A block has a row of logits at a time. It reads the row once, taking the maximum and the sum of
 * exponentials together: whenever a larger logit turns up, the sum so far is scaled down. The row
 * is in shared memory by then, from which the gradient is made in place: a row is read from device
 * memory once and written once. The blocks stay for many rows; while a row is computed with, the
 * next one, or two, are on their way. No thread reads a piece that another one has fetched, so that
 * a block waits for its threads only where it sums.
 *
 * Rows wider than shared memory are kept as far as they fit and else read twice; without gradient
 * nothing is kept. With a cap (CAPPED) logits are capped whenever they are read. Rows may start at
 * any element: what lies outside whole 16-byte pieces, the edges, is handled one element per
 * thread. */
#include "cuda/device.cuh"

#include <cuda_pipeline.h>
#include <float.h>

#define XENT_PIECES 6 /* of a row to a thread, about */
#define XENT_FLIGHT 4 /* pieces that a thread reads before it uses them */
#define XENT_SMALL 128
#define XENT_THREADS 512
#define XENT_MOST_THREADS 1024
#define XENT_RESERVED 1024 /* shared bytes left for the sums of a block */

#define SUM_THREADS 1024
#define SUM_FLIGHT 8

/* Of some logits: the largest, and the sum of exp(logit - largest). */
struct Tally {
    float largest, sum;
};

__device__ static Tally no_logits()
{
    return Tally{-FLT_MAX / 2, 0};
}

template <typename T, int LANES>
__device__ static void add_logits(Tally *tally, const float (&logit)[LANES])
{
    float largest = logit[0];
#pragma unroll
    for (int k = 1; k < LANES; k++) {
        largest = fmaxf(largest, logit[k]);
    }
    if (largest > tally->largest) {
        tally->sum *= exp_for<T>(tally->largest - largest);
        tally->largest = largest;
    }
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        tally->sum += exp_above<T>(logit[k], tally->largest);
    }
}

template <bool CAPPED, int LANES> __device__ static void cap_lanes(float (&logit)[LANES], float cap)
{
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        logit[k] = capped<CAPPED>(logit[k], cap);
    }
}

template <typename T> __device__ static Tally warp_join(Tally tally)
{
    float largest = tally.largest;
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance));
    }
    return Tally{largest, warp_sum(tally.sum * exp_for<T>(tally.largest - largest))};
}

/* The same in every thread. turn: 0 and 1 alternately, since warps may come to the next call
 * before others have left this one. */
template <typename T> __device__ static Tally block_join(Tally tally, int turn)
{
    __shared__ Tally of_warp[2][WARP];
    int lane = threadIdx.x % WARP;
    tally = warp_join<T>(tally);
    if (lane == 0) {
        of_warp[turn][threadIdx.x / WARP] = tally;
    }
    __syncthreads();
    return warp_join<T>(lane < blockDim.x / WARP ? of_warp[turn][lane] : no_logits());
}

/* A row of the logits: `head` elements, `pieces` times 16 bytes from `body` on, then the rest. */
template <typename T> struct Row {
    T *data;
    uint4 *body;
    int head, pieces, edges; /* edges: elements outside of pieces, fewer than two pieces have */
};

template <typename T> __device__ static Row<T> find_row(T *data, int vocab)
{
    Row<T> row;
    int beyond = (int)(reinterpret_cast<uintptr_t>(data) % 16);
    row.data = data;
    row.head = min(vocab, (16 - beyond) % 16 / (int)sizeof(T));
    row.body = reinterpret_cast<uint4 *>(data + row.head);
    row.pieces = (vocab - row.head) / wide_lanes<T>;
    row.edges = vocab - row.pieces * wide_lanes<T>;
    return row;
}

/* Index of edge number i. */
template <typename T> __device__ static int edge_at(const Row<T> &row, int i)
{
    return i < row.head ? i : i + row.pieces * wide_lanes<T>;
}

/* Gradients by a row's logits. */
template <bool CAPPED> struct Slope {
    float largest, inverse, scale; /* 1 / sum */
    int target;
    float cap;

    /* logit: capped */
    template <typename T> __device__ float at(float logit, int index) const
    {
        float p = exp_above<T>(logit, largest) * inverse;
        return bent<CAPPED>((index == target ? p - 1 : p) * scale, logit, cap);
    }

    /* Of a piece whose first element is number `index`. */
    template <typename T> __device__ uint4 of_piece(uint4 raw, int index) const
    {
        constexpr int lanes = wide_lanes<T>;
        float logit[lanes], z[lanes];
        unpack<T>(raw, logit);
#pragma unroll
        for (int k = 0; k < lanes; k++) {
            z[k] = capped<CAPPED>(logit[k], cap);
            logit[k] = exp_above<T>(z[k], largest) * inverse;
        }
        unsigned hit = (unsigned)(target - index);
        if (hit < lanes) {
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                logit[k] -= hit == (unsigned)k ? 1.0f : 0.0f;
            }
        }
#pragma unroll
        for (int k = 0; k < lanes; k++) {
            logit[k] = bent<CAPPED>(logit[k] * scale, z[k], cap);
        }
        return pack<T>(logit);
    }
};

template <typename T> __device__ static void clear_row(const Row<T> &row)
{
    for (int i = threadIdx.x; i < row.pieces; i += blockDim.x) {
        row.body[i] = make_uint4(0, 0, 0, 0);
    }
    if (threadIdx.x < row.edges) {
        row.data[edge_at(row, threadIdx.x)] = from_f32<T>(0);
    }
}

/* kept: room for the first `room` pieces of the row. Blocks have no fewer threads than a row has
 * edges. tallies (rows, 2), or NULL: largest logit and 1 / sum, which make 0 of a row without
 * target. */
template <typename T, bool CAPPED>
__global__ void __launch_bounds__(XENT_MOST_THREADS)
    xent_row(T *logits, const int32_t *targets, float *losses, int width, int classes, float cap,
             float scale, bool gradient, int room, float *tallies)
{
    await_previous();
    extern __shared__ uint4 kept[];
    constexpr int lanes = wide_lanes<T>;
    Row<T> row = find_row(logits + (int64_t)blockIdx.x * width, classes);
    int target = targets[blockIdx.x], step = blockDim.x, thread = threadIdx.x;
    for (int i = classes + thread; gradient && i < width; i += step) {
        row.data[i] = from_f32<T>(0); /* padding */
    }
    if (target < 0) {
        if (thread == 0) {
            losses[blockIdx.x] = 0;
            if (tallies != NULL) {
                tallies[2LL * blockIdx.x] = INFINITY;
                tallies[2LL * blockIdx.x + 1] = 0;
            }
        }
        if (gradient) {
            clear_row(row);
        }
        return;
    }
    float target_logit = thread == 0 ? capped<CAPPED>(to_f32(row.data[target]), cap) : 0;
    float edge[1] = {0}, logit[lanes];
    Tally tally = no_logits();
    if (thread < row.edges) {
        edge[0] = capped<CAPPED>(to_f32(row.data[edge_at(row, thread)]), cap);
        add_logits<T>(&tally, edge);
    }
    for (int i = thread; i < row.pieces; i += XENT_FLIGHT * step) {
        uint4 raw[XENT_FLIGHT] = {};
#pragma unroll
        for (int j = 0; j < XENT_FLIGHT; j++) {
            if (i + j * step < row.pieces) {
                raw[j] = row.body[i + j * step];
            }
        }
#pragma unroll
        for (int j = 0; j < XENT_FLIGHT; j++) {
            if (i + j * step < row.pieces) {
                if (i + j * step < room) {
                    kept[i + j * step] = raw[j];
                }
                unpack<T>(raw[j], logit);
                cap_lanes<CAPPED>(logit, cap);
                add_logits<T>(&tally, logit);
            }
        }
    }
    tally = block_join<T>(tally, 0);
    if (thread == 0) {
        losses[blockIdx.x] = logf(tally.sum) + (tally.largest - target_logit);
        if (tallies != NULL) {
            tallies[2LL * blockIdx.x] = tally.largest;
            tallies[2LL * blockIdx.x + 1] = 1 / tally.sum;
        }
    }
    if (!gradient) {
        return;
    }
    Slope<CAPPED> slope = {tally.largest, 1 / tally.sum, scale, target, cap};
    if (thread < row.edges) {
        int at = edge_at(row, thread);
        row.data[at] = from_f32<T>(slope.template at<T>(edge[0], at));
    }
    for (int i = thread; i < row.pieces; i += step) {
        row.body[i] =
            slope.template of_piece<T>(i < room ? kept[i] : row.body[i], row.head + i * lanes);
    }
}

/* Operands of xent_stream, and its rows. */
template <typename T> struct Stream {
    T *logits;
    const int32_t *targets;
    float *losses;
    int64_t rows;
    int width, classes;
    float cap, scale;
    int room;  /* pieces that a row of the ring has */
    int depth; /* rows of the ring, 1 or 2 */

    /* Without anything in it beyond the last row. */
    __device__ Row<T> row(int64_t at) const
    {
        return find_row(logits + (at < rows ? at * width : 0), at < rows ? classes : 0);
    }

    __device__ int target(int64_t at) const
    {
        return at < rows ? targets[at] : -1;
    }
};

/* What a thread reads of a row besides pieces, capped. */
struct Start {
    int target;
    float target_logit; /* thread 0 */
    float edge;
};

template <bool CAPPED, typename T>
__device__ static Start start_of(const Row<T> &row, int target, float cap)
{
    Start start = {target, 0, 0};
    if (threadIdx.x == 0 && target >= 0) {
        start.target_logit = capped<CAPPED>(to_f32(row.data[target]), cap);
    }
    if (threadIdx.x < row.edges) {
        start.edge = capped<CAPPED>(to_f32(row.data[edge_at(row, threadIdx.x)]), cap);
    }
    return start;
}

/* Of a row that is in `kept`; and the loss. */
template <bool CAPPED, typename T>
__device__ static Slope<CAPPED> tally_row(const Row<T> &row, const Start &start, const uint4 *kept,
                                          int turn, float cap, float scale, float *loss)
{
    Tally tally = no_logits();
    if (threadIdx.x < row.edges) {
        float edge[1] = {start.edge};
        add_logits<T>(&tally, edge);
    }
    for (int i = threadIdx.x; i < row.pieces; i += blockDim.x) {
        float logit[wide_lanes<T>];
        unpack<T>(kept[i], logit);
        cap_lanes<CAPPED>(logit, cap);
        add_logits<T>(&tally, logit);
    }
    tally = block_join<T>(tally, turn);
    if (threadIdx.x == 0) {
        *loss = logf(tally.sum) + (tally.largest - start.target_logit);
    }
    return Slope<CAPPED>{tally.largest, 1 / tally.sum, scale, start.target, cap};
}

/* Losses and gradients. A block has every gridDim.x-th row. A thread fetches the pieces that it
 * uses, each into the place of one that it has just finished with. Blocks have no fewer threads
 * than a row has edges. */
template <typename T, bool CAPPED>
__global__ void __launch_bounds__(XENT_MOST_THREADS) xent_stream(Stream<T> args)
{
    await_previous();
    extern __shared__ uint4 ring[];
    constexpr int lanes = wide_lanes<T>;
    int step = blockDim.x, thread = threadIdx.x, turn = 0, place = 0;
    int64_t stride = gridDim.x;
    for (int i = 0; i < args.depth; i++) {
        Row<T> row = args.row(blockIdx.x + i * stride);
        for (int j = thread; j < row.pieces; j += step) {
            __pipeline_memcpy_async(&ring[i * args.room + j], &row.body[j], 16);
        }
        __pipeline_commit();
    }
    Start start = start_of<CAPPED>(args.row(blockIdx.x), args.target(blockIdx.x), args.cap);
    int next_target = args.target(blockIdx.x + stride);
    for (int64_t at = blockIdx.x; at < args.rows; at += stride) {
        Start next = start_of<CAPPED>(args.row(at + stride), next_target, args.cap);
        next_target = args.target(at + 2 * stride);
        if (args.depth == 2) { /* a group of copies to each row: this row's, not the next one's */
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        Row<T> row = args.row(at), later = args.row(at + args.depth * stride);
        uint4 *kept = ring + place * args.room;
        bool counts = start.target >= 0; /* in every thread alike */
        Slope<CAPPED> slope = {};
        if (counts) {
            slope =
                tally_row<CAPPED>(row, start, kept, turn, args.cap, args.scale, &args.losses[at]);
            turn ^= 1;
        } else if (thread == 0) {
            args.losses[at] = 0;
        }
        if (thread < row.edges) {
            int edge = edge_at(row, thread);
            row.data[edge] = from_f32<T>(counts ? slope.template at<T>(start.edge, edge) : 0);
        }
        for (int i = args.classes + thread; i < args.width; i += step) {
            row.data[i] = from_f32<T>(0); /* padding */
        }
        for (int i = thread; i < args.room; i += step) {
            if (i < row.pieces) {
                row.body[i] = counts ? slope.template of_piece<T>(kept[i], row.head + i * lanes)
                                     : make_uint4(0, 0, 0, 0);
            }
            if (i < later.pieces) {
                __pipeline_memcpy_async(&kept[i], &later.body[i], 16);
            }
        }
        __pipeline_commit();
        start = next;
        place = place + 1 < args.depth ? place + 1 : 0;
    }
}

/* False when a row does not fit into shared memory. */
template <typename T, bool CAPPED> static bool launch_stream(Ctx *c, Stream<T> args)
{
    const CudaBackend *cuda = cuda_of(c);
    int64_t row_bytes = args.room * 16LL, limit = cuda->shared_bytes - XENT_RESERVED;
    if (row_bytes > limit) {
        return false;
    }
    args.depth = 2 * row_bytes <= limit ? 2 : 1;
    int threads = XENT_SMALL;
    while (threads < XENT_MOST_THREADS && threads * XENT_PIECES < args.room) {
        threads *= 2;
    }
    /* As many as can be resident, by registers and by shared memory. */
    int64_t shared = args.depth * row_bytes;
    int64_t resident =
        clamp_to(cuda->shared_bytes / (shared + 2 * XENT_RESERVED), 1, XENT_MOST_THREADS / threads);
    int64_t blocks = clamp_to(args.rows, 1, resident * cuda->processors);
    CUDA_CHECK(cudaFuncSetAttribute(xent_stream<T, CAPPED>,
                                    cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared));
    CUDA_CHECK(cudaFuncSetAttribute(xent_stream<T, CAPPED>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, (int)limit));
    cuda_start(xent_stream<T, CAPPED>, (unsigned)blocks, (unsigned)threads, (size_t)shared,
               cuda->stream, args);
    CUDA_LAUNCHED("xent_stream");
    return true;
}

template <typename T, bool CAPPED>
static void xent_of(Ctx *c, Tensor logits, int64_t classes, float cap, Tensor targets,
                    Tensor losses, float scale, bool gradient, float *tallies)
{
    Stream<T> args = {};
    args.logits = (T *)logits.data;
    args.targets = (const int32_t *)targets.data;
    args.losses = (float *)losses.data;
    args.rows = logits.dim[0];
    args.width = (int)logits.dim[1];
    args.classes = (int)classes;
    args.cap = cap;
    args.scale = scale;
    args.room = args.classes / wide_lanes<T>;
    if (gradient && launch_stream<T, CAPPED>(c, args)) {
        return;
    }
    int most = (cuda_of(c)->shared_bytes - XENT_RESERVED) / 16;
    int room = gradient ? most : 0; /* one block to a processor */
    int threads = gradient                    ? XENT_MOST_THREADS
                  : args.room <= XENT_THREADS ? XENT_SMALL
                                              : XENT_THREADS;
    CUDA_CHECK(cudaFuncSetAttribute(xent_row<T, CAPPED>,
                                    cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared));
    CUDA_CHECK(cudaFuncSetAttribute(xent_row<T, CAPPED>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, most * 16));
    cuda_start(xent_row<T, CAPPED>, (unsigned)args.rows, (unsigned)threads, (size_t)room * 16,
               cuda_of(c)->stream, args.logits, args.targets, args.losses, args.width, args.classes,
               cap, scale, gradient, room, tallies);
    CUDA_LAUNCHED("xent_row");
}

template <typename T>
static void launch_xent(Ctx *c, Tensor logits, int64_t classes, float cap, Tensor targets,
                        Tensor losses, float scale, bool gradient, float *tallies)
{
    (cap > 0 ? xent_of<T, true> : xent_of<T, false>)(c, logits, classes, cap, targets, losses,
                                                     scale, gradient, tallies);
}

void cuda_xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
               double scale, bool gradient)
{
    CUDA_FOR_TYPE(logits.dtype, launch_xent, c, logits, classes, (float)cap, targets, losses,
                  (float)scale, gradient, (float *)NULL);
}

void cuda_xent_tallies(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets,
                       Tensor losses, float *tallies)
{
    CUDA_FOR_TYPE(logits.dtype, launch_xent, c, logits, classes, (float)cap, targets, losses, 0.0f,
                  false, tallies);
}

/* One block; out = or += scale * sum. */
template <int LANES>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    sum_all(const float *x, int64_t count, float scale, float *out, bool add)
{
    await_previous();
    float sum[LANES] = {};
    int64_t pieces = count / LANES;
    add_many_lanes<SUM_FLIGHT, false>(x + threadIdx.x * LANES, SUM_THREADS * LANES,
                                      steps_below(threadIdx.x, pieces, SUM_THREADS), sum);
    int64_t rest = pieces * LANES + threadIdx.x;
    float total = rest < count ? x[rest] : 0;
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        total += sum[k];
    }
    total = block_sum(total) * scale;
    if (threadIdx.x == 0) {
        *out = add ? *out + total : total;
    }
}

void cuda_sum(Ctx *c, Tensor x, double scale, Tensor out, Mode mode)
{
    if (x.dtype != DT_F32) {
        cuda_fail("sum", "the GPU sums f32 only", __FILE__, __LINE__);
    }
    const float *from = (const float *)x.data;
    cudaStream_t stream = cuda_of(c)->stream;
    int64_t count = tensor_count(x);
    if (aligned_16(from)) {
        cuda_start(sum_all<4>, 1, SUM_THREADS, 0, stream, from, count, (float)scale,
                   (float *)out.data, mode == MODE_ADD);
    } else {
        cuda_start(sum_all<1>, 1, SUM_THREADS, 0, stream, from, count, (float)scale,
                   (float *)out.data, mode == MODE_ADD);
    }
    CUDA_LAUNCHED("sum_all");
}
