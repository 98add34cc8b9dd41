/* Backward of causal attention without the (T,T) matrix, bf16, on tensor cores.
 *
 * The probabilities are made again from the scores and the log-sum-exp. With P = exp(S - lse),
 * dP = dO V^T and dS = P (dP - delta), where delta_i = dO_i . O_i:
 *   dV = P^T dO,  dK = scale dS^T Q,  dQ = scale dS K.
 * Sums have a fixed order, so each gradient has one owner: a first kernel computes delta, a second
 * has blocks of keys and walks over the queries that see them (all query heads of the key's head,
 * one after the other), a third has blocks of queries and walks over the keys they see. The last
 * two are one template: own rows X (K and V, or Q and dO) against walked rows Y (Q and dO, or K and
 * V). Bounded, walks leave out what is beyond the sight of all own rows. Both products of own with
 * walked rows have the own rows as rows of the result, so that P and dS, rounded to bf16, are
 * operands of the next products as they lie in registers.
 *
 * Hopper has a kernel of its own: attention_flash_hopper_backward.cu. */
#include "cuda/attention_flash_steps.cuh"

#include "base/assert.h"

#define SLICE 32 /* walked rows whose scores are in registers at a time */

/* Lanes that share a row of one head: a power of two that divides its 16-byte chunks. */
static constexpr __host__ __device__ int delta_lanes(int dim)
{
    return dim == 64 ? 8 : dim == 128 ? 16 : 4;
}

/* delta (B,H,T), one group of lanes per (row, head). */
template <int D> static __global__ void __launch_bounds__(256) flash_delta(FlashArgs a)
{
    constexpr int lanes = delta_lanes(D);
    int64_t item = ((int64_t)blockIdx.x * 256 + threadIdx.x) / lanes;
    int64_t count = (int64_t)a.batch * a.seq * a.heads;
    int lane = threadIdx.x % lanes;
    float sum = 0;
    if (item < count) {
        const Bf16 *o = a.out + item * D, *g = a.dout + item * D;
        if (a.vectorise) {
#pragma unroll
            for (int chunk = 0; chunk < D / 8 / lanes; chunk++) {
                int at = (chunk * lanes + lane) * 8;
                float x[8], y[8];
                load_lanes(o + at, x);
                load_lanes(g + at, y);
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    sum = fmaf(x[i], y[i], sum);
                }
            }
        } else {
            for (int i = lane; i < D; i += lanes) {
                sum = fmaf(to_f32(o[i]), to_f32(g[i]), sum);
            }
        }
    }
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    if (lane == 0 && item < count) {
        int64_t row = item / a.heads, h = item % a.heads, b = row / a.seq, t = row % a.seq;
        a.delta[(b * a.heads + h) * a.seq + t] = sum;
    }
}

template <int D, int RowTiles, int Walk> struct BackwardPlan {
    static constexpr int rows = 16 * FLASH_WARPS * RowTiles; /* own rows of a block */
    static constexpr int own_bytes = rows * D * 2;           /* of each of two tiles */
    static constexpr int walk_bytes = Walk * D * 2;
    static constexpr int stage_bytes = 2 * walk_bytes + 2 * Walk * 4; /* and lse, delta */
    static constexpr int shared = 2 * own_bytes + 2 * stage_bytes;
    static constexpr bool held = D == 32; /* own rows in registers */
};

/* Keys: blocks own keys and walk over queries (dK, dV); else the reverse (dQ), which has
 * registers for three blocks on a processor up to D = 96. */
template <int D, int RowTiles, int Walk, bool Keys, bool Bounded>
static __global__ void __launch_bounds__(FLASH_THREADS, !Keys && D <= 96 ? 3 : 2)
    flash_backward(FlashArgs a)
{
    typedef BackwardPlan<D, RowTiles, Walk> Plan;
    extern __shared__ __align__(128) unsigned char shared[];
    unsigned char *own_tiles[2] = {shared, shared + Plan::own_bytes};
    unsigned char *stages = shared + 2 * Plan::own_bytes;

    int group = a.heads / a.kv_heads, owners = Keys ? a.kv_heads : a.heads;
    int block = blockIdx.x % a.blocks, owner = blockIdx.x / a.blocks % owners;
    int64_t b = blockIdx.x / a.blocks / owners;
    int own0 = (Keys ? block : a.blocks - 1 - block) * Plan::rows; /* longest walk first */
    int valid = min(Plan::rows, a.seq - own0);
    int h0 = Keys ? owner * group : owner, kv = Keys ? owner : owner / group;
    int64_t width = (int64_t)(a.heads + 2 * a.kv_heads) * D, out_width = (int64_t)a.heads * D;
    int64_t k_column = (int64_t)(a.heads + kv) * D, v_column = k_column + (int64_t)a.kv_heads * D;
    const Bf16 *rows = a.qkv + b * a.seq * width, *dout_rows = a.dout + b * a.seq * out_width;

    /* Step i of the walk: rows from walk_row(i) on, of query head walk_head(i). */
    int first = Keys ? own0 / Walk : 0;
    int per_head = ((Keys ? a.seq - first * Walk : own0 + valid) + Walk - 1) / Walk;
    if constexpr (Bounded && Keys) {
        per_head = a.sight.last((int)b, own0 + valid - 1) / Walk + 1 - first;
    } else if constexpr (Bounded) {
        first = a.sight.first((int)b, own0) / Walk;
        per_head -= first;
    }
    int steps = Keys ? per_head * group : per_head;
    auto walk_row = [&](int i) { return (first + (Keys ? i % per_head : i)) * Walk; };
    auto walk_head = [&](int i) { return Keys ? h0 + i / per_head : h0; };

    auto load_walked = [&](int i) {
        unsigned char *stage = stages + i % 2 * Plan::stage_bytes;
        int row = walk_row(i), h = walk_head(i), left = a.seq - row;
        const Bf16 *from = rows + row * width;
        if (Keys) {
            tile_load<D>(stage, Walk, from + h * D, width, left, a.vectorise);
            tile_load<D>(stage + Plan::walk_bytes, Walk, dout_rows + row * out_width + h * D,
                         out_width, left, a.vectorise);
            uint32_t statistics = shared_address(stage + 2 * Plan::walk_bytes);
            int64_t at = (b * a.heads + h) * a.seq + row;
            for (int j = threadIdx.x; j < 2 * Walk; j += FLASH_THREADS) {
                const float *source = (j < Walk ? a.lse : a.delta) + at;
                bool inside = j % Walk < left;
                copy_async_4(statistics + j * 4, source + (inside ? j % Walk : 0), inside);
            }
        } else {
            tile_load<D>(stage, Walk, from + k_column, width, left, a.vectorise);
            tile_load<D>(stage + Plan::walk_bytes, Walk, from + v_column, width, left, a.vectorise);
        }
        copy_commit();
    };

    const Bf16 *own = rows + own0 * width;
    if (Keys) {
        tile_load<D>(own_tiles[0], Plan::rows, own + k_column, width, valid, a.vectorise);
        tile_load<D>(own_tiles[1], Plan::rows, own + v_column, width, valid, a.vectorise);
    } else {
        tile_load<D>(own_tiles[0], Plan::rows, own + h0 * D, width, valid, a.vectorise);
        tile_load<D>(own_tiles[1], Plan::rows, dout_rows + own0 * out_width + h0 * D, out_width,
                     valid, a.vectorise);
    }
    copy_commit();
    load_walked(0);
    copy_wait<1>();
    __syncthreads();

    int row0 = threadIdx.x / 32 * 16 * RowTiles;
    int64_t statistics = (b * a.heads + h0) * a.seq + own0;
    OwnRows<D, RowTiles, Plan::held> x(own_tiles[0], row0), dx(own_tiles[1], row0);
    RowStatistics<RowTiles> own_statistics(a.lse + statistics, a.delta + statistics, row0,
                                           Keys ? 0 : valid);
    Reach reach = {};
    if constexpr (Bounded) {
        reach = reach_of<Keys>(a.sight, (int)b, own0 + row0, 16 * RowTiles);
    }
    float sum[RowTiles][D / 8][4], sum_v[Keys ? RowTiles : 1][D / 8][4];
    clear<RowTiles, D>(sum);
    clear<Keys ? RowTiles : 1, D>(sum_v);
    for (int i = 0; i < steps; i++) {
        if (i + 1 < steps) {
            load_walked(i + 1);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();
        const unsigned char *stage = stages + i % 2 * Plan::stage_bytes;
        const float *lse = (const float *)(stage + 2 * Plan::walk_bytes), *delta = lse + Walk;
        uint32_t y_tile = shared_address(stage);
        int first_ahead = walk_row(i) - own0 - row0; /* walked row less the warp's first own row */
#pragma unroll 1
        for (int slice = 0; slice < Walk; slice += SLICE) {
            int ahead = first_ahead + slice; /* is any query at or behind a key? */
            bool met = Keys ? ahead + SLICE - 1 >= 0 : ahead < 16 * RowTiles;
            if constexpr (Bounded) {
                int walked = walk_row(i) + slice;
                met = met && (Keys ? walked <= reach.edge : walked + SLICE > reach.edge);
            }
            if (met) {
                gradient_step<SLICE, Keys, Bounded>(
                    sum, sum_v, x, dx, y_tile, y_tile + Plan::walk_bytes, slice, ahead, lse + slice,
                    delta + slice, own_statistics, score_unit<Bounded>(a) * LOG2_E, a.sight, reach);
            }
        }
        __syncthreads();
    }

    /* Each warp stages its rows where its own rows were. */
#pragma unroll
    for (int t = 0; t < RowTiles; t++) {
        tile_put<D>(own_tiles[0], row0 + 16 * t, sum[t], a.scale, a.scale);
        if constexpr (Keys) {
            tile_put<D>(own_tiles[1], row0 + 16 * t, sum_v[t], 1.0f, 1.0f);
        }
    }
    __syncwarp();
    Bf16 *to = a.result + (b * a.seq + own0) * width;
    tile_store<D, 16 * RowTiles>(own_tiles[0], row0, to + (Keys ? k_column : (int64_t)h0 * D),
                                 width, valid, a.vectorise);
    if constexpr (Keys) {
        tile_store<D, 16 * RowTiles>(own_tiles[1], row0, to + v_column, width, valid, a.vectorise);
    }
}

template <int D, int RowTiles, int Walk>
static void launch(const CudaBackend *backend, FlashArgs args)
{
    typedef BackwardPlan<D, RowTiles, Walk> Plan;
    static_assert(Plan::shared <= 99 * 1024, "fits the smallest device of compute capability 8");
    constexpr int lanes = delta_lanes(D);
    int64_t items = (int64_t)args.batch * args.seq * args.heads;
    flash_launch("flash_delta", flash_delta<D>, (items * lanes + 255) / 256, 256, 0,
                 backend->stream, args);
    args.blocks = (args.seq + Plan::rows - 1) / Plan::rows;
    int64_t blocks = (int64_t)args.batch * args.blocks;
    flash_launch("flash_backward, keys",
                 args.bounded ? flash_backward<D, RowTiles, Walk, true, true>
                              : flash_backward<D, RowTiles, Walk, true, false>,
                 blocks * args.kv_heads, FLASH_THREADS, Plan::shared, backend->stream, args);
    flash_launch("flash_backward, queries",
                 args.bounded ? flash_backward<D, RowTiles, Walk, false, true>
                              : flash_backward<D, RowTiles, Walk, false, false>,
                 blocks * args.heads, FLASH_THREADS, Plan::shared, backend->stream, args);
}

/* ws: delta (B,H,T) f32, or what Hopper's kernel needs. */
size_t cuda_flash_backward_ws(const CudaBackend *backend, HeadShape shape, DType dtype)
{
    size_t delta = (size_t)(shape.batch * shape.heads * shape.seq) * sizeof(float);
    bool hopper = dtype == DT_BF16 && !flash_whole_covers(backend, shape, true) &&
                  flash_hopper_backward_covers(backend, shape, true);
    size_t more = hopper ? flash_hopper_backward_ws(shape) : 0; /* if tensors are aligned */
    return more > delta ? more : delta;
}

void cuda_flash_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor lse, HeadShape shape,
                         Tensor dqkv, void *ws)
{
    const CudaBackend *backend = cuda_of(c);
    PACER_ASSERT(cuda_flash_covers(backend, shape, qkv.dtype), "%s, head dim %lld",
                 dtype_name(qkv.dtype), (long long)shape.head_dim);
    if (qkv.dtype == DT_F32) {
        flash_backward_f32(c, dout, qkv, out, lse, shape, dqkv, (float *)ws);
        return;
    }
    FlashArgs args = flash_args(shape);
    args.qkv = (const Bf16 *)qkv.data;
    args.out = (const Bf16 *)out.data;
    args.dout = (const Bf16 *)dout.data;
    args.result = (Bf16 *)dqkv.data;
    args.lse = (float *)lse.data;
    args.delta = (float *)ws;
    args.vectorise = aligned_16(qkv.data, out.data, dout.data, dqkv.data);
    if (flash_whole_covers(backend, shape, args.vectorise)) {
        flash_whole_backward(backend, args);
        return;
    }
    PACER_ASSERT(args.turns == NULL, "heads to be turned at addresses that are not aligned");
    if (flash_hopper_backward_covers(backend, shape, args.vectorise && aligned_16(ws))) {
        flash_hopper_backward(backend, args, (int)shape.head_dim, ws);
        return;
    }
    switch (shape.head_dim) {
    case 32:
        launch<32, 2, 64>(backend, args);
        break;
    case 64:
        launch<64, 2, 64>(backend, args);
        break;
    case 96:
        launch<96, 1, 64>(backend, args);
        break;
    default:
        launch<128, 1, 64>(backend, args);
        break;
    }
}
