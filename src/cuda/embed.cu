/* Embedding rows: gather forward, sums by token and by position backward, without atomics.
 *
 * The gradient of the table takes the rows of dout in the order of their ids, in which the rows
 * of one id are a run. A block has a chunk of CHUNK places of that order and sums the runs that
 * start in it. A run of at most CHUNK rows is one warp's; of longer ones at most one starts in a
 * chunk, and the whole block sums it, each warp every SUM_WARPS-th row. Blocks are further
 * divided by columns: a lane has LANES of them. */
#include "cuda/device.cuh"

#define GATHER_WARPS 4
#define CHUNK WARP /* a warp compares the next CHUNK ids at a time */
#define SUM_WARPS 16
#define SUM_FLIGHT 4 /* rows that a lane has in flight */
#define POSITION_WARPS 8
#define CLEAR_THREADS 256
#define CLEAR_PIECES 8 /* of 16 bytes to a thread */

/* out (N,C) = table[ids] + positions[row mod seq - starts[row]]; one row per warp. starts may be
 * NULL: 0. */
template <typename T, int LANES>
__global__ void __launch_bounds__(WARP *GATHER_WARPS)
    gather_rows(const int32_t *__restrict__ ids, const T *__restrict__ table,
                const T *__restrict__ positions, const int32_t *__restrict__ starts, int64_t rows,
                int64_t width, int64_t seq, T *__restrict__ out)
{
    int64_t row = (int64_t)blockIdx.x * GATHER_WARPS + threadIdx.x / WARP;
    if (row >= rows) {
        return;
    }
    const T *token = table + ids[row] * width;
    int64_t t = row % seq - (starts != NULL ? starts[row] : 0);
    const T *position = positions != NULL ? positions + t * width : NULL;
#pragma unroll 4
    for (int64_t at = threadIdx.x % WARP * LANES; at < width; at += WARP * LANES) {
        float value[LANES], more[LANES] = {};
        load_lanes(token + at, value);
        if (position != NULL) {
            load_lanes(position + at, more);
        }
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            value[k] += more[k];
        }
        store_lanes(out + row * width + at, value);
    }
}

template <typename T>
static void launch_gather(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                          int64_t seq, Tensor out)
{
    const int32_t *id = (const int32_t *)ids.data, *start = (const int32_t *)starts.data;
    const T *rows_of = (const T *)table.data;
    const T *added = tensor_given(positions) ? (const T *)positions.data : NULL;
    T *to = (T *)out.data;
    int64_t rows = out.dim[0], width = out.dim[1];
    unsigned blocks = (unsigned)ceil_div(rows, GATHER_WARPS);
    cudaStream_t stream = cuda_of(c)->stream;
    if (width % wide_lanes<T> == 0 && aligned_16(rows_of, added, to)) {
        gather_rows<T, wide_lanes<T>><<<blocks, WARP * GATHER_WARPS, 0, stream>>>(
            id, rows_of, added, start, rows, width, seq, to);
    } else {
        gather_rows<T, 1><<<blocks, WARP * GATHER_WARPS, 0, stream>>>(id, rows_of, added, start,
                                                                      rows, width, seq, to);
    }
    CUDA_LAUNCHED("gather_rows");
}

void cuda_embed_forward(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                        int64_t seq, Tensor out)
{
    CUDA_FOR_TYPE(out.dtype, launch_gather, c, ids, table, positions, starts, seq, out);
}

/* The rows of dout in the order of their ids. */
struct Sorted {
    const int32_t *ids, *order; /* (count) */
    int64_t count;
};

/* Id of place i of the order; -1 outside. */
__device__ static int32_t id_at(const Sorted &sorted, int64_t i)
{
    return i >= 0 && i < sorted.count ? sorted.ids[sorted.order[i]] : -1;
}

/* sum += rows order[first], order[first + step], ... below last, at `column`. */
template <typename T, int LANES>
__device__ static void add_places(const T *dout, const int32_t *order, int64_t first, int64_t last,
                                  int64_t step, int64_t width, int64_t column, float (&sum)[LANES])
{
    int64_t i = first;
    for (; i + (SUM_FLIGHT - 1) * step < last; i += SUM_FLIGHT * step) {
        typename Raw<T, LANES>::type raw[SUM_FLIGHT];
#pragma unroll
        for (int j = 0; j < SUM_FLIGHT; j++) {
            const T *from = dout + order[i + j * step] * width + column;
            raw[j] = *reinterpret_cast<const typename Raw<T, LANES>::type *>(from);
        }
#pragma unroll
        for (int j = 0; j < SUM_FLIGHT; j++) {
            add_raw<false, T>(raw[j], sum);
        }
    }
    for (; i < last; i += step) {
        add_lanes<1, false>(dout + order[i] * width + column, 0, sum);
    }
}

/* Sums over the warps of a block, in order, into warp 0. room: (warps, LANES, WARP), used once. */
template <int LANES> __device__ static void add_warps(float *room, int warps, float (&sum)[LANES])
{
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
#pragma unroll
    for (int k = 0; k < LANES; k++) {
        room[(warp * LANES + k) * WARP + lane] = sum[k];
    }
    __syncthreads();
    for (int w = 1; warp == 0 && w < warps; w++) {
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            sum[k] += room[(w * LANES + k) * WARP + lane];
        }
    }
}

/* First place from `first` on whose id is not that of place first. Every round cuts the places
 * in question into one part per thread; all threads of the block call. */
__device__ static int64_t run_end(const Sorted &sorted, int64_t first, int32_t id)
{
    int64_t low = first,
            high = sorted.count; /* low is in the run; high is not, or there is no high */
    while (high - low > 1) {
        int64_t part = (high - low + blockDim.x - 1) / blockDim.x;
        int64_t place = low + (threadIdx.x + 1) * part;
        int within = __syncthreads_count(place < high && id_at(sorted, place) == id);
        low += within * part;
        high = min(low + part, high);
    }
    return high;
}

template <typename T, int LANES>
__global__ void __launch_bounds__(WARP *SUM_WARPS)
    sum_runs(Sorted sorted, const T *dout, int64_t width, float *dtable, bool add)
{
    await_previous();
    __shared__ float room[SUM_WARPS * LANES * WARP];
    __shared__ int32_t
        id[2 * CHUNK + 1];   /* of the place before the chunk, the chunk, and the next */
    __shared__ int long_run; /* where in the chunk it starts; -1: none */
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    int64_t chunk = (int64_t)blockIdx.x * CHUNK;
    int64_t column = ((int64_t)blockIdx.y * WARP + lane) * LANES;
    bool inside = column < width;
    if (threadIdx.x < 2 * CHUNK + 1) {
        id[threadIdx.x] = id_at(sorted, chunk - 1 + threadIdx.x);
    }
    if (threadIdx.x == 0) {
        long_run = -1;
    }
    __syncthreads();
    for (int start = warp; start < CHUNK && chunk + start < sorted.count; start += SUM_WARPS) {
        int32_t own = id[start + 1];
        if (own == id[start]) {
            continue;
        }
        int more = __popc(__ballot_sync(0xFFFFFFFFu, id[start + 2 + lane] == own));
        if (more == CHUNK) {
            if (lane == 0) {
                long_run = start;
            }
            continue;
        }
        if (inside) {
            int64_t first = chunk + start;
            float sum[LANES] = {};
            add_places(dout, sorted.order, first, first + 1 + more, 1, width, column, sum);
            store_by_mode(dtable + own * width + column, sum, add);
        }
    }
    __syncthreads();
    if (long_run >= 0) {
        int64_t first = chunk + long_run;
        int32_t own = id[long_run + 1];
        int64_t last = run_end(sorted, first, own);
        float sum[LANES] = {};
        if (inside) {
            add_places(dout, sorted.order, first + warp, last, SUM_WARPS, width, column, sum);
        }
        add_warps(room, SUM_WARPS, sum);
        if (warp == 0 && inside) {
            store_by_mode(dtable + own * width + column, sum, add);
        }
    }
}

/* dpositions (P,C): row blockIdx.x sums over sequences, of which there are `count`; the warps of
 * the block take turns. Rows from seq on have nothing to sum. */
template <typename T, int LANES>
__global__ void __launch_bounds__(WARP *POSITION_WARPS)
    sum_positions(const T *dout, int64_t count, int64_t seq, int64_t width, float *dpositions,
                  bool add)
{
    await_previous();
    __shared__ float room[POSITION_WARPS * LANES * WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    int64_t t = blockIdx.x, column = ((int64_t)blockIdx.y * WARP + lane) * LANES;
    bool inside = column < width;
    float sum[LANES] = {};
    if (inside && t < seq) {
        const T *from = dout + (warp * seq + t) * width + column;
        add_many_lanes<SUM_FLIGHT, false>(from, warps * seq * width,
                                          steps_below(warp, count, warps), sum);
    }
    add_warps(room, warps, sum);
    if (warp == 0 && inside) {
        store_by_mode(dpositions + t * width + column, sum, add);
    }
}

/* The same where documents begin at starts (count * seq): row blockIdx.x sums the rows that lie so
 * far behind their document's start. A warp has every warps-th sequence and looks at WARP rows at a
 * time. */
template <typename T, int LANES>
__global__ void __launch_bounds__(WARP *POSITION_WARPS)
    sum_document_positions(const T *dout, const int32_t *starts, int64_t count, int64_t seq,
                           int64_t width, float *dpositions, bool add)
{
    await_previous();
    __shared__ float room[POSITION_WARPS * LANES * WARP];
    int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    int64_t position = blockIdx.x, column = ((int64_t)blockIdx.y * WARP + lane) * LANES;
    bool inside = column < width;
    float sum[LANES] = {};
    for (int64_t sequence = warp; sequence < count; sequence += warps) {
        for (int64_t first = position; first < seq; first += WARP) {
            int64_t t = first + lane, row = sequence * seq + first;
            bool here = t < seq && t - starts[row + lane] == position;
            unsigned found = __ballot_sync(0xFFFFFFFFu, here);
            for (; found != 0; found &= found - 1) {
                if (inside) {
                    const T *from = dout + (row + __ffs((int)found) - 1) * width + column;
                    add_lanes<1, false>(from, 0, sum);
                }
            }
        }
    }
    add_warps(room, warps, sum);
    if (warp == 0 && inside) {
        store_by_mode(dpositions + position * width + column, sum, add);
    }
}

template <typename T, int LANES>
static void launch_sums(cudaStream_t stream, Sorted sorted, Tensor dout, Tensor dtable,
                        Tensor dpositions, Tensor starts, int64_t seq, bool table_add,
                        bool positions_add)
{
    const T *from = (const T *)dout.data;
    int64_t width = dout.dim[1], count = dout.dim[0] / seq;
    unsigned tiles = (unsigned)ceil_div(width, WARP * LANES);
    dim3 chunks((unsigned)ceil_div(sorted.count, CHUNK), tiles);
    cuda_start(sum_runs<T, LANES>, chunks, WARP * SUM_WARPS, 0, stream, sorted, from, width,
               (float *)dtable.data, table_add);
    CUDA_LAUNCHED("sum_runs");
    if (tensor_given(dpositions)) {
        int64_t at_once = tensor_given(starts) ? 1 : SUM_FLIGHT; /* sequences that a warp reads */
        unsigned warps = (unsigned)clamp_to(count / at_once, 1, POSITION_WARPS);
        dim3 rows((unsigned)dpositions.dim[0], tiles);
        float *to = (float *)dpositions.data;
        if (tensor_given(starts)) {
            cuda_start(sum_document_positions<T, LANES>, rows, WARP * warps, 0, stream, from,
                       (const int32_t *)starts.data, count, seq, width, to, positions_add);
        } else {
            cuda_start(sum_positions<T, LANES>, rows, WARP * warps, 0, stream, from, count, seq,
                       width, to, positions_add);
        }
        CUDA_LAUNCHED("sum_positions");
    }
}

template <typename T>
static void launch_embed_backward(Ctx *c, Sorted sorted, Tensor dout, Tensor dtable,
                                  Tensor dpositions, Tensor starts, int64_t seq, bool table_add,
                                  bool positions_add)
{
    cudaStream_t stream = cuda_of(c)->stream;
    const float *positions = tensor_given(dpositions) ? (const float *)dpositions.data : NULL;
    if (dout.dim[1] % wide_lanes<T> == 0 &&
        aligned_16((const T *)dout.data, (const float *)dtable.data, positions)) {
        launch_sums<T, wide_lanes<T>>(stream, sorted, dout, dtable, dpositions, starts, seq,
                                      table_add, positions_add);
    } else {
        launch_sums<T, 1>(stream, sorted, dout, dtable, dpositions, starts, seq, table_add,
                          positions_add);
    }
}

__global__ void __launch_bounds__(CLEAR_THREADS) clear_pieces(uint4 *to, int64_t pieces)
{
    await_previous();
    int64_t first = (int64_t)blockIdx.x * (CLEAR_THREADS * CLEAR_PIECES) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < CLEAR_PIECES; i++) {
        if (first + i * CLEAR_THREADS < pieces) {
            to[first + i * CLEAR_THREADS] = make_uint4(0, 0, 0, 0);
        }
    }
}

/* By a kernel, which follows the one ahead of it sooner than a node of another kind. */
static void clear(cudaStream_t stream, Tensor x)
{
    size_t bytes = tensor_bytes(x);
    if (bytes % 16 != 0 || !aligned_16((const float *)x.data)) {
        CUDA_CHECK(cudaMemsetAsync(x.data, 0, bytes, stream));
        return;
    }
    int64_t pieces = (int64_t)(bytes / 16), blocks = ceil_div(pieces, CLEAR_THREADS * CLEAR_PIECES);
    cuda_start(clear_pieces, (unsigned)blocks, CLEAR_THREADS, 0, stream, (uint4 *)x.data, pieces);
    CUDA_LAUNCHED("clear_pieces");
}

/* Rows of the table that no token names are cleared beforehand, with all others, where they must
 * be set. */
void cuda_embed_backward(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                         Tensor dpositions, Tensor starts, int64_t seq, Mode dtable_mode,
                         Mode dpositions_mode)
{
    Sorted sorted = {(const int32_t *)ids.data, (const int32_t *)order.data, dout.dim[0]};
    if (dtable_mode == MODE_SET) {
        clear(cuda_of(c)->stream, dtable);
    }
    CUDA_FOR_TYPE(dout.dtype, launch_embed_backward, c, sorted, dout, dtable, dpositions, starts,
                  seq, dtable_mode == MODE_ADD, dpositions_mode == MODE_ADD);
}
