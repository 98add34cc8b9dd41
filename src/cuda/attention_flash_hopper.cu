/* Causal attention forward without the (T,T) matrix, bf16, for Hopper: heads of 64 and 128, with
 * products of whole warpgroups. The mathematics is that of attention_flash_forward.cu.
 *
 * A block takes jobs until there are none: one job is 64 * Groups queries of one head. One thread,
 * the loader, copies the job's queries and then its keys and values, KEYS at a time, into a ring of
 * stages, running ahead of Groups warpgroups that compute, and into the next job while these finish
 * the last: there is room for the queries of two jobs. Each of them owns 64 queries and walks over
 * the keys from the diagonal down, so that only the first tile it sees is masked; Bounded, down to
 * the last tile that its queries see, with masks also where some of them see less than others. Of
 * the first and the last tile, half is left out where none of its queries sees it.
 *
 * A warpgroup gives the tensor cores two products at a time, the scores of a tile and the weighted
 * sum of the values of the tile before it, and makes the weights of the tile while the second runs;
 * so from job to job too, but that there it writes results while the first scores of the next job
 * are made. Warpgroups take turns in giving, so that one makes weights while another's products
 * run. They do so for the tiles that all of them see. Where a job begins and ends they see
 * different ones, and do not wait for each other: one may be in the next job while another ends
 * this.
 *
 * Barriers, per stage, for keys and values each: `full` (the loader's bytes are there) and
 * `empty` (every warp that computes has used them); the same for the queries, with which comes
 * the number of the job and, Bounded, how far its warpgroups see. The n-th use of a stage is
 * phase n of both. */
#include "cuda/attention_flash_hopper.cuh"

#include <limits.h>

typedef struct {
    CUtensorMap qkv; /* boxes of 64 columns, BOX_ROWS rows of (columns, T, B) */
    FlashArgs flash;
    int jobs, ordered; /* of these jobs, the first are ordered by head */
} HopperArgs;

/* The next job that no block has taken, less the blocks of the launch. It counts up to the
 * number of jobs and is then zero again, for the next launch; launches on one GPU are in one
 * stream, so that they do not meet. */
__device__ unsigned flash_jobs_taken;

template <int D, int Groups> struct HopperPlan {
    static constexpr int rows = 64 * Groups;
    static constexpr int panels = D / PANEL_COLUMNS;
    static constexpr int stages = D == 64 ? 4 : 2;
    static constexpr int q_stages = 2;
    static constexpr int q_bytes = rows * D * 2;
    static constexpr int kv_bytes = KEYS * D * 2;
    static constexpr int shared = q_stages * q_bytes + 2 * stages * kv_bytes + PANEL_ALIGN;
    static constexpr int threads = WARPGROUP * (Groups + 1);
    /* Together what the block starts with: 168 or 128 for every thread. */
    static constexpr int loader_registers = Groups == 2 ? 40 : 32;
    static constexpr int registers = Groups == 2 ? 232 : 160;
};

/* Shared addresses. */
template <int D, int Groups> struct HopperShared {
    typedef HopperPlan<D, Groups> Plan;
    uint32_t tiles, barriers; /* q by stage, then k and v by stage */

    __device__ __forceinline__ uint32_t q_at(int stage) const
    {
        return tiles + stage * Plan::q_bytes;
    }

    __device__ __forceinline__ uint32_t k_at(int stage) const
    {
        return tiles + Plan::q_stages * Plan::q_bytes + 2 * stage * Plan::kv_bytes;
    }

    __device__ __forceinline__ uint32_t v_at(int stage) const
    {
        return k_at(stage) + Plan::kv_bytes;
    }

    __device__ __forceinline__ uint32_t q_full(int stage) const
    {
        return barriers + stage * 16;
    }

    __device__ __forceinline__ uint32_t q_empty(int stage) const
    {
        return q_full(stage) + 8;
    }

    __device__ __forceinline__ uint32_t k_full(int stage) const
    {
        return barriers + Plan::q_stages * 16 + stage * 32;
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
 * a head longest first; of the last heads, by length alone, so that blocks end together. They are
 * counted from the end of the sequence: q0 of a head's last, shortest job may lie before its start,
 * by a multiple of 64. */
struct Job {
    int batch, head, q0;

    __device__ __forceinline__ Job(const HopperArgs &args, int job, int rows)
    {
        const FlashArgs &a = args.flash;
        int of_heads = job / a.blocks, place = job % a.blocks;
        if (job >= args.ordered) {
            int left = job - args.ordered, first = args.ordered / a.blocks;
            int heads = a.batch * a.heads - first;
            of_heads = first + left % heads;
            place = left / heads;
        }
        batch = of_heads / a.heads;
        head = of_heads % a.heads;
        q0 = (a.seq + 63) / 64 * 64 - (place + 1) * rows;
    }
};

/* Tiles of keys up to the last that queries of a job see. */
[[maybe_unused]] static __device__ __forceinline__ int key_tiles(const FlashArgs &a, int q0,
                                                                 int rows)
{
    return (min(q0 + rows, a.seq) + KEYS - 1) / KEYS;
}

/* What the loader tells the warpgroups of a job, by stage of the queries: its number, where it is,
 * then for each of them the first keys that its first and its last query see, which only bounded
 * kernels read. */
enum { NOTE_NUMBER, NOTE_BATCH, NOTE_HEAD, NOTE_ROW, NOTE_FIRST };

template <int Groups, bool Bounded> static __device__ __forceinline__ constexpr int note_words()
{
    return NOTE_FIRST + (Bounded ? 2 * Groups : 0);
}

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
    Place<Plan::q_stages> queries;
    int number = blockIdx.x;
    for (; number < args.jobs; queries.count++) {
        int next = gridDim.x + atomicInc(&flash_jobs_taken, args.jobs - 1);
        Job job(args, number, Plan::rows);
        int k_column = (a.heads + job.head / (a.heads / a.kv_heads)) * D;
        int end = 0;
        int top = key_tiles(a, job.q0, Plan::rows) - 1;
        for (int tile = top; tile >= end; tile--) {
            int stage = place.stage();
            barrier_wait(at.k_empty(stage), place.parity() ^ 1);
            load(at.k_at(stage), KEYS, k_column, tile * KEYS, job.batch, at.k_full(stage));
            if (tile == top) {
                int q_stage = queries.stage();
                barrier_wait(at.q_empty(q_stage), queries.parity() ^ 1);
                /* The copy is told of its bytes behind the note, which takes as long to make. */
                head_load<D>(at.q_at(q_stage), Plan::rows, &args.qkv, job.head * D, job.q0,
                             job.batch, at.q_full(q_stage));
                volatile int *of = note + q_stage * note_words<Groups, Bounded>();
                of[NOTE_NUMBER] = number;
                of[NOTE_BATCH] = job.batch;
                of[NOTE_HEAD] = job.head;
                of[NOTE_ROW] = job.q0;
#pragma unroll 1
                for (int group = Groups - 1; Bounded && group >= 0; group--) {
                    int row = job.q0 + 64 * group;
                    int first = a.sight.first(job.batch, max(row, 0));
                    int clear = a.sight.first(job.batch, max(row + 63, 0));
                    of[NOTE_FIRST + 2 * group] = first;
                    of[NOTE_FIRST + 2 * group + 1] = clear;
                    end = first / KEYS; /* at last the first warpgroup's */
                }
                barrier_arrive_expect(at.q_full(q_stage), Plan::q_bytes);
            }
            barrier_wait(at.v_empty(stage), place.parity() ^ 1);
            load(at.v_at(stage), KEYS, k_column + a.kv_heads * D, tile * KEYS, job.batch,
                 at.v_full(stage));
            place.count++;
        }
        number = next;
    }
    int q_stage = queries.stage();
    barrier_wait(at.q_empty(q_stage), queries.parity() ^ 1);
    note[q_stage * note_words<Groups, Bounded>() + NOTE_NUMBER] = number; /* the end */
    barrier_arrive(at.q_full(q_stage));
}

template <int D, int Groups, bool Bounded, bool Capped>
static __device__ __forceinline__ void compute_jobs(const HopperArgs &args,
                                                    const HopperShared<D, Groups> &at,
                                                    const volatile int *note)
{
    typedef HopperPlan<D, Groups> Plan;
    const FlashArgs &a = args.flash;
    int group = __shfl_sync(~0u, threadIdx.x / WARPGROUP, 0);
    float unit = Capped ? 1.0f : a.scale, factor = unit * LOG2_E; /* of scores as weighed */
    /* Warpgroup g waits at barrier 1 + g for the one before it; all take as many turns. */
    auto take_turn = [&](bool mine) {
        if (mine) {
            numbered_wait(1 + group, 2 * WARPGROUP);
        }
    };
    auto pass_turn = [&](bool mine) {
        if (mine) {
            numbered_arrive(1 + (group + 1) % Groups, 2 * WARPGROUP);
        }
    };
    pass_turn(group == Groups - 1);

    Place<Plan::stages> place, last; /* last: of the tile whose values are held */
    Place<Plan::q_stages> job_place;
    GroupQueries<D> queries;
    float s[KEYS / 2], shrink[2];
    auto noted = [&](int word) {
        return warp_read(note + job_place.stage() * note_words<Groups, Bounded>() + word);
    };
    auto q_of = [&](int stage) {
        return panel_descriptor(at.q_at(stage) + group * 64 * PANEL_ROW, 0);
    };
    /* Held: the products of a job's last tile may be under way while the next job is looked for,
     * but only as long as the loader has room for the tiles that are waited for. */
    bool held = false;
    auto hold_at_most = [&](uint32_t tiles) {
        if (held && place.count - last.count > tiles) {
            products_wait<0>();
            warp_arrive(at.v_empty(last.stage()));
            held = false;
        }
    };
    /* For a tile that these queries do not see. */
    auto pass_over = [&] {
        hold_at_most(Plan::stages - 1);
        barrier_wait(at.k_full(place.stage()), place.parity());
        warp_arrive(at.k_empty(place.stage()));
        barrier_wait(at.v_full(place.stage()), place.parity());
        warp_arrive(at.v_empty(place.stage()));
        place.count++;
    };

    /* Of the job: the tile that this warpgroup is at, the last of its walk, and the last of those
     * that all warpgroups see: none if the first has no queries. */
    int tile = 0, low = 0, common = 0;
    bool lower = false; /* the lower half of the first tile ends with this warpgroup's queries */
    /* Goes to the first tile of the next job that has queries for this warpgroup, and starts its
     * scores. False: there is none, and these scores are not used. */
    auto begin_job = [&] {
        bool more;
        uint32_t q = q_of(0);
        int row0 = 0, q0 = 0;
        for (;; job_place.count++) {
            int q_stage = job_place.stage();
            hold_at_most(Plan::stages);
            barrier_wait(at.q_full(q_stage), job_place.parity());
            more = noted(NOTE_NUMBER) < args.jobs;
            if (!more) {
                break;
            }
            q0 = noted(NOTE_ROW);
            row0 = q0 + 64 * group;
            q = q_of(q_stage);
            for (tile = key_tiles(a, q0, Plan::rows) - 1; tile >= 0 && tile * KEYS > row0; tile--) {
                pass_over();
            }
            if (tile >= 0) {
                break;
            }
            warp_arrive(at.q_empty(q_stage)); /* no queries: row0 is negative */
        }
        lower = tile * KEYS == row0;
        common = q0 < 0 ? INT_MAX : 0;
        if (more) {
            if constexpr (Bounded) {
                low = noted(NOTE_FIRST + 2 * group) / KEYS;
                common = max(noted(NOTE_FIRST + 2 * (Groups - 1)) / KEYS, common);
            }
            hold_at_most(Plan::stages);
            barrier_wait(at.k_full(place.stage()), place.parity());
        }
        /* The first warpgroup begins at this tile or the next. */
        bool by_turns = more && tile >= common && tile * KEYS <= q0;
        take_turn(by_turns);
        scores_begin<D, Groups, WHOLE>(s, q, at.k_at(place.stage()));
        pass_turn(by_turns);
        return more;
    };
    auto cap = [&](auto part) {
#pragma unroll
        for (int i = part_first(part); Capped && i < part_end(part); i++) {
            s[i] = a.sight.cap * tanh_fast(s[i] * a.sight.bend);
        }
    };
    /* Masks keys before the first that their query sees, if there are any. */
    auto mask_before = [&](auto part, int of_tile) {
        int clear = noted(NOTE_FIRST + 2 * group + 1);
        if (of_tile * KEYS < clear) {
            GroupQueries<D>::template mask_before<part>(
                s, a.sight, noted(NOTE_BATCH), of_tile * KEYS, noted(NOTE_ROW) + 64 * group, clear);
        }
    };
    auto weigh_first = [&](auto part) {
        cap(part);
        if constexpr (Bounded) {
            mask_before(part, tile);
        }
        queries.template mask_diagonal<part == WHOLE ? UPPER : LOWER>(s);
        queries.template weigh<part>(s, factor, shrink);
        queries.template round_weights<part>(s);
    };
    /* From one tile to the next, of which the part is seen. */
    auto go_on = [&](auto masked, auto part) {
        int stage = place.stage(), next = place.stage(1);
        barrier_wait(at.k_full(next), place.parity(1));
        take_turn(tile > common);
        scores_begin<D, Groups, part>(s, q_of(job_place.stage()), at.k_at(next));
        values_begin<D, WHOLE>(queries, at.v_at(stage));
        pass_turn(tile > common);
        products_wait<1>();
        pin_part<part>(s);
        warp_arrive(at.k_empty(next));
        cap(part);
        if constexpr (masked) {
            mask_before(part, tile - 1);
        }
        bool rises = queries.template weigh<part>(s, factor, shrink);
        /* The wait for the next tile's values stands here, and seems to depend on the sums,
         * which are not below zero, because it ends a basic block: else the compiler would
         * move the wait for products to before the exponentials. */
        pin_part<part>(s);
        barrier_wait(at.v_full(next), place.parity(1) ^ (queries.l[0] + queries.l[1] < 0));
        products_wait<0>();
        pin(queries.o);
        pin(queries.p);
        pin_part<part>(s);
        warp_arrive(at.v_empty(stage));
        if (rises) {
#pragma unroll
            for (int i = 0; i < D / 2; i++) {
                queries.o[i] *= shrink[i / 2 % 2];
            }
        }
        queries.template round_weights<part>(s);
        place.count++;
        tile--;
    };
    typedef std::integral_constant<Part, WHOLE> Whole;
    typedef std::integral_constant<Part, LOWER> Lower;
    typedef std::integral_constant<Part, UPPER> Upper;

    bool more = begin_job();
    while (more) {
        products_wait<0>();
        pin(s);
        warp_arrive(at.k_empty(place.stage()));
        if (lower) {
            weigh_first(Lower());
        } else {
            weigh_first(Whole());
        }
        barrier_wait(at.v_full(place.stage()), place.parity());
        bool upper = false; /* of the last tile, the upper half alone is seen */
        if constexpr (Bounded) {
            int unmasked = max((noted(NOTE_FIRST + 2 * group + 1) + KEYS - 1) / KEYS, low);
#pragma unroll 1
            while (tile > unmasked) {
                go_on(std::false_type(), Whole());
            }
            upper = tile > low && noted(NOTE_FIRST + 2 * group) % KEYS >= KEYS / 2;
#pragma unroll 1
            while (tile > low + upper) {
                go_on(std::true_type(), Whole());
            }
            if (upper) {
                go_on(std::true_type(), Upper());
            }
        } else {
#pragma unroll 1
            while (tile > low) {
                go_on(std::false_type(), Whole());
            }
        }

        /* The last products of this job, and behind them the first of the next; the results are
         * written while those run. */
        if (upper) {
            values_begin<D, UPPER>(queries, at.v_at(place.stage()));
        } else {
            values_begin<D, WHOLE>(queries, at.v_at(place.stage()));
        }
        last = place;
        held = true;
        int batch = noted(NOTE_BATCH), head = noted(NOTE_HEAD), row = noted(NOTE_ROW) + 64 * group;
        int end = Bounded ? noted(NOTE_FIRST) / KEYS : 0; /* the last tile of the job */
        warp_arrive(at.q_empty(job_place.stage()));
        job_place.count++;
        place.count++;
        for (; Bounded && tile > end; tile--) {
            pass_over();
        }
        more = begin_job();
        products_wait<1>();
        pin(queries.o);
        pin(queries.p);
        if (held) {
            warp_arrive(at.v_empty(last.stage()));
            held = false;
        }
        int64_t out_width = (int64_t)a.heads * D;
        queries.finish(a.lse + ((int64_t)batch * a.heads + head) * a.seq + row,
                       a.result + ((int64_t)batch * a.seq + row) * out_width + head * D, out_width,
                       a.seq - row, unit);
        queries.clear();
    }
    products_wait<0>();
}

template <int D, int Groups, bool Bounded, bool Capped>
static __global__ void __launch_bounds__(HopperPlan<D, Groups>::threads, 1)
    flash_forward_hopper(const __grid_constant__ HopperArgs args)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef HopperPlan<D, Groups> Plan;
    /* That this is static tells the host which of the two bodies it has: see has_hopper_code. */
    __shared__ __align__(8) uint64_t barriers[2 * Plan::q_stages + 4 * Plan::stages];
    __shared__ int note[Plan::q_stages * note_words<Groups, Bounded>()];
    extern __shared__ unsigned char memory[];
    HopperShared<D, Groups> at;
    at.tiles = (shared_address(memory) + PANEL_ALIGN - 1) / PANEL_ALIGN * PANEL_ALIGN;
    at.barriers = shared_address(barriers);
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < Plan::q_stages; stage++) {
            barrier_init(at.q_full(stage), 1);
            barrier_init(at.q_empty(stage), 4 * Groups);
        }
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

#define LAST_HEADS 16 /* at most: their keys and values are in the cache together */

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
    args.ordered = max(flash.batch * flash.heads - LAST_HEADS, 0) * args.flash.blocks;
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
