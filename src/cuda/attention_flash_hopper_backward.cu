/* Backward of causal attention without the (T,T) matrix, bf16, for Hopper: heads of 64 and 128. The
 * mathematics is that of attention_flash_backward.cu, but the scores are made once: a job is a
 * block of KEYS keys of one head, which walks over the queries that see them and adds to dK and dV,
 * in registers, and to dQ, in memory.
 *
 * dQ of a tile of queries is a sum over key blocks, in f32, with a fixed order: from the block on
 * the diagonal down to the first. A counter for each tile says how many blocks have added; the one
 * whose turn it is adds to what lies in memory with one copy, the first just stores, and the last
 * takes the sum back, adds its own part in registers and writes dQ, rounded. Jobs are handed out in
 * that order and each depends only on earlier ones, so there is always one that need not wait; and
 * since jobs walk up from the diagonal, one step behind the next block of keys at most, none waits
 * long when blocks start together.
 *
 * Bounded, a job walks up to the last tile with a query that sees one of its keys, and the last
 * block to add to dQ of a tile is that of the first key which a query of the tile sees: as that
 * never falls from query to query, the blocks that meet a tile are still consecutive.
 *
 * A block has two warpgroups that compute, each 64 keys of the job, a thread that loads (keys and
 * values of a job, and a ring of tiles of queries, their dout and statistics) and a thread that
 * writes dQ. While a warpgroup makes weights and gradients of scores, which keep it from the tensor
 * cores, these work off products that it has given before: the scores of the next tile are made
 * with the sums of this one.
 *
 * Barriers: `full` and `empty` for keys and values and for each stage of the ring as in
 * attention_flash_hopper.cu; for dQ's place in shared memory, `open` (the warpgroups may use it)
 * and `done` (they have). */
#include "cuda/attention_flash_hopper_backward.cuh"

/* ---- Before: statistics, counters that are zero, and what queries see ---- */

/* One group of lanes per (head, query); queries beyond the sequence get weights of zero. */
template <int D, bool Bounded>
static __global__ void __launch_bounds__(256) flash_backward_prepare(BackwardArgs args)
{
    constexpr int lanes = D / 8, queries = BackwardPlan<D>::queries;
    const FlashArgs &a = args.flash;
    int64_t thread = (int64_t)blockIdx.x * 256 + threadIdx.x, item = thread / lanes;
    int64_t tiles = (int64_t)a.batch * a.heads * args.query_tiles, tile = item / queries;
    if (thread < tiles) {
        args.turns[thread] = 0;
    }
    if (thread == 0) {
        *args.next = 0;
    }
    if (Bounded && thread < (int64_t)a.batch * a.blocks) {
        int block = (int)(thread % a.blocks);
        args.ends[thread] =
            a.sight.last((int)(thread / a.blocks), block * KEYS + KEYS - 1) / queries + 1;
    }
    if (tile >= tiles) { /* all lanes of a warp or none: a tile is whole warps */
        return;
    }
    int row = (int)(item % queries), lane = (int)(thread % lanes);
    int t = (int)(tile % args.query_tiles) * queries + row;
    int64_t head = tile / args.query_tiles, b = head / a.heads, h = head % a.heads;
    float sum = 0, lse = INFINITY;
    if (t < a.seq) {
        int64_t at = ((b * a.seq + t) * a.heads + h) * D + lane * 8;
        float x[8], y[8];
        load_lanes(a.out + at, x);
        load_lanes(a.dout + at, y);
        lse = a.lse[head * a.seq + t] * LOG2_E;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            sum = fmaf(x[i], y[i], sum);
        }
    }
#pragma unroll
    for (int step = lanes / 2; step > 0; step /= 2) {
        sum += __shfl_xor_sync(~0u, sum, step);
    }
    if (lane == 0) {
        float *to = args.statistics + tile * 2 * queries + row;
        to[0] = lse;
        to[queries] = sum;
        if (Bounded && h == 0) {
            args.firsts[b * args.query_tiles * queries + t] = a.sight.first((int)b, t);
        }
    }
}

/* ---- The kernel ---- */

template <int D, bool Bounded>
static __device__ __forceinline__ void load_jobs(const BackwardArgs &args,
                                                 const BackwardShared<D> &at, volatile int *note)
{
    typedef BackwardPlan<D> Plan;
    const FlashArgs &a = args.flash;
    Place<Plan::kv_stages> kv;
    Place<Plan::stages> place;
    for (;; kv.count++) {
        int number = (int)atomicAdd(args.next, 1u), kv_stage = kv.stage();
        volatile int *of = note + kv_stage * NOTE_WORDS;
        if (number >= args.jobs) { /* the end */
            barrier_wait(at.kv_empty(kv_stage), kv.parity() ^ 1);
            of[NOTE_NUMBER] = number;
            barrier_arrive(at.kv_full(kv_stage));
            return;
        }
        KeyJob<D, Bounded> job(args, number);
        barrier_wait(at.kv_empty(kv_stage), kv.parity() ^ 1);
        of[NOTE_NUMBER] = number;
        of[NOTE_BATCH] = job.batch;
        of[NOTE_HEAD] = job.kv_head;
        of[NOTE_BLOCK] = job.block;
        of[NOTE_END] = job.first + job.per_head;
        int k_column = (a.heads + job.kv_head) * D, v_column = k_column + a.kv_heads * D;
        barrier_arrive_expect(at.kv_full(kv_stage), 2 * Plan::kv_bytes);
        head_load<D>(at.k(kv_stage), KEYS, &args.qkv, k_column, job.block * KEYS, job.batch,
                     at.kv_full(kv_stage));
        head_load<D>(at.v(kv_stage), KEYS, &args.qkv, v_column, job.block * KEYS, job.batch,
                     at.kv_full(kv_stage));
        Walk walk;
        walk.start(job);
        for (int step = 0; step < job.steps; step++) {
            int stage = place.stage(), row = walk.tile * Plan::queries;
            int64_t tile =
                ((int64_t)job.batch * a.heads + walk.head) * args.query_tiles + walk.tile;
            barrier_wait(at.q_empty(stage), place.parity() ^ 1);
            barrier_arrive_expect(at.q_full(stage), Plan::q_bytes);
            head_load<D>(at.q(stage), Plan::queries, &args.qkv, walk.head * D, row, job.batch,
                         at.q_full(stage));
            /* The statistics' last readers are those of dout. */
            barrier_wait(at.dout_empty(stage), place.parity() ^ 1);
            barrier_arrive_expect(at.dout_full(stage), Plan::q_bytes + Plan::statistics_bytes +
                                                           (Bounded ? Plan::firsts_bytes : 0));
            if constexpr (Bounded) {
                bytes_load(at.firsts(stage), first_of(args, job, walk.tile), Plan::firsts_bytes,
                           at.dout_full(stage));
            }
            bytes_load(at.statistics(stage), args.statistics + tile * 2 * Plan::queries,
                       Plan::statistics_bytes, at.dout_full(stage));
            head_load<D>(at.dout(stage), Plan::queries, &args.dout, walk.head * D, row, job.batch,
                         at.dout_full(stage));
            place.count++;
            walk.advance(job);
        }
    }
}

/* Hands parts of dQ on to memory, each when it is its turn, and takes sums back for the last
 * part. */
template <int D, bool Bounded>
static __device__ __forceinline__ void write_sums(const BackwardArgs &args,
                                                  const BackwardShared<D> &at,
                                                  const volatile int *note)
{
    typedef BackwardPlan<D> Plan;
    uint32_t dq = at.tiles + Plan::dq, parity = 0;
    unsigned *turn = NULL; /* of the last tile, until it is passed on: `added` have added to it */
    int added = 0;
    auto pass_turn = [&] {
        if (turn != NULL) {
            stores_wait();
            counter_publish(turn, added);
            turn = NULL;
        }
    };
    Place<Plan::kv_stages> kv;
    for (;; kv.count++) {
        barrier_wait(at.kv_full(kv.stage()), kv.parity());
        const volatile int *of = note + kv.stage() * NOTE_WORDS;
        if (of[NOTE_NUMBER] >= args.jobs) {
            pass_turn();
            return;
        }
        KeyJob<D, Bounded> job(args, of, [](const volatile int *word) { return *word; });
        barrier_arrive(at.kv_empty(kv.stage()));
        Walk walk;
        walk.start(job);
        int low = Bounded ? *first_of(args, job, walk.tile) / KEYS : 0; /* block that adds last */
        for (int step = 0; step < job.steps; step++, parity ^= 1) {
            int64_t tile =
                ((int64_t)job.batch * args.flash.heads + walk.head) * args.query_tiles + walk.tile;
            float *sum = args.sums + tile * (Plan::queries * D);
            int before = job.before(walk.tile);
            bool last = job.block == low, take_back = last && before > 0;
            if (!take_back) {
                barrier_arrive(at.dq_open());
            }
            pass_turn();
            if (before > 0) {
                counter_await(args.turns + tile, before);
            }
            if (take_back) {
                barrier_arrive_expect(at.dq_open(), Plan::dq_bytes);
                bytes_load(dq, sum, Plan::dq_bytes, at.dq_open());
            }
            if constexpr (Bounded) { /* of the next step, while others compute */
                Walk next = walk;
                next.advance(job);
                low = *first_of(args, job, next.tile) / KEYS;
            }
            barrier_wait(at.dq_done(), parity);
            if (!last) {
                if (before > 0) {
                    numbers_add(sum, dq, Plan::dq_bytes);
                } else {
                    numbers_store(sum, dq, Plan::dq_bytes);
                }
                turn = args.turns + tile;
                added = before + 1;
                stores_wait_read();
            }
            walk.advance(job);
        }
        if (Plan::kv_stages == 1) { /* the next job's keys are not there soon */
            pass_turn();
        }
    }
}

/* Numbered barriers: gradients of scores of both warpgroups are there; warpgroup 0, 1 has used
 * them. */
#define GRADIENTS_THERE 1
#define GRADIENTS_USED 2

template <int D, bool Bounded, bool Capped>
static __device__ __forceinline__ void compute_jobs(const BackwardArgs &args,
                                                    const BackwardShared<D> &at,
                                                    unsigned char *tiles, const volatile int *note)
{
    typedef BackwardPlan<D> Plan;
    constexpr int queries = Plan::queries, half = queries / 32; /* of a tile's steps of 16 */
    constexpr bool seamless = Plan::kv_stages == 2;             /* from job to job */
    const FlashArgs &a = args.flash;
    int group = threadIdx.x / WARPGROUP;
    float factor = (Capped ? 1.0f : a.scale) * LOG2_E;
    int64_t width = (int64_t)(a.heads + 2 * a.kv_heads) * D;
    const float ones[2] = {1, 1}, scales[2] = {a.scale, a.scale};
    float4 *dq_place = reinterpret_cast<float4 *>(tiles + Plan::dq) + group * (32 / 4 * WARPGROUP) +
                       threadIdx.x % WARPGROUP;

    float s[queries / 2], dp[queries / 2], dk[D / 2], dv[D / 2], dq[32];
    uint32_t p[queries / 16][4], ds[queries / 16][4];
    Place<Plan::kv_stages> kv;
    Place<Plan::stages> place;
    uint32_t dq_parity = 0;
#pragma unroll
    for (int i = 0; i < D / 2; i++) {
        dk[i] = dv[i] = 0;
    }
    /* Waits for the keys of a job and gives its number. */
    auto job_at = [&](int ahead) {
        barrier_wait(at.kv_full(kv.stage(ahead)), kv.parity(ahead));
        return warp_read(note + kv.stage(ahead) * NOTE_WORDS + NOTE_NUMBER);
    };
    /* Starts what stands at the beginning of a step, for a job's first. */
    auto begin_walk = [&] {
        barrier_wait(at.q_full(place.stage()), place.parity());
        keys_by_queries<D>(s, at.k(kv.stage()), at.q(place.stage()));
        barrier_wait(at.dout_full(place.stage()), place.parity());
        keys_by_queries<D>(dp, at.v(kv.stage()), at.dout(place.stage()));
        products_wait<1>();
        pin(s);
    };

    numbered_arrive(GRADIENTS_USED + group, 2 * WARPGROUP);
    int number = job_at(0);
    if (seamless && number < args.jobs) {
        begin_walk();
    }
    while (number < args.jobs) {
        if (!seamless) {
            begin_walk();
        }
        const volatile int *of = note + kv.stage() * NOTE_WORDS;
        KeyJob<D, Bounded> job(args, of, warp_read);
        int key0 = job.block * KEYS + 64 * group;
        Walk walk;
        walk.start(job);
#pragma unroll 1
        for (int step = 0; step < job.steps; step++) {
            /* Here the scores are there, and dP is under way. */
            int stage = place.stage(), next = place.stage(1), kv_next = kv.stage();
            const float *statistics = reinterpret_cast<const float *>(
                tiles + Plan::statistics + stage * Plan::statistics_bytes);
            const int *firsts =
                reinterpret_cast<const int *>(tiles + Plan::firsts + stage * Plan::firsts_bytes);
            if constexpr (Capped) {
#pragma unroll
                for (int i = 0; i < queries / 2; i++) {
                    s[i] = a.sight.cap * tanh_fast(s[i] * a.sight.bend);
                }
            }
            if (Bounded && firsts[queries - 1] > key0) {
                mask_before(s, firsts, key0);
            }
            int ahead = walk.tile * queries - key0;
            if (ahead < 63) {
                mask_keys(s, ahead);
            }
            /* In two halves, which takes fewer registers at a time and shares the exponentials
             * out between the time of dP and that of dV. The barrier has been waited for; here
             * it ends a basic block, so that the compiler does not move the wait for dP to
             * before the exponentials. */
            weights_of<0, half, Capped>(p, s, statistics, factor, a.sight.inverse);
            barrier_wait(at.dout_full(stage), place.parity() ^ zero_of<half>(p));
            products_wait<0>();
            pin(dp);
            add_queries<D, 0, half>(dv, p, at.dout(stage), step > 0);
            weights_of<half, half, Capped>(p, s, statistics, factor, a.sight.inverse);
            gradients_of<0, half>(ds, s, dp, statistics + queries);
            add_queries<D, half, half>(dv, p, at.dout(stage), true);
            gradients_of<half, half>(ds, s, dp, statistics + queries);
            pin(ds);

            add_queries<D, 0, 2 * half>(dk, ds, at.q(stage), step > 0);
            products_wait<1>();
            pin(dv);
            pin(p);
            numbered_wait(GRADIENTS_USED + 1 - group, 2 * WARPGROUP);
            put_gradients<D>(at.tiles + Plan::ds, ds);
            writes_ready();
            numbered_wait(GRADIENTS_THERE, 2 * WARPGROUP);
            keys_to_queries<D>(dq, at.tiles + Plan::ds, at.k(kv.stage()));
            products_wait<1>();
            pin(dk);
            pin(ds);
            warp_arrive(at.q_empty(stage));

            /* After a job's last step come the next job's, if its keys can be there. Products
             * for which there is nothing are given all the same, of what lies in the stage, and
             * not used. */
            bool more = step + 1 < job.steps;
            if (seamless && !more) {
                number = job_at(1);
                kv_next = kv.stage(1);
                more = number < args.jobs;
            }
            if (more) {
                barrier_wait(at.q_full(next), place.parity(1));
            }
            keys_by_queries<D>(s, at.k(kv_next), at.q(next));
            products_wait<1>();
            pin(dq);
            numbered_arrive(GRADIENTS_USED + group, 2 * WARPGROUP);
            int low = Bounded ? firsts[0] / KEYS : 0; /* block that adds last */
            warp_arrive(at.dout_empty(stage));

            barrier_wait(at.dq_open(), dq_parity);
            dq_parity ^= 1;
            if (job.block > low) {
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    dq_place[n * WARPGROUP] =
                        make_float4(dq[4 * n], dq[4 * n + 1], dq[4 * n + 2], dq[4 * n + 3]);
                }
                writes_ready();
                warp_arrive(at.dq_done());
            } else {
                float sum[32];
                bool others = job.before(walk.tile) > 0;
#pragma unroll
                for (int n = 0; n < 8; n++) {
                    float4 of = others ? dq_place[n * WARPGROUP] : make_float4(0, 0, 0, 0);
                    sum[4 * n] = of.x + dq[4 * n];
                    sum[4 * n + 1] = of.y + dq[4 * n + 1];
                    sum[4 * n + 2] = of.z + dq[4 * n + 2];
                    sum[4 * n + 3] = of.w + dq[4 * n + 3];
                }
                warp_arrive(at.dq_done());
                int row = walk.tile * queries + (D == 64 ? 64 * group : 0);
                rows_store(sum, scales,
                           a.result + ((int64_t)warp_read(of + NOTE_BATCH) * a.seq + row) * width +
                               walk.head * D + (D == 64 ? 0 : 64 * group),
                           width, a.seq - row);
            }
            if (more) {
                barrier_wait(at.dout_full(next), place.parity(1));
            }
            keys_by_queries<D>(dp, at.v(kv_next), at.dout(next));
            products_wait<1>();
            pin(s);
            place.count++;
            walk.advance(job);
        }
        int batch = warp_read(of + NOTE_BATCH), kv_head = warp_read(of + NOTE_HEAD);
        warp_arrive(at.kv_empty(kv.stage()));
        kv.count++;
        Bf16 *to =
            a.result + ((int64_t)batch * a.seq + key0) * width + (int64_t)(a.heads + kv_head) * D;
        rows_store(dk, scales, to, width, a.seq - key0);
        rows_store(dv, ones, to + (int64_t)a.kv_heads * D, width, a.seq - key0);
        if (!seamless) {
            products_wait<0>();
            number = job_at(0);
        }
    }
    products_wait<0>();
}

template <int D, bool Bounded, bool Capped>
static __global__ void __launch_bounds__(BackwardPlan<D>::threads, 1)
    flash_backward_hopper(const __grid_constant__ BackwardArgs args)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    typedef BackwardPlan<D> Plan;
    /* That this is static tells the host which of the two bodies it has: see has_hopper_code. */
    __shared__ __align__(8) uint64_t barriers[2 + 2 * Plan::kv_stages + 4 * Plan::stages];
    __shared__ int note[Plan::kv_stages * NOTE_WORDS];
    extern __shared__ unsigned char memory[];
    BackwardShared<D> at;
    at.tiles = (shared_address(memory) + PANEL_ALIGN - 1) / PANEL_ALIGN * PANEL_ALIGN;
    at.barriers = shared_address(barriers);
    if (threadIdx.x == 0) {
        barrier_init(at.dq_open(), 1);
        barrier_init(at.dq_done(), 8);
        for (int stage = 0; stage < Plan::kv_stages; stage++) {
            barrier_init(at.kv_full(stage), 1);
            barrier_init(at.kv_empty(stage), 8 + 1);
        }
        for (int stage = 0; stage < Plan::stages; stage++) {
            barrier_init(at.q_full(stage), 1);
            barrier_init(at.q_empty(stage), 8);
            barrier_init(at.dout_full(stage), 1);
            barrier_init(at.dout_empty(stage), 8);
        }
        barriers_ready();
    }
    __syncthreads();
    if (threadIdx.x / WARPGROUP == 2) {
        registers_shrink<Plan::helper_registers>();
        if (threadIdx.x == 2 * WARPGROUP) {
            map_prefetch(&args.qkv);
            map_prefetch(&args.dout);
            load_jobs<D, Bounded>(args, at, note);
        } else if (threadIdx.x == 2 * WARPGROUP + 32) {
            write_sums<D, Bounded>(args, at, note);
        }
    } else {
        registers_grow<Plan::registers>();
        compute_jobs<D, Bounded, Capped>(args, at, memory + (at.tiles - shared_address(memory)),
                                         note);
    }
#else
    (void)args;
    __trap();
#endif
}

/* ---- Launches ---- */

#define BESIDE_BYTES (8 << 20) /* of the rows in sight of such heads */
#define BESIDE_MOST 16

template <int D> static int64_t query_tiles(int64_t batch, int64_t heads, int64_t seq)
{
    return batch * heads * ceil_div(seq, BackwardPlan<D>::queries);
}

template <int D> static bool has_code(const CudaBackend *backend, HeadShape s)
{
    return query_tiles<D>(s.batch, s.heads, s.seq) < INT32_MAX / 2 &&
           has_hopper_code(backend, flash_backward_hopper<D, false, false>,
                           BackwardPlan<D>::shared(true));
}

bool flash_hopper_backward_covers(const CudaBackend *backend, HeadShape s, bool vectorise)
{
    if (backend->compute != 90 || !vectorise || s.seq > INT32_MAX / 2 || tensor_encoder() == NULL) {
        return false;
    }
    return s.head_dim == 64    ? has_code<64>(backend, s)
           : s.head_dim == 128 ? has_code<128>(backend, s)
                               : false;
}

template <int D> static size_t bytes_for(HeadShape s)
{
    typedef BackwardPlan<D> Plan;
    size_t tile = Plan::statistics_bytes + Plan::dq_bytes + sizeof(unsigned);
    size_t bytes = (size_t)query_tiles<D>(s.batch, s.heads, s.seq) * tile + sizeof(unsigned);
    if (cuda_bounded(s)) {
        bytes += (size_t)query_tiles<D>(s.batch, 1, s.seq) * Plan::firsts_bytes +
                 (size_t)(s.batch * ceil_div(s.seq, KEYS)) * sizeof(int);
    }
    return bytes;
}

size_t flash_hopper_backward_ws(HeadShape s)
{
    return s.head_dim == 64 ? bytes_for<64>(s) : bytes_for<128>(s);
}

/* With a window all walks have the same length and end with a sum that is taken back, for which the
 * last block to add waits: the one before it began hardly earlier. So jobs of several heads come in
 * turn, which lets time pass between two of one head: of as many heads as have what they read and
 * add to in the cache. */
template <int D> static int heads_beside(const FlashArgs &a)
{
    int64_t row = D * (2 * sizeof(Bf16) + sizeof(float)) * (a.heads / a.kv_heads);
    int64_t heads = BESIDE_BYTES / (a.sight.window * row);
    return a.sight.window == a.seq || heads < 1 ? 1 : (int)min(heads, (int64_t)BESIDE_MOST);
}

template <int D, bool Bounded, bool Capped>
static void launch(const CudaBackend *backend, const FlashArgs &flash, float *ws)
{
    typedef BackwardPlan<D> Plan;
    int64_t width = (int64_t)(flash.heads + 2 * flash.kv_heads) * D;
    int64_t tiles = query_tiles<D>(flash.batch, flash.heads, flash.seq);
    BackwardArgs args = {};
    args.qkv = tensor_map(flash.qkv, width, flash.seq, flash.batch);
    args.dout = tensor_map(flash.dout, (int64_t)flash.heads * D, flash.seq, flash.batch);
    args.flash = flash;
    args.flash.blocks = (int)ceil_div(flash.seq, KEYS);
    args.query_tiles = (int)ceil_div(flash.seq, Plan::queries);
    args.jobs = flash.batch * flash.kv_heads * args.flash.blocks;
    args.statistics = ws;
    args.sums = ws + tiles * 2 * Plan::queries;
    args.firsts = (int *)(args.sums + tiles * Plan::queries * D);
    args.ends = args.firsts;
    if (Bounded) {
        args.ends += (int64_t)flash.batch * args.query_tiles * Plan::queries;
    }
    args.turns = (unsigned *)args.ends + (Bounded ? flash.batch * args.flash.blocks : 0);
    args.next = args.turns + tiles;
    args.beside = heads_beside<D>(flash);
    flash_launch("flash_backward_prepare", flash_backward_prepare<D, Bounded>,
                 tiles * Plan::queries * (D / 8) / 256, 256, 0, backend->stream, args);
    int blocks = args.jobs < backend->processors ? args.jobs : backend->processors;
    flash_launch("flash_backward_hopper", flash_backward_hopper<D, Bounded, Capped>, blocks,
                 Plan::threads, Plan::shared(Bounded), backend->stream, args);
}

void flash_hopper_backward(const CudaBackend *backend, const FlashArgs &args, int head_dim,
                           void *ws)
{
    auto by_sight = [&](auto plain, auto bounded, auto capped) {
        (args.sight.cap > 0 ? capped : args.bounded ? bounded : plain)(backend, args, (float *)ws);
    };
    if (head_dim == 64) {
        by_sight(launch<64, false, false>, launch<64, true, false>, launch<64, true, true>);
    } else {
        by_sight(launch<128, false, false>, launch<128, true, false>, launch<128, true, true>);
    }
}
