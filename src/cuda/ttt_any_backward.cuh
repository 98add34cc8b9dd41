#pragma once
/* The backward pass of one mini-batch in tiles (ttt_any.cuh), and the memory that it takes. dX is
 * the gradient of X, and primes mark the state behind the mini-batch. With pull(y) = (y - mean(y) -
 * zh mean(y zh)) / sigma, the steps are
 *   output     dzb = pull(gamma dout)
 *   layer      C = tril(dzb U^T), dP = -tau C, J = A dW' + db', dtau -= sum_j C P, dtau_{n-1} -=
 *              <J, U> dU = -P^T (tau dzb) - tau_{n-1} J     dA = dP^T B - tau_{n-1} U dW'^T dB =
 *              dzb W^T + dP A                   dW = dW' + B^T dzb
 *   lambda     dlambda = <dU, G>, dG = lambda dU, in the first layer dR = dG1 gelu'(Z1)
 *   inner      dz, dt, dgamma, dbeta from dG, then dA += dz W^T, dW += A^T dz */
#include "cuda/ttt_any.cuh"

/* ---- Memory ---- */

/* How a mini-batch uses a layer: its input on the key side and on the query side, and what else
 * of it backward_layer reads and writes. */
struct LayerUse {
    const float *a, *b, *u, *dzb, *p, *tp;
    float *du, *da, *db;
    TttLayer grad; /* gradient of the state behind the mini-batch */
    bool add;      /* to db */
};

/* Tiles of gradients. (rows, d): dq (dout before), dk, dzb (then dz), du (then dg, then dy).
 * (rows, f), TTT_MLP only: dxb (then dzb1), dx, du1 (then dz1). (rows, rows): c, then dp.
 * Vectors: dlambda, and dots, what tau_{n-1} gets from the state. Sums over mini-batches and
 * sequences: dgamma, dbeta, dtau, drate. */
struct BackwardMemory {
    TttTiles t;
    LayerUse first, last;
    float *dq, *dk, *dzb, *du, *dxb, *dx, *du1, *c, *dlambda, *dots;
    float *dgamma, *dbeta, *dtau, *drate;
    TttState state, next; /* that the mini-batch starts from, and that the scan makes */
    float *grad;          /* gradient of the state */
    float *home;          /* a state of the block's own */
    bool home_is_near;    /* in shared memory: states are copied there before they are used */
    float *kept, *each;   /* states at the starts of sections; of mini-batches 1, 2, ... of one */
};

__host__ __device__ static void backward_memory(const TttSize &s, TttRoom *room, BackwardMemory *m)
{
    *m = {};
    TttTiles *t = &m->t;
    ttt_take_vectors(room, s, t);
    float **vectors[] = {&t->slope, &t->sigma, &t->sigma_b, &m->dlambda, &m->dots};
    for (float **vector : vectors) {
        *vector = ttt_take(room, s.rows);
    }
    m->dgamma = ttt_take(room, s.d);
    m->dbeta = ttt_take(room, s.d);
    m->dtau = ttt_take(room, s.mini);
    m->drate = ttt_take(room, 1);
    float **squares[] = {&t->p, &t->tp, &m->c};
    for (float **tile : squares) {
        *tile = ttt_take_tile(room, s.rows, s.rows);
    }
    float **narrow[] = {&t->q,  &t->k, &t->t,  &t->g,  &t->u,   &t->zb,
                        &t->zh, &t->e, &m->dq, &m->dk, &m->dzb, &m->du};
    for (float **tile : narrow) {
        *tile = ttt_take_tile(room, s.rows, s.d);
    }
    if (s.mlp) {
        t->p1 = ttt_take_tile(room, s.rows, s.rows);
        t->tp1 = ttt_take_tile(room, s.rows, s.rows);
        float **wide[] = {&t->z1, &t->x, &t->r, &t->u1, &t->zb1, &t->xb, &m->dxb, &m->dx, &m->du1};
        for (float **tile : wide) {
            *tile = ttt_take_tile(room, s.rows, s.f);
        }
    }
    int64_t floats = ttt_state_floats(s), before;
    m->grad = ttt_take(room, floats);
    before = room->global_used;
    m->home = ttt_take(room, floats);
    m->home_is_near = room->global_used == before;
    m->kept = room->global != nullptr ? room->global + room->global_used : nullptr;
    room->global_used += s.sections * floats;
    m->each = room->global != nullptr ? room->global + room->global_used : nullptr;
    room->global_used += (s.stride - 1) * floats;
    TttState grad = ttt_state_at(s, m->grad);
    if (s.mlp) {
        m->first = {t->k,   t->q,  t->u1, m->dxb,     t->p1, t->tp1,
                    m->du1, m->dk, m->dq, grad.first, true};
        m->last = {t->x, t->xb, t->u, m->dzb, t->p, t->tp, m->du, m->dx, m->dxb, grad.last, false};
    } else {
        m->last = {t->k, t->q, t->u, m->dzb, t->p, t->tp, m->du, m->dk, m->dq, grad.last, true};
    }
}

/* ---- Steps of a mini-batch ---- */

/* zb becomes zh of it; dzb; and the output norm's part of dgamma and dbeta. */
__device__ __noinline__ static void backward_output(const TttSize &s, const BackwardMemory &m,
                                                    int n)
{
    const TttTiles &t = m.t;
    int lane = threadIdx.x % WARP, row = ttt_row(s.d);
    for (int i = threadIdx.x / WARP; i < n; i += TTT_WARPS) {
        float *zh = t.zb + i * row, *to = m.dzb + i * row;
        const float *dout = m.dq + i * row;
        float sigma = ttt_normalise(zh, s.d, s.eps, lane);
        float sum = 0, along = 0;
        for (int c = lane; c < s.d; c += WARP) {
            float y = t.gamma[c] * dout[c];
            sum += y;
            along = fmaf(y, zh[c], along);
        }
        float mean = warp_sum(sum) / s.d, slant = warp_sum(along) / s.d;
        for (int c = lane; c < s.d; c += WARP) {
            to[c] = (t.gamma[c] * dout[c] - mean - zh[c] * slant) / sigma;
        }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < s.d; c += TTT_THREADS) {
        float gamma = 0, beta = 0;
        for (int i = 0; i < n; i++) {
            gamma = fmaf(m.dq[i * row + c], t.zb[i * row + c], gamma);
            beta += m.dq[i * row + c];
        }
        m.dgamma[c] += gamma;
        m.dbeta[c] += beta;
    }
    __syncthreads();
}

/* c holds dzb u^T and du holds J = a dw' + db': dtau, dots, c becomes dp and du -tau_{n-1} J. */
__device__ __noinline__ static void backward_rates(const TttSize &s, const BackwardMemory &m,
                                                   const LayerUse &use, int n)
{
    int lane = threadIdx.x % WARP, square = ttt_row(s.rows);
    int width = use.grad.out, row = ttt_row(width);
    float last = m.t.tau[n - 1];
    for (int i = threadIdx.x / WARP; i < n; i += TTT_WARPS) {
        float own = 0, dot = 0;
        for (int j = lane; j < n; j += WARP) {
            int at = i * square + j;
            own = fmaf(m.c[at], use.p[at], own); /* p is 0 behind the diagonal */
            m.c[at] = j <= i ? -m.t.tau[i] * m.c[at] : 0.0f;
        }
        for (int c = lane; c < width; c += WARP) {
            int at = i * row + c;
            dot = fmaf(use.du[at], use.u[at], dot);
            use.du[at] *= -last;
        }
        own = warp_sum(own);
        dot = warp_sum(dot);
        if (lane == 0) {
            m.dtau[i] -= own;
            m.dots[i] += dot;
        }
    }
    __syncthreads();
}

/* One layer of the query side and of the state's update: du (set), da (set), db (set or added
 * to), and the gradient of the state, which is that of W' before and lacks the layer's use on
 * the key side behind. */
__device__ __noinline__ static void backward_layer(const TttSize &s, const BackwardMemory &m,
                                                   const TttLayer &layer, const LayerUse &use,
                                                   int n)
{
    const TttLayer &grad = use.grad;
    int in = ttt_row(layer.in), out = ttt_row(layer.out), square = ttt_row(s.rows);
    ttt_product(m.c, square, n, n, layer.out, ttt_view(use.dzb, out), ttt_turned(use.u, out),
                nullptr, 0, 1);
    ttt_product(use.du, out, n, layer.out, layer.in, ttt_view(use.a, in),
                ttt_view(grad.w, grad.row), grad.b, 0, 1);
    __syncthreads();
    backward_rates(s, m, use, n);
    ttt_product(use.du, out, n, layer.out, n, ttt_turned(use.tp, square), ttt_view(use.dzb, out),
                use.du, out, -1);
    ttt_product(use.da, in, n, layer.in, layer.out, ttt_view(use.u, out),
                ttt_turned(grad.w, grad.row), nullptr, 0, -m.t.tau[n - 1]);
    ttt_product(use.da, in, n, layer.in, n, ttt_turned(m.c, square), ttt_view(use.b, in), use.da,
                in, 1);
    ttt_product(use.db, in, n, layer.in, layer.out, ttt_view(use.dzb, out),
                ttt_turned(layer.w, layer.row), use.add ? use.db : nullptr, in, 1);
    ttt_product(use.db, in, n, layer.in, n, ttt_view(m.c, square), ttt_view(use.a, in), use.db, in,
                1);
    __syncthreads();
    ttt_product(grad.w, grad.row, layer.in, layer.out, n, ttt_turned(use.b, in),
                ttt_view(use.dzb, out), grad.w, grad.row, 1);
    ttt_add_columns(grad.b, grad.b, use.dzb, out, n, layer.out, 1);
    __syncthreads();
}

/* dlambda; du becomes dg = lambda du; TTT_MLP: u1 becomes dr and du1 the first part of dz1. */
__device__ __noinline__ static void backward_lambda(const TttSize &s, const BackwardMemory &m,
                                                    int n)
{
    const TttTiles &t = m.t;
    int lane = threadIdx.x % WARP, narrow = ttt_row(s.d), wide = ttt_row(s.f);
    for (int i = threadIdx.x / WARP; i < n; i += TTT_WARPS) {
        float dot = 0, lambda = t.lambda[i];
        for (int c = lane; c < s.d; c += WARP) {
            int at = i * narrow + c;
            dot = fmaf(m.du[at], t.g[at], dot);
            m.du[at] *= lambda;
        }
        for (int c = lane; s.mlp && c < s.f; c += WARP) {
            int at = i * wide + c;
            TttGelu gelu = ttt_gelu(t.z1[at]);
            float dg1 = lambda * m.du1[at];
            dot = fmaf(m.du1[at], t.r[at] * gelu.slope, dot);
            t.u1[at] = dg1 * gelu.slope;
            m.du1[at] = dg1 * t.r[at] * gelu.curve;
        }
        dot = warp_sum(dot);
        if (lane == 0) {
            m.dlambda[i] = dot;
        }
    }
    __syncthreads();
}

/* Through the inner gradient: du holds dg and becomes dy; dzb becomes dz. */
__device__ __noinline__ static void backward_inner_gradient(const TttSize &s,
                                                            const BackwardMemory &m, int n)
{
    const TttTiles &t = m.t;
    int lane = threadIdx.x % WARP, row = ttt_row(s.d);
    for (int i = threadIdx.x / WARP; i < n; i += TTT_WARPS) {
        const float *zh = t.zh + i * row, *e = t.e + i * row, *g = t.g + i * row;
        float *dg = m.du + i * row, *dz = m.dzb + i * row;
        float sigma = t.sigma[i];
        float sum = 0, along = 0, slant = 0, own = 0;
        for (int c = lane; c < s.d; c += WARP) {
            float r = dg[c] / sigma;
            sum += r;
            along = fmaf(r, zh[c], along);
            slant = fmaf(t.gamma[c] * e[c], zh[c], slant);
            own = fmaf(dg[c], g[c], own);
        }
        sum = warp_sum(sum) / s.d;
        along = warp_sum(along) / s.d;
        slant = warp_sum(slant) / s.d;
        own = warp_sum(own) / s.d;
        float mean = 0, tilt = 0;
        for (int c = lane; c < s.d; c += WARP) {
            float r = dg[c] / sigma, gamma = t.gamma[c];
            float dy = r - sum - along * zh[c];
            float dzh = gamma * (gamma * dy) - slant * r - along * (gamma * e[c]);
            mean += dzh;
            tilt = fmaf(dzh, zh[c], tilt);
            dg[c] = dy;
            dz[c] = dzh;
        }
        mean = warp_sum(mean) / s.d;
        tilt = warp_sum(tilt) / s.d + own;
        for (int c = lane; c < s.d; c += WARP) {
            dz[c] = (dz[c] - mean - zh[c] * tilt) / sigma;
        }
    }
    __syncthreads();
}

/* From dz and dy: the inner norm's part of dgamma and dbeta, the rest of dk and of the state's
 * gradient. */
__device__ __noinline__ static void backward_inner_pass(const TttSize &s, const BackwardMemory &m,
                                                        int n)
{
    const TttTiles &t = m.t;
    int narrow = ttt_row(s.d), wide = ttt_row(s.f);
    const TttLayer &last = m.state.last, &grad = m.last.grad;
    for (int c = threadIdx.x; c < s.d; c += TTT_THREADS) {
        float gamma = 0, beta = 0;
        for (int i = 0; i < n; i++) {
            int at = i * narrow + c;
            float de = t.gamma[c] * m.du[at];
            gamma += m.du[at] * t.e[at] + de * t.zh[at];
            beta += de;
        }
        m.dgamma[c] += gamma;
        m.dbeta[c] += beta;
    }
    int in = ttt_row(last.in);
    ttt_product(m.last.da, in, n, last.in, s.d, ttt_view(m.dzb, narrow),
                ttt_turned(last.w, last.row), m.last.da, in, 1);
    ttt_product(grad.w, grad.row, last.in, s.d, n, ttt_turned(m.last.a, in),
                ttt_view(m.dzb, narrow), grad.w, grad.row, 1);
    ttt_add_columns(grad.b, grad.b, m.dzb, narrow, n, s.d, 1);
    __syncthreads();
    if (!s.mlp) {
        return;
    }
    const TttLayer &first = m.state.first, &grad1 = m.first.grad;
    for (int i = threadIdx.x; i < n * s.f; i += TTT_THREADS) {
        int at = i / s.f * wide + i % s.f;
        m.du1[at] = fmaf(m.dx[at], ttt_gelu(t.z1[at]).slope, m.du1[at]);
    }
    __syncthreads();
    ttt_product(m.dk, narrow, n, s.d, s.f, ttt_view(m.du1, wide), ttt_turned(first.w, first.row),
                m.dk, narrow, 1);
    ttt_product(grad1.w, grad1.row, s.d, s.f, n, ttt_turned(t.k, narrow), ttt_view(m.du1, wide),
                grad1.w, grad1.row, 1);
    ttt_add_columns(grad1.b, grad1.b, m.du1, wide, n, s.f, 1);
    __syncthreads();
}

/* TTT_MLP: from dxb to the first layer, and from dr to dg and the last. */
__device__ __noinline__ static void backward_first_layer(const TttSize &s, const BackwardMemory &m,
                                                         int n)
{
    int wide = ttt_row(s.f);
    for (int i = threadIdx.x; i < n * s.f; i += TTT_THREADS) {
        int at = i / s.f * wide + i % s.f;
        m.dxb[at] *= ttt_gelu(m.t.zb1[at]).slope;
    }
    __syncthreads();
    backward_layer(s, m, m.state.first, m.first, n);
}

__device__ __noinline__ static void backward_hidden_gradient(const TttSize &s,
                                                             const BackwardMemory &m, int n)
{
    int narrow = ttt_row(s.d), wide = ttt_row(s.f);
    const TttLayer &last = m.state.last, &grad = m.last.grad;
    const float *dr = m.t.u1;
    ttt_product(m.du, narrow, n, s.d, s.f, ttt_view(dr, wide), ttt_view(last.w, last.row), m.du,
                narrow, 1);
    ttt_product(grad.w, grad.row, s.f, s.d, n, ttt_turned(dr, wide), ttt_view(m.t.g, narrow),
                grad.w, grad.row, 1);
    __syncthreads();
}

/* All gradients of a mini-batch, in tiles. */
__device__ static void backward_tiles(const TttSize &s, const BackwardMemory &m, int n)
{
    backward_output(s, m, n);
    backward_layer(s, m, m.state.last, m.last, n);
    if (s.mlp) {
        backward_first_layer(s, m, n);
    }
    backward_lambda(s, m, n);
    if (s.mlp) {
        backward_hidden_gradient(s, m, n);
    }
    backward_inner_gradient(s, m, n);
    backward_inner_pass(s, m, n);
}
