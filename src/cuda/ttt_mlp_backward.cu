/* TTT_MLP backward in bf16 on tensor cores: the reverse scan by clusters; that of heads of 64 is in
 * ttt_mlp_block_reverse.cu. The re-scan (ttt_mlp_forward.cu) has left, for every mini-batch, its
 * state and the rows that took sums over the cluster: Z2 and the gradient of Zb2. With these a
 * block recomputes all of its slice by itself. What is left to sum over the cluster is the gradient
 * of G2,
 *   dG2 = lambda (dU2 of the dual form - tau' (X dW2' + db2')) + dR W2,
 * in which the parts of X dW2' and dR W2 go together, and the gradients of q and k, which nothing
 * here waits for: they are sent at the end of a mini-batch and read in the next. Names: Z1 = K W1 +
 * b1, X = gelu(Z1), Z2 = X W2 + b2, G2 the inner gradient, R = G2 W2^T, G1 = R gelu'(Z1), U =
 * lambda G, P1 = tril(1 + Q K^T), Zb1 = Q W1 + b1 - tau P1 U1, Xb = gelu(Zb1), P2 = tril(1 + Xb
 * X^T), Zb2 = Xb W2 + b2 - tau P2 U2; a prime marks what belongs to the state behind the
 * mini-batch.
 *
 * Carried: dW1 and dW2 of the slice, f32, transposed, in registers, and rounded in shared memory.
 * The copies in shared memory stay those of the incoming gradients until the mini-batch has used
 * them.
 *
 * Barriers of a mini-batch, B1 to B4 in the block; between B2 and B3 one before the block's part
 * of dG2 is copied to the others, the arrival of theirs, and one in the cluster, arrived at before
 * B3 and waited for before B4, that says that everybody has read what was sent. */
#include "cuda/ttt_mlp_reverse.cuh"

#if MLP_CLUSTERS

/* Starts to bring a mini-batch's state and P2, by all threads. */
template <int D>
static __device__ __forceinline__ void copy_state(ReverseShared<D> &s, const MlpRecord<D> &record,
                                                  int rank, int parity)
{
    constexpr int chunks = 2 * D * D / 16;
    const uint32_t w1 = shared_address(s.w1[parity]), w2 = shared_address(s.w2[parity]);
#pragma unroll
    for (int i = 0; i < chunks / mlp_threads<D>; i++) {
        int chunk = threadIdx.x + i * mlp_threads<D>;
        copy_async_16(w1 + 16 * chunk, record.w1[rank] + 16 * chunk, true);
        copy_async_16(w2 + 16 * chunk, record.w2[rank] + 16 * chunk, true);
    }
    if (threadIdx.x < 64) {
        copy_async_16(shared_address(s.p2[parity]) + 16 * threadIdx.x,
                      &record.p2[0][0] + 4 * threadIdx.x, true);
    } else if (threadIdx.x < 64 + D / 4) {
        int chunk = threadIdx.x - 64;
        copy_async_16(shared_address(s.b1[parity]) + 16 * chunk, record.b1[rank] + 4 * chunk, true);
    }
    copy_commit();
}

/* Starts to bring near what is read into registers later: rows of the record of the mini-batch
 * before and its tokens, and of this one the output's gradient. Each block a quarter. */
template <int D>
static __device__ __forceinline__ void prefetch_rows(const MlpArgs &a, const MlpRecord<D> &record,
                                                     int rank, int step, int head, int sequence)
{
    constexpr int lines = (int)(2 * sizeof record.z2) / 128, inner_rows = 3 * TTT_ROWS;
    int i = threadIdx.x * MLP_SLICES + rank;
    const void *at = NULL;
    if (i < lines) {
        at = reinterpret_cast<const unsigned char *>(&record.z2[0][0]) + 128 * i;
    } else if (i < lines + inner_rows) {
        int row = (i - lines) / 3, which = (i - lines) % 3;
        int64_t token = (int64_t)sequence * a.seq + (step - 1) * a.mini + min(row, a.mini - 1);
        at = a.x + token * a.width + (which * a.heads + head) * D;
    } else if (i < lines + inner_rows + TTT_ROWS) {
        int row = min(i - lines - inner_rows, min(a.mini, a.seq - step * a.mini) - 1);
        int64_t token = (int64_t)sequence * a.seq + step * a.mini + row;
        at = a.dout + (token * a.heads + head) * D;
    }
    if (at != NULL) {
        asm volatile("prefetch.global.L2 [%0];\n" ::"l"(at));
    }
}

/* Writes the gradients of q, k and s of the block's own rows of a mini-batch; a thread has a
 * pair of columns of a row. Adds to rate what the rows add to the gradient of rate_bias. */
template <int D>
static __device__ __forceinline__ void finish_rows(const ReverseShared<D> &s, const MlpArgs &a,
                                                   int rank, int step, int head, int sequence,
                                                   float cosine, float sine, float *rate)
{
    int own = threadIdx.x / (D / 2), column = threadIdx.x % (D / 2) * 2;
    int row = MLP_OWNED * rank + own, token = step * a.mini + row;
    if (row >= a.mini || token >= a.seq) {
        return;
    }
    int64_t n = (int64_t)sequence * a.seq + token, part = (int64_t)a.heads * D;
    const Bf16 *dout = a.dout + n * part + head * D + column;
    Bf16 *dx = a.dx + n * a.width, *to = dx + head * D + column;
    float dq[2] = {to_f32(dout[0]), to_f32(dout[1])};
    float dk[2] = {-s.target[step % 2][own][column], -s.target[step % 2][own][column + 1]};
    float dlambda = s.own_dlambda[step % 2][own];
#pragma unroll
    for (int from = 0; from < MLP_SLICES; from++) {
        float2 q = *reinterpret_cast<const float2 *>(&s.dq[from][own][column]);
        float2 k = *reinterpret_cast<const float2 *>(&s.dk[from][own][column]);
        dq[0] += q.x;
        dq[1] += q.y;
        dk[0] += k.x;
        dk[1] += k.y;
        dlambda += s.dlambda[from][own];
    }
    const float *values[2] = {dq, dk};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float first = values[i][0] * cosine + values[i][1] * sine;
        float second = values[i][1] * cosine - values[i][0] * sine;
        if (a.vectorise_dx) {
            *reinterpret_cast<uint32_t *>(to + i * part) = pack_pair(first, second);
        } else {
            to[i * part] = from_f32<Bf16>(first);
            to[i * part + 1] = from_f32<Bf16>(second);
        }
    }
    if (column == 0) {
        float gate = s.gate[step % 3][row], ds = dlambda * a.rate * gate * (1 - gate);
        dx[3 * part + head] = from_f32<Bf16>(ds);
        *rate += ds;
    }
    if (head == 0) {
        for (int64_t i = 3 * part + a.heads + column / 2; i < a.width; i += D / 2) {
            dx[i] = from_f32<Bf16>(0);
        }
    }
}
#endif

template <int D> __global__ void __launch_bounds__(mlp_threads<D>, 1) mlp_reverse(MlpArgs a)
{
#if MLP_CLUSTERS
    extern __shared__ __align__(128) unsigned char shared[];
    ReverseShared<D> &s = *reinterpret_cast<ReverseShared<D> *>(shared);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int rank = blockIdx.x % MLP_SLICES, local = blockIdx.x / MLP_SLICES;
    const int pair = a.first + local, head = pair / a.batch, sequence = pair % a.batch;
    const MlpRecord<D> *records =
        reinterpret_cast<const MlpRecord<D> *>(a.records) + (int64_t)local * a.steps;
    const int row = 4 * (warp % 4) + lane / 8, first = lane % 8 * 2; /* of work on rows */
    const bool by_rows = warp < 4;
    const int finished = threadIdx.x / (D / 2), finished_pair = threadIdx.x % (D / 2);
    const int finished_row = MLP_OWNED * rank + finished;
    const bool turns = finished_row < min(a.mini, a.seq);
    const float cosine = turns ? a.rope[finished_row * D + finished_pair] : 1;
    const float sine = turns ? a.rope[finished_row * D + D / 2 + finished_pair] : 0;

    float dw1[D / 8][4] = {}, dw2[D / 8][4] = {}, db1[2][2] = {};
    float dtau[2] = {}, dtau_whole = 0, dtau_short = 0, drate = 0;
    put_state<D>(s.dw1, dw1, warp);
    put_state<D>(s.dw2, dw2, warp);
    if (threadIdx.x < D) {
        s.gamma[threadIdx.x] = to_f32(a.gamma[head * D + threadIdx.x]);
        s.beta[threadIdx.x] = to_f32(a.beta[head * D + threadIdx.x]);
        s.db2[threadIdx.x] = 0;
    }
    for (int i = threadIdx.x; i < D / 4 * 32; i += mlp_threads<D>) {
        s.norm[i / 32][i % 32] = 0;
    }
    set_tau(s.tau, a);
    const uint32_t dg2_here = shared_address(&s.dg2_here), rows_here = shared_address(&s.rows_here);
    if (threadIdx.x == 0) {
        barrier_init(dg2_here, 1);
        barrier_init(rows_here, 1);
        barriers_ready();
        barrier_arrive_expect(dg2_here, s.dg2_bytes);
        barrier_arrive_expect(rows_here, s.rows_bytes);
    }
    MlpTokens<D> tokens(head, sequence);
    RowValues<D> values;
    {
        int step = a.steps - 1, parity = step % 2;
        copy_state<D>(s, records[step], rank, parity);
        values.load(records[step], row, first);
        tokens.fetch(a, step);
        rope_load<D, mlp_threads<D>>(s.rope, a.rope, min(a.mini, a.seq));
        __syncthreads();
        tokens.place(s.q, s.k[parity], s.v, s.rope, s.lambda[step % 3], s.gate[step % 3], a.rate);
        copy_wait<0>();
    }
    cluster_arrive(); /* every block is there to be sent to */
    cluster_wait();

#pragma unroll 1
    for (int step = a.steps - 1; step >= 0; step--) {
        const int phase = a.steps - 1 - step;
        const int parity = step % 2, count = min(a.mini, a.seq - step * a.mini);
        const float last_tau = s.tau[count - 1];
        const uint32_t q_tile = tile_address(s.q), k_tile = tile_address(s.k[parity]);
        const uint32_t w1_tile = tile_address(s.w1[parity]), w2_tile = tile_address(s.w2[parity]);
        const uint32_t dw1_tile = tile_address(s.dw1), dw2_tile = tile_address(s.dw2);
        const uint32_t g2_tile = tile_address(s.g2), u2_tile = tile_address(s.u2);
        const uint32_t dzb2_tile = tile_address(s.dzb2), x_tile = tile_address(s.x);
        const uint32_t u1_tile = tile_address(s.u1), xb_tile = tile_address(s.xb);
        const uint32_t dzb1_tile = tile_address(s.dzb1), dr_tile = tile_address(s.dr);
        const float *lambda = s.lambda[step % 3];
        const float rates[2] = {lambda[lane / 4], lambda[lane / 4 + 8]};
        const float taus[2] = {s.tau[lane / 4], s.tau[lane / 4 + 8]};
        float dlambda[2] = {}, dtau_last = 0;
        uint32_t fragment[4], transposed[4];

        /* Whole rows; Z1, J1 = K dW1' + db1', Q W1 + b1 and P1. */
        if (by_rows) {
            put_rows<D>(s, values, row, first, parity, lambda[row]);
        }
        Square slope, bend, j1, zb1, t;
        uint32_t p1[4];
        float b1[2][2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            b1[i / 2][i % 2] = s.b1[parity][16 * warp + i / 2 * 8 + lane % 4 * 2 + i % 2];
        }
        set_rows(t, b1);
        add_product_transposed<D>(t, k_tile, w1_tile, 16 * warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            Gelu gelu(MLP_AT(t, i));
            MLP_AT(t, i) = gelu.value;
            MLP_AT(slope, i) = gelu.slope;
            MLP_AT(bend, i) = gelu.bend;
        }
        put_own<D>(s.x, t, warp);
        set_rows(j1, db1);
        add_product_state<D>(j1, k_tile, dw1);
        set_rows(zb1, b1);
        add_product_transposed<D>(zb1, q_tile, w1_tile, 16 * warp);
        set_all(t, 1);
        add_product_transposed<D>(t, q_tile, k_tile, 0);
        keep_lower(t);
        round_to_a(p1, t[0], t[1]);
        __syncthreads(); /* B1 */
        if (step > 0) {
            copy_state<D>(s, records[step - 1], rank, 1 - parity);
            prefetch_rows<D>(a, records[step - 1], rank, step, head, sequence);
        }

        /* R, G1, U1, and on to Xb. */
        Square r, slope_b, dx, dz1;
        set_all(r, 0);
        add_product<D>(r, g2_tile, w2_tile, warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(t, i) = MLP_AT(r, i) * MLP_AT(slope, i) * MLP_ROW(rates, i); /* U1 */
        }
        put_own<D>(s.u1, t, warp);
        round_transposed(transposed, t);
        set_all(t, 0);
        add_square(t, p1, transposed);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            Gelu gelu(MLP_AT(zb1, i) - MLP_ROW(taus, i) * MLP_AT(t, i));
            MLP_AT(zb1, i) = gelu.value; /* Xb */
            MLP_AT(slope_b, i) = gelu.slope;
        }
        put_own<D>(s.xb, zb1, warp);

        /* C2 = tril(dZb2 U2^T), dP2 = -tau C2; dXb = dZb2 W2^T + dP2 X; dX = dP2^T Xb - tau' U2
         * dW2'^T. */
        set_all(t, 0);
        add_product_transposed<D>(t, dzb2_tile, u2_tile, 0);
        keep_lower(t);
        if (rank == 0 && warp == 0) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                dtau[i % 4 / 2] -=
                    MLP_AT(t, i) *
                    s.p2[parity][lane / 4 + i % 4 / 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(t, i) *= -MLP_ROW(taus, i);
        }
        set_all(dx, 0);
        add_product<D>(dx, u2_tile, dw2_tile, warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(dx, i) *= -last_tau;
        }
        round_transposed(fragment, t);
        round_transposed(transposed, zb1);
        add_square(dx, fragment, transposed);
        round_to_a(fragment, t[0], t[1]);
        set_all(zb1, 0);
        add_product<D>(zb1, dzb2_tile, w2_tile, warp);
        add_by_rows16<D>(zb1, fragment, x_tile, warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(zb1, i) *= MLP_AT(slope_b, i); /* dZb1 */
        }
        put_own<D>(s.dzb1, zb1, warp);

        /* dU1 = -P1^T (tau dZb1) - tau' J1, and what follows from it. */
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(t, i) = -MLP_ROW(taus, i) * MLP_AT(zb1, i);
        }
        round_transposed(transposed, t);
        transpose_a(fragment, p1);
        set_all(t, 0);
        add_square(t, fragment, transposed);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float du1 = MLP_AT(t, i) - last_tau * MLP_AT(j1, i);
            float g1 = MLP_AT(r, i) * MLP_AT(slope, i), dg1 = MLP_ROW(rates, i) * du1;
            dtau_last -= MLP_AT(j1, i) * MLP_ROW(rates, i) * g1;
            MLP_ROW(dlambda, i) += du1 * g1;
            MLP_AT(t, i) = dg1 * MLP_AT(slope, i); /* dR */
            MLP_AT(dz1, i) = dg1 * MLP_AT(r, i) * MLP_AT(bend, i);
        }
        put_own<D>(s.dr, t, warp);
        float sums[2][2];
        column_sums(sums, zb1);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            db1[i / 2][i % 2] += sums[i / 2][i % 2];
        }
        round_transposed(transposed, zb1);
        add_outer<D>(dw1, transposed, q_tile);
        __syncthreads(); /* B2 */

        /* This slice's part of dG2: dR W2 - lambda tau' J2, J2 = X dW2'; the first block adds
         * lambda times dU2 of the dual form, -(tau P2)^T dZb2. */
        Square part, g2;
        get_own<D>(g2, s.g2, warp);
        set_all(t, 0);
        add_product_state<D>(t, x_tile, dw2);
        set_all(part, 0);
        add_product_transposed<D>(part, dr_tile, w2_tile, 16 * warp);
        add_row_products(dlambda, t, g2, -last_tau);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            dtau_last -= MLP_ROW(rates, i) * MLP_AT(t, i) * MLP_AT(g2, i);
            MLP_AT(part, i) -= MLP_ROW(rates, i) * last_tau * MLP_AT(t, i);
        }
        if (rank == 0) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                MLP_AT(t, i) =
                    -MLP_ROW(taus, i) *
                    s.p2[parity][lane / 4 + i % 4 / 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2];
            }
            round_transposed(fragment, t);
            set_all(t, 0);
            add_by_rows16<D>(t, fragment, dzb2_tile, warp);
            add_row_products(dlambda, t, g2, 1);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                MLP_AT(part, i) += MLP_ROW(rates, i) * MLP_AT(t, i);
            }
        }
        put_part(s.dg2[rank], part, 16 * warp);
        writes_ready();
        __syncthreads(); /* B2' */
        copy_to_others<D>(s.dg2, rank, dg2_here);
        if (step > 0) {
            tokens.fetch(a, step - 1);
        }
        if (by_rows) {
            values.load(records[step], row, first); /* again, rather than held */
        }

        /* Meanwhile: dQ = dZb1 W1^T + dP1 K, dK = dP1^T Q - tau' U1 dW1'^T, dP1 = -tau tril(dZb1
         * U1^T). */
        Square dq, dk;
        set_all(t, 0);
        add_product_transposed<D>(t, dzb1_tile, u1_tile, 0);
        keep_lower(t);
        if (warp == 0) {
            Square p;
            unpack_a(p, p1);
            add_row_products(dtau, t, p, -1);
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(t, i) *= -MLP_ROW(taus, i);
        }
        set_all(dk, 0);
        add_product<D>(dk, u1_tile, dw1_tile, warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(dk, i) *= -last_tau;
        }
        round_transposed(fragment, t);
        add_by_rows16<D>(dk, fragment, q_tile, warp);
        round_to_a(fragment, t[0], t[1]);
        set_all(dq, 0);
        add_product<D>(dq, dzb1_tile, w1_tile, warp);
        add_by_rows16<D>(dq, fragment, k_tile, warp);
        load_own_transposed<D>(fragment, dzb2_tile, warp);
        add_outer<D>(dw2, fragment, xb_tile);
        load_own_transposed<D>(fragment, g2_tile, warp);
        add_outer<D>(dw2, fragment, dr_tile);
        dlambda[0] = quad_sum(dlambda[0]);
        dlambda[1] = quad_sum(dlambda[1]);
        if (lane % 4 == 0) {
            s.dlambda_parts[warp][lane / 4] = dlambda[0];
            s.dlambda_parts[warp][lane / 4 + 8] = dlambda[1];
        }
        if (by_rows) {
            receive(dg2_here, phase, s.dg2_bytes);
            int token = step * a.mini + row;
            Bf16 *dv = row < count ? a.dx + ((int64_t)sequence * a.seq + token) * a.width +
                                         (2 * a.heads + head) * D
                                   : NULL;
            dtau_last += inner_backward<D>(s, values, row, first, parity, lambda[row], last_tau,
                                           warp == rank, dv, a.vectorise_dx);
        }
        if (step + 1 < a.steps) {
            receive(rows_here, phase - 1, s.rows_bytes);
            finish_rows<D>(s, a, rank, step + 1, head, sequence, cosine, sine, &drate);
            __syncwarp();
        }
        cluster_arrive_read();
        __syncthreads(); /* B3 */

        /* dX += dZ2 W2^T, dZ1 += dX gelu'(Z1), and the gradients of the state. */
        add_product<D>(dx, u2_tile, w2_tile, warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(dz1, i) += MLP_AT(dx, i) * MLP_AT(slope, i);
        }
        put_own<D>(s.u1, dz1, warp);
        load_own_transposed<D>(fragment, u2_tile, warp);
        add_outer<D>(dw2, fragment, x_tile);
        put_state<D>(s.dw2, dw2, warp);
        round_transposed(transposed, dz1);
        add_outer<D>(dw1, transposed, k_tile);
        put_state<D>(s.dw1, dw1, warp);
        column_sums(sums, dz1);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            db1[i / 2][i % 2] += sums[i / 2][i % 2];
        }
        if (threadIdx.x < D) {
            int column = threadIdx.x;
            s.db2[column] +=
                s.sums[0][column] + s.sums[1][column] + s.sums[2][column] + s.sums[3][column];
        }
        (count == a.mini ? dtau_whole : dtau_short) += dtau_last;
        if (step > 0) {
            values.load(records[step - 1], row, first);
            tokens.place(s.q, s.k[1 - parity], s.v, s.rope, s.lambda[(step - 1) % 3],
                         s.gate[(step - 1) % 3], a.rate);
            copy_wait<0>();
        }
        cluster_wait();  /* what was sent has been read everywhere */
        __syncthreads(); /* B4 */

        add_product<D>(dk, u1_tile, w1_tile, warp); /* dZ1 W1^T */
        send_to_owners(s.dq, rank, dq, 16 * warp, rows_here);
        send_to_owners(s.dk, rank, dk, 16 * warp, rows_here);
        if (threadIdx.x < TTT_ROWS) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < D / 16; w++) {
                sum += s.dlambda_parts[w][threadIdx.x];
            }
            int owner = threadIdx.x / MLP_OWNED;
            cluster_send(
                cluster_map(shared_address(&s.dlambda[rank][threadIdx.x % MLP_OWNED]), owner), sum,
                cluster_map(rows_here, owner));
        }
    }
    receive(rows_here, a.steps - 1, s.rows_bytes);
    finish_rows<D>(s, a, rank, 0, head, sequence, cosine, sine, &drate);

    MlpPartial<D> *partial = reinterpret_cast<MlpPartial<D> *>(a.partials) + local;
    put_states<D>(*partial, dw1, dw2, db1, rank, warp);
    put_rest<D>(*partial, s, rank, warp);
    put_small<D>(a.small + ((int64_t)pair * MLP_SLICES + rank) * MLP_SMALL, s.dlambda_parts, s.dtau,
                 a, dtau, dtau_whole, dtau_short, drate, warp);
#else
    (void)a;
#endif
}

int ttt_mlp_reverse_shared(int head_dim)
{
    return head_dim == 64 ? ttt_mlp_block_reverse_shared() : (int)sizeof(ReverseShared<96>);
}

void ttt_mlp_reverse(const CudaBackend *backend, const MlpArgs &args, int head_dim, int pairs)
{
    if (head_dim == 64) {
        ttt_mlp_block_reverse(backend, args, pairs);
    } else {
        mlp_launch<96>("mlp_reverse", mlp_reverse<96>, pairs, sizeof(ReverseShared<96>),
                       backend->stream, args);
    }
}
