/* TTT_MLP forward in bf16 on tensor cores by clusters, and the re-scan of it that the backward pass
 * begins with; heads of 64 have ttt_mlp_block.cu instead.
 *
 * The serial chain of a mini-batch is Z1, X, Z2, G2, G1, W1', W2'; one sum over the cluster (Z2) is
 * in it. The output hangs off the chain: its own sums over the cluster (Xb W2 and Xb X^T) are sent
 * in the same mini-batch, but read in the next. Each block finishes four rows of the output.
 *
 * Barriers of a mini-batch: one in the block for X, then the arrival of all parts of Z2, one in
 * the block for G2, one in the block for Xb. One in the cluster, at which nobody has to wait
 * long, says that everybody has read the parts of Z2, so that the next may be sent; since these
 * arrive only after everybody has sent, they also say that the rows of the output sent two
 * mini-batches before have been read. */
#include "cuda/ttt_mlp.cuh"

template <int D, bool Keep> struct ForwardShared {
    alignas(128) unsigned char w2[2 * D * D]; /* the state W2 of this slice, transposed */
    unsigned char w1[Keep ? 2 * D * D : 16];  /* and W1, transposed */
    unsigned char q[3][32 * D], k[2][32 * D], v[2][32 * D];
    unsigned char x[2][32 * D], xb[32 * D], g2[32 * D], u2[2][32 * D];
    float z2[MLP_SLICES][TTT_ROWS][mlp_stride<D>];      /* parts of the sum */
    float zb2[2][MLP_SLICES][MLP_OWNED][mlp_stride<D>]; /* of the rows that this block finishes */
    float p2[2][MLP_SLICES][MLP_OWNED][TTT_ROWS];
    alignas(16) float rope[TTT_ROWS * D];
    float b2[3][D], gamma[D], beta[D], sums[4][D];
    float lambda[2][TTT_ROWS], gate[2][TTT_ROWS], tau[TTT_ROWS];
    uint64_t z2_here, rows_here[2]; /* barriers that count the bytes of what is sent here */

    static constexpr uint32_t z2_bytes = sizeof(float) * MLP_SLICES * TTT_ROWS * D;
    static constexpr uint32_t rows_bytes = sizeof(float) * MLP_SLICES * MLP_OWNED * (D + TTT_ROWS);
};

#if MLP_CLUSTERS

/* G2 and U2 of four rows by the warp, from the parts of Z2; sums gets the columns' sums of U2. */
template <int D, bool Keep>
static __device__ __forceinline__ void inner_gradient(ForwardShared<D, Keep> &s, const MlpArgs &a,
                                                      int rank, int warp, int step,
                                                      MlpRecord<D> *record)
{
    constexpr int pairs = D / 16;
    int lane = threadIdx.x % 32, row = 4 * warp + lane / 8, first = lane % 8 * 2;
    const unsigned char *k_tile = s.k[step % 2], *v_tile = s.v[step % 2];
    float z[pairs][2];
    float mean = 0, variance = 0, mean_y = 0, mean_yz = 0;
#pragma unroll
    for (int j = 0; j < pairs; j++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            z[j][e] = s.b2[step % 3][first + 16 * j + e];
        }
#pragma unroll
        for (int from = 0; from < MLP_SLICES; from++) {
            float2 part = *reinterpret_cast<const float2 *>(&s.z2[from][row][first + 16 * j]);
            z[j][0] += part.x;
            z[j][1] += part.y;
        }
        mean += z[j][0] + z[j][1];
    }
    mean = row_sum(mean) / D;
    if (Keep && warp == rank) {
#pragma unroll
        for (int j = 0; j < pairs; j++) {
            *reinterpret_cast<float2 *>(&record->z2[row][first + 16 * j]) =
                make_float2(z[j][0], z[j][1]);
        }
    }
#pragma unroll
    for (int j = 0; j < pairs; j++) {
        z[j][0] -= mean;
        z[j][1] -= mean;
        variance += z[j][0] * z[j][0] + z[j][1] * z[j][1];
    }
    float inverse = rsqrtf(row_sum(variance) / D + a.eps);
#pragma unroll
    for (int j = 0; j < pairs; j++) {
        float k[2], v[2];
        get_pair<D>(k, k_tile, row, first + 16 * j);
        get_pair<D>(v, v_tile, row, first + 16 * j);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            int column = first + 16 * j + e;
            z[j][e] *= inverse;
            float y =
                s.gamma[column] * (s.gamma[column] * z[j][e] + s.beta[column] - (v[e] - k[e]));
            mean_y += y;
            mean_yz += y * z[j][e];
        }
    }
    mean_y = row_sum(mean_y) / D;
    mean_yz = row_sum(mean_yz) / D;
    float lambda = s.lambda[step % 2][row];
#pragma unroll
    for (int j = 0; j < pairs; j++) {
        int column = first + 16 * j;
        float k[2], v[2], g[2];
        get_pair<D>(k, k_tile, row, column);
        get_pair<D>(v, v_tile, row, column);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float gamma = s.gamma[column + e];
            float y = gamma * (gamma * z[j][e] + s.beta[column + e] - (v[e] - k[e]));
            g[e] = (y - mean_y - z[j][e] * mean_yz) * inverse;
        }
        put_pair<D>(s.g2, row, column, g[0], g[1]);
        put_pair<D>(s.u2[step % 2], row, column, lambda * g[0], lambda * g[1]);
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float sum = lambda * g[e];
            sum += __shfl_xor_sync(~0u, sum, 8);
            sum += __shfl_xor_sync(~0u, sum, 16);
            if (lane < 8) {
                s.sums[warp][column + e] = sum;
            }
        }
    }
    if (Keep && warp == rank && lane % 8 == 0) {
        record->stats[row] = make_float4(mean, inverse, mean_y, mean_yz);
    }
}

/* Finishes a row of a mini-batch by each of the first four warps: its output, or for Keep the
 * gradient of its Zb2, with what the row adds to the gradients of gamma and beta. Lanes have
 * columns lane + 32 j. */
template <int D, bool Keep>
static __device__ __forceinline__ void finish_row(const ForwardShared<D, Keep> &s, const MlpArgs &a,
                                                  int rank, int warp, int step, int head,
                                                  int sequence, MlpRecord<D> *record,
                                                  float (&dgamma)[D / 32], float (&dbeta)[D / 32])
{
    constexpr int columns = D / 32;
    int lane = threadIdx.x % 32, row = MLP_OWNED * rank + warp, parity = step % 2;
    int token = step * a.mini + row;
    bool inside = row < a.mini && token < a.seq;
    int64_t at = ((int64_t)sequence * a.seq + token) * a.heads * D + head * D + lane;
    float dout[columns] = {};
    if (Keep && inside) {
#pragma unroll
        for (int j = 0; j < columns; j++) {
            dout[j] = to_f32(a.dout[at + 32 * j]);
        }
    }
    float pu[columns] = {}, z[columns], mean = 0, variance = 0;
    for (int i = 0; i <= row; i++) {
        float p = 1;
#pragma unroll
        for (int from = 0; from < MLP_SLICES; from++) {
            p += s.p2[parity][from][warp][i];
        }
#pragma unroll
        for (int j = 0; j < columns; j++) {
            int column = lane + 32 * j;
            pu[j] += p * to_f32(*reinterpret_cast<const Bf16 *>(
                             s.u2[parity] + tile_at<D>(i, column / 8) + column % 8 * 2));
        }
    }
    if (Keep && lane < TTT_ROWS) {
        float p = 1;
#pragma unroll
        for (int from = 0; from < MLP_SLICES; from++) {
            p += s.p2[parity][from][warp][lane];
        }
        record->p2[row][lane] = lane <= row ? p : 0;
    }
#pragma unroll
    for (int j = 0; j < columns; j++) {
        int column = lane + 32 * j;
        z[j] = s.b2[step % 3][column] - s.tau[row] * pu[j];
#pragma unroll
        for (int from = 0; from < MLP_SLICES; from++) {
            z[j] += s.zb2[parity][from][warp][column];
        }
        mean += z[j];
    }
    mean = warp_sum(mean) / D;
#pragma unroll
    for (int j = 0; j < columns; j++) {
        z[j] -= mean;
        variance += z[j] * z[j];
    }
    float inverse = rsqrtf(warp_sum(variance) / D + a.eps);
    if (!Keep) {
#pragma unroll
        for (int j = 0; j < columns && inside; j++) {
            int column = lane + 32 * j;
            float q = to_f32(*reinterpret_cast<const Bf16 *>(
                s.q[step % 3] + tile_at<D>(row, column / 8) + column % 8 * 2));
            a.out[at + 32 * j] =
                from_f32<Bf16>(q + s.gamma[column] * z[j] * inverse + s.beta[column]);
        }
        return;
    }
    float mean_d = 0, mean_dz = 0;
#pragma unroll
    for (int j = 0; j < columns; j++) {
        z[j] *= inverse;
        dgamma[j] += dout[j] * z[j];
        dbeta[j] += dout[j];
        dout[j] *= s.gamma[lane + 32 * j];
        mean_d += dout[j];
        mean_dz += dout[j] * z[j];
    }
    mean_d = warp_sum(mean_d) / D;
    mean_dz = warp_sum(mean_dz) / D;
#pragma unroll
    for (int j = 0; j < columns; j++) {
        record->dzb2[row][lane + 32 * j] = (dout[j] - mean_d - z[j] * mean_dz) * inverse;
    }
}

/* Copies a tile of D rows out of shared memory, by all threads. */
template <int D>
static __device__ __forceinline__ void copy_out(unsigned char *to, const unsigned char *tile)
{
    constexpr int chunks = 2 * D * D / 16;
#pragma unroll
    for (int i = 0; i < chunks / mlp_threads<D>; i++) {
        int chunk = threadIdx.x + i * mlp_threads<D>;
        reinterpret_cast<uint4 *>(to)[chunk] = reinterpret_cast<const uint4 *>(tile)[chunk];
    }
}
#endif

template <int D, bool Keep>
__global__ void __launch_bounds__(mlp_threads<D>, Keep ? 1 : 2) mlp_scan(MlpArgs a)
{
#if MLP_CLUSTERS
    extern __shared__ __align__(128) unsigned char shared[];
    ForwardShared<D, Keep> &s = *reinterpret_cast<ForwardShared<D, Keep> *>(shared);
    const int warps = D / 16, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int rank = blockIdx.x % MLP_SLICES, local = blockIdx.x / MLP_SLICES;
    const int pair = a.first + local, head = pair / a.batch, sequence = pair % a.batch;
    MlpRecord<D> *records = reinterpret_cast<MlpRecord<D> *>(a.records) + (int64_t)local * a.steps;

    /* State, transposed: own hidden columns of W1 by D, own columns of W2 by the slice's hidden
     * rows. */
    float w1[D / 8][4], w2[D / 8][4], b1[2][2];
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int own = 16 * warp + lane / 4 + i / 2 * 8, other = 8 * n + lane % 4 * 2 + i % 2;
            w1[n][i] = to_f32(a.w1[((int64_t)head * D + other) * 4 * D + rank * D + own]);
            w2[n][i] = to_f32(a.w2[((int64_t)head * 4 * D + rank * D + other) * D + own]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        b1[i / 2][i % 2] =
            to_f32(a.b1[head * 4 * D + rank * D + 16 * warp + i / 2 * 8 + lane % 4 * 2 + i % 2]);
    }
    put_state<D>(s.w2, w2, warp);
    if (Keep) {
        put_state<D>(s.w1, w1, warp);
    }
    if (threadIdx.x < D) {
        s.b2[0][threadIdx.x] = to_f32(a.b2[head * D + threadIdx.x]);
        s.gamma[threadIdx.x] = to_f32(a.gamma[head * D + threadIdx.x]);
        s.beta[threadIdx.x] = to_f32(a.beta[head * D + threadIdx.x]);
    }
    set_tau(s.tau, a);
    const uint32_t z2_here = shared_address(&s.z2_here);
    const uint32_t rows_here = shared_address(&s.rows_here[0]);
    if (threadIdx.x == 0) {
        barrier_init(z2_here, 1);
        barrier_init(rows_here, 1);
        barrier_init(rows_here + 8, 1);
        barriers_ready();
        barrier_arrive_expect(z2_here, s.z2_bytes);
        barrier_arrive_expect(rows_here, s.rows_bytes);
        barrier_arrive_expect(rows_here + 8, s.rows_bytes);
    }
    MlpTokens<D> tokens(head, sequence);
    tokens.fetch(a, 0);
    rope_load<D, mlp_threads<D>>(s.rope, a.rope, min(a.mini, a.seq));
    __syncthreads();
    tokens.place(s.q[0], s.k[0], s.v[0], s.rope, s.lambda[0], s.gate[0], a.rate);
    cluster_arrive(); /* every block is there to be sent to */
    cluster_wait();

    float dgamma[D / 32] = {}, dbeta[D / 32] = {};
#pragma unroll 1
    for (int step = 0; step < a.steps; step++) {
        const int parity = step % 2;
        const bool more = step + 1 < a.steps;
        const uint32_t q_tile = tile_address(s.q[step % 3]), k_tile = tile_address(s.k[parity]);
        const uint32_t x_tile = tile_address(s.x[parity]), u2_tile = tile_address(s.u2[parity]);
        const uint32_t w2_tile = tile_address(s.w2), xb_tile = tile_address(s.xb);
        const uint32_t g2_tile = tile_address(s.g2);
        const int count = min(a.mini, a.seq - step * a.mini);
        const float last_tau = s.tau[count - 1];
        if (more) {
            tokens.fetch(a, step + 1);
        }

        Square z1, slope, part;
        set_rows(z1, b1);
        add_product_state<D>(z1, k_tile, w1);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            Gelu gelu(MLP_AT(z1, i));
            MLP_AT(z1, i) = gelu.value;
            MLP_AT(slope, i) = gelu.slope;
        }
        put_own<D>(s.x[parity], z1, warp);
        __syncthreads();
        set_all(part, 0);
        add_product_state<D>(part, x_tile, w2);
        if (step > 0) {
            cluster_wait(); /* the last parts of Z2 have been read everywhere */
        }
        send_to_all<D>(s.z2, rank, part, warp, z2_here);
        if (Keep) {
            copy_out<D>(records[step].w1[rank], s.w1);
            copy_out<D>(records[step].w2[rank], s.w2);
            if (lane < 4) {
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    records[step].b1[rank][16 * warp + i / 2 * 8 + lane * 2 + i % 2] =
                        b1[i / 2][i % 2];
                }
            }
        }

        Square zb1, scores;
        set_rows(zb1, b1);
        add_product_state<D>(zb1, q_tile, w1);
        set_all(scores, 1);
        add_product_transposed<D>(scores, q_tile, k_tile, 0);
        keep_lower(scores);
        uint32_t fragment[4], u1_transposed[4], p1[4];
        round_to_a(p1, scores[0], scores[1]);
        if (more) {
            tokens.place(s.q[(step + 1) % 3], s.k[1 - parity], s.v[1 - parity], s.rope,
                         s.lambda[1 - parity], s.gate[1 - parity], a.rate);
        }
        if (warp < 4) {
            receive(z2_here, step, s.z2_bytes);
            inner_gradient<D, Keep>(s, a, rank, warp, step, &records[step]);
        }
        cluster_arrive_read();
        __syncthreads();

        set_all(part, 0);
        add_product<D>(part, g2_tile, w2_tile, warp); /* R = G2 W2^T */
        const float *lambda = s.lambda[parity];
        const float rates[2] = {lambda[lane / 4], lambda[lane / 4 + 8]};
        const float taus[2] = {s.tau[lane / 4], s.tau[lane / 4 + 8]};
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(part, i) *= MLP_AT(slope, i) * MLP_ROW(rates, i); /* U1 */
        }
        round_transposed(u1_transposed, part);
        float sums[2][2];
        column_sums(sums, part);
        set_all(part, 0);
        add_square(part, p1, u1_transposed);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(zb1, i) =
                Gelu(MLP_AT(zb1, i) - MLP_ROW(taus, i) * MLP_AT(part, i)).value; /* Xb */
        }
        put_own<D>(s.xb, zb1, warp);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            b1[i / 2][i % 2] -= last_tau * sums[i / 2][i % 2];
        }
        add_outer<D>(w1, u1_transposed, k_tile, -last_tau);
        if (Keep) {
            put_state<D>(s.w1, w1, warp);
        }
        __syncthreads();

        set_all(part, 0);
        add_product_state<D>(part, xb_tile, w2);
        send_to_owners(s.zb2[parity], rank, part, 16 * warp, rows_here + 8 * parity);
        if (warp == warps - 1) {
            set_all(part, 0);
            add_product_transposed<D>(part, xb_tile, x_tile, 0);
            send_to_owners(s.p2[parity], rank, part, 0, rows_here + 8 * parity);
        }
        load_own_transposed<D>(fragment, u2_tile, warp);
        add_outer<D>(w2, fragment, x_tile, -last_tau);
        put_state<D>(s.w2, w2, warp);
        if (threadIdx.x < D) {
            int column = threadIdx.x;
            s.b2[(step + 1) % 3][column] =
                s.b2[step % 3][column] - last_tau * (s.sums[0][column] + s.sums[1][column] +
                                                     s.sums[2][column] + s.sums[3][column]);
        }
        if (step > 0 && warp < 4) {
            receive(rows_here + 8 * (1 - parity), (step - 1) / 2, s.rows_bytes);
            finish_row<D, Keep>(s, a, rank, warp, step - 1, head, sequence, &records[step - 1],
                                dgamma, dbeta);
        }
    }
    cluster_wait();
    if (warp < 4) {
        receive(rows_here + (a.steps - 1) % 2 * 8, (a.steps - 1) / 2, s.rows_bytes);
        finish_row<D, Keep>(s, a, rank, warp, a.steps - 1, head, sequence, &records[a.steps - 1],
                            dgamma, dbeta);
    }
    if (Keep) {
        float(*sums)[2][D] = reinterpret_cast<float(*)[2][D]>(&s.z2[0][0][0]); /* read by now */
#pragma unroll
        for (int j = 0; j < D / 32 && warp < 4; j++) {
            sums[warp][0][lane + 32 * j] = dgamma[j];
            sums[warp][1][lane + 32 * j] = dbeta[j];
        }
        __syncthreads();
        MlpPartial<D> *partial = reinterpret_cast<MlpPartial<D> *>(a.partials) + local;
        int which = threadIdx.x / D, column = threadIdx.x % D;
        partial->norm[rank][which][column] = sums[0][which][column] + sums[1][which][column] +
                                             sums[2][which][column] + sums[3][which][column];
    }
#else
    (void)a;
#endif
}

template <int D, bool Keep>
static void launch(const CudaBackend *backend, const MlpArgs &args, int pairs)
{
    mlp_launch<D>("mlp_scan", mlp_scan<D, Keep>, pairs, sizeof(ForwardShared<D, Keep>),
                  backend->stream, args);
}

void ttt_mlp_scan(const CudaBackend *backend, const MlpArgs &args, int head_dim, int pairs,
                  bool keep)
{
    if (head_dim == 64) {
        ttt_mlp_block_scan(backend, args, pairs, keep);
    } else {
        keep ? launch<96, true>(backend, args, pairs) : launch<96, false>(backend, args, pairs);
    }
}

MlpArgs ttt_mlp_args(Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope)
{
    MlpArgs a = {};
    fill_common(a, x, shape, w, rope);
    a.w2 = (const Bf16 *)w->w2.data;
    a.b2 = (const Bf16 *)w->b2.data;
    a.vectorise = aligned_16(x.data) && shape->width % 8 == 0;
    return a;
}

/* Whether the program has this kernel for clusters. */
static bool has_code()
{
    cudaFuncAttributes facts = {};
    if (cudaFuncGetAttributes(&facts, mlp_scan<96, false>) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return facts.ptxVersion >= 90;
}

static bool covers(const CudaBackend *backend, const TttShape *shape, DType dtype)
{
    return backend->compute >= 90 && dtype == DT_BF16 && shape->kind == TTT_MLP &&
           (shape->head_dim == 64 || shape->head_dim == 96) && shape->mini <= TTT_ROWS &&
           shape->seq <= INT32_MAX / 2 && shape->batch * shape->heads < INT32_MAX / MLP_SLICES &&
           ttt_mlp_reverse_shared((int)shape->head_dim) <= backend->shared_bytes &&
           ttt_mlp_block_shared() <= backend->shared_bytes && has_code();
}

static void forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                    Tensor out, Tensor states, void *ws)
{
    (void)states;
    (void)ws;
    MlpArgs args = ttt_mlp_args(x, shape, w, rope);
    args.out = (Bf16 *)out.data;
    ttt_mlp_scan(cuda_of(c), args, (int)shape->head_dim, args.batch * args.heads, false);
}

static size_t no_bytes(const Ctx *c, const TttShape *shape, DType dtype)
{
    (void)c, (void)shape, (void)dtype;
    return 0;
}

extern "C" const CudaTtt cuda_ttt_mlp = {
    covers, forward, no_bytes, ttt_mlp_backward, ttt_mlp_backward_ws, no_bytes};
