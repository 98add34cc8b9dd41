/* Causal attention forward without the (T,T) matrix, bf16, on tensor cores.
 *
 * A block of four warps takes 64 * RowTiles queries of one head; a warp 16 * RowTiles of them.
 * It walks over the keys up to its last query, Bounded from the first that a query sees on, in
 * blocks of Keys, of which the next is copied while the current is used, and keeps for each query
 * about the largest score m so far, the sum l of exp(score - m), and the sum o of exp(score - m) v;
 * when m grows, l and o are scaled down. Only keys that lie beyond a warp's first query or before
 * what its last one sees are masked. The probabilities are rounded to bf16 for their product with
 * v; all else is f32. Exponentials are powers of two, with log2(e) and the scale folded into one
 * factor. */
#include "cuda/attention_flash_steps.cuh"

#include "base/assert.h"

#define SLICE 32 /* keys whose scores are in registers at a time */

template <int D, int RowTiles, int Keys> struct ForwardPlan {
    static constexpr int rows = 16 * FLASH_WARPS * RowTiles;
    static constexpr int q_bytes = rows * D * 2;
    static constexpr int kv_bytes = Keys * D * 2;
    static constexpr int shared = q_bytes + 4 * kv_bytes; /* two stages of k and v */
    static constexpr bool q_in_registers = D <= 64;
    static constexpr int blocks_per_processor = D == 32 ? 4 : D == 64 ? 3 : 2; /* by registers */
};

template <int D, int RowTiles, int Keys, bool Bounded>
static __global__ void __launch_bounds__(FLASH_THREADS,
                                         ForwardPlan<D, RowTiles, Keys>::blocks_per_processor)
    flash_forward(FlashArgs a)
{
    typedef ForwardPlan<D, RowTiles, Keys> Plan;
    extern __shared__ __align__(128) unsigned char shared[];
    unsigned char *q_tile = shared, *kv_tiles = shared + Plan::q_bytes;
    int head = blockIdx.x / a.blocks, h = head % a.heads, b = head / a.heads;
    int q0 = (a.blocks - 1 - (int)blockIdx.x % a.blocks) * Plan::rows; /* longest first */
    int64_t width = (int64_t)(a.heads + 2 * a.kv_heads) * D, first_row = (int64_t)b * a.seq;
    const Bf16 *q = a.qkv + (first_row + q0) * width + h * D;
    const Bf16 *k = a.qkv + first_row * width + (a.heads + h / (a.heads / a.kv_heads)) * (int64_t)D;
    const Bf16 *v = k + (int64_t)a.kv_heads * D;
    int rows = min(Plan::rows, a.seq - q0), key_blocks = (q0 + rows + Keys - 1) / Keys;
    int first = Bounded ? a.sight.first(b, q0) / Keys : 0; /* block of keys */

    auto load_keys = [&](int block) {
        unsigned char *stage = kv_tiles + block % 2 * 2 * Plan::kv_bytes;
        int64_t at = (int64_t)block * Keys * width;
        int valid = a.seq - block * Keys;
        tile_load<D>(stage, Keys, k + at, width, valid, a.vectorise);
        tile_load<D>(stage + Plan::kv_bytes, Keys, v + at, width, valid, a.vectorise);
        copy_commit();
    };

    tile_load<D>(q_tile, Plan::rows, q, width, rows, a.vectorise);
    copy_commit();
    load_keys(first);
    copy_wait<1>();
    __syncthreads();

    int row0 = threadIdx.x / 32 * 16 * RowTiles;
    OwnRows<D, RowTiles, Plan::q_in_registers> own(q_tile, row0);
    Reach reach = {};
    if constexpr (Bounded) {
        reach = reach_of<false>(a.sight, b, q0 + row0, 16 * RowTiles);
    }
    Queries<D, RowTiles, Bounded> queries;
    for (int block = first; block < key_blocks; block++) {
        if (block + 1 < key_blocks) {
            load_keys(block + 1);
            copy_wait<1>();
        } else {
            copy_wait<0>();
        }
        __syncthreads();
        int ahead = block * Keys - q0 - row0; /* first key less the warp's first query */
        uint32_t k_tile = shared_address(kv_tiles + block % 2 * 2 * Plan::kv_bytes);
#pragma unroll 1
        for (int slice = 0; slice < Keys && ahead + slice < 16 * RowTiles; slice += SLICE) {
            if (Bounded && block * Keys + slice + SLICE <= reach.edge) {
                continue;
            }
            queries.template see<SLICE>(own, k_tile, k_tile + Plan::kv_bytes, slice, ahead + slice,
                                        score_unit<Bounded>(a) * LOG2_E, a.sight, reach);
        }
        __syncthreads();
    }

    /* Each warp stages its outputs where its queries were. */
    queries.finish(q_tile, row0, a.lse + (int64_t)head * a.seq + q0, rows, score_unit<Bounded>(a));
    int64_t out_width = (int64_t)a.heads * D;
    tile_store<D, 16 * RowTiles>(q_tile, row0, a.result + (first_row + q0) * out_width + h * D,
                                 out_width, rows, a.vectorise);
}

template <int D, int RowTiles, int Keys>
static void launch(const CudaBackend *backend, FlashArgs args)
{
    typedef ForwardPlan<D, RowTiles, Keys> Plan;
    static_assert(Plan::shared <= 99 * 1024, "fits the smallest device of compute capability 8");
    args.blocks = (args.seq + Plan::rows - 1) / Plan::rows;
    int64_t blocks = (int64_t)args.batch * args.heads * args.blocks;
    flash_launch("flash_forward",
                 args.bounded ? flash_forward<D, RowTiles, Keys, true>
                              : flash_forward<D, RowTiles, Keys, false>,
                 blocks, FLASH_THREADS, Plan::shared, backend->stream, args);
}

bool cuda_flash_covers(const CudaBackend *backend, HeadShape shape, DType dtype)
{
    int64_t d = shape.head_dim;
    if (dtype == DT_F32) {
        return d <= 128;
    }
    return dtype == DT_BF16 && backend->compute >= 80 &&
           (d == 32 || d == 64 || d == 96 || d == 128);
}

bool cuda_flash_turns(const CudaBackend *backend, HeadShape shape, DType dtype)
{
    return dtype == DT_BF16 && cuda_flash_covers(backend, shape, dtype) &&
           flash_whole_covers(backend, shape, true);
}

void cuda_flash_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor lse)
{
    const CudaBackend *backend = cuda_of(c);
    PACER_ASSERT(cuda_flash_covers(backend, shape, qkv.dtype), "%s, head dim %lld",
                 dtype_name(qkv.dtype), (long long)shape.head_dim);
    if (qkv.dtype == DT_F32) {
        flash_forward_f32(c, qkv, shape, out, lse);
        return;
    }
    FlashArgs args = flash_args(shape);
    args.qkv = (const Bf16 *)qkv.data;
    args.result = (Bf16 *)out.data;
    args.lse = (float *)lse.data;
    args.vectorise = aligned_16(qkv.data, out.data);
    if (flash_whole_covers(backend, shape, args.vectorise)) {
        flash_whole_forward(backend, args);
        return;
    }
    PACER_ASSERT(args.turns == NULL, "heads to be turned at addresses that are not aligned");
    if (flash_hopper_covers(backend, shape, args.vectorise)) {
        flash_hopper_forward(backend, args, (int)shape.head_dim);
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
        launch<96, 2, 64>(backend, args);
        break;
    default:
        launch<128, 2, 64>(backend, args);
        break;
    }
}
