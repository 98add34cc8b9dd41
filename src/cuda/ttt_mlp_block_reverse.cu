/* TTT_MLP backward in bf16 on tensor cores for heads of 64: the reverse scan of
 * ttt_mlp_backward.cu, which has the formulas and names, in one block of four teams of warps as in
 * ttt_mlp_block.cu. Work on whole rows is a row per warp, two columns per lane.
 *
 * Barriers of a mini-batch: of the block for X, Xb, U1, dZb1, dR (A), for the parts of dG2 (B),
 * for dZ2 (C), for the parts of dQ and dK and behind the last use of tiles of rows (D), and for the
 * rows of the mini-batch before (E); of the team for dZ1, and behind the last use of the states W1
 * and W2, in whose place those of the mini-batch before then come. The gradients of the states stay
 * the incoming ones until C. */
#include "cuda/ttt_mlp_block_reverse.cuh"

#define ROWS(of) tile_address(s.of)
#define SLICE(of) tile_address(s.of[team])

template <int D>
static __global__ void __launch_bounds__(block_threads<D>, 1) mlp_block_reverse(MlpArgs a)
{
#if MLP_CLUSTERS
    static_assert(D == 64, "a lane has two columns");
    extern __shared__ __align__(128) unsigned char shared[];
    BlockReverseShared<D> &s = *reinterpret_cast<BlockReverseShared<D> *>(shared);
    const int team = threadIdx.x / mlp_threads<D>, warp = threadIdx.x / 32 % (D / 16);
    const int lane = threadIdx.x % 32, local = blockIdx.x;
    const int pair = a.first + local, head = pair / a.batch, sequence = pair % a.batch;
    const MlpRecord<D> *records =
        reinterpret_cast<const MlpRecord<D> *>(a.records) + (int64_t)local * a.steps;
    const uint32_t states_here = shared_address(&s.states_here[team]);

    SplitState<D> dw1(s.dw1[team], warp), dw2(s.dw2[team], warp);
    float db1[2][2] = {};
    float dtau[2] = {}, dtau_whole = 0, dtau_short = 0, drate = 0;
    float dgamma[2] = {}, dbeta[2] = {};
    if (threadIdx.x < D) {
        s.gamma[threadIdx.x] = to_f32(a.gamma[head * D + threadIdx.x]);
        s.beta[threadIdx.x] = to_f32(a.beta[head * D + threadIdx.x]);
        s.db2[threadIdx.x] = 0;
    }
    set_tau(s.tau, a);
    if (threadIdx.x == 0) {
        for (int i = 0; i < TEAMS; i++) {
            barrier_init(shared_address(&s.states_here[i]), 1);
        }
        barriers_ready();
    }
    ReverseRow<D> own;
    own.row = threadIdx.x / 32;
    own.column = 2 * lane;
    own.head = head;
    own.first = (int64_t)sequence * a.seq;
    own.bias = to_f32(a.rate_bias[head]);
    {
        bool turns = own.row < min(a.mini, a.seq);
        own.cosine = turns ? a.rope[own.row * D + lane] : 1;
        own.sine = turns ? a.rope[own.row * D + D / 2 + lane] : 0;
    }
    own.load(a, records[a.steps - 1], a.steps - 1);
    __syncthreads();
    if (threadIdx.x % mlp_threads<D> == 0) {
        copy_state<D>(s, records[a.steps - 1], team);
    }
    own.put(s, a, a.steps - 1);
    __syncthreads();

#pragma unroll 1
    for (int step = a.steps - 1; step >= 0; step--) {
        const int parity = step % 2, count = min(a.mini, a.seq - step * a.mini);
        const float last_tau = s.tau[count - 1];
        const float rates[2] = {s.lambda[parity][lane / 4], s.lambda[parity][lane / 4 + 8]};
        const float taus[2] = {s.tau[lane / 4], s.tau[lane / 4 + 8]};
        Held held[2] = {{&s.dq[0][0][0] + threadIdx.x}, {&s.dg2_dk[0][0][0] + threadIdx.x}};
        const float *p2 = &s.p2[lane / 4][lane % 4 * 2]; /* of team 0's barrier */
        float dlambda[2] = {}, dtau_last = 0;
        uint32_t fragment[4], transposed[4];

        own.prefetch(a, records, step);

        /* Z1, R, U1 and on to Xb. */
        Square z1, slope, r, zb1, t, dz1;
        uint32_t p1[4], dp2[4];
        barrier_wait(states_here, (a.steps - 1 - step) % 2);
        float b1[2][2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            b1[i / 2][i % 2] = s.b1[team][16 * warp + i / 2 * 8 + lane % 4 * 2 + i % 2];
        }
        set_all(t, 1);
        set_rows(z1, b1);
        set_rows(zb1, b1);
        {
            const uint32_t q_tile = ROWS(q), k_tile = ROWS(k), w1_tile = SLICE(w1);
#pragma unroll
            for (int c = 0; c < D / 16; c++) {
                uint32_t q[4], k[4], w[4];
                load_a<D>(q, q_tile, 0, 2 * c);
                load_a<D>(k, k_tile, 0, 2 * c);
                load_b_rows<D>(w, w1_tile, 16 * warp, 2 * c);
                add_square(t, q, k);
                product(z1[0], k, w[0], w[1]);
                product(z1[1], k, w[2], w[3]);
                product(zb1[0], q, w[0], w[1]);
                product(zb1[1], q, w[2], w[3]);
            }
        }
        keep_lower(t);
        round_to_a(p1, t[0], t[1]);
        set_all(r, 0);
        add_product<D>(r, ROWS(g2), SLICE(w2), warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            Gelu gelu(MLP_AT(z1, i));
            MLP_AT(t, i) = gelu.value;
            MLP_AT(slope, i) = gelu.slope;
            MLP_AT(z1, i) = gelu.bend;
        }
        put_own<D>(s.x[team], t, warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            held[1].at(i) = MLP_AT(r, i) * MLP_AT(z1, i);
            held[0].at(i) = MLP_AT(r, i) *= MLP_AT(slope, i); /* G1 */
            MLP_AT(t, i) = MLP_AT(r, i) * MLP_ROW(rates, i);  /* U1 */
        }
        put_own<D>(s.u1[team], t, warp);
        round_transposed(transposed, t);
        set_all(t, 0);
        add_square(t, p1, transposed);
        Square slope_b;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            Gelu gelu(MLP_AT(zb1, i) - MLP_ROW(taus, i) * MLP_AT(t, i));
            MLP_AT(zb1, i) = gelu.value; /* Xb */
            MLP_AT(slope_b, i) = gelu.slope;
        }
        put_own<D>(s.xb[team], zb1, warp);
        __syncwarp(); /* own columns of X are read back */

        /* C2 = tril(dZb2 U2^T), dP2 = -tau C2; dXb = dZb2 W2^T + dP2 X. */
        set_all(t, 0);
        set_all(zb1, 0);
        {
            const uint32_t dzb2_tile = ROWS(dzb2), u2_tile = ROWS(u2), w2_tile = SLICE(w2);
#pragma unroll
            for (int c = 0; c < D / 16; c++) {
                uint32_t dz[4], u[4], w[4];
                load_a<D>(dz, dzb2_tile, 0, 2 * c);
                load_b_rows<D>(u, u2_tile, 0, 2 * c);
                load_b_columns<D>(w, w2_tile, 16 * c, 2 * warp);
                product(t[0], dz, u[0], u[1]);
                product(t[1], dz, u[2], u[3]);
                product(zb1[0], dz, w[0], w[1]);
                product(zb1[1], dz, w[2], w[3]);
            }
        }
        keep_lower(t);
        if (threadIdx.x < 32) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                dtau[i % 4 / 2] -= MLP_AT(t, i) * p2[i % 4 / 2 * 8 * TTT_ROWS + i / 4 * 8 + i % 2];
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(t, i) *= -MLP_ROW(taus, i);
        }
        round_to_a(dp2, t[0], t[1]);
        add_by_rows16<D>(zb1, dp2, SLICE(x), warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(zb1, i) *= MLP_AT(slope_b, i); /* dZb1 */
        }
        put_own<D>(s.dzb1[team], zb1, warp);

        /* dU1 = -P1^T (tau dZb1) - tau' J1, J1 = K dW1' + db1', and what follows from it. */
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(t, i) = -MLP_ROW(taus, i) * MLP_AT(zb1, i);
        }
        round_transposed(transposed, t);
        float sums[2][2];
        column_sums(sums, zb1);
        set_rows(zb1, db1); /* J1 */
        add_product_transposed<D>(zb1, ROWS(k), SLICE(dw1), 16 * warp);
        transpose_a(fragment, p1);
        set_all(t, 0);
        add_square(t, fragment, transposed);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float du1 = MLP_AT(t, i) - last_tau * MLP_AT(zb1, i);
            float g1 = held[0].at(i), dg1 = MLP_ROW(rates, i) * du1;
            dtau_last -= MLP_AT(zb1, i) * MLP_ROW(rates, i) * g1;
            MLP_ROW(dlambda, i) += du1 * g1;
            MLP_AT(t, i) = dg1 * MLP_AT(slope, i); /* dR */
            MLP_AT(dz1, i) = dg1 * held[1].at(i);
        }
        put_own<D>(s.dr[team], t, warp);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            db1[i / 2][i % 2] += sums[i / 2][i % 2];
        }
        __syncthreads(); /* A */

        /* This slice's part of dG2: dR W2 - lambda tau' J2, J2 = X dW2'; the first team adds
         * lambda times dU2 of the dual form, -(tau P2)^T dZb2. */
        own.load_inner(a, records[step], step); /* again, rather than held */
        Square part, g2;
        get_own<D>(g2, s.g2, warp);
        set_all(t, 0);
        add_product_transposed<D>(t, SLICE(x), SLICE(dw2), 16 * warp);
        set_all(part, 0);
        add_product_transposed<D>(part, SLICE(dr), SLICE(w2), 16 * warp);
        add_row_products(dlambda, t, g2, -last_tau);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            dtau_last -= MLP_ROW(rates, i) * MLP_AT(t, i) * MLP_AT(g2, i);
            MLP_AT(part, i) -= MLP_ROW(rates, i) * last_tau * MLP_AT(t, i);
        }
        if (team == 0) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                MLP_AT(t, i) = -MLP_ROW(taus, i) * p2[i % 4 / 2 * 8 * TTT_ROWS + i / 4 * 8 + i % 2];
            }
            round_transposed(fragment, t);
            set_all(t, 0);
            add_by_rows16<D>(t, fragment, ROWS(dzb2), warp);
            add_row_products(dlambda, t, g2, 1);
#pragma unroll
            for (int i = 0; i < 8; i++) {
                MLP_AT(part, i) += MLP_ROW(rates, i) * MLP_AT(t, i);
            }
        }
        put_part(s.dg2_dk[team], part, 16 * warp);
        dlambda[0] = quad_sum(dlambda[0]);
        dlambda[1] = quad_sum(dlambda[1]);
        if (lane % 4 == 0) {
            s.dlambda[own.row][lane / 4] = dlambda[0];
            s.dlambda[own.row][lane / 4 + 8] = dlambda[1];
        }
        __syncthreads(); /* B */

        float de[2], bias_g = own.pull(s, a, step, last_tau, de, dgamma, dbeta);
        dtau_last -= lane == 0 ? s.lambda[parity][own.row] * bias_g : 0;

        /* dQ = dZb1 W1^T + dP1 K, dK = dP1^T Q - tau' U1 dW1'^T, dP1 = -tau tril(dZb1 U1^T). */
        Square dk, dx;
        set_all(t, 0);
        set_all(dx, 0); /* here dQ */
        {
            const uint32_t dzb1_tile = SLICE(dzb1), u1_tile = SLICE(u1);
            const uint32_t w1_tile = SLICE(w1);
#pragma unroll
            for (int c = 0; c < D / 16; c++) {
                uint32_t dz[4], u[4], w[4];
                load_a<D>(dz, dzb1_tile, 0, 2 * c);
                load_a<D>(u, u1_tile, 0, 2 * c);
                load_b_columns<D>(w, w1_tile, 16 * c, 2 * warp);
                add_square(t, dz, u);
                product(dx[0], dz, w[0], w[1]);
                product(dx[1], dz, w[2], w[3]);
            }
        }
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
        round_to_a(fragment, t[0], t[1]);
        add_by_rows16<D>(dx, fragment, ROWS(k), warp);
        put_part(s.dq[team], dx, 16 * warp);
        set_all(dk, 0);
        add_product<D>(dk, SLICE(u1), SLICE(dw1), warp);
        /* dX = dP2^T Xb - tau' U2 dW2'^T */
        set_all(dx, 0);
        add_product<D>(dx, ROWS(u2), SLICE(dw2), warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(dk, i) *= -last_tau;
            MLP_AT(dx, i) *= -last_tau;
        }
        transpose_a(transposed, fragment);
        add_by_rows16<D>(dk, transposed, ROWS(q), warp);
        transpose_a(transposed, dp2);
        add_by_rows16<D>(dx, transposed, SLICE(xb), warp);
        __syncthreads(); /* C */

        /* dX += dZ2 W2^T, dZ1 += dX gelu'(Z1), dK += dZ1 W1^T, and the gradients of the state. */
        add_product<D>(dx, ROWS(dz2), SLICE(w2), warp);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            MLP_AT(dz1, i) += MLP_AT(dx, i) * MLP_AT(slope, i);
        }
        put_own<D>(s.u1[team], dz1, warp);
        team_wait(team);
        add_product<D>(dk, SLICE(u1), SLICE(w1), warp);
        put_part(s.dg2_dk[team], dk, 16 * warp);
        team_wait(team);
        if (step > 0) {
            if (threadIdx.x % mlp_threads<D> == 0) {
                copy_state<D>(s, records[step - 1], team);
            }
            own.load(a, records[step - 1], step - 1);
        }
        {
            uint32_t of_rows[2][4];
            load_own_transposed<D>(of_rows[0], SLICE(dzb1), warp);
            load_own_transposed<D>(of_rows[1], SLICE(u1), warp);
            dw1.add(of_rows, {ROWS(q), ROWS(k)});
        }
        {
            uint32_t of_rows[3][4];
            load_own_transposed<D>(of_rows[0], ROWS(dzb2), warp);
            load_own_transposed<D>(of_rows[1], ROWS(g2), warp);
            load_own_transposed<D>(of_rows[2], ROWS(dz2), warp);
            dw2.add(of_rows, {SLICE(xb), SLICE(dr), SLICE(x)});
        }
        column_sums(sums, dz1);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            db1[i / 2][i % 2] += sums[i / 2][i % 2];
        }
        if (threadIdx.x < D) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < TTT_ROWS; i++) {
                sum += s.sums[i][threadIdx.x];
            }
            s.db2[threadIdx.x] += sum;
        }
        (count == a.mini ? dtau_whole : dtau_short) += dtau_last;
        const uint32_t dout = own.load_dout(a, step);
        __syncthreads(); /* D */
        drate += own.finish(s, a, step, dout, de, -last_tau * bias_g);
        if (step > 0) {
            own.put(s, a, step - 1);
        }
        __syncthreads(); /* E */
    }
    MlpPartial<D> *partial = reinterpret_cast<MlpPartial<D> *>(a.partials) + local;
    float dw[2][D / 8][4];
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
        dw1.get(dw[0][n], n);
        dw2.get(dw[1][n], n);
    }
    put_states<D>(*partial, dw[0], dw[1], db1, team, warp);
    if (threadIdx.x < D) {
        partial->b2[threadIdx.x] = s.db2[threadIdx.x];
    }
    float(*norm)[2][D] = reinterpret_cast<float(*)[2][D]>(&s.w1[0][0]); /* read by now */
#pragma unroll
    for (int e = 0; e < 2; e++) {
        norm[own.row][0][own.column + e] = dgamma[e];
        norm[own.row][1][own.column + e] = dbeta[e];
    }
    put_small<D>(a.small + ((int64_t)pair * MLP_SLICES + team) * MLP_SMALL,
                 s.dlambda + team * D / 16, s.p2[team], a, dtau, dtau_whole, dtau_short, drate,
                 warp);
    int which = threadIdx.x % (2 * D) / D, column = threadIdx.x % D;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        sum += norm[team * (D / 16) + i][which][column];
    }
    partial->norm[MLP_SLICES + team][which][column] = sum;
#else
    (void)a;
#endif
}

int ttt_mlp_block_reverse_shared()
{
    return (int)sizeof(BlockReverseShared<64>);
}

void ttt_mlp_block_reverse(const CudaBackend *backend, const MlpArgs &args, int pairs)
{
    flash_launch("mlp_block_reverse", mlp_block_reverse<64>, pairs, block_threads<64>,
                 (int)sizeof(BlockReverseShared<64>), backend->stream, args);
}
