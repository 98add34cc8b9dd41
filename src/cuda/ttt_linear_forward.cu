/* Forward of TTT-Linear on tensor cores, one block per sequence and head. What follows from
 * mini-batch to mini-batch is K W, row sums, U, W'; the rest hangs off it. There is one barrier
 * per mini-batch, between the parts of row sums and their use; the output's norm takes its sums
 * through the next mini-batch's barrier. A tile is put into shared memory one mini-batch ahead,
 * in a ring of four, and its copy started two ahead. */
#include "cuda/ttt_linear.cuh"

#include "base/assert.h"

#define RING 4

template <int D> struct ForwardShared {
    static constexpr int warps = D / 16, tile = TTT_ROWS * D * 2;
    static constexpr int part_floats = TTT_ROWS * part_stride<warps, 8>();
    static constexpr int norm_floats = TTT_ROWS * part_stride<warps, 4>();
    static constexpr int tiles = 0, rope = RING * 3 * tile, parts = rope + TTT_ROWS * D * 4,
                         norms = parts + 2 * part_floats * 4, rates = norms + 2 * norm_floats * 4,
                         constants = rates + RING * TTT_ROWS * 4,
                         zb = constants + sizeof(HeadConstants<D>), bytes = zb + 2 * 2 * D * 16;
};

/* q, k, v of a mini-batch, on their way into a ring of tiles. */
template <int D> struct Ahead {
    typedef ForwardShared<D> Layout;
    RateFetch rate;

    static __device__ __forceinline__ unsigned char *tile(unsigned char *shared, int slot, int of)
    {
        return shared + Layout::tiles + (slot * 3 + of) * Layout::tile;
    }

    /* token: the first of the sequence. Scan: without q. */
    template <bool Scan>
    __device__ __forceinline__ void fetch(const TttLinearArgs &a, int token, int head, int step,
                                          unsigned char *shared, int slot)
    {
        int inner = a.heads * D, valid = min(a.mini, a.seq - step * a.mini);
        const Bf16 *rows = a.x + (int64_t)(token + step * a.mini) * a.width + head * D;
        if (!Scan) {
            chunk_load<D>(tile(shared, slot, 0), rows, a.width, valid, a.x_wide);
        }
        chunk_load<D>(tile(shared, slot, 1), rows + inner, a.width, valid, a.x_wide);
        chunk_load<D>(tile(shared, slot, 2), rows + 2 * inner, a.width, valid, a.x_wide);
        rate.fetch(rows + 3 * inner - head * D + head, a.width, valid);
        copy_commit();
    }

    /* Behind it and a barrier the tiles are complete. */
    template <bool Scan>
    __device__ __forceinline__ void put(const TttLinearArgs &a, float bias, unsigned char *shared,
                                        int slot) const
    {
        const float *rope = reinterpret_cast<const float *>(shared + Layout::rope);
        copy_wait<0>();
        if (!Scan) {
            chunk_turn<D>(tile(shared, slot, 0), rope);
        }
        chunk_turn<D>(tile(shared, slot, 1), rope);
        float *rates = reinterpret_cast<float *>(shared + Layout::rates) + slot * TTT_ROWS;
        rate.put(rates, NULL, a.rate, bias);
    }
};

/* A thread's C fragments, put away in shared memory: a float4 per thread, then as many. */
template <int D> static __device__ __forceinline__ void put_away(float4 *at, const float (&c)[2][4])
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        at[j * 2 * D + threadIdx.x] = make_float4(c[j][0], c[j][1], c[j][2], c[j][3]);
    }
}

template <int D> static __device__ __forceinline__ void get_back(float (&c)[2][4], const float4 *at)
{
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float4 four = at[j * 2 * D + threadIdx.x];
        c[j][0] = four.x;
        c[j][1] = four.y;
        c[j][2] = four.z;
        c[j][3] = four.w;
    }
}

/* Writes q + norm(zb) of a mini-batch's rows, of which the first is token `row`; the parts of
 * row sums are complete. */
template <int D>
static __device__ __forceinline__ void put_output(const TttLinearArgs &a,
                                                  const HeadConstants<D> &constants, float *norms,
                                                  const float4 *zb, const uint32_t (&q)[2][2],
                                                  int row, int head, int warp, int valid)
{
    constexpr int warps = D / 16;
    int lane = threadIdx.x % 32;
    float z[2][4], gamma[2][2], beta[2][2];
    get_back<D>(z, zb);
    get_columns(gamma, constants.gamma, warp);
    get_columns(beta, constants.beta, warp);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        NormRow of_row = norm_join<warps, 2, false>(norms, lane / 4 + 8 * half, a.eps);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            float of_q[2];
            unpack_pair(q[j][half], of_q);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float &value = z[j][2 * half + i];
                float zh = (value - of_row.mean) * of_row.inverse;
                value = of_q[i] + gamma[j][i] * zh + beta[j][i];
            }
        }
    }
    int inner = a.heads * D;
    store_columns<2>(a.out + (int64_t)row * inner + head * D + 16 * warp, inner, valid, z,
                     a.out_pairs);
}

/* Scan: the states alone. */
template <int D, bool Scan>
static __global__ void __launch_bounds__(2 * D, D == 32   ? 8
                                                : D == 64 ? 4
                                                : D == 96 ? 2
                                                          : 1) linear_forward(const TttLinearArgs a)
{
    typedef ForwardShared<D> Layout;
    typedef Ahead<D> Loads;
    extern __shared__ __align__(128) unsigned char shared[];
    constexpr int warps = Layout::warps;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int head = blockIdx.x % a.heads, local = blockIdx.x / a.heads;
    int token = (a.first + local) * a.seq;
    float *all_parts = reinterpret_cast<float *>(shared + Layout::parts);
    float *all_norms = reinterpret_cast<float *>(shared + Layout::norms);
    HeadConstants<D> &constants = *reinterpret_cast<HeadConstants<D> *>(shared + Layout::constants);
    Loads loads;
    float w[D / 8][4], b[2][2];
    float4 *zb = reinterpret_cast<float4 *>(shared + Layout::zb); /* of the mini-batch before */

    loads.template fetch<Scan>(a, token, head, 0, shared, 0);
    rope_load<D, 2 * D>(reinterpret_cast<float *>(shared + Layout::rope), a.rope,
                        min(a.mini, a.seq));
#pragma unroll
    for (int t = 0; t < D / 8; t++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int input = 8 * t + lane % 4 * 2 + i % 2, output = 16 * warp + lane / 4 + i / 2 * 8;
            w[t][i] = to_f32(a.w1[((int64_t)head * D + input) * D + output]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        b[i / 2][i % 2] = to_f32(a.b1[head * D + 16 * warp + i / 2 * 8 + lane % 4 * 2 + i % 2]);
    }
    constants.load(a, head);
    __syncthreads(); /* the rotary table */
    loads.template put<Scan>(a, constants.rate_bias, shared, 0);
    if (a.steps > 1) {
        loads.template fetch<Scan>(a, token, head, 1, shared, 1);
    }
    __syncthreads();

#pragma unroll 1
    for (int step = 0; step < a.steps; step++) {
        int slot = step % RING;
        const unsigned char *q_tile = Loads::tile(shared, slot, 0);
        const unsigned char *k_tile = Loads::tile(shared, slot, 1);
        uint32_t q_at = shared_address(q_tile), k_at = shared_address(k_tile);
        float *parts = all_parts + step % 2 * Layout::part_floats;
        float *norms = all_norms + step % 2 * Layout::norm_floats;
        float z[2][4], zq[2][4], s[2][4];
        uint32_t q[2][2];
        unsigned char *state = a.states + ((int64_t)blockIdx.x * a.steps + step) * state_bytes(D);
        set_rows(z, b);
        set_rows(zq, b);
        set_all(s, 1);
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            uint32_t of_k[4], of_w[4];
            load_a<D>(of_k, k_at, 0, 2 * k);
            slice_to_b<D>(of_w, w, k);
            product_16(z, of_k, of_w);
            if (!Scan) {
                uint32_t of_q[4], k_rows[4];
                load_a<D>(of_q, q_at, 0, 2 * k);
                load_b_rows<D>(k_rows, k_at, 0, 2 * k);
                product_16(zq, of_q, of_w);
                product_16(s, of_q, k_rows);
            }
            if (a.states != NULL) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int row = 16 * warp + lane / 4 + i / 2 * 8;
                    *reinterpret_cast<uint32_t *>(state + tile_at<D>(row, 2 * k + i % 2) +
                                                  lane % 4 * 4) = of_w[i];
                }
            }
        }
        if (a.states != NULL) {
            if (lane < 8) { /* lane % 4 for its columns, lane / 4 for the eight they are in */
                float *to = reinterpret_cast<float *>(state + 2 * D * D) + 16 * warp +
                            lane / 4 * 8 + lane % 4 * 2;
                *reinterpret_cast<float2 *>(to) =
                    lane < 4 ? make_float2(b[0][0], b[0][1]) : make_float2(b[1][0], b[1][1]);
            }
        }
        uint32_t p[4];
        keep_lower(s);
        round_to_a(p, s[0], s[1]);
        bool last = step + 1 == a.steps;
        if (Scan && last) {
            break;
        }
        {
            float target[2][4], gamma[2][2], beta[2][2];
            get_columns(gamma, constants.gamma, warp);
            get_columns(beta, constants.beta, warp);
            difference<D>(target, Loads::tile(shared, slot, 2), k_tile, warp);
            inner_part<warps, 2>(parts, warp, z, target, gamma, beta);
        }
        int next = (slot + 1) % RING, previous = (slot + RING - 1) % RING;
        if (!Scan && step > 0) {
            float before[2][4];
            get_back<D>(before, zb);
            norm_part<warps, 2, false>(norms, warp, before, before);
            tile_get_pairs<D, 2>(q, Loads::tile(shared, previous, 0), 2 * warp);
        }
        if (!last) {
            loads.template put<Scan>(a, constants.rate_bias, shared, next);
            if (step + 2 < a.steps) {
                loads.template fetch<Scan>(a, token, head, step + 2, shared, (slot + 2) % RING);
            }
        }
        __syncthreads();

        const float *rates = reinterpret_cast<const float *>(shared + Layout::rates) + slot * 16;
        float u[2][4];
        {
            InnerRow row[2];
            float e[2][4], target[2][4], gamma[2][2], beta[2][2];
            get_columns(gamma, constants.gamma, warp);
            get_columns(beta, constants.beta, warp);
            difference<D>(target, Loads::tile(shared, slot, 2), k_tile, warp);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                row[half] = inner_join<warps, 2>(parts, lane / 4 + 8 * half, a.eps);
            }
            inner_gradient(z, e, u, row, target, gamma, beta);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float rate = rates[lane / 4 + 8 * half];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                u[j][2 * half] *= rate;
                u[j][2 * half + 1] *= rate;
            }
        }
        uint32_t of_u[4];
        round_transposed(of_u, u);
        if (!last) {
            float sums[2][2], tau_last = constants.tau[a.mini - 1];
#pragma unroll
            for (int k = 0; k < D / 16; k++) {
                uint32_t columns[4];
                float change[2][4];
                set_all(change, 0);
                load_b_columns<D>(columns, k_at, 0, 2 * k);
                product_16(change, of_u, columns);
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    w[2 * k][i] -= tau_last * change[0][i];
                    w[2 * k + 1][i] -= tau_last * change[1][i];
                }
            }
            column_sums<2>(sums, u);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                b[i / 2][i % 2] -= tau_last * sums[i / 2][i % 2];
            }
        }
        if (!Scan) {
            if (step > 0) {
                put_output<D>(a, constants, norms, zb, q, token + (step - 1) * a.mini, head, warp,
                              a.mini);
            }
            float pu[2][4], tau[2] = {constants.tau[lane / 4], constants.tau[lane / 4 + 8]};
            set_all(pu, 0);
            product(pu[0], p, of_u[0], of_u[2]);
            product(pu[1], p, of_u[1], of_u[3]);
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    zq[j][i] -= tau[i / 2] * pu[j][i];
                }
            }
            put_away<D>(zb, zq);
        }
    }
    if (!Scan) {
        uint32_t q[2][2];
        float *norms = all_norms + a.steps % 2 * Layout::norm_floats;
        float z[2][4];
        get_back<D>(z, zb);
        norm_part<warps, 2, false>(norms, warp, z, z);
        tile_get_pairs<D, 2>(q, Loads::tile(shared, (a.steps - 1) % RING, 0), 2 * warp);
        __syncthreads();
        int before = (a.steps - 1) * a.mini;
        put_output<D>(a, constants, norms, zb, q, token + before, head, warp, a.seq - before);
    }
}

/* ---- Launches ---- */

TttLinearArgs ttt_linear_args(Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope)
{
    TttLinearArgs a = {};
    fill_common(a, x, shape, w, rope);
    a.count = a.batch;
    a.share = 1;
    a.x_wide = aligned_16(a.x) && a.width % 8 == 0;
    return a;
}

template <int D, bool Scan>
static void launch(const CudaBackend *backend, const TttLinearArgs &args)
{
    flash_launch("ttt_linear_forward", linear_forward<D, Scan>, (int64_t)args.count * args.heads,
                 2 * D, ForwardShared<D>::bytes, backend->stream, args);
}

template <bool Scan>
static void launch_for(const CudaBackend *backend, int head_dim, const TttLinearArgs &args)
{
    switch (head_dim) {
    case 32:
        launch<32, Scan>(backend, args);
        break;
    case 64:
        launch<64, Scan>(backend, args);
        break;
    case 96:
        launch<96, Scan>(backend, args);
        break;
    default:
        launch<128, Scan>(backend, args);
        break;
    }
}

void ttt_linear_scan(const CudaBackend *backend, int head_dim, const TttLinearArgs &args)
{
    launch_for<true>(backend, head_dim, args);
}

bool ttt_linear_covers(const CudaBackend *backend, const TttShape *shape, DType dtype)
{
    int64_t d = shape->head_dim;
    return dtype == DT_BF16 && shape->kind == TTT_LINEAR && backend->compute >= 80 &&
           (d == 32 || d == 64 || d == 96 || d == 128) && shape->mini <= TTT_ROWS &&
           shape->batch * shape->seq * shape->heads < INT32_MAX &&
           ttt_linear_backward_shared((int)d) <= backend->shared_bytes;
}

static void forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                    Tensor out, Tensor states, void *ws)
{
    const CudaBackend *backend = cuda_of(c);
    bool split = ttt_linear_splits(backend, shape);
    TttLinearArgs args = ttt_linear_args(x, shape, w, rope);
    args.out = (Bf16 *)out.data;
    args.out_pairs = (uintptr_t)out.data % 4 == 0;
    args.states = tensor_given(states) ? (unsigned char *)states.data
                  : split              ? (unsigned char *)ws + ready_bytes(shape)
                                       : NULL;
    PACER_ASSERT(aligned_16(args.states), "states miss 16-byte alignment");
    if (split) {
        if (ttt_linear_beside(backend, shape)) {
            args.ready = (unsigned *)ws;
            CUDA_CHECK(cudaMemsetAsync(ws, 0, ready_bytes(shape), backend->stream));
        }
        ttt_linear_chain_scan(backend, (int)shape->head_dim, args);
        ttt_linear_chain_output(backend, shape, args);
        return;
    }
    launch_for<false>(backend, (int)shape->head_dim, args);
}

static size_t all_states(const TttShape *s)
{
    return (size_t)(s->batch * s->heads * ttt_steps(s) * state_bytes((int)s->head_dim));
}

static size_t forward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    (void)dtype;
    return ttt_linear_splits(cuda_of(c), shape) ? ready_bytes(shape) + all_states(shape) : 0;
}

static size_t states_bytes(const Ctx *c, const TttShape *shape, DType dtype)
{
    (void)dtype;
    return c->ttt_keep ? all_states(shape) : 0;
}

extern "C" const CudaTtt cuda_ttt_linear = {
    ttt_linear_covers,      forward,     forward_ws, ttt_linear_backward,
    ttt_linear_backward_ws, states_bytes};
