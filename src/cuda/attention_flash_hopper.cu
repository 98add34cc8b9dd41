/* Causal attention forward without the (T,T) matrix, bf16, for Hopper: heads of 64 and 128, with
 * products of whole warpgroups. The mathematics is that of attention_flash_forward.cu.
 *
 * A block takes jobs until there are none: one job is 64 * Groups queries of one head. One thread,
 * the loader, copies the job's queries and then its keys and values, KEYS at a time, into a ring of
 * stages, running ahead of Groups warpgroups that compute, and into the next job while these finish
 * the last. Each of them owns 64 queries and walks over the keys from the diagonal down, so that
 * only the first tile it sees is masked; Bounded, down to the last tile that its queries see, with
 * masks also where some of them see less than others.
 *
 * A warpgroup gives the tensor cores two products at a time, the scores of a tile and the weighted
 * sum of the values of the tile before it, and makes the weights of the tile while the second runs.
 * Warpgroups take turns in giving, so that one makes weights while another's products run.
 *
 * Barriers, per stage, for keys and values each: `full` (the loader's bytes are there) and
 * `empty` (every warp that computes has used them); the same for the queries, with which comes
 * the number of the job and, Bounded, how far its warpgroups see. The n-th use of a stage is
 * phase n of both. */
#include "cuda/attention_flash_hopper.cuh"

typedef struct {
    CUtensorMap qkv; /* boxes of 64 columns, BOX_ROWS rows of (columns, T, B) */
    FlashArgs flash;
    int jobs;
} HopperArgs;

/* The next job that no block has taken, less the blocks of the launch. It counts up to the
 * number of jobs and is then zero again, for the next launch; launches on one GPU are in one
 * stream, so that they do not meet. */
__device__ unsigned flash_jobs_taken;

template <int D, int Groups> struct HopperPlan {
    static constexpr int rows = 64 * Groups;
    static constexpr int panels = D / PANEL_COLUMNS;
    static constexpr int stages = D == 64 ? 4 : 2;
    static constexpr int q_bytes = rows * D * 2;
    static constexpr int kv_bytes = KEYS * D * 2;
    static constexpr int shared = q_bytes + 2 * stages * kv_bytes + PANEL_ALIGN;
    static constexpr int threads = WARPGROUP * (Groups + 1);
    /* Together what the block starts with: 168 or 128 for every thread. */
    static constexpr int loader_registers = Groups == 2 ? 40 : 32;
    static constexpr int registers = Groups == 2 ? 232 : 160;
};

/* Shared addresses. */
template <int D, int Groups> struct HopperShared {
    typedef HopperPlan<D, Groups> Plan;
    uint32_t q, barriers; /* k and v, by stage, follow q */

    __device__ __forceinline__ uint32_t k_at(int stage) const
    {
        return q + Plan::q_bytes + 2 * stage * Plan::kv_bytes;
    }

    __device__ __forceinline__ uint32_t v_at(int stage) const
    {
        return k_at(stage) + Plan::kv_bytes;
    }

    __device__ __forceinline__ uint32_t q_full() const
    {
        return barriers;
    }

    __device__ __forceinline__ uint32_t q_empty() const
    {
        return barriers + 8;
    }

    __device__ __forceinline__ uint32_t k_full(int stage) const
    {
        return barriers + 16 + stage * 32;
    }

    __device__ __forceinline__ uint32_t k_empty(int stage) const
    {
        return k_full(stage) + 8;
    }

    __device__ __forceinline__ uint32_t v_full(int stage) const
    {
        return k_full(stage) + 16;
    }

    __device__ __forceinline__ uint32_t v_empty(int stage) const
    {
        return k_full(stage) + 24;
    }
};

/* Jobs are ordered by head, so that blocks that run together share keys in the cache, and within
 * a head longest first, so that the last jobs are short. They are counted from the end of the
 * sequence: q0 of a head's last, shortest job may lie before its start, by a multiple of 64. */
struct Job {
    int batch, head, q0, key_tiles;

    __device__ __forceinline__ Job(const FlashArgs &a, int job, int rows)
    {
        int of_heads = job / a.blocks;
        batch = of_heads / a.heads;
        head = of_heads % a.heads;
        q0 = (a.seq + 63) / 64 * 64 - (job % a.blocks + 1) * rows;
        key_tiles = (min(q0 + rows, a.seq) + KEYS - 1) / KEYS;
    }
};

/* What the loader tells the warpgroups of a job: its number, then for each of them the first keys
 * that its first and its last query see, which only bounded kernels read. */
enum { NOTE_NUMBER, NOTE_FIRST };

template <int D, int Groups, bool Bounded>
static __device__ __forceinline__ void load_jobs(const HopperArgs &args,
                                                 const HopperShared<D, Groups> &at,
                                                 volatile int *note)
{
    typedef HopperPlan<D, Groups> Plan;
    const FlashArgs &a = args.flash;
    auto load = [&](uint32_t to, int rows, int column, int row, int batch, uint32_t barrier) {
        barrier_arrive_expect(barrier, rows * D * 2);
        head_load<D>(to, rows, &args.qkv, column, row, batch, barrier);
    };

    Place<Plan::stages> place;
    uint32_t parity =
        1; /* of the phase of q_empty that ends with the use of the last job's queries */
    int number = blockIdx.x;
    for (; number < args.jobs; parity ^= 1) {
        int next = gridDim.x + atomicInc(&flash_jobs_taken, args.jobs - 1);
        Job job(a, number, Plan::rows);
        int k_column = (a.heads + job.head / (a.heads / a.kv_heads)) * D;
        int v_column = k_column + a.kv_heads * D, first[2 * Groups] = {};
        if constexpr (Bounded) {
#pragma unroll
            for (int i = 0; i < 2 * Groups; i++) {
                first[i] = a.sight.first(job.batch, max(job.q0 + i / 2 * 64 + i % 2 * 63, 0));
            }
        }
        for (int tile = job.key_tiles - 1; tile >= first[0] / KEYS; tile--) {
            int stage = place.stage();
            barrier_wait(at.k_empty(stage), place.parity() ^ 1);
            load(at.k_at(stage), KEYS, k_column, tile * KEYS, job.batch, at.k_full(stage));
            if (tile == job.key_tiles - 1) {
                barrier_wait(at.q_empty(), parity);
                note[NOTE_NUMBER] = number;
                if constexpr (Bounded) {
#pragma unroll
                    for (int i = 0; i < 2 * Groups; i++) {
                        note[NOTE_FIRST + i] = first[i];
                    }
                }
                load(at.q, Plan::rows, job.head * D, job.q0, job.batch, at.q_full());
            }
            barrier_wait(at.v_empty(stage), place.parity() ^ 1);
            load(at.v_at(stage), KEYS, v_column, tile * KEYS, job.batch, at.v_full(stage));
            place.count++;
        }
        number = next;
    }
    barrier_wait(at.q_empty(), parity);
    note[NOTE_NUMBER] = number; /* the end */
    barrier_arrive(at.q_full());
}

template <int D, int Groups, bool Bounded, bool Capped>
static __device__ __forceinline__ void compute_jobs(const HopperArgs &args,
                                                    const HopperShared<D, Groups> &at,
                                                    const volatile int *note)
{
    typedef HopperPlan<D, Groups> Plan;
    const FlashArgs &a = args.flash;
    int group = threadIdx.x / WARPGROUP;
    float unit = Capped ? 1.0f : a.scale, factor = unit * LOG2_E; /* of scores as weighed */
    uint32_t q = panel_descriptor(at.q + group * 64 * PANEL_ROW, 0);
    /* Warpgroup g waits at barrier 1 + g for the one before it; all take as many turns. */
    auto take_turn = [&] { numbered_wait(1 + group, 2 * WARPGROUP); };
    auto pass_turn = [&] { numbered_arrive(1 + (group + 1) % Groups, 2 * WARPGROUP); };
    if (group == Groups - 1) {
        pass_turn();
    }

    Place<Plan::stages> place;
    /* For a tile that these queries do not see. */
    auto pass_over = [&] {
        barrier_wait(at.k_full(place.stage()), place.parity());
        warp_arrive(at.k_empty(place.stage()));
        barrier_wait(at.v_full(place.stage()), place.parity());
        warp_arrive(at.v_empty(place.stage()));
        place.count++;
        take_turn();
        pass_turn();
    };
    for (uint32_t parity = 0;; parity ^= 1) {
        barrier_wait(at.q_full(), parity);
        int number = warp_read(note + NOTE_NUMBER);
        if (number >= args.jobs) {
            return;
        }
        Job job(a, number, Plan::rows);
        int row0 = job.q0 + 64 * group, tile = job.key_tiles - 1;
        /* The last tile of the walk, and of the job; keys before `clear` are masked. */
        int low = 0, end = 0, clear = 0;
        if constexpr (Bounded) {
            end = warp_read(note + NOTE_FIRST) / KEYS;
            low = warp_read(note + NOTE_FIRST + 2 * group) / KEYS;
            clear = warp_read(note + NOTE_FIRST + 2 * group + 1);
        }
        auto bound = [&](float(&s)[KEYS / 2], int of_tile) {
            if constexpr (Capped) {
#pragma unroll
                for (int i = 0; i < KEYS / 2; i++) {
                    s[i] = a.sight.cap * tanh_fast(s[i] * a.sight.bend);
                }
            }
            if (Bounded && of_tile * KEYS < clear) {
                GroupQueries<D>::mask_before(s, a.sight, job.batch, of_tile * KEYS, row0);
            }
        };
        for (; tile >= end && tile * KEYS > row0; tile--) {
            pass_over();
        }
        if (tile < end) { /* no queries: row0 is negative */
            warp_arrive(at.q_empty());
            continue;
        }

        GroupQueries<D> queries;
        float s[KEYS / 2], shrink[2];
        barrier_wait(at.k_full(place.stage()), place.parity());
        take_turn();
        scores_begin<D, Groups>(s, q, at.k_at(place.stage()));
        pass_turn();
        products_wait<0>();
        pin(s);
        warp_arrive(at.k_empty(place.stage()));
        if (tile == low) {
            warp_arrive(at.q_empty());
        }
        bound(s, tile);
        if (tile * KEYS + KEYS - 1 > row0) {
            queries.mask(s, tile * KEYS - row0);
        }
        queries.weigh(s, factor, shrink);
        queries.round_weights(s);
        barrier_wait(at.v_full(place.stage()), place.parity());

#pragma unroll 1
        for (; tile > low; tile--) {
            int stage = place.stage(), next = place.stage(1);
            barrier_wait(at.k_full(next), place.parity(1));
            take_turn();
            scores_begin<D, Groups>(s, q, at.k_at(next));
            values_begin(queries, at.v_at(stage));
            pass_turn();
            products_wait<1>();
            pin(s);
            warp_arrive(at.k_empty(next));
            if (tile == low + 1) {
                warp_arrive(at.q_empty());
            }
            bound(s, tile - 1);
            bool rises = queries.weigh(s, factor, shrink);
            /* The wait for the next tile's values stands here, and seems to depend on the sums,
             * which are not below zero, because it ends a basic block: else the compiler would
             * move the wait for products to before the exponentials. */
            pin(s);
            barrier_wait(at.v_full(next), place.parity(1) ^ (queries.l[0] + queries.l[1] < 0));
            products_wait<0>();
            pin(queries.o);
            pin(queries.p);
            pin(s);
            warp_arrive(at.v_empty(stage));
            if (rises) {
#pragma unroll
                for (int i = 0; i < D / 2; i++) {
                    queries.o[i] *= shrink[i / 2 % 2];
                }
            }
            queries.round_weights(s);
            place.count++;
        }

        values_begin(queries, at.v_at(place.stage()));
        products_wait<0>();
        pin(queries.o);
        pin(queries.p);
        warp_arrive(at.v_empty(place.stage()));
        place.count++;
        for (; Bounded && tile > end; tile--) {
            pass_over();
        }

        int64_t out_width = (int64_t)a.heads * D;
        int64_t head = (int64_t)job.batch * a.heads + job.head;
        queries.finish(a.lse + head * a.seq + row0,
                       a.result + ((int64_t)job.batch * a.seq + row0) * out_width + job.head * D,
                       out_width, a.seq - row0, unit);
    }
}

template <int D, int Groups, bool Bounded, bool Capped>
static __global__ void __launch_bounds__(HopperPlan<D, Groups>::threads, 1)
    flash_forward_hopper(const __grid_constant__ HopperArgs args)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef HopperPlan<D, Groups> Plan;
    /* That this is static tells the host which of the two bodies it has: see has_hopper_code. */
    __shared__ __align__(8) uint64_t barriers[2 + 4 * Plan::stages];
    __shared__ int note[NOTE_FIRST + (Bounded ? 2 * Groups : 0)];
    extern __shared__ unsigned char tiles[];
    HopperShared<D, Groups> at;
    at.q = (shared_address(tiles) + PANEL_ALIGN - 1) / PANEL_ALIGN * PANEL_ALIGN;
    at.barriers = shared_address(barriers);
    if (threadIdx.x == 0) {
        barrier_init(at.q_full(), 1);
        barrier_init(at.q_empty(), 4 * Groups);
        for (int stage = 0; stage < Plan::stages; stage++) {
            barrier_init(at.k_full(stage), 1);
            barrier_init(at.k_empty(stage), 4 * Groups);
            barrier_init(at.v_full(stage), 1);
            barrier_init(at.v_empty(stage), 4 * Groups);
        }
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x / WARPGROUP == Groups) {
        registers_shrink<Plan::loader_registers>();
        if (threadIdx.x % WARPGROUP == 0) {
            map_prefetch(&args.qkv);
            load_jobs<D, Groups, Bounded>(args, at, note);
        }
    } else {
        registers_grow<Plan::registers>();
        compute_jobs<D, Groups, Bounded, Capped>(args, at, note);
    }
#else
    (void)args;
    __trap();
#endif
}

/* ---- Launches ---- */

template <int D, int Groups> static bool has_code(const CudaBackend *backend)
{
    return has_hopper_code(backend, flash_forward_hopper<D, Groups, false, false>,
                           HopperPlan<D, Groups>::shared);
}

/* Three warpgroups hide each other's exponentials better than two; but not where many of the
 * last job's would have no queries. Wider heads leave registers for two only. */
static int groups_for(int64_t seq, int64_t head_dim)
{
    int64_t units = ceil_div(seq, 64);
    return head_dim == 64 && (units % 3 == 0 || units >= 7) ? 3 : 2;
}

bool flash_hopper_covers(const CudaBackend *backend, HeadShape s, bool vectorise)
{
    if (backend->compute != 90 || !vectorise || (s.head_dim != 64 && s.head_dim != 128) ||
        s.seq > INT32_MAX / 2 || s.batch * s.heads * ceil_div(s.seq, 64) > INT32_MAX / 2 ||
        tensor_encoder() == NULL) {
        return false;
    }
    return s.head_dim == 128            ? has_code<128, 2>(backend)
           : groups_for(s.seq, 64) == 3 ? has_code<64, 3>(backend)
                                        : has_code<64, 2>(backend);
}

template <int D, int Groups> static void launch(const CudaBackend *backend, const FlashArgs &flash)
{
    typedef HopperPlan<D, Groups> Plan;
    HopperArgs args = {};
    args.flash = flash;
    args.flash.blocks = (int)ceil_div(ceil_div(flash.seq, 64) * 64, Plan::rows);
    args.jobs = flash.batch * flash.heads * args.flash.blocks;
    args.qkv = tensor_map(flash.qkv, (int64_t)(flash.heads + 2 * flash.kv_heads) * D, flash.seq,
                          flash.batch);
    int blocks = args.jobs < backend->processors ? args.jobs : backend->processors;
    flash_launch("flash_forward_hopper",
                 flash.sight.cap > 0 ? flash_forward_hopper<D, Groups, true, true>
                 : flash.bounded     ? flash_forward_hopper<D, Groups, true, false>
                                     : flash_forward_hopper<D, Groups, false, false>,
                 blocks, Plan::threads, Plan::shared, backend->stream, args);
}

void flash_hopper_forward(const CudaBackend *backend, const FlashArgs &args, int head_dim)
{
    if (head_dim == 128) {
        launch<128, 2>(backend, args);
    } else if (groups_for(args.seq, head_dim) == 3) {
        launch<64, 3>(backend, args);
    } else {
        launch<64, 2>(backend, args);
    }
}
