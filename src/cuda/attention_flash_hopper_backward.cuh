#pragma once
/* What attention_flash_hopper_backward.cu is made of: its jobs, its places in shared memory, and
 * what a warpgroup does with its 64 keys. Scores and their gradients lie with keys as rows and
 * queries as columns, so that, rounded, they are operands of the sums over queries as they lie
 * in registers. */
#include "cuda/attention_flash_ring.cuh"

typedef struct {
    CUtensorMap qkv, dout;
    FlashArgs flash;
    float *statistics;      /* (B, H, query tiles, 2, queries of a tile): lse * log2(e), delta */
    float *sums;            /* (B, H, query tiles, queries * D): parts of dQ */
    unsigned *turns, *next; /* (B, H, query tiles): key blocks that have added; next job */
    /* Of bounded kernels: (B, query tiles, queries of a tile) the first key that a query sees;
     * (B, key blocks) the tile behind the last that sees a key of the block. */
    int *firsts, *ends;
    int jobs, query_tiles;
    int beside; /* key/value heads whose jobs come in turn */
} BackwardArgs;

/* Tiles and where they lie in shared memory, in bytes from its first multiple of PANEL_ALIGN. */
template <int D> struct BackwardPlan {
    static constexpr int queries = D == 64 ? 128 : 64; /* of a tile */
    static constexpr int stages = 2;                   /* of queries, with dout and statistics */
    static constexpr int kv_stages = D == 64 ? 2 : 1;
    static constexpr int kv_bytes = KEYS * D * 2;
    static constexpr int q_bytes = queries * D * 2;
    static constexpr int statistics_bytes = 2 * queries * (int)sizeof(float);
    static constexpr int ds_bytes = queries * KEYS * 2;
    static constexpr int firsts_bytes = queries * (int)sizeof(int);
    static constexpr int dq_bytes = queries * D * (int)sizeof(float);
    static constexpr int threads = 3 * WARPGROUP;
    static constexpr int helper_registers = 40;
    static constexpr int registers = 232; /* 168 for every thread at first */

    static constexpr int k = 0, v = kv_bytes;              /* by stage */
    static constexpr int q = k + 2 * kv_stages * kv_bytes; /* by stage, then dout */
    static constexpr int ds = q + 2 * stages * q_bytes;    /* (queries, KEYS), in panels */
    static constexpr int dq = ds + ds_bytes;               /* as it lies in registers */
    static constexpr int statistics = dq + dq_bytes;       /* by stage */
    static constexpr int firsts = statistics + stages * statistics_bytes; /* by stage; bounded */

    static constexpr int shared(bool bounded)
    {
        return firsts + (bounded ? stages * firsts_bytes : 0) + PANEL_ALIGN;
    }
};

/* What the loader tells of a job, by stage of its keys: its number, whose keys they are, and the
 * tile behind the last of its walk. */
enum { NOTE_NUMBER, NOTE_BATCH, NOTE_HEAD, NOTE_BLOCK, NOTE_END, NOTE_WORDS };

/* A block of keys: step i of its walk is tile first + i % per_head of the (i / per_head)-th
 * query head that shares the keys. Blocks of one head come in order, that with the last keys
 * first; Bounded, with the blocks of args.beside heads in turn. */
template <int D, bool Bounded> struct KeyJob {
    static constexpr int ratio = KEYS / BackwardPlan<D>::queries; /* query tiles to a key block */
    int batch, kv_head, block, head0, first, per_head, steps;

    __device__ __forceinline__ KeyJob(const BackwardArgs &args, int job)
    {
        const FlashArgs &a = args.flash;
        int of_heads = job / a.blocks, left = job % a.blocks;
        if constexpr (Bounded) {
            int from = of_heads / args.beside * args.beside;
            int beside = min(args.beside, a.batch * a.kv_heads - from);
            left = job - from * a.blocks;
            of_heads = from + left % beside;
            left /= beside;
        }
        batch = of_heads / a.kv_heads;
        kv_head = of_heads % a.kv_heads;
        block = a.blocks - 1 - left;
        walk_to(a, Bounded ? args.ends[batch * a.blocks + block] : args.query_tiles);
    }

    /* As the loader noted it: its readers need not divide, nor wait for memory. read: of a thread
     * by itself, or of a warp. */
    template <typename Read>
    __device__ __forceinline__ KeyJob(const BackwardArgs &args, const volatile int *note, Read read)
    {
        batch = read(note + NOTE_BATCH);
        kv_head = read(note + NOTE_HEAD);
        block = read(note + NOTE_BLOCK);
        walk_to(args.flash, read(note + NOTE_END));
    }

    __device__ __forceinline__ void walk_to(const FlashArgs &a, int end)
    {
        head0 = kv_head * (a.heads / a.kv_heads);
        first = block * ratio;
        per_head = end - first;
        steps = per_head * (a.heads / a.kv_heads);
    }

    /* Key blocks that add to dQ of a tile before this one: all from that on the diagonal down. */
    __device__ __forceinline__ int before(int tile) const
    {
        return tile / ratio - block;
    }
};

/* The first keys that the queries of a tile see, in memory. */
template <int D, bool Bounded>
static __device__ __forceinline__ const int *first_of(const BackwardArgs &args,
                                                      const KeyJob<D, Bounded> &job, int tile)
{
    return args.firsts + ((int64_t)job.batch * args.query_tiles + tile) * BackwardPlan<D>::queries;
}

/* The walk of a job, step by step. */
struct Walk {
    int head, tile;

    template <typename Job> __device__ __forceinline__ void start(const Job &job)
    {
        head = job.head0;
        tile = job.first;
    }

    template <typename Job> __device__ __forceinline__ void advance(const Job &job)
    {
        tile++;
        if (tile == job.first + job.per_head) {
            tile = job.first;
            head++;
        }
    }
};

/* Shared addresses. */
template <int D> struct BackwardShared {
    typedef BackwardPlan<D> Plan;
    uint32_t tiles, barriers;

    __device__ __forceinline__ uint32_t k(int stage) const
    {
        return tiles + Plan::k + 2 * stage * Plan::kv_bytes;
    }

    __device__ __forceinline__ uint32_t v(int stage) const
    {
        return tiles + Plan::v + 2 * stage * Plan::kv_bytes;
    }

    __device__ __forceinline__ uint32_t q(int stage) const
    {
        return tiles + Plan::q + 2 * stage * Plan::q_bytes;
    }

    __device__ __forceinline__ uint32_t dout(int stage) const
    {
        return q(stage) + Plan::q_bytes;
    }

    __device__ __forceinline__ uint32_t statistics(int stage) const
    {
        return tiles + Plan::statistics + stage * Plan::statistics_bytes;
    }

    __device__ __forceinline__ uint32_t firsts(int stage) const
    {
        return tiles + Plan::firsts + stage * Plan::firsts_bytes;
    }

    __device__ __forceinline__ uint32_t dq_open() const
    {
        return barriers;
    }

    __device__ __forceinline__ uint32_t dq_done() const
    {
        return barriers + 8;
    }

    __device__ __forceinline__ uint32_t kv_full(int stage) const
    {
        return barriers + 16 + 16 * stage;
    }

    __device__ __forceinline__ uint32_t kv_empty(int stage) const
    {
        return kv_full(stage) + 8;
    }

    __device__ __forceinline__ uint32_t q_full(int stage) const
    {
        return barriers + 16 + 16 * Plan::kv_stages + 32 * stage;
    }

    __device__ __forceinline__ uint32_t q_empty(int stage) const
    {
        return q_full(stage) + 8;
    }

    __device__ __forceinline__ uint32_t dout_full(int stage) const
    {
        return q_full(stage) + 16;
    }

    __device__ __forceinline__ uint32_t dout_empty(int stage) const
    {
        return q_full(stage) + 24;
    }
};

/* ---- What a warpgroup does with its keys ---- */

/* Scores of keys that their query does not see become -infinity. ahead: first query less the
 * first key. */
template <int Count> static __device__ __forceinline__ void mask_keys(float (&s)[Count], int ahead)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
    int excess = ahead + lane % 4 * 2 - warp * 16 - lane / 4; /* query less key of s[0] */
#pragma unroll
    for (int i = 0; i < Count; i++) {
        if (excess + i / 4 * 8 + i % 2 - i / 2 % 2 * 8 < 0) {
            s[i] = -INFINITY;
        }
    }
}

/* The same of keys before the first that their query sees: firsts of all queries, key: the
 * warpgroup's first. */
template <int Count>
static __device__ __forceinline__ void mask_before(float (&s)[Count], const int *firsts, int key)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
    key += warp * 16 + lane / 4; /* of s[0] */
#pragma unroll
    for (int n = 0; n < Count / 4; n++) {
        int2 first = *reinterpret_cast<const int2 *>(firsts + 8 * n + lane % 4 * 2);
#pragma unroll
        for (int i = 4 * n; i < 4 * n + 4; i++) {
            if (key + i / 2 % 2 * 8 < (i % 2 == 0 ? first.x : first.y)) {
                s[i] = -INFINITY;
            }
        }
    }
}

/* Of 16 queries at [First, First + Steps): s becomes exp2(s * factor - lse of the query), and p
 * that rounded, as A fragments. Capped: s is then times what a score gains from its growth before
 * the cap, 1 - (s inverse)^2; masked ones, at -infinity, have none. */
template <int First, int Steps, bool Capped, int Count>
static __device__ __forceinline__ void weights_of(uint32_t (&p)[Count / 8][4], float (&s)[Count],
                                                  const float *lse, float factor, float inverse)
{
#pragma unroll
    for (int n = 2 * First; n < 2 * (First + Steps); n++) {
        float2 of = *reinterpret_cast<const float2 *>(lse + 8 * n + threadIdx.x % 4 * 2);
        float slope[4];
#pragma unroll
        for (int i = 4 * n; i < 4 * n + 4; i++) {
            float share = s[i] * inverse;
            slope[i % 4] = fmaxf(fmaf(-share, share, 1.0f), 0.0f);
            s[i] = exp2_fast(fmaf(s[i], factor, i % 2 == 0 ? -of.x : -of.y));
        }
        p[n / 2][n % 2 * 2] = pack_pair(s[4 * n], s[4 * n + 1]);
        p[n / 2][n % 2 * 2 + 1] = pack_pair(s[4 * n + 2], s[4 * n + 3]);
#pragma unroll
        for (int i = 4 * n; Capped && i < 4 * n + 4; i++) {
            s[i] *= slope[i % 4];
        }
    }
}

/* Zero, as a value that the compiler takes to depend on fragments: weights are not below zero. */
template <int Steps, int Count>
static __device__ __forceinline__ uint32_t zero_of(const uint32_t (&p)[Count][4])
{
    uint32_t any = 0;
#pragma unroll
    for (int i = 0; i < 4 * Steps; i++) {
        any |= p[i / 4][i % 4];
    }
    return any >> 31;
}

/* The gradients of scores, weight (dp - delta of the query), rounded: of 16 queries at
 * [First, First + Steps), as A fragments. */
template <int First, int Steps, int Count>
static __device__ __forceinline__ void gradients_of(uint32_t (&ds)[Count / 8][4],
                                                    const float (&weight)[Count],
                                                    const float (&dp)[Count], const float *delta)
{
#pragma unroll
    for (int n = 2 * First; n < 2 * (First + Steps); n++) {
        float2 of = *reinterpret_cast<const float2 *>(delta + 8 * n + threadIdx.x % 4 * 2);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int at = 4 * n + 2 * half;
            ds[n / 2][n % 2 * 2 + half] =
                pack_pair(weight[at] * (dp[at] - of.x), weight[at + 1] * (dp[at + 1] - of.y));
        }
    }
}

/* Starts c (64 keys, queries) = x y^T for the warpgroup's 64 rows of the tile x of KEYS rows and
 * all rows of y. */
template <int D>
static __device__ __forceinline__ void keys_by_queries(float (&c)[BackwardPlan<D>::queries / 2],
                                                       uint32_t x_at, uint32_t y_at)
{
    uint32_t x = panel_descriptor(x_at + threadIdx.x / WARPGROUP * 64 * PANEL_ROW, 0);
    uint32_t y = panel_descriptor(y_at, 0);
    products_begin();
    product_rows<false>(c, x, y);
#pragma unroll
    for (int d = 1; d < D / 16; d++) {
        product_rows<true>(c, x + columns_step(d, KEYS),
                           y + columns_step(d, BackwardPlan<D>::queries));
    }
    products_commit();
}

/* Starts sum (64 keys, D) = or, with `add`, += a y, y a tile of queries, of which 16 at [First,
 * First + Steps) are summed over. */
template <int D, int First, int Steps>
static __device__ __forceinline__ void add_queries(
    float (&sum)[D / 2], const uint32_t (&a)[BackwardPlan<D>::queries / 16][4], uint32_t y_at,
    bool add)
{
    uint32_t y = panel_descriptor(y_at, BackwardPlan<D>::queries * PANEL_ROW);
    products_begin();
#pragma unroll
    for (int j = First; j < First + Steps; j++) {
        product_columns(sum, a[j], y + rows_step(j), j > First || add);
    }
    products_commit();
}

/* Starts c = the warpgroup's 64 x 64 part of ds k: with 128 queries in a tile half of these,
 * else half of the columns. */
template <int D>
static __device__ __forceinline__ void keys_to_queries(float (&c)[32], uint32_t ds_at,
                                                       uint32_t k_at)
{
    constexpr int queries = BackwardPlan<D>::queries;
    int group = threadIdx.x / WARPGROUP;
    uint32_t ds = panel_descriptor(ds_at + (D == 64 ? group * 64 * PANEL_ROW : 0), 0);
    uint32_t k = panel_descriptor(k_at + (D == 64 ? 0 : group * KEYS * PANEL_ROW), 0);
    products_begin();
    product_across<false>(c, ds, k);
#pragma unroll
    for (int j = 1; j < KEYS / 16; j++) {
        product_across<true>(c, ds + columns_step(j, queries), k + rows_step(j));
    }
    products_commit();
}

/* Writes the fragments of the warpgroup's 64 keys, transposed, to its panel of ds. */
template <int D>
static __device__ __forceinline__ void put_gradients(
    uint32_t ds_at, const uint32_t (&a)[BackwardPlan<D>::queries / 16][4])
{
    int lane = threadIdx.x % 32, warp = threadIdx.x % WARPGROUP / 32;
    int query = lane / 16 * 8 + lane % 8, chunk = 2 * warp + lane / 8 % 2; /* of eight keys */
    uint32_t at = ds_at + threadIdx.x / WARPGROUP * BackwardPlan<D>::queries * PANEL_ROW +
                  query * PANEL_ROW + ((chunk ^ query % 8) << 4);
#pragma unroll
    for (int j = 0; j < BackwardPlan<D>::queries / 16; j++) {
        store_transposed(at + j * 16 * PANEL_ROW, a[j]);
    }
}
