#pragma once
/* A mini-batch of the backward of TTT-Linear on tensor cores. A block takes a head of some
 * sequences, one after the other, and goes through the mini-batches of each from the last to the
 * first, carrying the gradient dW', db' of the state behind a mini-batch: dW' as f32 in registers,
 * like the state in forward, and rounded in shared memory. W of the mini-batch's start comes from
 * forward, or from a scan that makes the states again. With zb the input of the output's norm and
 * T' for a transpose, a mini-batch is (in the notation of ttt_rows.cuh; P = lower part of 1 + Q
 * K'):
 *   z = K W + b, zq = Q W + b, J = K dW' + db'                     | parts of row sums of z,
 *   barrier U = rate g, zb = zq - tau P U                                  | parts of zb and its
 *   gradient, barrier dzb, dU = -P' (tau dzb) - tau_last J                           | parts of
 *   the inner gradient's, barrier dz, dW = dW' + Q' dzb + K' dz, db = db' + sums of dzb + dz, C
 *   = lower part of dzb U', dP = -tau C, dQ = dO + dzb W' + dP K, dK = dP' Q - tau_last U dW'' +
 *   de     | U, dzb and dz are whole tiles by now, barrier dK += dz W'
 * What is fetched for the mini-batch before is on its way during all of it. */
#include "cuda/ttt_linear.cuh"

#define TILES 4 /* q, k, v and, where there is one, dout */
enum { TILE_Q, TILE_K, TILE_V, TILE_DOUT };

/* Given: the gradients of states come from memory, like the states, and are not carried. */
template <int D, bool Given> struct BackwardShared {
    static constexpr int warps = D / 16, tile = TTT_ROWS * D * 2, matrix = D * D * 2;
    static constexpr int part_bytes = TTT_ROWS * part_stride<warps, 8>() * 4;
    static constexpr int tiles = 0, w = 2 * TILES * tile, dw = w + 2 * matrix,
                         u = dw + (Given ? 2 : 1) * matrix, dzb = u + tile, dz = dzb + tile,
                         rope = dz + tile, inner = rope + TTT_ROWS * D * 4,
                         pull = inner + part_bytes, norm = pull + part_bytes,
                         rates = norm + TTT_ROWS * part_stride<warps, 4>() * 4,
                         b = rates + 2 * 2 * TTT_ROWS * 4, constants = b + 2 * D * 4,
                         columns = constants + sizeof(HeadConstants<D>),
                         p = columns + 2 * 2 * D * 16, db = p + TTT_ROWS * TTT_ROWS * 4,
                         bytes = db + (Given ? 2 * D * 4 : 0);
};

/* What a mini-batch needs, on its way into one of two sets of tiles. */
template <int D, typename Layout, bool Dout, bool Given> struct Behind {
    static constexpr int threads = 2 * D;
    RateFetch rate;

    static __device__ __forceinline__ unsigned char *tile(unsigned char *shared, int set, int of)
    {
        return shared + Layout::tiles + (set * TILES + of) * Layout::tile;
    }

    static __device__ __forceinline__ unsigned char *matrix(unsigned char *shared, int set)
    {
        return shared + Layout::w + set * Layout::matrix;
    }

    static __device__ __forceinline__ float *rates(unsigned char *shared, int set)
    {
        return reinterpret_cast<float *>(shared + Layout::rates) + set * 2 * TTT_ROWS;
    }

    static __device__ __forceinline__ float *b(unsigned char *shared, int set)
    {
        return reinterpret_cast<float *>(shared + Layout::b) + set * D;
    }

    /* Of a state, or of the gradient of one. */
    static __device__ __forceinline__ void fetch_matrix(unsigned char *to,
                                                        const unsigned char *state)
    {
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            int at = (i * threads + threadIdx.x) * 16;
            copy_async_16(shared_address(to) + at, state + at, true);
        }
    }

    static __device__ __forceinline__ void fetch_vector(float *to, const unsigned char *state)
    {
        if (threadIdx.x < D / 4) {
            copy_async_16(shared_address(to + threadIdx.x * 4),
                          state + 2 * D * D + threadIdx.x * 16, true);
        }
    }

    /* token: the first of the sequence; state: of the mini-batch; gradient: of the state behind
     * it, if given. */
    __device__ __forceinline__ void fetch(const TttLinearArgs &a, int token,
                                          const unsigned char *state, const unsigned char *gradient,
                                          int head, int step, unsigned char *shared, int set)
    {
        int inner = a.heads * D, valid = min(a.mini, a.seq - step * a.mini);
        int64_t first = token + step * a.mini;
        const Bf16 *rows = a.x + first * a.width + head * D;
        fetch_matrix(matrix(shared, set), state);
        chunk_load<D>(tile(shared, set, TILE_Q), rows, a.width, valid, a.x_wide);
        chunk_load<D>(tile(shared, set, TILE_K), rows + inner, a.width, valid, a.x_wide);
        chunk_load<D>(tile(shared, set, TILE_V), rows + 2 * inner, a.width, valid, a.x_wide);
        if constexpr (Dout) {
            chunk_load<D>(tile(shared, set, TILE_DOUT), a.dout + first * inner + head * D, inner,
                          valid, a.dout_wide);
        }
        fetch_vector(b(shared, set), state);
        if constexpr (Given) {
            fetch_matrix(shared + Layout::dw + set * Layout::matrix, gradient);
            fetch_vector(reinterpret_cast<float *>(shared + Layout::db) + set * D, gradient);
        }
        copy_commit();
        rate.fetch(rows + 3 * inner - head * D + head, a.width, valid);
    }

    /* Behind it and a barrier the tiles are complete. */
    __device__ __forceinline__ void put(const TttLinearArgs &a, float bias, unsigned char *shared,
                                        int set) const
    {
        const float *rope = reinterpret_cast<const float *>(shared + Layout::rope);
        copy_wait<0>();
        chunk_turn<D>(tile(shared, set, TILE_Q), rope);
        chunk_turn<D>(tile(shared, set, TILE_K), rope);
        rate.put(rates(shared, set), rates(shared, set) + TTT_ROWS, a.rate, bias);
    }
};

/* Sums that a lane makes over all mini-batches and sequences of its block. */
struct LaneSums {
    float tau[2];    /* its rows, in warp 0 */
    float last;      /* the part of tau of a mini-batch's last row */
    float rate_bias; /* its rows, in lanes 4 i of warp 0 */
};

/* Such sums for gamma and beta, of the lane's columns and rows, in shared memory: a float4 per
 * thread, then as many. */
template <int D>
static __device__ __forceinline__ void add_columns(float4 *sums, const float (&dgamma)[2][2],
                                                   const float (&dbeta)[2][2])
{
    float4 &of_gamma = sums[threadIdx.x], &of_beta = sums[2 * D + threadIdx.x];
    float4 gamma = of_gamma, beta = of_beta;
    of_gamma = make_float4(gamma.x + dgamma[0][0], gamma.y + dgamma[0][1], gamma.z + dgamma[1][0],
                           gamma.w + dgamma[1][1]);
    of_beta = make_float4(beta.x + dbeta[0][0], beta.y + dbeta[0][1], beta.z + dbeta[1][0],
                          beta.w + dbeta[1][1]);
}

/* The transposed slice, rounded, into the matrix in shared memory. */
template <int D>
static __device__ __forceinline__ void put_slice(unsigned char *matrix,
                                                 const float (&slice)[D / 8][4], int warp)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int t = 0; t < D / 8; t++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = 16 * warp + lane / 4 + 8 * half;
            *reinterpret_cast<uint32_t *>(matrix + tile_at<D>(row, t) + lane % 4 * 4) =
                pack_pair(slice[t][2 * half], slice[t][2 * half + 1]);
        }
    }
}

/* One mini-batch. dw, db: the gradient of the state behind it on entry, of that before it on
 * return; not used if it is given. fetch: starts what the next one needs; put: completes it. dx:
 * the mini-batch's first row at the head's q. */
template <int D, bool Given, typename Fetch, typename Put>
static __device__ __forceinline__ void backward_step(const TttLinearArgs &a, unsigned char *shared,
                                                     int set, float (&dw)[D / 8][4],
                                                     float (&db)[2][2], LaneSums &sums, int head,
                                                     Bf16 *dx, int valid, Fetch fetch, Put put)
{
    typedef BackwardShared<D, Given> Layout;
    typedef Behind<D, Layout, true, Given> Loads;
    constexpr int warps = Layout::warps;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, inner = a.heads * D;
    uint32_t q_at = shared_address(Loads::tile(shared, set, TILE_Q));
    uint32_t k_at = shared_address(Loads::tile(shared, set, TILE_K));
    uint32_t w_at = shared_address(Loads::matrix(shared, set));
    uint32_t dw_at = shared_address(shared + Layout::dw + (Given ? set * Layout::matrix : 0));
    uint32_t u_at = shared_address(shared + Layout::u);
    uint32_t dzb_at = shared_address(shared + Layout::dzb);
    uint32_t dz_at = shared_address(shared + Layout::dz);
    float *inner_parts = reinterpret_cast<float *>(shared + Layout::inner);
    float *norm_parts = reinterpret_cast<float *>(shared + Layout::norm);
    float *pull_parts = reinterpret_cast<float *>(shared + Layout::pull);
    const float *rope = reinterpret_cast<const float *>(shared + Layout::rope);
    const float *rates = Loads::rates(shared, set), *slopes = rates + TTT_ROWS;
    const HeadConstants<D> &constants =
        *reinterpret_cast<const HeadConstants<D> *>(shared + Layout::constants);
    float4 *column_sums_at = reinterpret_cast<float4 *>(shared + Layout::columns);
    float4 *p_at = reinterpret_cast<float4 *>(shared + Layout::p);
    float gamma[2][2]; /* read again in each part, rather than kept */

    float z[2][4], zb[2][4], du[2][4];
    uint32_t p[4]; /* P, rounded */
    {
        float s[2][4], bias[2][2];
        get_columns(bias, Loads::b(shared, set), warp);
        set_rows(z, bias);
        set_rows(zb, bias);
        if constexpr (Given) {
            get_columns(bias, reinterpret_cast<const float *>(shared + Layout::db) + set * D, warp);
            set_rows(du, bias); /* J */
        } else {
            set_rows(du, db);
        }
        set_all(s, 1);
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            uint32_t of_k[4], of_q[4], of_w[4], of_dw[4], k_rows[4];
            load_a<D>(of_k, k_at, 0, 2 * k);
            load_a<D>(of_q, q_at, 0, 2 * k);
            load_b_rows<D>(of_w, w_at, 16 * warp, 2 * k);
            load_b_rows<D>(k_rows, k_at, 0, 2 * k);
            if constexpr (Given) {
                load_b_rows<D>(of_dw, dw_at, 16 * warp, 2 * k);
            } else {
                slice_to_b<D>(of_dw, dw, k);
            }
            product_16(z, of_k, of_w);
            product_16(zb, of_q, of_w);
            product_16(s, of_q, k_rows);
            product_16(du, of_k, of_dw);
        }
        keep_lower(s);
        round_to_a(p, s[0], s[1]);
        if (warp == 0) { /* P itself, for these lanes alone */
            p_at[lane] = make_float4(s[0][0], s[0][1], s[0][2], s[0][3]);
            p_at[32 + lane] = make_float4(s[1][0], s[1][1], s[1][2], s[1][3]);
        }
    }
    {
        float target[2][4];
        difference<D>(target, Loads::tile(shared, set, TILE_V), Loads::tile(shared, set, TILE_K),
                      warp);
        float beta[2][2];
        get_columns(gamma, constants.gamma, warp);
        get_columns(beta, constants.beta, warp);
        inner_part<warps, 2>(inner_parts, warp, z, target, gamma, beta);
    }
    __syncthreads();

    fetch();
    get_columns(gamma, constants.gamma, warp);
    InnerRow row[2];
    float e[2][4];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        row[half] = inner_join<warps, 2>(inner_parts, lane / 4 + 8 * half, a.eps);
    }
    {
        float u[2][4];
        uint32_t of_u[4];
        {
            float target[2][4];
            difference<D>(target, Loads::tile(shared, set, TILE_V),
                          Loads::tile(shared, set, TILE_K), warp);
            float beta[2][2];
            get_columns(beta, constants.beta, warp);
            inner_gradient(z, e, u, row, target, gamma, beta);
        } /* z is zh from here on */
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float rate = rates[lane / 4 + 8 * half];
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 2 * half; i < 2 * half + 2; i++) {
                    u[j][i] *= rate;
                    sums.last -= du[j][i] * u[j][i];
                }
            }
        }
        tile_put_columns<D, 2>(shared + Layout::u, 2 * warp, u);
        round_transposed(of_u, u);
        float tau[2] = {constants.tau[lane / 4], constants.tau[lane / 4 + 8]};
        float pu[2][4], x[2][4]; /* x: gradient of the normalised row */
        set_all(pu, 0);
        product(pu[0], p, of_u[0], of_u[2]);
        product(pu[1], p, of_u[1], of_u[3]);
        tile_get_columns<D, 2>(x, Loads::tile(shared, set, TILE_DOUT), 2 * warp);
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                zb[j][i] -= tau[i / 2] * pu[j][i];
                x[j][i] *= gamma[j][i % 2];
            }
        }
        norm_part<warps, 2, true>(norm_parts, warp, zb, x);
    }
    __syncthreads();

    get_columns(gamma, constants.gamma, warp);
    float column[2][2]; /* sums of dzb and dz over the lane's rows */
    {
        float dout[2][4], dzb[2][4], dgamma[2][2] = {}, dbeta[2][2] = {};
        float tau[2] = {constants.tau[lane / 4], constants.tau[lane / 4 + 8]};
        tile_get_columns<D, 2>(dout, Loads::tile(shared, set, TILE_DOUT), 2 * warp);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            NormRow r = norm_join<warps, 2, true>(norm_parts, lane / 4 + 8 * half, a.eps);
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    int at = 2 * half + i;
                    float zh = (zb[j][at] - r.mean) * r.inverse;
                    float x = gamma[j][i] * dout[j][at];
                    dgamma[j][i] += dout[j][at] * zh;
                    dbeta[j][i] += dout[j][at];
                    dzb[j][at] = (x - r.x - zh * r.xz) * r.inverse;
                }
            }
        }
        add_columns<D>(column_sums_at, dgamma, dbeta);
        uint32_t of_dzb[4], of_p[4];
        tile_put_columns<D, 2>(shared + Layout::dzb, 2 * warp, dzb);
        if constexpr (!Given) {
            round_transposed(of_dzb, dzb);
            add_to_slice<D>(dw, of_dzb, q_at);
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
            column[j][0] = dzb[j][0] + dzb[j][2];
            column[j][1] = dzb[j][1] + dzb[j][3];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                dzb[j][i] *= -tau[i / 2];
                du[j][i] *= -constants.tau[a.mini - 1];
            }
        }
        round_transposed(of_dzb, dzb);
        transpose_a(of_p, p);
        product(du[0], of_p, of_dzb[0], of_dzb[2]);
        product(du[1], of_p, of_dzb[1], of_dzb[3]);
    }
    pull_part<warps, 2>(pull_parts, warp, du, z, e, gamma);
    __syncthreads();

    {
        PullRow pull[2];
        get_columns(gamma, constants.gamma, warp);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int at = lane / 4 + 8 * half;
            pull[half] = pull_join<warps, 2>(pull_parts, at, row[half], rates[at]);
            if (warp == 0 && lane % 4 == 0 && at < valid) {
                float ds = pull[half].dot * slopes[at];
                sums.rate_bias += ds;
                dx[at * a.width + 3 * inner - head * D + head] = __float2bfloat16_rn(ds);
            }
        }
        float dgamma[2][2] = {}, dbeta[2][2] = {};
        float square = mean_gamma_square<warps, 2>(inner_parts);
        pull_inner(du, e, z, gamma, square, row, pull, dgamma, dbeta);
        add_columns<D>(column_sums_at, dgamma, dbeta);
        tile_put_columns<D, 2>(shared + Layout::dz, 2 * warp, du); /* du is dz now, e is de */
        if constexpr (!Given) {
            uint32_t of_dz[4];
            round_transposed(of_dz, du);
            add_to_slice<D>(dw, of_dz, k_at);
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float s = column[j][i] + du[j][i] + du[j][i + 2];
                    s += __shfl_xor_sync(~0u, s, 4);
                    s += __shfl_xor_sync(~0u, s, 8);
                    db[j][i] += s + __shfl_xor_sync(~0u, s, 16);
                }
            }
        }
    }
    float dk[2][4];
    {
        float dq[2][4], c[2][4];
        float tau[2] = {constants.tau[lane / 4], constants.tau[lane / 4 + 8]};
        tile_get_columns<D, 2>(dq, Loads::tile(shared, set, TILE_DOUT), 2 * warp);
        set_all(dk, 0);
        set_all(c, 0);
#pragma unroll 2
        for (int k = 0; k < D / 16; k++) {
            uint32_t of_dzb[4], of_u[4], u_rows[4], of_w[4], of_dw[4];
            load_a<D>(of_dzb, dzb_at, 0, 2 * k);
            load_a<D>(of_u, u_at, 0, 2 * k);
            load_b_rows<D>(u_rows, u_at, 0, 2 * k);
            load_b_columns<D>(of_w, w_at, 16 * k, 2 * warp);
            load_b_columns<D>(of_dw, dw_at, 16 * k, 2 * warp);
            product_16(c, of_dzb, u_rows);
            product_16(dq, of_dzb, of_w);
            product_16(dk, of_u, of_dw);
        }
        uint32_t of_dp[4], across[4], columns[4];
        keep_lower(c);
        if (warp == 0) {
#pragma unroll
            for (int j = 0; j < 2; j++) {
                float4 of_p = p_at[32 * j + lane];
                sums.tau[0] -= c[j][0] * of_p.x + c[j][1] * of_p.y;
                sums.tau[1] -= c[j][2] * of_p.z + c[j][3] * of_p.w;
            }
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                c[j][i] *= -tau[i / 2];
                dk[j][i] = e[j][i] - constants.tau[a.mini - 1] * dk[j][i];
                e[j][i] = -e[j][i];
            }
        }
        round_to_a(of_dp, c[0], c[1]);
        load_b_columns<D>(columns, k_at, 0, 2 * warp);
        product_16(dq, of_dp, columns);
        transpose_a(across, of_dp);
        load_b_columns<D>(columns, q_at, 0, 2 * warp);
        product_16(dk, across, columns);
        turn_back<D, 2>(dq, rope, 16 * warp);
        store_columns<2>(dx + 16 * warp, a.width, valid, dq, a.dx_pairs);
        store_columns<2>(dx + 2 * inner + 16 * warp, a.width, valid, e, a.dx_pairs);
    }
    put();
    __syncthreads();

    if constexpr (!Given) {
        put_slice<D>(shared + Layout::dw, dw, warp);
    }
#pragma unroll 2
    for (int k = 0; k < D / 16; k++) {
        uint32_t of_dz[4], of_w[4];
        load_a<D>(of_dz, dz_at, 0, 2 * k);
        load_b_columns<D>(of_w, w_at, 16 * k, 2 * warp);
        product_16(dk, of_dz, of_w);
    }
    turn_back<D, 2>(dk, rope, 16 * warp);
    store_columns<2>(dx + inner + 16 * warp, a.width, valid, dk, a.dx_pairs);
}
