/* TTT-Linear on tensor cores where sequences and heads are too few to fill the GPU with a block
 * each. What a mini-batch gets from its neighbour is the state, and in the backward pass the
 * gradient of the state; a chain of mini-batches is walked for these alone, in steps as short as
 * they can be, and the rest is done by blocks that have some mini-batches of a chain each:
 *   forward: scan (states), outputs.
 *   backward: scan, records (what the reverse chain needs and does not depend on it), the reverse
 *   chain (gradients of states), then linear_backward with these given.
 * Half of the warps of a block that walks a chain bring and prepare what the other half takes. Both
 * meet at one barrier per mini-batch, which is the one between parts of row sums and their use:
 * before barrier s it is written what is read behind it for mini-batch s + 1. */
#include "cuda/ttt_linear.cuh"
#include "cuda/wgmma.cuh"

#include <stdlib.h>
#include <string.h>

#define CHAIN_BARRIER 1

static __device__ __forceinline__ void get_four(float (&c)[4], const float4 &from)
{
    c[0] = from.x;
    c[1] = from.y;
    c[2] = from.z;
    c[3] = from.w;
}

/* A slice of a matrix, rounded, to a state in memory, with its vector. */
template <int D>
static __device__ __forceinline__ void store_state(unsigned char *state,
                                                   const uint32_t (&slice)[D / 16][4],
                                                   const float (&vector)[2][2], int warp)
{
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int row = 16 * warp + lane / 4 + i / 2 * 8;
            int column = 16 * k + i % 2 * 8 + lane % 4 * 2;
            *reinterpret_cast<uint32_t *>(state + (row * D + column) * 2) = slice[k][i];
        }
    }
    if (lane < 8) { /* lane % 4 for its columns, lane / 4 for the eight they are in */
        float *to =
            reinterpret_cast<float *>(state + 2 * D * D) + 16 * warp + lane / 4 * 8 + lane % 4 * 2;
        *reinterpret_cast<float2 *>(to) = lane < 4 ? make_float2(vector[0][0], vector[0][1])
                                                   : make_float2(vector[1][0], vector[1][1]);
    }
}

/* c = rows times the slice, as two sums that do not wait for each other. */
template <int D>
static __device__ __forceinline__ void product_slice(float (&c)[2][4],
                                                     const uint32_t (&rows)[D / 16][4],
                                                     const uint32_t (&slice)[D / 16][4])
{
    float other[2][4];
    set_all(c, 0);
    set_all(other, 0);
#pragma unroll
    for (int k = 0; k < D / 16; k += 2) {
        product_16(c, rows[k], slice[k]);
        product_16(other, rows[k + 1], slice[k + 1]);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        c[i / 4][i % 4] += other[i / 4][i % 4];
    }
}

template <int D>
static __device__ __forceinline__ void load_rows(uint32_t (&rows)[D / 16][4], uint32_t tile)
{
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        load_a<D>(rows[k], tile, 0, 2 * k);
    }
}

/* ---- The scan ---- */

#define SCAN_RING 8 /* mini-batches in shared memory, also of rates */

template <int D> struct ScanShared {
    static constexpr int warps = D / 16, tile = TTT_ROWS * D * 2;
    static constexpr int part_floats = TTT_ROWS * part_stride<warps, 8>();
    static constexpr int k = 0, v = SCAN_RING * tile, rope = v + SCAN_RING * tile,
                         pulls = rope + TTT_ROWS * D * 4, parts = pulls + 2 * 2 * 2 * D * 16,
                         rates = parts + 2 * part_floats * 4,
                         constants = rates + SCAN_RING * TTT_ROWS * 4,
                         bytes = constants + sizeof(HeadConstants<D>);
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

/* inner_part of ttt_rows.cuh, from a = gamma (beta - target) and squares of gamma; gg: their sum
 * over the warp's columns. */
template <int Warps>
static __device__ __forceinline__ void scan_part(float *parts, int warp, const float (&z)[2][4],
                                                 const float (&a)[2][4],
                                                 const float (&square)[2][2], float gg)
{
    int lane = threadIdx.x % 32;
    float mean[2], a_sum[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = 2 * half;
        a_sum[half] = quad_sum(a[0][i] + a[0][i + 1] + (a[1][i] + a[1][i + 1]));
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int i = 2 * half;
        mean[half] = quad_sum(z[0][i] + z[0][i + 1] + (z[1][i] + z[1][i + 1])) * (1.0f / 16);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        float zz = 0, gz = 0, gzz = 0, az = 0;
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float c = z[j][2 * half + i] - mean[half], weighted = square[j][i] * c;
                zz += c * c;
                gz += weighted;
                gzz += weighted * c;
                az += a[j][2 * half + i] * c;
            }
        }
        float *part = part_at<Warps, 8>(parts, lane / 4 + 8 * half, warp);
        part[lane % 4] = quad_sums(zz, gz, gzz, az);
        if (lane % 4 == 0) {
            *reinterpret_cast<float4 *>(part + 4) = make_float4(mean[half], a_sum[half], gg, 0);
        }
    }
}

template <int D>
static __global__ void __launch_bounds__(4 * D, 1) linear_chain_scan(const TttLinearArgs a)
{
    typedef ScanShared<D> Layout;
    typedef ScanLoads<D> Loads;
    extern __shared__ __align__(128) unsigned char shared[];
    constexpr int warps = Layout::warps;
    int head = blockIdx.x % a.heads, token = blockIdx.x / a.heads * a.seq;
    HeadConstants<D> &constants = *reinterpret_cast<HeadConstants<D> *>(shared + Layout::constants);
    constants.load(a, head);
    rope_load<D, 4 * D>(reinterpret_cast<float *>(shared + Layout::rope), a.rope,
                        min(a.mini, a.seq));
    __syncthreads();

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
        for (int step = 0; step + 1 < a.steps; step++) {
            /* The tiles of step - 2 are read no more, behind barrier step - 1. */
            loads.fetch(a, token, head, step + SCAN_RING - 2, shared);
            if (step % 4 == 2) {
                loads.put_rates(a, shared, step + 2);
                loads.fetch_rates(a, token, head, step + 6);
            }
            copy_wait<SCAN_RING - 3>();
            loads.put(shared, step + 1);
            numbered_wait(CHAIN_BARRIER, 4 * D);
        }
        return;
    }

    int warp = threadIdx.x / 32 - warps, lane = threadIdx.x % 32, thread = threadIdx.x - 2 * D;
    float w[D / 8][4], b[2][2], square[2][2], gg;
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
    get_columns(square, constants.gamma, warp);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        square[i / 2][i % 2] *= square[i / 2][i % 2];
    }
    gg = quad_sum(square[0][0] + square[0][1] + (square[1][0] + square[1][1]));
    float tau_last = constants.tau[a.mini - 1];
    unsigned char *state = a.states + (int64_t)blockIdx.x * a.steps * state_bytes(D);
    uint32_t of_k[D / 16][4];
    numbered_wait(CHAIN_BARRIER, 4 * D);
    load_rows<D>(of_k, shared_address(Loads::k(shared, 0)));

#pragma unroll 1
    for (int step = 0; step < a.steps; step++, state += state_bytes(D)) {
        uint32_t of_w[D / 16][4];
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            slice_to_b<D>(of_w[k], w, k);
        }
        if (step + 1 == a.steps) {
            store_state<D>(state, of_w, b, warp);
            break;
        }
        uint32_t k_at = shared_address(Loads::k(shared, step));
        float *parts =
            reinterpret_cast<float *>(shared + Layout::parts) + step % 2 * Layout::part_floats;
        const float4 *pull = reinterpret_cast<const float4 *>(Loads::pull(shared, step)) + thread;
        const float *rates = Loads::rates(shared, step);
        float z[2][4], of_a[2][4], rate[2] = {rates[lane / 4], rates[lane / 4 + 8]};
        get_four(of_a[0], pull[0]);
        get_four(of_a[1], pull[2 * D]);
        product_slice<D>(z, of_k, of_w);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            z[i / 4][i % 4] += b[i / 4][i % 2];
        }
        scan_part<warps>(parts, warp, z, of_a, square, gg);
        store_state<D>(state, of_w, b, warp);
        numbered_wait(CHAIN_BARRIER, 4 * D);

        float u[2][4], sums[2][2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            InnerRow row = inner_join<warps, 2>(parts, lane / 4 + 8 * half, a.eps);
            float factor = -tau_last * rate[half] * row.inverse;
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float zh = (z[j][2 * half + i] - row.mean) * row.inverse;
                    float y = square[j][i] * zh + of_a[j][2 * half + i];
                    u[j][2 * half + i] = (y - row.y - zh * row.yz) * factor;
                }
            }
        }
        uint32_t of_u[4]; /* of -tau_last U */
        round_transposed(of_u, u);
        add_to_slice<D>(w, of_u, k_at);
        load_rows<D>(of_k, shared_address(Loads::k(shared, step + 1)));
        column_sums<2>(sums, u);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            b[i / 2][i % 2] += sums[i / 2][i % 2];
        }
    }
}

/* ---- The reverse chain ---- */

template <int D> struct ReverseShared {
    static constexpr int warps = D / 16, ring = 6;
    static constexpr int part_floats = TTT_ROWS * part_stride<warps, 8>();
    static constexpr int record = (int)record_bytes(D), records = 0, parts = ring * record,
                         bytes = parts + 2 * part_floats * 4;
};

template <int D>
static __global__ void __launch_bounds__(4 * D, 1) linear_chain_reverse(const TttLinearArgs a)
{
    typedef ReverseShared<D> Layout;
    extern __shared__ __align__(128) unsigned char shared[];
    constexpr int warps = Layout::warps, ring = Layout::ring;
    int head = blockIdx.x % a.heads;
    unsigned char *records = a.records + (int64_t)blockIdx.x * a.steps * record_bytes(D);

    /* The turn-th mini-batch from the end. */
    if (threadIdx.x < 2 * D) {
        auto fetch = [&](int turn) {
            if (turn < a.steps) {
                const unsigned char *from = records + (a.steps - 1 - turn) * record_bytes(D);
                uint32_t to = shared_address(shared) + turn % ring * Layout::record;
#pragma unroll 4
                for (int i = threadIdx.x * 16; i < Layout::record; i += 2 * D * 16) {
                    copy_async_16(to + i, from + i, true);
                }
            }
            copy_commit();
        };
        for (int turn = 0; turn < ring - 2; turn++) {
            fetch(turn);
        }
        copy_wait<ring - 3>();
        numbered_wait(CHAIN_BARRIER, 4 * D);
#pragma unroll 1
        for (int turn = 0; turn < a.steps; turn++) {
            fetch(turn + ring - 2); /* in the place of turn - 2, read no more */
            copy_wait<ring - 3>();
            numbered_wait(CHAIN_BARRIER, 4 * D);
        }
        return;
    }

    int warp = threadIdx.x / 32 - warps, lane = threadIdx.x % 32, thread = threadIdx.x - 2 * D;
    float dw[D / 8][4], db[2][2] = {}, square[2][2], mean_square = 0;
#pragma unroll
    for (int t = 0; t < D / 8; t++) {
        dw[t][0] = dw[t][1] = dw[t][2] = dw[t][3] = 0;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int column = 16 * warp + i / 2 * 8 + lane % 4 * 2 + i % 2;
        float gamma = to_f32(a.gamma[head * D + column]);
        square[i / 2][i % 2] = gamma * gamma;
    }
    for (int i = lane; i < D; i += 32) {
        float gamma = to_f32(a.gamma[head * D + i]);
        mean_square += gamma * gamma;
    }
    mean_square = warp_sum(mean_square) * (1.0f / D);
    float tau_last = position_factor(a.mini - 1, a.index[a.mini - 1]);
    numbered_wait(CHAIN_BARRIER, 4 * D);

#pragma unroll 1
    for (int turn = 0; turn < a.steps; turn++) {
        const unsigned char *record = shared + turn % ring * Layout::record;
        const float4 *of_zh = reinterpret_cast<const float4 *>(record + Record<D>::zh) + thread;
        const float4 *of_y = reinterpret_cast<const float4 *>(record + Record<D>::y) + thread;
        const float4 *of_base = reinterpret_cast<const float4 *>(record + Record<D>::base) + thread;
        const float4 *of_rows = reinterpret_cast<const float4 *>(record + Record<D>::rows);
        const float *of_sums = reinterpret_cast<const float *>(record + Record<D>::sums);
        float *parts =
            reinterpret_cast<float *>(shared + Layout::parts) + turn % 2 * Layout::part_floats;
        uint32_t k_at = shared_address(record + Record<D>::k);
        uint32_t q_at = shared_address(record + Record<D>::q);
        float du[2][4], zh[2][4], y[2][4], base[2][4], sums[2][2];
        InnerRow row[2];
        float rate[2];
        {
            uint32_t of_k[D / 16][4], of_dw[D / 16][4];
#pragma unroll
            for (int k = 0; k < D / 16; k++) {
                slice_to_b<D>(of_dw[k], dw, k);
            }
            load_rows<D>(of_k, k_at);
            product_slice<D>(du, of_k, of_dw); /* J without db */
#pragma unroll
            for (int j = 0; j < 2; j++) {
                get_four(zh[j], of_zh[j * 2 * D]);
                get_four(y[j], of_y[j * 2 * D]);
                get_four(base[j], of_base[j * 2 * D]);
            }
            /* Its record is read no more in memory: all of it is in shared memory. */
            store_state<D>(records + (a.steps - 1 - turn) * record_bytes(D), of_dw, db, warp);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int at = lane / 4 + 8 * half;
            float4 first = of_rows[2 * at];
            float2 second = *reinterpret_cast<const float2 *>(of_rows + 2 * at + 1);
            row[half].mean = 0;
            row[half].inverse = first.x;
            row[half].y = first.y;
            row[half].yz = first.z;
            row[half].gz = second.x;
            row[half].gzz = second.y;
            rate[half] = first.w;
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float &value = du[i / 4][i % 4];
            value = base[i / 4][i % 4] - tau_last * (value + db[i / 4][i % 2]);
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float sum = 0, uz = 0, gu = 0, guz = 0, uy = 0;
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float value = du[j][2 * half + i], z = zh[j][2 * half + i];
                    float weighted = square[j][i] * value;
                    sum += value;
                    uz += value * z;
                    gu += weighted;
                    guz += weighted * z;
                    uy += value * y[j][2 * half + i];
                }
            }
            float *part = part_at<warps, 8>(parts, lane / 4 + 8 * half, warp);
            uy = quad_sum(uy);
            part[lane % 4] = quad_sums(sum, uz, gu, guz);
            if (lane % 4 == 0) {
                part[4] = uy;
            }
        }
        {
            uint4 four_dzb = reinterpret_cast<const uint4 *>(record + Record<D>::dzb)[thread];
            const uint32_t of_dzb[4] = {four_dzb.x, four_dzb.y, four_dzb.z, four_dzb.w};
            add_to_slice<D>(dw, of_dzb, q_at);
        }
        get_columns(sums, of_sums, warp);
        numbered_wait(CHAIN_BARRIER, 4 * D);

#pragma unroll
        for (int half = 0; half < 2; half++) {
            const InnerRow &n = row[half];
            PullRow p = pull_join<warps, 2>(parts, lane / 4 + 8 * half, n, rate[half]);
            float mean = p.gr - n.yz * p.r - p.rz * n.y - p.r * mean_square - p.rz * n.gz;
            float mean_z = p.grz - 2 * p.rz * n.yz - p.r * n.gz - p.rz * n.gzz + p.dgg;
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float &value = du[j][2 * half + i];
                    float r = value * p.factor, z = zh[j][2 * half + i];
                    float dzh =
                        square[j][i] * (r - p.r - p.rz * z) - n.yz * r - p.rz * y[j][2 * half + i];
                    value = (dzh - mean - mean_z * z) * n.inverse;
                }
            }
        }
        uint32_t of_dz[4];
        float more[2][2];
        round_transposed(of_dz, du);
        add_to_slice<D>(dw, of_dz, k_at);
        column_sums<2>(more, du);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            db[i / 2][i % 2] += sums[i / 2][i % 2] + more[i / 2][i % 2];
        }
    }
    slot_put_state<D>(a.slots + blockIdx.x * slot_floats(D), dw, db, warp, false);
}

/* ---- Launches ---- */

static int reverse_shared(int64_t head_dim)
{
    return head_dim == 32   ? ReverseShared<32>::bytes
           : head_dim == 64 ? ReverseShared<64>::bytes
                            : ReverseShared<96>::bytes;
}

/* On request alone, PACER_TTT_KERNEL=split in the environment: every op is within its bound, but a
 * whole step of ttt-125m at 1 x 1000 was not within that of `bench step`. */
bool ttt_linear_splits(const CudaBackend *backend, const TttShape *shape)
{
    const char *forced = getenv("PACER_TTT_KERNEL");
    return forced != NULL && strcmp(forced, "split") == 0 &&
           shape->batch * shape->heads <= backend->processors && shape->head_dim <= 96 &&
           ttt_steps(shape) > 1 && reverse_shared(shape->head_dim) <= backend->shared_bytes;
}

template <int D> static void scan(const CudaBackend *backend, const TttLinearArgs &args)
{
    flash_launch("ttt_linear_chain_scan", linear_chain_scan<D>, (int64_t)args.batch * args.heads,
                 4 * D, ScanShared<D>::bytes, backend->stream, args);
}

void ttt_linear_chain_scan(const CudaBackend *backend, int head_dim, const TttLinearArgs &args)
{
    head_dim == 32   ? scan<32>(backend, args)
    : head_dim == 64 ? scan<64>(backend, args)
                     : scan<96>(backend, args);
}

template <int D> static void reverse(const CudaBackend *backend, const TttLinearArgs &args)
{
    flash_launch("ttt_linear_chain_reverse", linear_chain_reverse<D>,
                 (int64_t)args.batch * args.heads, 4 * D, ReverseShared<D>::bytes, backend->stream,
                 args);
}

void ttt_linear_chain_reverse(const CudaBackend *backend, int head_dim, const TttLinearArgs &args)
{
    head_dim == 32   ? reverse<32>(backend, args)
    : head_dim == 64 ? reverse<64>(backend, args)
                     : reverse<96>(backend, args);
}
