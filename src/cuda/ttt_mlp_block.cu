/* TTT_MLP forward in bf16 on tensor cores for heads of 64, and the re-scan that the backward pass
 * begins with: a pair (sequence, head) in one block, so that sums over the hidden width go through
 * its own shared memory. Four warps have a slice of the hidden width as a block of a cluster has
 * (ttt_mlp.cuh), and there are four such teams; work on whole rows is a row per warp.
 *
 * Barriers of a mini-batch: of the team for X; of the block for the parts of Z2 (B); of the block
 * for G2 (C); of the team for Xb. What a team alone reads is guarded by its own. Parts of Zb2 are
 * read behind B of the next mini-batch and written behind its C. Tokens of mini-batch s are fetched
 * behind B of s - 2, turned behind B of s - 1 and seen behind its C. X is there twice: the team has
 * no barrier between its last use and the next mini-batch's. */
#include "cuda/ttt_mlp.cuh"

#define TEAMS MLP_SLICES
#define TOKEN_RING 4

template <int D> constexpr int block_threads = TEAMS *mlp_threads<D>;

template <int D, bool Keep> struct BlockShared {
    alignas(128) unsigned char w2[TEAMS][2 * D * D]; /* states W2 of the slices, transposed */
    unsigned char w1[Keep ? TEAMS : 1][Keep ? 2 * D * D : 16]; /* and W1, transposed */
    unsigned char q[TOKEN_RING][32 * D], k[TOKEN_RING][32 * D], v[TOKEN_RING][32 * D];
    unsigned char x[2][TEAMS][32 * D], xb[TEAMS][32 * D], g2[32 * D], u2[32 * D];
    alignas(16) float z2[TEAMS][TTT_ROWS][mlp_stride<D>]; /* parts of the sum */
    float zb2[TEAMS][TTT_ROWS][mlp_stride<D>];
    float p2[TEAMS][TTT_ROWS][TTT_ROWS];
    float u2_rows[TTT_ROWS][D];
    alignas(16) float rope[TTT_ROWS * D];
    float b2[3][D], gamma[D], beta[D], lambda[2][TTT_ROWS], tau[TTT_ROWS];
};

#if MLP_CLUSTERS

/* Own columns of a (D, D) matrix, transposed, through a tile of the team's. */
template <int D>
static __device__ __forceinline__ void load_state(float (&state)[D / 8][4], unsigned char *tile,
                                                  const Bf16 *from, int stride, int team, int warp)
{
    bool wide = reinterpret_cast<uintptr_t>(from) % 16 == 0; /* and rows are multiples of 16 */
    for (int i = threadIdx.x % mlp_threads<D>; i < D * D / 8; i += mlp_threads<D>) {
        int row = i / (D / 8), chunk = i % (D / 8);
        const Bf16 *at = from + row * stride + chunk * 8;
        unsigned char *to = tile + tile_at<D>(row, chunk);
        if (wide) {
            *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(at);
        } else {
            for (int e = 0; e < 8; e++) {
                reinterpret_cast<Bf16 *>(to)[e] = at[e];
            }
        }
    }
    team_wait(team);
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        uint32_t b[4];
        load_b_columns<D>(b, shared_address(tile), 16 * k, 2 * warp);
        unpack_pair(b[0], state[2 * k]);
        unpack_pair(b[1], state[2 * k + 1]);
        unpack_pair(b[2], state[2 * k] + 2);
        unpack_pair(b[3], state[2 * k + 1] + 2);
    }
    team_wait(team);
}

/* A thread's 16-byte chunk of a mini-batch's q, k or v: threads in three parts; the next 16 have
 * the rates. */
template <int D, bool Keep> struct BlockTokens {
    static constexpr int part = mlp_threads<D>; /* chunks of a tile */
    typedef BlockShared<D, Keep> Shared;
    const Bf16 *at; /* the sequence's first row, at the thread's own columns */
    float s, bias;
    bool valid;

    __device__ __forceinline__ BlockTokens(const MlpArgs &a, int head, int sequence)
    {
        int which = threadIdx.x / part, inner = a.heads * D;
        at = a.x + (int64_t)sequence * a.seq * a.width;
        at += which < 3 ? which * inner + head * D + threadIdx.x % (D / 8) * 8 : 3 * inner + head;
        bias = to_f32(a.rate_bias[head]);
        s = 0;
        valid = false;
    }

    __device__ __forceinline__ unsigned char *chunk(Shared &s, int step) const
    {
        int which = threadIdx.x / part, i = threadIdx.x % part;
        unsigned char *tile = (which == 0 ? s.q : which == 1 ? s.k : s.v)[step % TOKEN_RING];
        return tile + tile_at<D>(i / (D / 8), i % (D / 8));
    }

    /* Commits a group in any case. */
    __device__ __forceinline__ void fetch(const MlpArgs &a, Shared &shared, int step)
    {
        int which = threadIdx.x / part, first = step * a.mini;
        int row = which < 3 ? threadIdx.x % part / (D / 8) : threadIdx.x - 3 * part;
        valid = step < a.steps && row < min(a.mini, a.seq - first);
        const Bf16 *from = at + (valid ? (int64_t)(first + row) * a.width : 0);
        if (which < 3 && step < a.steps) {
            unsigned char *to = chunk(shared, step);
            if (a.vectorise) {
                copy_async_16(shared_address(to), from, valid);
            } else {
#pragma unroll 1
                for (int e = 0; e < 8; e++) {
                    reinterpret_cast<Bf16 *>(to)[e] = valid ? from[e] : __float2bfloat16(0.0f);
                }
            }
        } else if (which == 3 && row < TTT_ROWS) {
            s = valid ? to_f32(*from) + bias : 0;
        }
        copy_commit();
    }

    /* Of the mini-batch fetched last. */
    __device__ __forceinline__ void put(const MlpArgs &a, Shared &shared, int step) const
    {
        int which = threadIdx.x / part, i = threadIdx.x % part;
        copy_wait<0>();
        if (which < 2) {
            uint4 *at_chunk = reinterpret_cast<uint4 *>(chunk(shared, step)), raw = *at_chunk;
            const float *table = shared.rope + i / (D / 8) * D + i % (D / 8) * 4;
            float4 cosine = *reinterpret_cast<const float4 *>(table);
            float4 sine = *reinterpret_cast<const float4 *>(table + D / 2);
            *at_chunk = make_uint4(
                turned_pair(raw.x, cosine.x, sine.x), turned_pair(raw.y, cosine.y, sine.y),
                turned_pair(raw.z, cosine.z, sine.z), turned_pair(raw.w, cosine.w, sine.w));
        } else if (which == 3 && i < TTT_ROWS) {
            shared.lambda[step % 2][i] = valid ? a.rate / (1 + expf(-s)) : 0;
        }
    }
};

/* Row `row` of Z2 from its parts, by a warp, columns 2 lane + e; then of G2 and U2. */
template <int D, bool Keep>
static __device__ __forceinline__ void inner_row(BlockShared<D, Keep> &s, const MlpArgs &a, int row,
                                                 int step, MlpRecord<D> *record)
{
    static_assert(D == 64, "a lane has two columns");
    int column = threadIdx.x % 32 * 2;
    float2 z = *reinterpret_cast<const float2 *>(&s.b2[step % 3][column]);
    float gamma[2] = {s.gamma[column], s.gamma[column + 1]};
    float k[2], v[2], pull[2]; /* gamma (beta - target) */
#pragma unroll
    for (int from = 0; from < TEAMS; from++) {
        float2 part = *reinterpret_cast<const float2 *>(&s.z2[from][row][column]);
        z.x += part.x;
        z.y += part.y;
    }
    get_pair<D>(k, s.k[step % TOKEN_RING], row, column);
    get_pair<D>(v, s.v[step % TOKEN_RING], row, column);
#pragma unroll
    for (int e = 0; e < 2; e++) {
        pull[e] = gamma[e] * (s.beta[column + e] - (v[e] - k[e]));
    }
    float mean = warp_sum(z.x + z.y) / D;
    if (Keep) {
        *reinterpret_cast<float2 *>(&record->z2[row][column]) = z;
    }
    z.x -= mean;
    z.y -= mean;
    float inverse = rsqrtf(warp_sum(z.x * z.x + z.y * z.y) / D + a.eps);
    float zh[2] = {z.x * inverse, z.y * inverse};
    float y[2] = {gamma[0] * gamma[0] * zh[0] + pull[0], gamma[1] * gamma[1] * zh[1] + pull[1]};
    float mean_y = warp_sum(y[0] + y[1]) / D;
    float mean_yz = warp_sum(y[0] * zh[0] + y[1] * zh[1]) / D;
    float g[2], lambda = s.lambda[step % 2][row];
#pragma unroll
    for (int e = 0; e < 2; e++) {
        g[e] = (y[e] - mean_y - zh[e] * mean_yz) * inverse;
    }
    put_pair<D>(s.g2, row, column, g[0], g[1]);
    put_pair<D>(s.u2, row, column, lambda * g[0], lambda * g[1]);
    *reinterpret_cast<float2 *>(&s.u2_rows[row][column]) =
        make_float2(lambda * g[0], lambda * g[1]);
    if (Keep && column == 0) {
        record->stats[row] = make_float4(mean, inverse, mean_y, mean_yz);
    }
}

/* The output of a row, or for Keep the gradient of its Zb2, with what the row adds to the
 * gradients of gamma and beta. at: of the output, in elements. */
template <int D, bool Keep>
static __device__ __forceinline__ void finish_row(const BlockShared<D, Keep> &s, const MlpArgs &a,
                                                  int row, int step, int64_t at,
                                                  MlpRecord<D> *record, float (&dgamma)[2],
                                                  float (&dbeta)[2])
{
    int lane = threadIdx.x % 32, column = lane * 2;
    bool inside = row < a.mini && step * a.mini + row < a.seq;
    at += (int64_t)(step * a.mini + row) * a.heads * D + column;
    float2 b2 = *reinterpret_cast<const float2 *>(&s.b2[step % 3][column]);
    float dout[2] = {}, z[2] = {b2.x, b2.y};
    if (Keep && inside) {
        dout[0] = to_f32(a.dout[at]);
        dout[1] = to_f32(a.dout[at + 1]);
    }
#pragma unroll
    for (int from = 0; from < TEAMS; from++) {
        float2 part = *reinterpret_cast<const float2 *>(&s.zb2[from][row][column]);
        z[0] += part.x;
        z[1] += part.y;
    }
    float mean = warp_sum(z[0] + z[1]) / D;
    z[0] -= mean;
    z[1] -= mean;
    float inverse = rsqrtf(warp_sum(z[0] * z[0] + z[1] * z[1]) / D + a.eps);
    if (!Keep) {
        if (inside) {
            float q[2];
            get_pair<D>(q, s.q[step % TOKEN_RING], row, column);
#pragma unroll
            for (int e = 0; e < 2; e++) {
                a.out[at + e] = from_f32<Bf16>(q[e] + s.gamma[column + e] * z[e] * inverse +
                                               s.beta[column + e]);
            }
        }
        return;
    }
    if (lane < TTT_ROWS) {
        float p = 0;
#pragma unroll
        for (int from = 0; from < TEAMS; from++) {
            p += s.p2[from][row][lane];
        }
        record->p2[row][lane] = p;
    }
#pragma unroll
    for (int e = 0; e < 2; e++) {
        z[e] *= inverse;
        dgamma[e] += dout[e] * z[e];
        dbeta[e] += dout[e];
        dout[e] *= s.gamma[column + e];
    }
    float mean_d = warp_sum(dout[0] + dout[1]) / D;
    float mean_dz = warp_sum(dout[0] * z[0] + dout[1] * z[1]) / D;
    *reinterpret_cast<float2 *>(&record->dzb2[row][column]) =
        make_float2((dout[0] - mean_d - z[0] * mean_dz) * inverse,
                    (dout[1] - mean_d - z[1] * mean_dz) * inverse);
}

/* Copies a tile of D rows out of shared memory, by a team. */
template <int D>
static __device__ __forceinline__ void copy_out(unsigned char *to, const unsigned char *tile)
{
    constexpr int chunks = 2 * D * D / 16;
#pragma unroll
    for (int i = 0; i < chunks / mlp_threads<D>; i++) {
        int chunk = threadIdx.x % mlp_threads<D> + i * mlp_threads<D>;
        reinterpret_cast<uint4 *>(to)[chunk] = reinterpret_cast<const uint4 *>(tile)[chunk];
    }
}
#endif

template <int D, bool Keep>
static __global__ void __launch_bounds__(block_threads<D>, 1) mlp_block_scan(MlpArgs a)
{
#if MLP_CLUSTERS
    extern __shared__ __align__(128) unsigned char shared[];
    BlockShared<D, Keep> &s = *reinterpret_cast<BlockShared<D, Keep> *>(shared);
    const int row = threadIdx.x / 32, team = row / (D / 16), warp = row % (D / 16);
    const int lane = threadIdx.x % 32, local = blockIdx.x;
    const int pair = a.first + local, head = pair / a.batch, sequence = pair % a.batch;
    const int64_t out = (int64_t)sequence * a.seq * a.heads * D + head * D;
    MlpRecord<D> *records = reinterpret_cast<MlpRecord<D> *>(a.records) + (int64_t)local * a.steps;

    BlockTokens<D, Keep> tokens(a, head, sequence);
    tokens.fetch(a, s, 0);
    rope_load<D, block_threads<D>>(s.rope, a.rope, min(a.mini, a.seq));
    if (threadIdx.x < D) {
        s.b2[0][threadIdx.x] = to_f32(a.b2[head * D + threadIdx.x]);
        s.gamma[threadIdx.x] = to_f32(a.gamma[head * D + threadIdx.x]);
        s.beta[threadIdx.x] = to_f32(a.beta[head * D + threadIdx.x]);
    }
    if (threadIdx.x < TTT_ROWS) {
        set_tau(s.tau, a);
    }
    float w1[D / 8][4], w2[D / 8][4], b1[2][2];
    unsigned char *w2_own = s.w2[team], *w1_own = s.w1[Keep ? team : 0];
    load_state<D>(w1, w2_own, a.w1 + (int64_t)head * D * 4 * D + team * D, 4 * D, team, warp);
    load_state<D>(w2, w2_own, a.w2 + ((int64_t)head * 4 * D + team * D) * D, D, team, warp);
    put_state<D>(w2_own, w2, warp);
    if (Keep) {
        put_state<D>(w1_own, w1, warp);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        b1[i / 2][i % 2] =
            to_f32(a.b1[head * 4 * D + team * D + 16 * warp + i / 2 * 8 + lane % 4 * 2 + i % 2]);
    }
    __syncthreads(); /* the rotary table */
    tokens.put(a, s, 0);
    tokens.fetch(a, s, 1);
    __syncthreads();

    float dgamma[2] = {}, dbeta[2] = {};
#pragma unroll 1
    for (int step = 0; step < a.steps; step++) {
        const uint32_t q_tile = tile_address(s.q[step % TOKEN_RING]);
        const uint32_t k_tile = tile_address(s.k[step % TOKEN_RING]);
        unsigned char *x_own = s.x[step % 2][team];
        const uint32_t x_tile = tile_address(x_own), xb_tile = tile_address(s.xb[team]);
        const uint32_t w2_tile = tile_address(w2_own), u2_tile = tile_address(s.u2);
        const int count = min(a.mini, a.seq - step * a.mini);
        const float last_tau = s.tau[count - 1];

        Square z1, slope, part;
        set_rows(z1, b1);
        add_product_state<D>(z1, k_tile, w1);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            Gelu gelu(MLP_AT(z1, i));
            MLP_AT(z1, i) = gelu.value;
            MLP_AT(slope, i) = gelu.slope;
        }
        put_own<D>(x_own, z1, warp);
        team_wait(team);
        set_all(part, 0);
        add_product_state<D>(part, x_tile, w2);
        put_part(s.z2[team], part, 16 * warp);
        if (Keep) {
            copy_out<D>(records[step].w1[team], w1_own);
            copy_out<D>(records[step].w2[team], w2_own);
            if (lane < 4) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    records[step].b1[team][16 * warp + i / 2 * 8 + lane * 2 + i % 2] =
                        b1[i / 2][i % 2];
                }
            }
        }
        __syncthreads(); /* B */

        inner_row<D, Keep>(s, a, row, step, &records[step]);
        tokens.put(a, s, step + 1);
        tokens.fetch(a, s, step + 2);
        if (step > 0) {
            finish_row<D, Keep>(s, a, row, step - 1, out, &records[step - 1], dgamma, dbeta);
        }
        __syncthreads(); /* C */

        set_all(part, 0);
        add_product<D>(part, tile_address(s.g2), w2_tile, warp); /* R = G2 W2^T */
        const float *lambda = s.lambda[step % 2];
        const float rates[2] = {lambda[lane / 4], lambda[lane / 4 + 8]};
        const float taus[2] = {s.tau[lane / 4], s.tau[lane / 4 + 8]};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(part, i) *= MLP_AT(slope, i) * MLP_ROW(rates, i); /* U1 */
        }
        uint32_t fragment[4], u1_transposed[4];
        round_transposed(u1_transposed, part);
        float sums[2][2];
        column_sums(sums, part);
        Square zb1;
        set_rows(zb1, b1);
        add_product_state<D>(zb1, q_tile, w1);
        set_all(part, 1); /* P1 */
        add_product_transposed<D>(part, q_tile, k_tile, 0);
        keep_lower(part);
        round_to_a(fragment, part[0], part[1]);
        set_all(part, 0);
        add_square(part, fragment, u1_transposed);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(zb1, i) =
                Gelu(MLP_AT(zb1, i) - MLP_ROW(taus, i) * MLP_AT(part, i)).value; /* Xb */
        }
        put_own<D>(s.xb[team], zb1, warp);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            b1[i / 2][i % 2] -= last_tau * sums[i / 2][i % 2];
        }
        add_outer<D>(w1, u1_transposed, k_tile, -last_tau);
        if (Keep) {
            put_state<D>(w1_own, w1, warp);
        }
        team_wait(team);

        /* The slice's part of Zb2 = Xb W2 + b2 - tau P2 U2, P2 = tril(1 + Xb X^T). */
        set_all(part, team == 0 ? 1.0f : 0.0f);
        add_product_transposed<D>(part, xb_tile, x_tile, 0);
        keep_lower(part);
        if (Keep && warp == 0) {
            put_part(s.p2[team], part, 0);
        }
        round_to_a(fragment, part[0], part[1]);
        set_all(part, 0);
        add_by_rows16<D>(part, fragment, u2_tile, warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(part, i) *= -MLP_ROW(taus, i);
        }
        add_product_state<D>(part, xb_tile, w2);
        put_part(s.zb2[team], part, 16 * warp);
        load_own_transposed<D>(fragment, u2_tile, warp);
        add_outer<D>(w2, fragment, x_tile, -last_tau);
        put_state<D>(w2_own, w2, warp);
        if (threadIdx.x < D) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < TTT_ROWS; i++) {
                sum += s.u2_rows[i][threadIdx.x];
            }
            s.b2[(step + 1) % 3][threadIdx.x] = s.b2[step % 3][threadIdx.x] - last_tau * sum;
        }
    }
    __syncthreads();
    finish_row<D, Keep>(s, a, row, a.steps - 1, out, &records[a.steps - 1], dgamma, dbeta);
    if (Keep) {
        float(*own)[2][D] = reinterpret_cast<float(*)[2][D]>(&s.z2[0][0][0]); /* read by now */
        own[row][0][2 * lane] = dgamma[0];
        own[row][0][2 * lane + 1] = dgamma[1];
        own[row][1][2 * lane] = dbeta[0];
        own[row][1][2 * lane + 1] = dbeta[1];
        __syncthreads();
        MlpPartial<D> *partial = reinterpret_cast<MlpPartial<D> *>(a.partials) + local;
        int which = threadIdx.x % (2 * D) / D, column = threadIdx.x % D;
        float sum = 0;
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            sum += own[team * (D / 16) + i][which][column];
        }
        partial->norm[team][which][column] = sum;
    }
#else
    (void)a;
#endif
}

int ttt_mlp_block_shared()
{
    return (int)sizeof(BlockShared<64, true>);
}

template <bool Keep> static void launch(const CudaBackend *backend, const MlpArgs &args, int pairs)
{
    flash_launch("mlp_block_scan", mlp_block_scan<64, Keep>, pairs, block_threads<64>,
                 (int)sizeof(BlockShared<64, Keep>), backend->stream, args);
}

void ttt_mlp_block_scan(const CudaBackend *backend, const MlpArgs &args, int pairs, bool keep)
{
    keep ? launch<true>(backend, args, pairs) : launch<false>(backend, args, pairs);
}
