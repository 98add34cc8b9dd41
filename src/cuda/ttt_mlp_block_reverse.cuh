#pragma once
/* The reverse scan of TTT_MLP in one block (ttt_mlp_block_reverse.cu): shared memory, the gradients
 * of the states, and the work on whole rows. */
#include "cuda/ttt_mlp_reverse.cuh"

#define TEAMS MLP_SLICES

template <int D> constexpr int block_threads = TEAMS *mlp_threads<D>;

template <int D> struct BlockReverseShared {
    alignas(128) unsigned char w1[TEAMS][2 * D * D], w2[TEAMS][2 * D * D]; /* as in MlpRecord */
    unsigned char dw1[TEAMS][2 * D * D], dw2[TEAMS][2 * D * D];
    unsigned char q[32 * D], k[32 * D], g2[32 * D], u2[32 * D], dz2[32 * D], dzb2[32 * D];
    unsigned char x[TEAMS][32 * D], xb[TEAMS][32 * D], u1[TEAMS][32 * D];
    unsigned char dzb1[TEAMS][32 * D], dr[TEAMS][32 * D];
    alignas(128) float dq[TEAMS][TTT_ROWS][mlp_stride<D>]; /* parts of the sums; until A, Held */
    float dg2_dk[TEAMS][TTT_ROWS][mlp_stride<D>];          /* dG2's, from C on dK's */
    alignas(128) float p2[TTT_ROWS][TTT_ROWS], b1[TEAMS][D];
    float sums[TTT_ROWS][D]; /* dZb2 + dZ2 */
    float gamma[D], beta[D], db2[D];
    float dlambda[TEAMS * D / 16][TTT_ROWS];
    float lambda[2][TTT_ROWS], gate[2][TTT_ROWS], tau[TTT_ROWS];
    uint64_t states_here[TEAMS];
};

#if MLP_CLUSTERS

/* Numbers of 16 own columns by D, transposed, of 16 bits of precision: rounded to bf16 (a half
 * away from 0) in a tile, and in registers what is missing, as a byte below the last bit there;
 * four of a C fragment to a register. */
template <int D> struct SplitState {
    uint32_t low[D / 8];
    unsigned char *tile;
    int row;

    __device__ __forceinline__ SplitState(unsigned char *of_team, int warp)
        : low(), tile(of_team), row(16 * warp + threadIdx.x % 32 / 4)
    {
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            *word(n, 0) = *word(n, 1) = 0;
        }
    }

    __device__ __forceinline__ uint32_t *word(int n, int half) const
    {
        return reinterpret_cast<uint32_t *>(tile + tile_at<D>(row + 8 * half, n) +
                                            threadIdx.x % 4 * 4);
    }

    __device__ __forceinline__ void get(float (&c)[4], int n) const
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t pair = *word(n, i / 2), high = i % 2 ? pair & 0xFFFF0000 : pair << 16;
            int rest = (int)(low[n] << (24 - 8 * i)) >> 16 & ~0xFF; /* signed, in bits 8 to 15 */
            c[i] = __uint_as_float(high + (uint32_t)rest);
        }
    }

    __device__ __forceinline__ void put(const float (&c)[4], int n)
    {
        uint32_t bits[4];
        low[n] = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            bits[i] = min((int)__float_as_uint(c[i]), 0x7FC00000) + 0x80; /* NaN stays */
            low[n] |= (bits[i] >> 8 & 0xFF) << 8 * i;
            bits[i] += 0x8000;
        }
        *word(n, 0) = __byte_perm(bits[0], bits[1], 0x7632);
        *word(n, 1) = __byte_perm(bits[2], bits[3], 0x7632);
    }

    /* Adds sum over i of a[i] B[i], a 16 own columns by 16 rows, B tiles of 16 rows. */
    template <int Count>
    __device__ __forceinline__ void add(const uint32_t (&a)[Count][4],
                                        const uint32_t (&tiles)[Count])
    {
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            Square c;
            get(c[0], 2 * n);
            get(c[1], 2 * n + 1);
#pragma unroll
            for (int i = 0; i < Count; i++) {
                add_by_rows16<D>(c, a[i], tiles[i], n);
            }
            put(c[0], 2 * n);
            put(c[1], 2 * n + 1);
        }
    }
};

/* Eight numbers of every thread, out of registers; none is read by another. */
struct Held {
    float *of_thread;

    __device__ __forceinline__ float &at(int i) const
    {
        return of_thread[i * block_threads<64>];
    }
};

/* Starts to bring a team's part of the state, and P2 with the first's; by one thread. */
template <int D>
static __device__ __forceinline__ void copy_state(BlockReverseShared<D> &s,
                                                  const MlpRecord<D> &record, int team)
{
    const uint32_t here = shared_address(&s.states_here[team]);
    constexpr uint32_t bytes = 4 * D * D + sizeof s.b1[0];
    barrier_arrive_expect(here, bytes + (team == 0 ? (uint32_t)sizeof s.p2 : 0));
    bytes_load(shared_address(s.w1[team]), record.w1[team], 2 * D * D, here);
    bytes_load(shared_address(s.w2[team]), record.w2[team], 2 * D * D, here);
    bytes_load(shared_address(s.b1[team]), record.b1[team], sizeof s.b1[0], here);
    if (team == 0) {
        bytes_load(shared_address(s.p2), record.p2, sizeof s.p2, here);
    }
}

static __device__ __forceinline__ uint32_t load_pair(const Bf16 *from, bool wide)
{
    const unsigned short *bits = reinterpret_cast<const unsigned short *>(from);
    return wide ? *reinterpret_cast<const uint32_t *>(from) : bits[0] | (uint32_t)bits[1] << 16;
}

static __device__ __forceinline__ void store_pair(Bf16 *to, float a, float b, bool wide)
{
    if (wide) {
        *reinterpret_cast<uint32_t *>(to) = pack_pair(a, b);
    } else {
        to[0] = from_f32<Bf16>(a);
        to[1] = from_f32<Bf16>(b);
    }
}

/* A thread's pair of columns of its row. */
template <int D> struct ReverseRow {
    int row, column, head;
    int64_t first; /* the sequence's first token */
    float cosine, sine, bias;
    uint32_t q, k, v; /* zero beyond the mini-batch */
    float s;
    bool valid;
    float2 z2, dzb2;
    float4 stats;

    /* What the inner gradient takes. */
    __device__ __forceinline__ void load_inner(const MlpArgs &a, const MlpRecord<D> &record,
                                               int step)
    {
        int64_t token = step * a.mini + row;
        valid = row < a.mini && token < a.seq;
        v = valid ? load_pair(a.x + (first + token) * a.width + (2 * a.heads + head) * D + column,
                              a.vectorise)
                  : 0;
        z2 = *reinterpret_cast<const float2 *>(&record.z2[row][column]);
        dzb2 = *reinterpret_cast<const float2 *>(&record.dzb2[row][column]);
        stats = record.stats[row];
    }

    __device__ __forceinline__ void load(const MlpArgs &a, const MlpRecord<D> &record, int step)
    {
        load_inner(a, record, step);
        q = k = 0;
        s = 0;
        if (valid) {
            const Bf16 *at = a.x + (first + step * a.mini + row) * a.width;
            q = load_pair(at + head * D + column, a.vectorise);
            k = load_pair(at + (a.heads + head) * D + column, a.vectorise);
            s = to_f32(at[3 * a.heads * D + head]) + bias;
        }
    }

    __device__ __forceinline__ uint32_t load_dout(const MlpArgs &a, int step) const
    {
        int64_t token = step * a.mini + row;
        const Bf16 *at = a.dout + ((first + token) * a.heads + head) * D + column;
        return row < a.mini && token < a.seq
                   ? load_pair(at, reinterpret_cast<uintptr_t>(a.dout) % 4 == 0)
                   : 0;
    }

    __device__ __forceinline__ InnerElement inner(const BlockReverseShared<D> &shared,
                                                  const float (&k_row)[2], int e) const
    {
        float v_row[2];
        unpack_pair(v, v_row);
        return InnerElement(e == 0 ? z2.x : z2.y, stats, shared.gamma[column + e],
                            shared.beta[column + e], v_row[e] - k_row[e]);
    }

    /* Of what the next mini-batches read. */
    __device__ __forceinline__ void prefetch(const MlpArgs &a, const MlpRecord<D> *records,
                                             int step) const
    {
        int which = threadIdx.x % 32;
        const Bf16 *at = NULL;
        if (step > 1 && which < 3 && row < a.mini) {
            at = a.x + (first + (step - 2) * a.mini + row) * a.width + (which * a.heads + head) * D;
        } else if (which == 3 && step > 0 && row < a.mini) {
            at = a.dout + ((first + (step - 1) * a.mini + row) * a.heads + head) * D;
        }
        if (at != NULL) {
            asm volatile("prefetch.global.L2 [%0];\n" ::"l"(at));
        }
        if (step > 1 && threadIdx.x == 0) {
            bytes_prefetch(&records[step - 2], sizeof records[0]);
        }
    }

    /* Turned q and k, G2, U2 and the gradient of Zb2 into their tiles, and the rate. */
    __device__ __forceinline__ void put(BlockReverseShared<D> &shared, const MlpArgs &a, int step)
    {
        const uint32_t at = tile_at<D>(row, column / 8) + column % 8 * 2;
        float gate = 1 / (1 + expf(-s)), lambda = valid ? a.rate * gate : 0, k_row[2];
        q = turned_pair(q, cosine, sine);
        k = turned_pair(k, cosine, sine);
        unpack_pair(k, k_row);
        InnerElement left = inner(shared, k_row, 0), right = inner(shared, k_row, 1);
        *reinterpret_cast<uint32_t *>(shared.q + at) = q;
        *reinterpret_cast<uint32_t *>(shared.k + at) = k;
        *reinterpret_cast<uint32_t *>(shared.g2 + at) = pack_pair(left.g, right.g);
        *reinterpret_cast<uint32_t *>(shared.u2 + at) =
            pack_pair(lambda * left.g, lambda * right.g);
        *reinterpret_cast<uint32_t *>(shared.dzb2 + at) = pack_pair(dzb2.x, dzb2.y);
        if (column == 0) {
            shared.lambda[step % 2][row] = lambda;
            shared.gate[step % 2][row] = gate;
        }
    }

    /* From the parts of dG2 to dZ2 and the gradient of v; de gets that of the inner loss's
     * e (InnerElement). Returns the row's product of db2' and G2. */
    __device__ __forceinline__ float pull(BlockReverseShared<D> &shared, const MlpArgs &a, int step,
                                          float last_tau, float (&de)[2], float (&dgamma)[2],
                                          float (&dbeta)[2]) const
    {
        float k_row[2], dg[2] = {}, bias_g = 0, mean_r = 0, mean_rz = 0, mean_dgg = 0;
        get_pair<D>(k_row, shared.k, row, column);
        const float back = shared.lambda[step % 2][row] * last_tau;
#pragma unroll
        for (int from = 0; from < TEAMS; from++) {
            float2 part = *reinterpret_cast<const float2 *>(&shared.dg2_dk[from][row][column]);
            dg[0] += part.x;
            dg[1] += part.y;
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            InnerElement at = inner(shared, k_row, e);
            dg[e] -= back * shared.db2[column + e];
            bias_g += shared.db2[column + e] * at.g;
            mean_r += dg[e];
            mean_rz += dg[e] * at.zh;
            mean_dgg += dg[e] * at.g;
        }
        mean_r = warp_sum(mean_r) * stats.y / D;
        mean_rz = warp_sum(mean_rz) * stats.y / D;
        mean_dgg = warp_sum(mean_dgg) / D;
        float mean_z = 0, mean_zz = 0, dz[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float gamma = shared.gamma[column + e], r = dg[e] * stats.y;
            InnerElement at = inner(shared, k_row, e);
            float dy = r - mean_r - mean_rz * at.zh;
            de[e] = gamma * dy;
            dz[e] = gamma * de[e] - stats.w * r - mean_rz * at.y;
            mean_z += dz[e];
            mean_zz += dz[e] * at.zh;
            dgamma[e] += dy * at.e + de[e] * at.zh;
            dbeta[e] += de[e];
        }
        if (valid) {
            store_pair(a.dx + (first + step * a.mini + row) * a.width + (2 * a.heads + head) * D +
                           column,
                       -de[0], -de[1], a.vectorise_dx);
        }
        mean_z = warp_sum(mean_z) / D;
        mean_zz = warp_sum(mean_zz) / D + mean_dgg;
        dz[0] = (dz[0] - mean_z - (z2.x - stats.x) * stats.y * mean_zz) * stats.y;
        dz[1] = (dz[1] - mean_z - (z2.y - stats.x) * stats.y * mean_zz) * stats.y;
        put_pair<D>(shared.dz2, row, column, dz[0], dz[1]);
        *reinterpret_cast<float2 *>(&shared.sums[row][column]) =
            make_float2(dzb2.x + dz[0], dzb2.y + dz[1]);
        return warp_sum(bias_g);
    }

    /* Writes the gradients of q, k and s; de and dlambda are what pull left of k's and lambda's.
     * Returns what the row adds to the gradient of rate_bias, in one lane. */
    __device__ __forceinline__ float finish(const BlockReverseShared<D> &shared, const MlpArgs &a,
                                            int step, uint32_t dout, const float (&de)[2],
                                            float dlambda) const
    {
        int lane = threadIdx.x % 32, part = a.heads * D;
        int64_t token = step * a.mini + row;
        if (row >= a.mini || token >= a.seq) {
            return 0;
        }
        Bf16 *dx = a.dx + (first + token) * a.width, *to = dx + head * D + column;
        float dq[2], dk[2] = {de[0], de[1]};
        unpack_pair(dout, dq);
#pragma unroll
        for (int from = 0; from < TEAMS; from++) {
            float2 x = *reinterpret_cast<const float2 *>(&shared.dq[from][row][column]);
            float2 y = *reinterpret_cast<const float2 *>(&shared.dg2_dk[from][row][column]);
            dq[0] += x.x;
            dq[1] += x.y;
            dk[0] += y.x;
            dk[1] += y.y;
        }
        store_pair(to, dq[0] * cosine + dq[1] * sine, dq[1] * cosine - dq[0] * sine,
                   a.vectorise_dx);
        store_pair(to + part, dk[0] * cosine + dk[1] * sine, dk[1] * cosine - dk[0] * sine,
                   a.vectorise_dx);
        dlambda += warp_sum(lane < TEAMS * D / 16 ? shared.dlambda[lane][row] : 0);
        if (head == 0) {
            for (int64_t i = 3 * part + a.heads + lane; i < a.width; i += 32) {
                dx[i] = from_f32<Bf16>(0);
            }
        }
        if (lane != 0) {
            return 0;
        }
        float gate = shared.gate[step % 2][row], ds = dlambda * a.rate * gate * (1 - gate);
        dx[3 * part + head] = from_f32<Bf16>(ds);
        return ds;
    }
};
#endif
