#pragma once
/* The reverse scan of TTT_MLP (ttt_mlp_backward.cu): shared memory, and the work on whole rows. */
#include "cuda/ttt_mlp.cuh"

template <int D> struct ReverseShared {
    alignas(128) unsigned char w1[2][2 * D * D], w2[2][2 * D * D]; /* transposed slices */
    unsigned char dw1[2 * D * D], dw2[2 * D * D];
    unsigned char q[32 * D], k[2][32 * D], v[32 * D];
    unsigned char g2[32 * D], u2[32 * D], dzb2[32 * D], x[32 * D];
    unsigned char u1[32 * D], xb[32 * D], dzb1[32 * D], dr[32 * D];
    alignas(16) float dg2[MLP_SLICES][TTT_ROWS][mlp_stride<D>]; /* parts of the sum */
    float dq[MLP_SLICES][MLP_OWNED][mlp_stride<D>];             /* of own rows */
    float dk[MLP_SLICES][MLP_OWNED][mlp_stride<D>];
    float dlambda[MLP_SLICES][MLP_OWNED], own_dlambda[2][MLP_OWNED];
    float target[2][MLP_OWNED][D]; /* gradient of the target v - k, own rows */
    alignas(16) float p2[2][TTT_ROWS][TTT_ROWS];
    float b1[2][D];
    alignas(16) float rope[TTT_ROWS * D];
    float gamma[D], beta[D], db2[D], sums[4][D];
    float norm[D / 4][32]; /* a lane's sums of gradients of gamma and beta */
    float dlambda_parts[D / 16][TTT_ROWS];
    float lambda[3][TTT_ROWS], gate[3][TTT_ROWS], tau[TTT_ROWS], dtau[TTT_ROWS];
    uint64_t dg2_here, rows_here; /* barriers that count the bytes of what is sent here */

    static constexpr uint32_t dg2_bytes =
        sizeof(float) * (MLP_SLICES - 1) * TTT_ROWS * mlp_stride<D>;
    static constexpr uint32_t rows_bytes = sizeof(float) * MLP_SLICES * MLP_OWNED * (2 * D + 1);
};

#if MLP_CLUSTERS

/* What the first four warps hold of four rows of a mini-batch: columns 2 (lane % 8) + 16 j + e. */
template <int D> struct RowValues {
    float z2[D / 16][2], dzb2[D / 16][2];
    float4 stats;

    __device__ __forceinline__ void load(const MlpRecord<D> &record, int row, int first)
    {
#pragma unroll
        for (int j = 0; j < D / 16; j++) {
            float2 z = *reinterpret_cast<const float2 *>(&record.z2[row][first + 16 * j]);
            float2 d = *reinterpret_cast<const float2 *>(&record.dzb2[row][first + 16 * j]);
            z2[j][0] = z.x;
            z2[j][1] = z.y;
            dzb2[j][0] = d.x;
            dzb2[j][1] = d.y;
        }
        stats = record.stats[row];
    }
};

/* An element of a row z of Z2, normalised: zh; and of the inner loss's gradient by z: e = gamma
 * zh + beta - target, y = gamma e, g = (y - mean y - zh mean(y zh)) / sigma. */
struct InnerElement {
    float zh, e, y, g;

    __device__ __forceinline__ InnerElement(float z, float4 stats, float gamma, float beta,
                                            float target)
    {
        zh = (z - stats.x) * stats.y;
        e = gamma * zh + beta - target;
        y = gamma * e;
        g = (y - stats.z - zh * stats.w) * stats.y;
    }
};

/* G2, U2 and the rounded gradient of Zb2 of four rows into their tiles. */
template <int D>
static __device__ __forceinline__ void put_rows(ReverseShared<D> &s, const RowValues<D> &values,
                                                int row, int first, int parity, float lambda)
{
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
        int column = first + 16 * j;
        float k[2], v[2], g[2];
        get_pair<D>(k, s.k[parity], row, column);
        get_pair<D>(v, s.v, row, column);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            g[e] = InnerElement(values.z2[j][e], values.stats, s.gamma[column + e],
                                s.beta[column + e], v[e] - k[e])
                       .g;
        }
        put_pair<D>(s.g2, row, column, g[0], g[1]);
        put_pair<D>(s.u2, row, column, lambda * g[0], lambda * g[1]);
        put_pair<D>(s.dzb2, row, column, values.dzb2[j][0], values.dzb2[j][1]);
    }
}

/* From the parts of dG2 to dZ2, in the tile that was U2's, with the derivative of the inner
 * gradient. The block that owns the rows keeps the gradients of target, lambda, gamma and beta.
 * Returns what the rows add to the gradient of tau of the last row. sums gets the columns' sums
 * of dZb2 + dZ2. */
template <int D>
static __device__ __forceinline__ float inner_backward(ReverseShared<D> &s,
                                                       const RowValues<D> &values, int row,
                                                       int first, int parity, float lambda,
                                                       float last_tau, bool owned, Bf16 *dv,
                                                       bool pairs)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float4 stats = values.stats;
    float dg[D / 16][2], bias_g = 0, mean_r = 0, mean_rz = 0, mean_dgg = 0;
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
        int column = first + 16 * j;
        float k[2], v[2];
        get_pair<D>(k, s.k[parity], row, column);
        get_pair<D>(v, s.v, row, column);
        dg[j][0] = dg[j][1] = 0;
#pragma unroll
        for (int from = 0; from < MLP_SLICES; from++) {
            float2 part = *reinterpret_cast<const float2 *>(&s.dg2[from][row][column]);
            dg[j][0] += part.x;
            dg[j][1] += part.y;
        }
#pragma unroll
        for (int e = 0; e < 2; e++) {
            InnerElement at(values.z2[j][e], stats, s.gamma[column + e], s.beta[column + e],
                            v[e] - k[e]);
            dg[j][e] -= lambda * last_tau * s.db2[column + e];
            bias_g += s.db2[column + e] * at.g;
            mean_r += dg[j][e];
            mean_rz += dg[j][e] * at.zh;
            mean_dgg += dg[j][e] * at.g;
        }
    }
    mean_r = row_sum(mean_r) * stats.y / D;
    mean_rz = row_sum(mean_rz) * stats.y / D;
    mean_dgg = row_sum(mean_dgg) / D;
    float mean_z = 0, mean_zz = 0;
    float dzh[D / 16][2];
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
        int column = first + 16 * j;
        float k[2], v[2], de[2];
        get_pair<D>(k, s.k[parity], row, column);
        get_pair<D>(v, s.v, row, column);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float gamma = s.gamma[column + e];
            InnerElement at(values.z2[j][e], stats, gamma, s.beta[column + e], v[e] - k[e]);
            float r = dg[j][e] * stats.y;
            float dy = r - mean_r - mean_rz * at.zh;
            de[e] = gamma * dy;
            dzh[j][e] = gamma * de[e] - stats.w * r - mean_rz * at.y;
            mean_z += dzh[j][e];
            mean_zz += dzh[j][e] * at.zh;
            if (owned) {
                s.norm[4 * j + e][lane] += dy * at.e + de[e] * at.zh;
                s.norm[4 * j + 2 + e][lane] += de[e];
                s.target[parity][row % MLP_OWNED][column + e] = -de[e];
            }
        }
        if (owned && dv != NULL) {
            if (pairs) {
                *reinterpret_cast<uint32_t *>(dv + column) = pack_pair(-de[0], -de[1]);
            } else {
                dv[column] = from_f32<Bf16>(-de[0]);
                dv[column + 1] = from_f32<Bf16>(-de[1]);
            }
        }
    }
    mean_z = row_sum(mean_z) / D;
    mean_zz = row_sum(mean_zz) / D;
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
        int column = first + 16 * j;
        float dz[2];
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float zh = (values.z2[j][e] - stats.x) * stats.y;
            dz[e] = (dzh[j][e] - mean_z - zh * (mean_zz + mean_dgg)) * stats.y;
            float sum = values.dzb2[j][e] + dz[e];
            sum += __shfl_xor_sync(~0u, sum, 8);
            sum += __shfl_xor_sync(~0u, sum, 16);
            if (lane < 8) {
                s.sums[warp][column + e] = sum;
            }
        }
        put_pair<D>(s.u2, row, column, dz[0], dz[1]);
    }
    bias_g = row_sum(bias_g);
    if (owned && lane % 8 == 0) {
        s.own_dlambda[parity][row % MLP_OWNED] = -last_tau * bias_g;
        return -lambda * bias_g;
    }
    return 0;
}

/* Sum over the own columns of a b, for the upper and lower rows, the same in the four lanes of a
 * row. */
static __device__ __forceinline__ void add_row_products(float (&sum)[2], const Square &a,
                                                        const Square &b, float factor)
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        sum[i % 4 / 2] += factor * MLP_AT(a, i) * MLP_AT(b, i);
    }
}

/* The numbers of an A fragment that round_to_a has made. */
static __device__ __forceinline__ void unpack_a(Square &c, const uint32_t (&a)[4])
{
    unpack_pair(a[0], c[0]);
    unpack_pair(a[1], c[0] + 2);
    unpack_pair(a[2], c[1]);
    unpack_pair(a[3], c[1] + 2);
}
/* A pair's sums of gradients, from registers, this slice's. */
template <int D>
static __device__ __forceinline__ void put_states(MlpPartial<D> &to, const float (&dw1)[D / 8][4],
                                                  const float (&dw2)[D / 8][4],
                                                  const float (&db1)[2][2], int rank, int warp)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int own = 16 * warp + lane / 4 + i / 2 * 8, other = 8 * n + lane % 4 * 2 + i % 2;
            to.w1[other * 4 * D + rank * D + own] = dw1[n][i];
            to.w2[(rank * D + other) * D + own] = dw2[n][i];
        }
    }
    if (lane < 4) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            to.b1[rank * D + 16 * warp + i / 2 * 8 + lane * 2 + i % 2] = db1[i / 2][i % 2];
        }
    }
}

template <int D>
static __device__ __forceinline__ void put_rest(MlpPartial<D> &to, const ReverseShared<D> &s,
                                                int rank, int warp)
{
    int lane = threadIdx.x % 32;
    if (rank == 0 && threadIdx.x < D) {
        to.b2[threadIdx.x] = s.db2[threadIdx.x];
    }
    if (warp == rank) {
#pragma unroll
        for (int i = 0; i < D / 4; i++) {
            float sum = s.norm[i][lane];
            sum += __shfl_xor_sync(~0u, sum, 8);
            sum += __shfl_xor_sync(~0u, sum, 16);
            if (lane < 8) {
                to.norm[MLP_SLICES + rank][i / 2 % 2][lane * 2 + i / 4 * 16 + i % 2] = sum;
            }
        }
    }
}

/* A slice's sums of gradients of tau and rate_bias. dtau: of warp 0, parts of its lanes' rows;
 * the others: parts of all threads, for the last rows of whole and of short mini-batches, and of
 * rate_bias. parts, of_rows: space that was read before, a row per warp and one. */
template <int D>
static __device__ __forceinline__ void put_small(float *to, float (*parts)[TTT_ROWS],
                                                 float *of_rows, const MlpArgs &a,
                                                 const float (&dtau)[2], float whole,
                                                 float of_short, float rate, int warp)
{
    int lane = threadIdx.x % 32, i = threadIdx.x % mlp_threads<D>;
    float upper = quad_sum(dtau[0]), lower = quad_sum(dtau[1]);
    __syncthreads(); /* of the last step all has been read */
    if (warp == 0 && lane % 4 == 0) {
        of_rows[lane / 4] = upper;
        of_rows[lane / 4 + 8] = lower;
    }
    whole = warp_sum(whole);
    of_short = warp_sum(of_short);
    rate = warp_sum(rate);
    if (lane == 0) {
        parts[warp][0] = whole;
        parts[warp][1] = of_short;
        parts[warp][2] = rate;
    }
    __syncthreads();
    if (i < MLP_SMALL) {
        float sums[3] = {};
        for (int w = 0; w < D / 16; w++) {
            for (int j = 0; j < 3; j++) {
                sums[j] += parts[w][j];
            }
        }
        float value = i == TTT_ROWS ? sums[2] : 0;
        if (i < TTT_ROWS) {
            value = of_rows[i];
            value += i == a.mini - 1 ? sums[0] : 0;
            value += i == a.seq - (a.steps - 1) * a.mini - 1 ? sums[1] : 0;
        }
        to[i] = value;
    }
}
#endif
