/* Flash attention, bf16, of sequences so short that a block holds one whole head of one in shared
 * memory: every element is read once, there is no barrier but those behind the loads, and backward
 * is one kernel.
 *
 * The sequence is cut into units of 32 rows. A warp takes units so that all have about the same
 * work: in forward unit u as queries against units 0 to u as keys; in backward also unit u as
 * keys against units u to the last. Several blocks of four warps share a processor, so that some
 * compute while others load; where there are too few heads for that, backward takes blocks of
 * eight.
 *
 * With Turned, q and k come as they are before rope: they are turned in shared memory, rounded as
 * op_rope rounds them, and their gradients are turned back in the stage that they leave through. */
#include "cuda/attention_flash_steps.cuh"

#define UNIT 32 /* rows */
#define TILES (UNIT / 16)
#define HEAD_DIM 32
#define SEQ_MOST 256
#define ROW_BYTES (2 * HEAD_DIM)
#define HALF_CHUNKS (HEAD_DIM / 16) /* pieces of 16 bytes of half a row */
#define KEYS_STEP 16 /* queries at a time against own keys, by the registers that are left */

/* Rows of a sequence with the last unit filled up. */
static __host__ __device__ __forceinline__ int padded(int seq)
{
    return (seq + UNIT - 1) / UNIT * UNIT;
}

/* The unit that this warp takes in a round: forth in the first round, back in the second, and so
 * on. */
template <int Warps> static __device__ __forceinline__ int unit_of(int round)
{
    int warp = threadIdx.x / 32;
    return round * Warps + (round % 2 == 0 ? warp : Warps - 1 - warp);
}

/* Turns the pairs (i, i + D/2) of eight columns of a row; cosine and sine of the first. */
static __device__ __forceinline__ void turn_columns(unsigned char *tile, int row, int chunk,
                                                    const float (&cosine)[8],
                                                    const float (&sine)[8])
{
    uint4 *first = reinterpret_cast<uint4 *>(tile + tile_at<HEAD_DIM>(row, chunk));
    uint4 *second = reinterpret_cast<uint4 *>(tile + tile_at<HEAD_DIM>(row, chunk + HALF_CHUNKS));
    float left[8], right[8];
    unpack<Bf16>(*first, left);
    unpack<Bf16>(*second, right);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        turn_pair(left[i], right[i], cosine[i], sine[i]);
    }
    *first = pack<Bf16>(left);
    *second = pack<Bf16>(right);
}

/* q and k of the whole sequence, by all threads; rows beyond it are zeros and stay so. */
template <int Threads>
static __device__ __forceinline__ void turn_tiles(unsigned char *q_tile, unsigned char *k_tile,
                                                  const float *turns, int seq)
{
#pragma unroll 1
    for (int i = threadIdx.x; i < seq * HALF_CHUNKS; i += Threads) {
        int row = i / HALF_CHUNKS, chunk = i % HALF_CHUNKS;
        const float *angles = turns + row * HEAD_DIM + chunk * 8;
        float cosine[8], sine[8];
        load_lanes(angles, cosine);
        load_lanes(angles + HEAD_DIM / 2, sine);
        turn_columns(q_tile, row, chunk, cosine, sine);
        turn_columns(k_tile, row, chunk, cosine, sine);
    }
}

template <bool Turned>
static __global__ void __launch_bounds__(FLASH_THREADS, 4) flash_forward_whole(FlashArgs a)
{
    await_previous();
    extern __shared__ __align__(128) unsigned char shared[];
    int rows = padded(a.seq), units = rows / UNIT;
    unsigned char *q_tile = shared, *k_tile = q_tile + rows * ROW_BYTES;
    unsigned char *v_tile = k_tile + rows * ROW_BYTES;
    int h = blockIdx.x % a.heads, b = blockIdx.x / a.heads;
    int64_t width = (int64_t)(a.heads + 2 * a.kv_heads) * HEAD_DIM, first = (int64_t)b * a.seq;
    const Bf16 *q = a.qkv + first * width + h * HEAD_DIM;
    const Bf16 *k = a.qkv + first * width + (a.heads + h / (a.heads / a.kv_heads)) * HEAD_DIM;
    const Bf16 *v = k + a.kv_heads * HEAD_DIM;
    tile_load<HEAD_DIM>(q_tile, rows, q, width, a.seq, true);
    tile_load<HEAD_DIM>(k_tile, rows, k, width, a.seq, true);
    tile_load<HEAD_DIM>(v_tile, rows, v, width, a.seq, true);
    copy_commit();
    copy_wait<0>();
    __syncthreads();
    if (Turned) {
        turn_tiles<FLASH_THREADS>(q_tile, k_tile, a.turns, a.seq);
        __syncthreads();
    }

    int64_t out_width = (int64_t)a.heads * HEAD_DIM;
    Bf16 *out = a.result + first * out_width + h * HEAD_DIM;
    float *lse = a.lse + (int64_t)blockIdx.x * a.seq;
#pragma unroll 1
    for (int round = 0; round * FLASH_WARPS < units; round++) {
        int unit = unit_of<FLASH_WARPS>(round);
        if (unit >= units) {
            continue;
        }
        OwnRows<HEAD_DIM, TILES, true> own(q_tile, unit * UNIT);
        Queries<HEAD_DIM, TILES> queries;
#pragma unroll 1
        for (int other = 0; other <= unit; other++) {
            queries.see<UNIT>(own, shared_address(k_tile), shared_address(v_tile), other * UNIT,
                              (other - unit) * UNIT, a.scale * LOG2_E, a.sight, {});
        }
        queries.finish(q_tile, unit * UNIT, lse, a.seq, a.scale);
        tile_store<HEAD_DIM, UNIT>(q_tile, unit * UNIT, out, out_width, a.seq, true);
    }
}

/* Starts to read this thread's part of `out`, Pieces times 16 bytes. */
template <int Threads, int Pieces>
static __device__ __forceinline__ void out_load(uint4 (&pieces)[Pieces], const Bf16 *out,
                                                int64_t stride, int seq)
{
#pragma unroll
    for (int j = 0; j < Pieces; j++) {
        int i = threadIdx.x + j * Threads, row = i / 4, chunk = i % 4;
        pieces[j] = make_uint4(0, 0, 0, 0);
        if (row < seq) {
            pieces[j] = *reinterpret_cast<const uint4 *>(out + row * stride + chunk * 8);
        }
    }
}

/* delta of each row: dout, in its tile, by out. Four neighbouring threads have a row. */
template <int Threads, int Pieces>
static __device__ __forceinline__ void delta_make(float *delta, const uint4 (&pieces)[Pieces],
                                                  const unsigned char *dout_tile, int rows)
{
    static_assert(HEAD_DIM / 8 == 4, "four chunks a row");
#pragma unroll
    for (int j = 0; j < Pieces; j++) {
        int i = threadIdx.x + j * Threads, row = i / 4, chunk = i % 4;
        if (row / 8 * 8 < rows) { /* the same for a whole warp */
            uint4 raw = *reinterpret_cast<const uint4 *>(dout_tile + tile_at<HEAD_DIM>(row, chunk));
            float x[8], y[8], sum = 0;
            unpack<Bf16>(pieces[j], x);
            unpack<Bf16>(raw, y);
#pragma unroll
            for (int e = 0; e < 8; e++) {
                sum = fmaf(x[e], y[e], sum);
            }
            sum = quad_sum(sum);
            if (chunk == 0) {
                delta[row] = sum;
            }
        }
    }
}

/* Turns a unit of gradients in `stage` back; turns: of its first row. */
static __device__ __forceinline__ void turn_back(unsigned char *stage, const float *turns,
                                                 int valid)
{
#pragma unroll 1
    for (int i = threadIdx.x % 32; i < UNIT * HALF_CHUNKS; i += 32) {
        int row = i / HALF_CHUNKS, chunk = i % HALF_CHUNKS;
        if (row < valid) {
            const float *angles = turns + row * HEAD_DIM + chunk * 8;
            float cosine[8], sine[8];
            load_lanes(angles, cosine);
            load_lanes(angles + HEAD_DIM / 2, sine);
#pragma unroll
            for (int k = 0; k < 8; k++) {
                sine[k] = -sine[k];
            }
            turn_columns(stage, row, chunk, cosine, sine);
        }
    }
    __syncwarp();
}

/* Writes a unit of gradients, through `stage`, which is the warp's. turns: to turn them back by,
 * from the unit's first row on, or NULL. */
static __device__ __forceinline__ void unit_store(unsigned char *stage,
                                                  const float (&sum)[TILES][HEAD_DIM / 8][4],
                                                  float factor, const float *turns, Bf16 *to,
                                                  int64_t stride, int valid)
{
    __syncwarp();
#pragma unroll
    for (int t = 0; t < TILES; t++) {
        tile_put<HEAD_DIM>(stage, 16 * t, sum[t], factor, factor);
    }
    __syncwarp();
    if (turns != NULL) {
        turn_back(stage, turns, valid);
    }
    tile_store<HEAD_DIM, UNIT>(stage, 0, to, stride, valid, true);
}

/* One block per sequence and head; each query head has its own keys. */
template <int Warps, int BlocksPerProcessor, bool Turned>
static __global__ void __launch_bounds__(32 * Warps, BlocksPerProcessor)
    flash_backward_whole(FlashArgs a)
{
    await_previous();
    constexpr int threads = 32 * Warps, pieces_each = SEQ_MOST * ROW_BYTES / 16 / threads;
    extern __shared__ __align__(128) unsigned char shared[];
    int rows = padded(a.seq), units = rows / UNIT, tile = rows * ROW_BYTES;
    unsigned char *q_tile = shared, *k_tile = q_tile + tile, *v_tile = k_tile + tile;
    unsigned char *dout_tile = v_tile + tile;
    unsigned char *stage = dout_tile + tile + threadIdx.x / 32 * UNIT * ROW_BYTES;
    float *lse = (float *)(dout_tile + tile + Warps * UNIT * ROW_BYTES), *delta = lse + rows;
    int h = blockIdx.x % a.heads, b = blockIdx.x / a.heads;
    int64_t part = (int64_t)a.heads * HEAD_DIM, width = 3 * part; /* of a row: q, k, v */
    int64_t first = (int64_t)b * a.seq;
    const Bf16 *q = a.qkv + first * width + h * HEAD_DIM;
    int64_t dout_at = first * part + h * HEAD_DIM;
    tile_load<HEAD_DIM, threads>(q_tile, rows, q, width, a.seq, true);
    tile_load<HEAD_DIM, threads>(k_tile, rows, q + part, width, a.seq, true);
    tile_load<HEAD_DIM, threads>(v_tile, rows, q + 2 * part, width, a.seq, true);
    tile_load<HEAD_DIM, threads>(dout_tile, rows, a.dout + dout_at, part, a.seq, true);
    const float *lse_from = a.lse + (int64_t)blockIdx.x * a.seq;
    for (int i = threadIdx.x; i < rows; i += threads) {
        copy_async_4(shared_address(lse + i), lse_from + (i < a.seq ? i : 0), i < a.seq);
    }
    copy_commit();
    uint4 pieces[pieces_each];
    out_load<threads>(pieces, a.out + dout_at, part, a.seq);
    copy_wait<0>();
    __syncthreads();
    if (Turned) {
        turn_tiles<threads>(q_tile, k_tile, a.turns, a.seq);
    }
    delta_make<threads>(delta, pieces, dout_tile, rows);
    __syncthreads();

    float factor = a.scale * LOG2_E;
    uint32_t q_address = shared_address(q_tile), k_address = shared_address(k_tile);
    uint32_t v_address = shared_address(v_tile), dout_address = shared_address(dout_tile);
    Bf16 *to = a.result + first * width + h * HEAD_DIM;
#pragma unroll 1
    for (int round = 0; round * Warps < units; round++) {
        int unit = unit_of<Warps>(round), own = unit * UNIT, valid = a.seq - own;
        if (unit >= units) {
            continue;
        }
        const float *turns = Turned ? a.turns + own * HEAD_DIM : NULL;
        {
            OwnRows<HEAD_DIM, TILES, true> x(k_tile, own), dx(v_tile, own);
            RowStatistics<TILES> none(lse, delta, 0, 0);
            float dk[TILES][HEAD_DIM / 8][4], dv[TILES][HEAD_DIM / 8][4];
            clear<TILES, HEAD_DIM>(dk);
            clear<TILES, HEAD_DIM>(dv);
#pragma unroll 1
            for (int row = own; row < rows; row += KEYS_STEP) {
                gradient_step<KEYS_STEP, true, false>(dk, dv, x, dx, q_address, dout_address, row,
                                                      row - own, lse + row, delta + row, none,
                                                      factor, a.sight, {});
            }
            unit_store(stage, dk, a.scale, turns, to + own * width + part, width, valid);
            unit_store(stage, dv, 1.0f, NULL, to + own * width + 2 * part, width, valid);
        }
        OwnRows<HEAD_DIM, TILES, true> x(q_tile, own), dx(dout_tile, own);
        RowStatistics<TILES> statistics(lse, delta, own, rows);
        float dq[TILES][HEAD_DIM / 8][4], none[1][HEAD_DIM / 8][4];
        clear<TILES, HEAD_DIM>(dq);
#pragma unroll 1
        for (int row = 0; row <= own; row += UNIT) {
            gradient_step<UNIT, false, false>(dq, none, x, dx, k_address, v_address, row, row - own,
                                              lse, delta, statistics, factor, a.sight, {});
        }
        unit_store(stage, dq, a.scale, turns, to + own * width, width, valid);
    }
}

static int forward_bytes(int seq)
{
    return 3 * padded(seq) * ROW_BYTES;
}

static int backward_bytes(int seq, int warps)
{
    return 4 * padded(seq) * ROW_BYTES + warps * UNIT * ROW_BYTES +
           2 * padded(seq) * (int)sizeof(float);
}

bool flash_whole_covers(const CudaBackend *backend, HeadShape s, bool vectorise)
{
    return vectorise && !cuda_bounded(s) && s.head_dim == HEAD_DIM && s.seq <= SEQ_MOST &&
           s.kv_heads == s.heads &&
           backward_bytes((int)s.seq, FLASH_WARPS) <= backend->shared_bytes;
}

void flash_whole_forward(const CudaBackend *backend, const FlashArgs &args)
{
    auto kernel = args.turns != NULL ? flash_forward_whole<true> : flash_forward_whole<false>;
    int shared = forward_bytes(args.seq);
    flash_allow(kernel, shared);
    cuda_start(kernel, (unsigned)(args.batch * args.heads), FLASH_THREADS, (size_t)shared,
               backend->stream, args);
    CUDA_LAUNCHED("flash_forward_whole");
}

template <int Warps, int BlocksPerProcessor>
static void backward(const CudaBackend *backend, const FlashArgs &args)
{
    auto kernel = args.turns != NULL ? flash_backward_whole<Warps, BlocksPerProcessor, true>
                                     : flash_backward_whole<Warps, BlocksPerProcessor, false>;
    int shared = backward_bytes(args.seq, Warps);
    flash_allow(kernel, shared);
    cuda_start(kernel, (unsigned)(args.batch * args.heads), 32 * Warps, (size_t)shared,
               backend->stream, args);
    CUDA_LAUNCHED("flash_backward_whole");
}

void flash_whole_backward(const CudaBackend *backend, const FlashArgs &args)
{
    bool few = (int64_t)args.batch * args.heads <= backend->processors;
    if (few && backward_bytes(args.seq, 8) <= backend->shared_bytes) {
        backward<8, 1>(backend, args);
    } else {
        backward<FLASH_WARPS, 3>(backend, args);
    }
}
