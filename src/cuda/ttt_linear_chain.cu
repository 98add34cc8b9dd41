/* The scan of split chains of TTT-Linear (ttt_linear_chain.cuh), and where chains are split. */
#include "cuda/ttt_linear_chain.cuh"

#include <stdlib.h>
#include <string.h>

#define SPLIT_STEPS 32 /* mini-batches from which on four short passes are worth their launches */

#define SCAN_RING 8 /* mini-batches in shared memory, also of rates */

template <int D> struct ScanShared {
    static constexpr int warps = D / 16, tile = TTT_ROWS * D * 2;
    static constexpr int part_floats = TTT_ROWS * part_stride<warps, 8>();
    static constexpr int k = 0, v = SCAN_RING * tile, rope = v + SCAN_RING * tile,
                         pulls = rope + TTT_ROWS * D * 4, parts = pulls + 2 * 2 * 2 * D * 16,
                         rates = parts + 2 * part_floats * 4,
                         constants = rates + SCAN_RING * TTT_ROWS * 4,
                         centre = constants + sizeof(HeadConstants<D>), ring = centre + 8 * D,
                         barriers = ring + StateRing<D>::bytes,
                         bytes = barriers + StateRing<D>::barrier_bytes;
    static_assert(ring % 16 == 0 && barriers % 16 == 0, "bulk copies take multiples of 16");
};

/* What brings k and v, by the first 2 D threads, a 16-byte chunk each. A pull is a = gamma (beta -
 * target) in f32, laid out as the fragments of those who take it: a float4 per thread, then as
 * many. */
template <int D> struct ScanLoads {
    typedef ScanShared<D> Layout;
    float s; /* of row threadIdx.x % 16 of mini-batch threadIdx.x / 16 of the next four */

    static __device__ __forceinline__ unsigned char *k(unsigned char *shared, int step)
    {
        return shared + Layout::k + step % SCAN_RING * Layout::tile;
    }

    static __device__ __forceinline__ unsigned char *v(unsigned char *shared, int step)
    {
        return shared + Layout::v + step % SCAN_RING * Layout::tile;
    }

    static __device__ __forceinline__ float *pull(unsigned char *shared, int step)
    {
        return reinterpret_cast<float *>(shared + Layout::pulls) + step % 2 * 2 * 2 * D * 4;
    }

    static __device__ __forceinline__ float *rates(unsigned char *shared, int step)
    {
        return reinterpret_cast<float *>(shared + Layout::rates) + step % SCAN_RING * TTT_ROWS;
    }

    /* Commits a group in any case, which counts them. */
    __device__ __forceinline__ void fetch(const TttLinearArgs &a, int token, int head, int step,
                                          unsigned char *shared)
    {
        if (step < a.steps) {
            int inner = a.heads * D, valid = min(a.mini, a.seq - step * a.mini);
            const Bf16 *rows = a.x + (int64_t)(token + step * a.mini) * a.width + head * D + inner;
            chunk_load<D>(k(shared, step), rows, a.width, valid, a.x_wide);
            chunk_load<D>(v(shared, step), rows + inner, a.width, valid, a.x_wide);
        }
        copy_commit();
    }

    /* The thread's own chunks have arrived. */
    __device__ __forceinline__ void put(unsigned char *shared, int step) const
    {
        const HeadConstants<D> &constants =
            *reinterpret_cast<const HeadConstants<D> *>(shared + Layout::constants);
        int row = threadIdx.x / (D / 8), chunk = threadIdx.x % (D / 8);
        chunk_turn<D>(k(shared, step), reinterpret_cast<const float *>(shared + Layout::rope));
        const uint4 key =
            *reinterpret_cast<const uint4 *>(k(shared, step) + tile_at<D>(row, chunk));
        const uint4 value =
            *reinterpret_cast<const uint4 *>(v(shared, step) + tile_at<D>(row, chunk));
        const uint32_t keys[4] = {key.x, key.y, key.z, key.w};
        const uint32_t values[4] = {value.x, value.y, value.z, value.w};
        float *to = pull(shared, step) + (chunk % 2 * 2 * D + chunk / 2 * 32 + row % 8 * 4) * 4 +
                    row / 8 * 2;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int column = 8 * chunk + 2 * i;
            float of_k[2], of_v[2];
            unpack_pair(keys[i], of_k);
            unpack_pair(values[i], of_v);
            *reinterpret_cast<float2 *>(to + 4 * i) = make_float2(
                constants.gamma[column] * (constants.beta[column] - (of_v[0] - of_k[0])),
                constants.gamma[column + 1] * (constants.beta[column + 1] - (of_v[1] - of_k[1])));
        }
    }

    /* The rates of four mini-batches from `first`, a multiple of 4, on. */
    __device__ __forceinline__ void fetch_rates(const TttLinearArgs &a, int token, int head,
                                                int first)
    {
        int step = first + threadIdx.x / TTT_ROWS, row = threadIdx.x % TTT_ROWS;
        s = -INFINITY;
        if (threadIdx.x < 4 * TTT_ROWS && step < a.steps &&
            row < min(a.mini, a.seq - step * a.mini)) {
            s = to_f32(
                a.x[(int64_t)(token + step * a.mini + row) * a.width + 3 * a.heads * D + head]);
        }
    }

    __device__ __forceinline__ void put_rates(const TttLinearArgs &a, unsigned char *shared,
                                              int first) const
    {
        const HeadConstants<D> &constants =
            *reinterpret_cast<const HeadConstants<D> *>(shared + Layout::constants);
        if (threadIdx.x < 4 * TTT_ROWS) {
            rates(shared, first + threadIdx.x / TTT_ROWS)[threadIdx.x % TTT_ROWS] =
                a.rate * sigmoid_for<Bf16>(s + constants.rate_bias);
        }
    }
};

/* Means over the output columns of w1 and b1, D and then one. The norm takes them away, the inner
 * gradient's are 0, and so they are those of the state all along; without them row sums around 0
 * do. By the first 4 D threads. */
template <int D>
static __device__ __forceinline__ void find_centre(float *centre, const TttLinearArgs &a, int head)
{
    int row = threadIdx.x / 4;
    const Bf16 *from = a.w1 + ((int64_t)head * D + row) * D + threadIdx.x % 4;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < D / 4; i++) {
        sum += to_f32(from[4 * i]);
    }
    sum = quad_sum(sum);
    if (threadIdx.x % 4 == 0) {
        centre[row] = sum * (1.0f / D);
    }
    if (threadIdx.x < 32) {
        sum = 0;
        for (int i = threadIdx.x; i < D; i += 32) {
            sum += to_f32(a.b1[head * D + i]);
        }
        sum = warp_sum(sum);
        if (threadIdx.x == 0) {
            centre[D] = sum * (1.0f / D);
        }
    }
}

/* Puts this warp's part for both rows: sums of z, z^2, gamma^2 z, gamma^2 z^2; of a z and a =
 * gamma (beta - target). square: gamma^2. */
template <int Warps>
static __device__ __forceinline__ void scan_part(float *parts, int warp, const float (&z)[2][4],
                                                 const float (&a)[2][4],
                                                 const float (&square)[2][2])
{
    int lane = threadIdx.x % 32;
    bool odd = lane & 1;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float sum = 0, zz = 0, gz = 0, gzz = 0, az = 0, a_sum = 0;
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float value = z[j][2 * half + i], of_a = a[j][2 * half + i];
                float weighted = square[j][i] * value;
                sum += value;
                zz += value * value;
                gz += weighted;
                gzz += weighted * value;
                az += of_a * value;
                a_sum += of_a;
            }
        }
        float *part = part_at<Warps, 8>(parts, lane / 4 + 8 * half, warp);
        part[lane % 4] = quad_sums(sum, zz, gz, gzz);
        float two = (odd ? a_sum : az) + __shfl_xor_sync(~0u, odd ? az : a_sum, 1);
        two += __shfl_xor_sync(~0u, two, 2);
        if (lane % 4 < 2) {
            part[4 + lane % 4] = two;
        }
    }
}

/* gg: the sum of gamma^2 over the head. */
template <int Warps>
static __device__ __forceinline__ InnerRow scan_join(float *parts, int row, float gg, float eps)
{
    constexpr float every = 1.0f / (Warps * 16);
    const float *of_row = part_at<Warps, 8>(parts, row, 0);
    float sum = 0, zz = 0, gz = 0, gzz = 0, az = 0, a_sum = 0;
#pragma unroll
    for (int w = 0; w < Warps; w++) {
        float4 sums = *reinterpret_cast<const float4 *>(of_row + 8 * w);
        float2 rest = *reinterpret_cast<const float2 *>(of_row + 8 * w + 4);
        sum += sums.x;
        zz += sums.y;
        gz += sums.z;
        gzz += sums.w;
        az += rest.x;
        a_sum += rest.y;
    }
    InnerRow r = {};
    r.mean = sum * every;
    r.inverse = rsqrtf(fmaxf(zz * every - r.mean * r.mean, 0.0f) + eps);
    float gz_around = gz - r.mean * gg;
    float gzz_around = gzz - r.mean * (gz + gz_around);
    r.y = (gz_around * r.inverse + a_sum) * every;
    r.yz = (gzz_around * r.inverse + az - r.mean * a_sum) * r.inverse * every;
    return r;
}

template <int D>
static __global__ void __launch_bounds__(4 * D + 32, 1) linear_chain_scan(const TttLinearArgs a)
{
#if CHAIN_CODE
    typedef ScanShared<D> Layout;
    typedef ScanLoads<D> Loads;
    extern __shared__ __align__(128) unsigned char shared[];
    constexpr int warps = Layout::warps;
    int head = blockIdx.x % a.heads, token = blockIdx.x / a.heads * a.seq;
    HeadConstants<D> &constants = *reinterpret_cast<HeadConstants<D> *>(shared + Layout::constants);
    float *centre = reinterpret_cast<float *>(shared + Layout::centre);
    const StateRing<D> ring(shared + Layout::ring, shared + Layout::barriers);
    let_next_begin();
    if (threadIdx.x < 4 * D) {
        constants.load(a, head);
        rope_load<D, 4 * D>(reinterpret_cast<float *>(shared + Layout::rope), a.rope,
                            min(a.mini, a.seq));
        find_centre<D>(centre, a, head);
    } else if (threadIdx.x == 4 * D) {
        ring.init();
        barriers_ready();
    }
    __syncthreads();

    if (threadIdx.x >= 4 * D) {
        if (threadIdx.x == 4 * D) {
            unsigned char *states = a.states + (int64_t)blockIdx.x * a.steps * state_bytes(D);
            ring.take_out(a.steps, a.ready == NULL ? NULL : a.ready + blockIdx.x,
                          [&](int step) { return states + step * state_bytes(D); });
        }
        return;
    }
    if (threadIdx.x < 2 * D) {
        Loads loads;
        for (int step = 0; step < SCAN_RING - 2; step++) {
            loads.fetch(a, token, head, step, shared);
        }
        loads.fetch_rates(a, token, head, 0);
        loads.put_rates(a, shared, 0);
        loads.fetch_rates(a, token, head, 4);
        copy_wait<SCAN_RING - 3>();
        loads.put(shared, 0);
        numbered_wait(CHAIN_BARRIER, 4 * D);
#pragma unroll 1
        for (int step = 0; step <= a.steps; step++) {
            if (step + 1 < a.steps) {
                /* The tiles of step - 2 are read no more, behind barrier step - 1. */
                loads.fetch(a, token, head, step + SCAN_RING - 2, shared);
                if (step % 4 == 2) {
                    loads.put_rates(a, shared, step + 2);
                    loads.fetch_rates(a, token, head, step + 6);
                }
                copy_wait<SCAN_RING - 3>();
                loads.put(shared, step + 1);
            }
            if (step < a.steps) {
                ring.await_place(step);
            }
            __syncwarp();
            numbered_wait(CHAIN_BARRIER, 4 * D);
            if (threadIdx.x == 0 && step > 0) {
                ring.pass_on(step - 1);
            }
        }
        return;
    }

    int warp = threadIdx.x / 32 - warps, lane = threadIdx.x % 32, thread = threadIdx.x - 2 * D;
    float w[D / 8][4], b[2][2], square[2][2], gg = 0;
#pragma unroll
    for (int t = 0; t < D / 8; t++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int input = 8 * t + lane % 4 * 2 + i % 2, output = 16 * warp + lane / 4 + i / 2 * 8;
            w[t][i] = to_f32(a.w1[((int64_t)head * D + input) * D + output]) - centre[input];
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int column = 16 * warp + i / 2 * 8 + lane % 4 * 2 + i % 2;
        b[i / 2][i % 2] = to_f32(a.b1[head * D + column]) - centre[D];
    }
    get_columns(square, constants.gamma, warp);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        square[i / 2][i % 2] *= square[i / 2][i % 2];
    }
    for (int i = lane; i < D; i += 32) {
        gg += constants.gamma[i] * constants.gamma[i];
    }
    gg = warp_sum(gg);
    float tau_last = constants.tau[a.mini - 1];
    uint32_t of_k[D / 16][4], of_w[D / 16][4];
    numbered_wait(CHAIN_BARRIER, 4 * D);
    load_rows<D>(of_k, shared_address(Loads::k(shared, 0)));

#pragma unroll 1
    for (int step = 0;; step++) {
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            slice_to_b<D>(of_w[k], w, k);
        }
        if (step + 1 == a.steps) {
            numbered_wait(CHAIN_BARRIER, 4 * D);
            ring.put(step, of_w, b, warp);
            numbered_wait(CHAIN_BARRIER, 4 * D);
            break;
        }
        float *parts =
            reinterpret_cast<float *>(shared + Layout::parts) + step % 2 * Layout::part_floats;
        const float4 *pull = reinterpret_cast<const float4 *>(Loads::pull(shared, step)) + thread;
        const float *rates = Loads::rates(shared, step);
        float z[2][4], of_a[2][4], rate[2] = {rates[lane / 4], rates[lane / 4 + 8]};
        uint32_t columns[D / 16][4];
        product_slice<D>(z, of_k, of_w);
        get_four(of_a[0], pull[0]);
        get_four(of_a[1], pull[2 * D]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            z[i / 4][i % 4] += b[i / 4][i % 2];
        }
        scan_part<warps>(parts, warp, z, of_a, square);
        load_columns<D>(columns, shared_address(Loads::k(shared, step)));
        numbered_wait(CHAIN_BARRIER, 4 * D);

        float u[2][4], sums[2][2];
        InnerRow row[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            row[half] = scan_join<warps>(parts, lane / 4 + 8 * half, gg, a.eps);
        }
        load_rows<D>(of_k, shared_address(Loads::k(shared, step + 1)));
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float factor = -tau_last * rate[half] * row[half].inverse;
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float zh = (z[j][2 * half + i] - row[half].mean) * row[half].inverse;
                    float y = square[j][i] * zh + of_a[j][2 * half + i];
                    u[j][2 * half + i] = (y - row[half].y - zh * row[half].yz) * factor;
                }
            }
        }
        uint32_t of_u[4]; /* of -tau_last U */
        round_transposed(of_u, u);
        add_columns_to<D>(w, of_u, columns);
        ring.put(step, of_w, b, warp);
        column_sums<2>(sums, u);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            b[i / 2][i % 2] += sums[i / 2][i % 2];
        }
    }
#endif
}

/* ---- Launches ---- */

/* Whether the program has these kernels. */
static bool has_code()
{
    cudaFuncAttributes facts = {};
    if (cudaFuncGetAttributes(&facts, linear_chain_scan<96>) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return facts.ptxVersion >= 90;
}

static bool forced_to(const char *kernel)
{
    const char *forced = getenv("PACER_TTT_KERNEL");
    return forced != NULL && strcmp(forced, kernel) == 0;
}

bool ttt_linear_splits(const CudaBackend *backend, const TttShape *shape)
{
    int64_t steps = ttt_steps(shape);
    bool possible = backend->compute >= 90 && shape->batch * shape->heads <= backend->processors &&
                    shape->head_dim <= 96 && steps > 1 &&
                    ttt_linear_reverse_shared((int)shape->head_dim) <= backend->shared_bytes &&
                    has_code();
    bool wanted =
        forced_to("split") || forced_to("passes") || (steps >= SPLIT_STEPS && !forced_to("whole"));
    return possible && wanted;
}

bool ttt_linear_beside(const CudaBackend *backend, const TttShape *shape)
{
    return shape->batch * shape->heads < backend->processors && !forced_to("passes");
}

template <int D> static void scan(const CudaBackend *backend, const TttLinearArgs &args)
{
    flash_launch("ttt_linear_chain_scan", linear_chain_scan<D>, (int64_t)args.batch * args.heads,
                 4 * D + 32, shared_of(backend, args, ScanShared<D>::bytes), backend->stream, args);
}

void ttt_linear_chain_scan(const CudaBackend *backend, int head_dim, const TttLinearArgs &args)
{
    head_dim == 32   ? scan<32>(backend, args)
    : head_dim == 64 ? scan<64>(backend, args)
                     : scan<96>(backend, args);
}
