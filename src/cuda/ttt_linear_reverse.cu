/* The reverse chain of split chains of TTT-Linear (ttt_linear_chain.cuh). */
#include "cuda/ttt_linear_chain.cuh"

template <int D> struct ReverseShared {
    static constexpr int warps = D / 16, ring = D == 96 ? 5 : 6;
    static constexpr int part_floats = TTT_ROWS * part_stride<warps, 8>();
    static constexpr int record = (int)record_bytes(D), records = 0, parts = ring * record,
                         states = parts + 2 * part_floats * 4,
                         barriers = states + StateRing<D>::bytes,
                         loaded = barriers + StateRing<D>::barrier_bytes, bytes = loaded + 8 * ring;
    static_assert(record % 16 == 0 && states % 16 == 0 && barriers % 16 == 0,
                  "bulk copies take multiples of 16");
};

template <int D>
static __global__ void __launch_bounds__(2 * D + 64, 1) linear_chain_reverse(const TttLinearArgs a)
{
#if CHAIN_CODE
    typedef ReverseShared<D> Layout;
    extern __shared__ __align__(128) unsigned char shared[];
    constexpr int warps = Layout::warps, ring = Layout::ring, meeting = 2 * D + 32;
    int head = blockIdx.x % a.heads;
    unsigned char *records = a.records + (int64_t)blockIdx.x * a.steps * record_bytes(D);
    const StateRing<D> states(shared + Layout::states, shared + Layout::barriers);
    uint32_t loaded = shared_address(shared + Layout::loaded);
    let_next_begin();
    if (threadIdx.x == 0) {
        states.init();
        for (int i = 0; i < ring; i++) {
            barrier_init(loaded + 8 * i, 1);
        }
        barriers_ready();
    }
    __syncthreads();

    /* The turn-th mini-batch from the end. */
    auto record_at = [&](int turn) { return records + (a.steps - 1 - turn) * record_bytes(D); };
    if (threadIdx.x >= 2 * D + 32) {
        if (threadIdx.x == 2 * D + 32) {
            /* Into the place of the record, all of which is in shared memory by then. */
            states.take_out(a.steps, a.ready == NULL ? NULL : a.ready + blockIdx.x, record_at);
        }
        return;
    }
    if (threadIdx.x >= 2 * D) {
        bool first = threadIdx.x == 2 * D;
        auto fetch = [&](int turn) {
            if (turn < a.steps) {
                uint32_t barrier = loaded + turn % ring * 8;
                barrier_arrive_expect(barrier, Layout::record);
                bytes_load(shared_address(shared) + turn % ring * Layout::record, record_at(turn),
                           Layout::record, barrier);
            }
        };
        for (int turn = 0; first && turn < ring; turn++) {
            fetch(turn);
        }
#pragma unroll 1
        for (int turn = 0; turn <= a.steps; turn++) {
            if (first && turn < a.steps) {
                states.await_place(turn);
            }
            __syncwarp();
            numbered_wait(CHAIN_BARRIER, meeting);
            if (first && turn > 0) {
                states.pass_on(turn - 1);
                fetch(turn - 1 + ring); /* in the place of the turn before, read no more */
            }
        }
        return;
    }

    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, thread = threadIdx.x;
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
    uint32_t of_k[D / 16][4];
    barrier_wait(loaded, 0);
    load_rows<D>(of_k, shared_address(shared + Record<D>::k));

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
        uint32_t of_dw[D / 16][4], columns[D / 16][4];
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            slice_to_b<D>(of_dw[k], dw, k);
        }
        product_slice<D>(du, of_k, of_dw); /* J without db */
#pragma unroll
        for (int j = 0; j < 2; j++) {
            get_four(zh[j], of_zh[j * 2 * D]);
            get_four(y[j], of_y[j * 2 * D]);
            get_four(base[j], of_base[j * 2 * D]);
        }
        load_columns<D>(columns, q_at);
        uint4 four_dzb = reinterpret_cast<const uint4 *>(record + Record<D>::dzb)[thread];
        const uint32_t of_dzb[4] = {four_dzb.x, four_dzb.y, four_dzb.z, four_dzb.w};
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
        get_columns(sums, of_sums, warp);
        numbered_wait(CHAIN_BARRIER, meeting);

        PullRow pull[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            pull[half] = pull_join<warps, 2>(parts, lane / 4 + 8 * half, row[half], rate[half]);
        }
        add_columns_to<D>(dw, of_dzb, columns);
        load_columns<D>(columns, k_at);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const InnerRow &n = row[half];
            const PullRow &p = pull[half];
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
        add_columns_to<D>(dw, of_dz, columns);
        states.put(turn, of_dw, db, warp);
        if (turn + 1 < a.steps) {
            int next = turn + 1;
            barrier_wait(loaded + next % ring * 8, next / ring % 2);
            load_rows<D>(of_k,
                         shared_address(shared + next % ring * Layout::record) + Record<D>::k);
        }
        column_sums<2>(more, du);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            db[i / 2][i % 2] += sums[i / 2][i % 2] + more[i / 2][i % 2];
        }
    }
    numbered_wait(CHAIN_BARRIER, meeting);
    slot_put_state<D>(a.slots + blockIdx.x * slot_floats(D), dw, db, warp, false);
#endif
}

/* ---- Launches ---- */

int ttt_linear_reverse_shared(int head_dim)
{
    return head_dim == 32   ? ReverseShared<32>::bytes
           : head_dim == 64 ? ReverseShared<64>::bytes
                            : ReverseShared<96>::bytes;
}

template <int D> static void reverse(const CudaBackend *backend, const TttLinearArgs &args)
{
    flash_launch("ttt_linear_chain_reverse", linear_chain_reverse<D>,
                 (int64_t)args.batch * args.heads, 2 * D + 64,
                 shared_of(backend, args, ReverseShared<D>::bytes), backend->stream, args);
}

void ttt_linear_chain_reverse(const CudaBackend *backend, int head_dim, const TttLinearArgs &args)
{
    head_dim == 32   ? reverse<32>(backend, args)
    : head_dim == 64 ? reverse<64>(backend, args)
                     : reverse<96>(backend, args);
}
