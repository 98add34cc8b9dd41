/* Cross-entropy over the vocabulary, and the sum of the losses.
 *
 * A block has one row of logits. It reads the row once, taking the maximum and the sum of
 * exponentials together: whenever a larger logit turns up, the sum so far is scaled down.
 * Meanwhile it keeps the row in shared memory, as much as fits, from which the gradient is then
 * made in place: a row that fits is read from device memory once and written once. Rows may
 * start at any element: what lies outside whole 16-byte pieces, the edges, is handled one
 * element per thread. */
#include "cuda/device.cuh"

#include <float.h>

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
    return Tally{-FLT_MAX, 0};
}

template <typename T> __device__ static Tally join(Tally a, Tally b)
{
    float largest = fmaxf(a.largest, b.largest);
    return Tally{largest,
                 a.sum * exp_for<T>(a.largest - largest) + b.sum * exp_for<T>(b.largest - largest)};
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
        tally->sum += exp_for<T>(logit[k] - tally->largest);
    }
}

template <typename T> __device__ static Tally warp_join(Tally tally)
{
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        Tally other = {__shfl_xor_sync(0xFFFFFFFFu, tally.largest, distance),
                       __shfl_xor_sync(0xFFFFFFFFu, tally.sum, distance)};
        tally = join<T>(tally, other);
    }
    return tally;
}

/* The same in every thread. */
template <typename T> __device__ static Tally block_join(Tally tally)
{
    __shared__ Tally of_warp[WARP];
    int lane = threadIdx.x % WARP;
    tally = warp_join<T>(tally);
    if (lane == 0) {
        of_warp[threadIdx.x / WARP] = tally;
    }
    __syncthreads();
    return warp_join<T>(lane < blockDim.x / WARP ? of_warp[lane] : no_logits());
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
 * edges. */
template <typename T>
__global__ void __launch_bounds__(XENT_MOST_THREADS)
    xent_row(T *logits, const int32_t *targets, float *losses, int width, int classes, float scale,
             bool gradient, int room)
{
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
        }
        if (gradient) {
            clear_row(row);
        }
        return;
    }
    float target_logit = thread == 0 ? to_f32(row.data[target]) : 0;
    float edge[1] = {0}, logit[lanes];
    Tally tally = no_logits();
    if (thread < row.edges) {
        edge[0] = to_f32(row.data[edge_at(row, thread)]);
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
                add_logits<T>(&tally, logit);
            }
        }
    }
    tally = block_join<T>(tally);
    if (thread == 0) {
        losses[blockIdx.x] = logf(tally.sum) + (tally.largest - target_logit);
    }
    if (!gradient) {
        return;
    }
    float inverse = 1 / tally.sum;
    if (thread < row.edges) {
        int at = edge_at(row, thread);
        float p = exp_for<T>(edge[0] - tally.largest) * inverse;
        row.data[at] = from_f32<T>((at == target ? p - 1 : p) * scale);
    }
    for (int i = thread; i < row.pieces; i += step) {
        unpack<T>(i < room ? kept[i] : row.body[i], logit);
#pragma unroll
        for (int k = 0; k < lanes; k++) {
            logit[k] = exp_for<T>(logit[k] - tally.largest) * inverse;
        }
        unsigned hit = (unsigned)(target - row.head - i * lanes);
        if (hit < lanes) {
#pragma unroll
            for (int k = 0; k < lanes; k++) {
                logit[k] -= hit == (unsigned)k ? 1.0f : 0.0f;
            }
        }
#pragma unroll
        for (int k = 0; k < lanes; k++) {
            logit[k] *= scale;
        }
        row.body[i] = pack<T>(logit);
    }
}

template <typename T>
static void launch_xent(Ctx *c, Tensor logits, int64_t classes, Tensor targets, Tensor losses,
                        float scale, bool gradient)
{
    int64_t pieces = ceil_div(classes, wide_lanes<T>);
    int64_t most = (cuda_of(c)->shared_bytes - XENT_RESERVED) / 16, half = most / 2 - 64;
    int room = gradient ? (int)clamp_to(pieces, 0, most) : 0;
    int threads = pieces <= XENT_THREADS ? XENT_SMALL : XENT_THREADS;
    if (room > half) { /* one block to a processor */
        threads = XENT_MOST_THREADS;
    }
    size_t shared = (size_t)room * 16;
    CUDA_CHECK(cudaFuncSetAttribute(xent_row<T>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared));
    CUDA_CHECK(cudaFuncSetAttribute(xent_row<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    (int)most * 16));
    xent_row<T><<<(unsigned)logits.dim[0], (unsigned)threads, shared, cuda_of(c)->stream>>>(
        (T *)logits.data, (const int32_t *)targets.data, (float *)losses.data, (int)logits.dim[1],
        (int)classes, scale, gradient, room);
    CUDA_LAUNCHED("xent_row");
}

void cuda_xent(Ctx *c, Tensor logits, int64_t classes, Tensor targets, Tensor losses, double scale,
               bool gradient)
{
    CUDA_FOR_TYPE(logits.dtype, launch_xent, c, logits, classes, targets, losses, (float)scale,
                  gradient);
}

/* One block; out = or += scale * sum. */
template <int LANES>
__global__ void __launch_bounds__(SUM_THREADS, 1)
    sum_all(const float *x, int64_t count, float scale, float *out, bool add)
{
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
        sum_all<4><<<1, SUM_THREADS, 0, stream>>>(from, count, (float)scale, (float *)out.data,
                                                  mode == MODE_ADD);
    } else {
        sum_all<1><<<1, SUM_THREADS, 0, stream>>>(from, count, (float)scale, (float *)out.data,
                                                  mode == MODE_ADD);
    }
    CUDA_LAUNCHED("sum_all");
}
