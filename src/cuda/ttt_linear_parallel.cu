/* TTT-Linear on tensor cores, from the states of all mini-batches: outputs, and for the backward
 * pass the records that the reverse chain takes (ttt_linear_reverse.cu). No mini-batch waits for
 * another here. */
#include "cuda/ttt_linear_backward.cuh"

static __device__ __forceinline__ float4 four(const float (&c)[4])
{
    return make_float4(c[0], c[1], c[2], c[3]);
}

template <int D, bool Prepare> struct ParallelShared {
    static constexpr int warps = D / 16, tile = TTT_ROWS * D * 2, matrix = D * D * 2;
    static constexpr int tiles = 0, w = 2 * TILES * tile, rope = w + 2 * matrix,
                         inner = rope + TTT_ROWS * D * 4,
                         norm = inner + TTT_ROWS * part_stride<warps, 8>() * 4,
                         rates = norm + TTT_ROWS * part_stride<warps, 4>() * 4,
                         b = rates + 2 * 2 * TTT_ROWS * 4, constants = b + 2 * D * 4,
                         bytes = constants + sizeof(HeadConstants<D>);
};

static constexpr int parallel_blocks(int head_dim)
{
    return head_dim == 32 ? 8 : head_dim == 64 ? 4 : 2;
}

/* A block has a share of the mini-batches of one sequence and head. Prepare: their records, else
 * their outputs. */
template <int D, bool Prepare>
static __global__ void __launch_bounds__(2 * D, parallel_blocks(D))
    linear_chain_parallel(const TttLinearArgs a)
{
    typedef ParallelShared<D, Prepare> Layout;
    typedef Behind<D, Layout, Prepare, false> Loads;
    extern __shared__ __align__(128) unsigned char shared[];
    constexpr int warps = Layout::warps;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int head = blockIdx.x % a.heads, block = blockIdx.x / a.heads;
    int sequence = block % a.batch, from = block / a.batch * a.share;
    int to = min(from + a.share, a.steps), inner = a.heads * D;
    int token = sequence * a.seq, first = (sequence * a.heads + head) * a.steps;
    HeadConstants<D> &constants = *reinterpret_cast<HeadConstants<D> *>(shared + Layout::constants);
    float *inner_parts = reinterpret_cast<float *>(shared + Layout::inner);
    float *norm_parts = reinterpret_cast<float *>(shared + Layout::norm);
    Loads loads;
    auto fetch = [&](int step) {
        loads.fetch(a, token, a.states + (first + step) * state_bytes(D), NULL, head, step, shared,
                    step % 2);
    };
    rope_load<D, 2 * D>(reinterpret_cast<float *>(shared + Layout::rope), a.rope,
                        min(a.mini, a.seq));
    constants.load(a, head);
    if (a.ready != NULL && threadIdx.x == 0) {
        await_chain(a.ready + sequence * a.heads + head, to);
    }
    __syncthreads();
    fetch(from);
    loads.put(a, constants.rate_bias, shared, from % 2);
    __syncthreads();

#pragma unroll 1
    for (int step = from; step < to; step++) {
        int set = step % 2, valid = min(a.mini, a.seq - step * a.mini);
        const unsigned char *q_tile = Loads::tile(shared, set, TILE_Q);
        const unsigned char *k_tile = Loads::tile(shared, set, TILE_K);
        const float *rates = Loads::rates(shared, set);
        uint32_t q_at = shared_address(q_tile), k_at = shared_address(k_tile);
        uint32_t w_at = shared_address(Loads::matrix(shared, set));
        float z[2][4], zb[2][4], gamma[2][2], beta[2][2], target[2][4];
        float tau[2] = {constants.tau[lane / 4], constants.tau[lane / 4 + 8]};
        uint32_t p[4]; /* P, rounded */
        {
            float s[2][4], bias[2][2];
            get_columns(bias, Loads::b(shared, set), warp);
            set_rows(z, bias);
            set_rows(zb, bias);
            set_all(s, 1);
#pragma unroll
            for (int k = 0; k < D / 16; k++) {
                uint32_t of_k[4], of_q[4], of_w[4], k_rows[4];
                load_a<D>(of_k, k_at, 0, 2 * k);
                load_a<D>(of_q, q_at, 0, 2 * k);
                load_b_rows<D>(of_w, w_at, 16 * warp, 2 * k);
                load_b_rows<D>(k_rows, k_at, 0, 2 * k);
                product_16(z, of_k, of_w);
                product_16(zb, of_q, of_w);
                product_16(s, of_q, k_rows);
            }
            keep_lower(s);
            round_to_a(p, s[0], s[1]);
        }
        get_columns(gamma, constants.gamma, warp);
        get_columns(beta, constants.beta, warp);
        difference<D>(target, Loads::tile(shared, set, TILE_V), k_tile, warp);
        inner_part<warps, 2>(inner_parts, warp, z, target, gamma, beta);
        __syncthreads();

        if (step + 1 < to) {
            fetch(step + 1);
        }
        InnerRow row[2];
        float e[2][4], dout[2][4];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            row[half] = inner_join<warps, 2>(inner_parts, lane / 4 + 8 * half, a.eps);
        }
        {
            float u[2][4], pu[2][4], x[2][4]; /* x: gradient of the normalised row */
            uint32_t of_u[4];
            inner_gradient(z, e, u, row, target, gamma, beta); /* z is zh from here on */
#pragma unroll
            for (int i = 0; i < 8; i++) {
                u[i / 4][i % 4] *= rates[lane / 4 + i % 4 / 2 * 8];
            }
            round_transposed(of_u, u);
            set_all(pu, 0);
            product(pu[0], p, of_u[0], of_u[2]);
            product(pu[1], p, of_u[1], of_u[3]);
            if constexpr (Prepare) {
                tile_get_columns<D, 2>(dout, Loads::tile(shared, set, TILE_DOUT), 2 * warp);
            } else {
                set_all(dout, 0);
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                zb[i / 4][i % 4] -= tau[i % 4 / 2] * pu[i / 4][i % 4];
                x[i / 4][i % 4] = dout[i / 4][i % 4] * gamma[i / 4][i % 2];
            }
            norm_part<warps, 2, Prepare>(norm_parts, warp, zb, x);
        }
        __syncthreads();

        NormRow norm[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            norm[half] = norm_join<warps, 2, Prepare>(norm_parts, lane / 4 + 8 * half, a.eps);
        }
        if constexpr (Prepare) {
            unsigned char *record = a.records + (first + step) * record_bytes(D);
            float4 *to_zh = reinterpret_cast<float4 *>(record + Record<D>::zh) + threadIdx.x;
            float4 *to_y = reinterpret_cast<float4 *>(record + Record<D>::y) + threadIdx.x;
            float4 *to_base = reinterpret_cast<float4 *>(record + Record<D>::base) + threadIdx.x;
            float4 *to_rows = reinterpret_cast<float4 *>(record + Record<D>::rows);
            float *to_sums = reinterpret_cast<float *>(record + Record<D>::sums) + 16 * warp;
            float dzb[2][4], sums[2][2];
            uint32_t of_dzb[4], of_p[4];
            reinterpret_cast<uint4 *>(record + Record<D>::k)[threadIdx.x] =
                reinterpret_cast<const uint4 *>(k_tile)[threadIdx.x];
            reinterpret_cast<uint4 *>(record + Record<D>::q)[threadIdx.x] =
                reinterpret_cast<const uint4 *>(q_tile)[threadIdx.x];
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const NormRow &r = norm[i % 4 / 2];
                float zh = (zb[i / 4][i % 4] - r.mean) * r.inverse;
                float x = gamma[i / 4][i % 2] * dout[i / 4][i % 4];
                dzb[i / 4][i % 4] = (x - r.x - zh * r.xz) * r.inverse;
                e[i / 4][i % 4] *= gamma[i / 4][i % 2]; /* y */
            }
            round_transposed(of_dzb, dzb);
            reinterpret_cast<uint4 *>(record + Record<D>::dzb)[threadIdx.x] =
                make_uint4(of_dzb[0], of_dzb[1], of_dzb[2], of_dzb[3]);
            column_sums<2>(sums, dzb);
            if (lane < 4) {
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    *reinterpret_cast<float2 *>(to_sums + 8 * j + 2 * lane) =
                        make_float2(sums[j][0], sums[j][1]);
                }
            }
#pragma unroll
            for (int i = 0; i < 8; i++) {
                dzb[i / 4][i % 4] *= -tau[i % 4 / 2];
            }
            round_transposed(of_dzb, dzb);
            transpose_a(of_p, p);
            set_all(dzb, 0); /* the base: -P' (tau dzb) */
            product(dzb[0], of_p, of_dzb[0], of_dzb[2]);
            product(dzb[1], of_p, of_dzb[1], of_dzb[3]);
#pragma unroll
            for (int j = 0; j < 2; j++) {
                to_zh[j * 2 * D] = four(z[j]);
                to_y[j * 2 * D] = four(e[j]);
                to_base[j * 2 * D] = four(dzb[j]);
            }
            if (warp == 0 && lane % 4 == 0) {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    int at = lane / 4 + 8 * half;
                    const InnerRow &r = row[half];
                    to_rows[2 * at] = make_float4(r.inverse, r.y, r.yz, rates[at]);
                    to_rows[2 * at + 1] = make_float4(r.gz, r.gzz, 0, 0);
                }
            }
        } else {
            float q[2][4];
            tile_get_columns<D, 2>(q, q_tile, 2 * warp);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                const NormRow &r = norm[i % 4 / 2];
                float zh = (zb[i / 4][i % 4] - r.mean) * r.inverse;
                q[i / 4][i % 4] += gamma[i / 4][i % 2] * zh + beta[i / 4][i % 2];
            }
            store_columns<2>(a.out + (int64_t)(token + step * a.mini) * inner + head * D +
                                 16 * warp,
                             inner, valid, q, a.out_pairs);
        }
        if (step + 1 < to) {
            loads.put(a, constants.rate_bias, shared, set ^ 1);
        }
        __syncthreads();
    }
    if (a.ready != NULL && to == a.steps) {
        await_chains_kernel();
    }
}

/* ---- Launches ---- */

template <int D, bool Prepare>
static void parallel(const CudaBackend *backend, const TttShape *shape, TttLinearArgs &args)
{
    args.share = (int)chain_share(backend, shape, parallel_blocks(D), args.ready != NULL);
    int64_t blocks = chain_parts(shape, args.share) * shape->batch * shape->heads;
    launch_behind_chains(Prepare ? "ttt_linear_chain_prepare" : "ttt_linear_chain_output",
                         linear_chain_parallel<D, Prepare>, blocks, 2 * D,
                         ParallelShared<D, Prepare>::bytes, backend->stream, args);
}

template <bool Prepare>
static void parallel_for(const CudaBackend *backend, const TttShape *shape, TttLinearArgs &args)
{
    shape->head_dim == 32   ? parallel<32, Prepare>(backend, shape, args)
    : shape->head_dim == 64 ? parallel<64, Prepare>(backend, shape, args)
                            : parallel<96, Prepare>(backend, shape, args);
}

void ttt_linear_chain_output(const CudaBackend *backend, const TttShape *shape, TttLinearArgs args)
{
    parallel_for<false>(backend, shape, args);
}

void ttt_linear_chain_prepare(const CudaBackend *backend, const TttShape *shape, TttLinearArgs args)
{
    parallel_for<true>(backend, shape, args);
}
