#pragma once
/* Test-time training for any shape, in f32 arithmetic without tensor cores: what the forward and
 * the backward kernels share. tensor/ttt.h says what is computed.
 *
 * A block takes one head and goes through the sequences g, g + groups, g + 2 groups, ... of the
 * batch, one mini-batch of n <= m tokens behind the other. Its matrices are tiles in f32 whose rows
 * are an odd number of words apart, so that shared memory can be read along rows and along columns
 * without conflicts. Tiles lie in shared memory as long as there is room (take) and else in the
 * block's part of the workspace; the code is the same for both. The addresses of a block's tiles
 * are many: they lie in shared memory too, and the larger steps are functions of their own, so that
 * registers are left for products.
 *
 * The dual form of a mini-batch. The last layer of the inner model maps A to Z = A W + b, with A =
 * K for TTT_LINEAR and A = X = gelu(Z1), Z1 = K W1 + b1 for TTT_MLP. G is the inner gradient at Z
 * with target V - K, U = lambda G. In the first layer of TTT_MLP, R = G W^T, G1 = R gelu'(Z1), U1 =
 * lambda G1.
 *   Zb = B W + b - tau P U,  P = tril(1 + B A^T),  B = Q or B = Xb = gelu(Zb1), Zb1 likewise
 *   from Q, W1 out = Q + norm(Zb),  W' = W - tau_{n-1} A^T U,  b' = b - tau_{n-1} sum U */
#include "cuda/device.cuh"

#define TTT_THREADS 256
#define TTT_WARPS (TTT_THREADS / WARP)
#define TTT_KEPT_BYTES 1024 /* of shared memory, for the addresses */

/* ---- The problem and the memory of a block ---- */

struct TttSize {
    bool mlp;
    int batch, seq, heads, d, f; /* f: 4 d or d */
    int mini, rows;              /* m; tokens of the longest mini-batch */
    int steps, groups;
    int64_t width;
    float rate, eps;      /* rate: base_rate / d */
    int room_floats;      /* of shared memory that a block may take */
    int shared_floats;    /* that it takes */
    int64_t slot_floats;  /* of a block in the workspace */
    int sections, stride; /* backward: see ttt_any_backward.cu */
};

template <typename T> struct TttParameters {
    const T *index, *rate_bias, *gamma, *beta, *w1, *b1, *w2, *b2;
};

/* w (in, out), rows `row` words apart; b (out). */
struct TttLayer {
    float *w, *b;
    int in, out, row;
};

/* first is there for TTT_MLP only. */
struct TttState {
    TttLayer first, last;
};

__host__ __device__ inline int ttt_row(int width)
{
    return width | 1;
}

__host__ __device__ inline int ttt_layer_floats(int in, int out)
{
    return in * ttt_row(out) + out;
}

/* What a state takes with its rows padded. */
__host__ __device__ inline int ttt_state_floats(const TttSize &s)
{
    return s.mlp ? ttt_layer_floats(s.d, s.f) + ttt_layer_floats(s.f, s.d)
                 : ttt_layer_floats(s.d, s.d);
}

/* Memory of a block: what is taken of both kinds, and where they start (NULL on the host, which
 * only counts). */
struct TttRoom {
    float *shared, *global;
    int64_t shared_floats, shared_used, global_used;
};

__host__ __device__ inline float *ttt_take(TttRoom *room, int64_t floats)
{
    if (room->shared_used + floats <= room->shared_floats) {
        float *at = room->shared != nullptr ? room->shared + room->shared_used : nullptr;
        room->shared_used += floats;
        return at;
    }
    float *at = room->global != nullptr ? room->global + room->global_used : nullptr;
    room->global_used += floats;
    return at;
}

__host__ __device__ inline float *ttt_take_tile(TttRoom *room, int rows, int width)
{
    return ttt_take(room, (int64_t)rows * ttt_row(width));
}

/* Tiles of a mini-batch. (rows, d): q, k, t = v - k, g (z before), u, zb, and for backward zh,
 * e. (rows, f), TTT_MLP only: z1, x, r, u1, zb1, xb. (rows, rows): p and tp = tau p of the last
 * layer, p1 and tp1 of the first. Vectors: lambda, tau, and for backward slope = d lambda / ds,
 * sigma of z and zb. */
struct TttTiles {
    float *q, *k, *t, *g, *u, *zb, *zh, *e;
    float *z1, *x, *r, *u1, *zb1, *xb;
    float *p, *tp, *p1, *tp1;
    float *gamma, *beta, *lambda, *tau, *slope, *sigma, *sigma_b;
};

/* What forward needs; backward takes more beside it. */
__host__ __device__ inline void ttt_take_vectors(TttRoom *room, const TttSize &s, TttTiles *t)
{
    t->gamma = ttt_take(room, s.d);
    t->beta = ttt_take(room, s.d);
    t->lambda = ttt_take(room, s.rows);
    t->tau = ttt_take(room, s.rows);
}

__host__ __device__ inline TttState ttt_state_at(const TttSize &s, float *at)
{
    TttState state = {};
    if (s.mlp) {
        state.first = {at, at + s.d * ttt_row(s.f), s.d, s.f, ttt_row(s.f)};
        at += ttt_layer_floats(s.d, s.f);
    }
    int in = s.mlp ? s.f : s.d;
    state.last = {at, at + in * ttt_row(s.d), in, s.d, ttt_row(s.d)};
    return state;
}

/* ---- Products ---- */

/* A matrix to be read: element (r, c) is data[r * row + c * col]. */
struct TttView {
    const float *data;
    int row, col;
};

__device__ inline TttView ttt_view(const float *data, int row)
{
    return {data, row, 1};
}

__device__ inline TttView ttt_turned(const float *data, int row)
{
    return {data, 1, row};
}

/* out (rows, cols) = base + scale a b with a (rows, depth), b (depth, cols). base: NULL for
 * none, rows base_row words apart (0: the same row for all); out itself is allowed. A thread
 * makes TILE x TILE elements, which ones depends on rows and cols alone: products into the same
 * out need no barrier between them. */
template <int TILE>
__device__ __noinline__ void ttt_product_tiles(float *out, int out_row, int rows, int cols,
                                               int depth, TttView a, TttView b, const float *base,
                                               int base_row, float scale)
{
    int down = (rows + TILE - 1) / TILE, across = (cols + TILE - 1) / TILE;
    for (int tile = threadIdx.x; tile < down * across; tile += TTT_THREADS) {
        int r0 = tile / across, c0 = tile % across;
        const float *from_a[TILE], *from_b[TILE];
#pragma unroll
        for (int i = 0; i < TILE; i++) {
            from_a[i] = a.data + min(r0 + i * down, rows - 1) * a.row;
            from_b[i] = b.data + min(c0 + i * across, cols - 1) * b.col;
        }
        float sum[TILE][TILE] = {};
#pragma unroll(TILE == 4 ? 2 : 4)
        for (int k = 0; k < depth; k++) {
            float left[TILE], right[TILE];
#pragma unroll
            for (int i = 0; i < TILE; i++) {
                left[i] = from_a[i][k * a.col];
                right[i] = from_b[i][k * b.row];
            }
#pragma unroll
            for (int i = 0; i < TILE; i++) {
#pragma unroll
                for (int j = 0; j < TILE; j++) {
                    sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < TILE; i++) {
#pragma unroll
            for (int j = 0; j < TILE; j++) {
                int r = r0 + i * down, c = c0 + j * across;
                if (r < rows && c < cols) {
                    float old = base != nullptr ? base[r * base_row + c] : 0.0f;
                    out[r * out_row + c] = fmaf(scale, sum[i][j], old);
                }
            }
        }
    }
}

/* The largest tile that leaves work for all threads. */
__device__ inline void ttt_product(float *out, int out_row, int rows, int cols, int depth,
                                   TttView a, TttView b, const float *base, int base_row,
                                   float scale)
{
    int count = rows * cols;
    if (count >= 16 * TTT_THREADS) {
        ttt_product_tiles<4>(out, out_row, rows, cols, depth, a, b, base, base_row, scale);
    } else if (count >= 4 * TTT_THREADS) {
        ttt_product_tiles<2>(out, out_row, rows, cols, depth, a, b, base, base_row, scale);
    } else {
        ttt_product_tiles<1>(out, out_row, rows, cols, depth, a, b, base, base_row, scale);
    }
}

/* to[c] = from[c] + scale * (sum over n rows of tile[.][c]) */
__device__ inline void ttt_add_columns(float *to, const float *from, const float *tile, int row,
                                       int n, int cols, float scale)
{
    for (int c = threadIdx.x; c < cols; c += TTT_THREADS) {
        float sum = 0;
        for (int i = 0; i < n; i++) {
            sum += tile[i * row + c];
        }
        to[c] = fmaf(scale, sum, from[c]);
    }
}

/* ---- Pointwise ---- */

/* gelu(x) = x s with s = 1/(1 + exp(-2 u)), u = a (x + b x^3), and its first two derivatives. */
struct TttGelu {
    float value, slope, curve;
};

__device__ inline TttGelu ttt_gelu(float x)
{
    const float a = 0.79788456080286535588f, b = 0.044715f;
    float s = 1 / (1 + expf(-2 * a * (x + b * x * x * x)));
    float u1 = a * (1 + 3 * b * x * x), bend = s * (1 - s);
    return {x * s, s + 2 * x * u1 * bend,
            bend * (4 * u1 + x * (12 * a * b * x + 4 * u1 * u1 * (1 - 2 * s)))};
}

/* to = gelu(from), n rows of f */
__device__ inline void ttt_gelu_tile(const TttSize &s, const float *from, float *to, int n)
{
    int row = ttt_row(s.f);
    for (int i = threadIdx.x; i < n * s.f; i += TTT_THREADS) {
        int at = i / s.f * row + i % s.f;
        to[at] = ttt_gelu(from[at]).value;
    }
}

/* A row of d elements, by one warp: z becomes (z - mean) / sigma; returns sigma. */
__device__ inline float ttt_normalise(float *z, int d, float eps, int lane)
{
    float sum = 0, squares = 0;
    for (int c = lane; c < d; c += WARP) {
        sum += z[c];
    }
    float mean = warp_sum(sum) / d;
    for (int c = lane; c < d; c += WARP) {
        float off = z[c] - mean;
        squares = fmaf(off, off, squares);
    }
    float sigma = sqrtf(warp_sum(squares) / d + eps);
    for (int c = lane; c < d; c += WARP) {
        z[c] = (z[c] - mean) / sigma;
    }
    return sigma;
}

/* g holds z: g = the inner gradient, u = lambda g; zh and e = gamma zh + beta - t where they are
 * wanted. */
__device__ __noinline__ inline void ttt_inner_gradient(const TttSize &s, const TttTiles &t, int n)
{
    int lane = threadIdx.x % WARP, row = ttt_row(s.d);
    for (int i = threadIdx.x / WARP; i < n; i += TTT_WARPS) {
        float *z = t.g + i * row, *u = t.u + i * row;
        const float *target = t.t + i * row;
        float sigma = ttt_normalise(z, s.d, s.eps, lane);
        float sum = 0, along = 0;
        for (int c = lane; c < s.d; c += WARP) {
            float e = fmaf(t.gamma[c], z[c], t.beta[c]) - target[c], y = t.gamma[c] * e;
            sum += y;
            along = fmaf(y, z[c], along);
            u[c] = e;
        }
        float mean = warp_sum(sum) / s.d, slant = warp_sum(along) / s.d;
        for (int c = lane; c < s.d; c += WARP) {
            float zh = z[c], e = u[c];
            float g = (t.gamma[c] * e - mean - zh * slant) / sigma;
            if (t.zh != nullptr) {
                t.zh[i * row + c] = zh;
                t.e[i * row + c] = e;
            }
            z[c] = g;
            u[c] = t.lambda[i] * g;
        }
        if (t.sigma != nullptr && lane == 0) {
            t.sigma[i] = sigma;
        }
    }
}

/* ---- Steps of a mini-batch; each ends with a barrier ---- */

template <typename T>
__device__ inline void ttt_load_parameters(const TttSize &s, const TttParameters<T> &w,
                                           const TttTiles &t, int head)
{
    for (int c = threadIdx.x; c < s.d; c += TTT_THREADS) {
        t.gamma[c] = to_f32(w.gamma[head * s.d + c]);
        t.beta[c] = to_f32(w.beta[head * s.d + c]);
    }
    for (int i = threadIdx.x; i < s.rows; i += TTT_THREADS) {
        t.tau[i] = fmaxf(0.0f, 1.0f / (i + 1) + to_f32(w.index[i]));
    }
    __syncthreads();
}

template <typename T>
__device__ inline void ttt_load_layer(const TttLayer &to, const T *w, const T *b, int head)
{
    int count = to.in * to.out;
    w += (int64_t)head * count;
    for (int i = threadIdx.x; i < count; i += TTT_THREADS) {
        to.w[i / to.out * to.row + i % to.out] = to_f32(w[i]);
    }
    for (int c = threadIdx.x; c < to.out; c += TTT_THREADS) {
        to.b[c] = to_f32(b[head * to.out + c]);
    }
}

/* The state that every sequence starts from. */
template <typename T>
__device__ inline void ttt_load_state(const TttSize &s, const TttParameters<T> &w,
                                      const TttState &state, int head)
{
    if (s.mlp) {
        ttt_load_layer(state.first, w.w1, w.b1, head);
        ttt_load_layer(state.last, w.w2, w.b2, head);
    } else {
        ttt_load_layer(state.last, w.w1, w.b1, head);
    }
    __syncthreads();
}

/* q and k turned, t = v - k, lambda of the mini-batch of n tokens whose first row of x is
 * `row0`. */
template <typename T>
__device__ __noinline__ void ttt_load_tokens(const TttSize &s, const TttParameters<T> &w,
                                             const TttTiles &t, const T *x, const float *rope,
                                             int64_t row0, int head, int n)
{
    int half = s.d / 2, row = ttt_row(s.d);
    int64_t all = (int64_t)s.heads * s.d;
    for (int i = threadIdx.x; i < n * half; i += TTT_THREADS) {
        int token = i / half, pair = i % half, at = token * row + 2 * pair;
        const T *from = x + (row0 + token) * s.width + head * s.d + 2 * pair;
        float cosine = rope[token * s.d + pair], sine = rope[token * s.d + half + pair];
        float q0 = to_f32(from[0]), q1 = to_f32(from[1]);
        float k0 = to_f32(from[all]), k1 = to_f32(from[all + 1]);
        float turned0 = k0 * cosine - k1 * sine, turned1 = k1 * cosine + k0 * sine;
        t.q[at] = q0 * cosine - q1 * sine;
        t.q[at + 1] = q1 * cosine + q0 * sine;
        t.k[at] = turned0;
        t.k[at + 1] = turned1;
        t.t[at] = to_f32(from[2 * all]) - turned0;
        t.t[at + 1] = to_f32(from[2 * all + 1]) - turned1;
    }
    for (int i = threadIdx.x; i < n; i += TTT_THREADS) {
        float rate = to_f32(x[(row0 + i) * s.width + 3 * all + head]) + to_f32(w.rate_bias[head]);
        t.lambda[i] = s.rate / (1 + expf(-rate));
        if (t.slope != nullptr) {
            t.slope[i] = t.lambda[i] / (1 + expf(rate));
        }
    }
    __syncthreads();
}

/* From k, t, lambda: g, u, and for TTT_MLP z1, x, r, u1 (r and u1 may be one tile). */
__device__ __noinline__ inline void ttt_inner_pass(const TttSize &s, const TttState &state,
                                                   const TttTiles &t, int n)
{
    int narrow = ttt_row(s.d), wide = ttt_row(s.f);
    const TttLayer &first = state.first, &last = state.last;
    if (s.mlp) {
        ttt_product(t.z1, wide, n, s.f, s.d, ttt_view(t.k, narrow), ttt_view(first.w, first.row),
                    first.b, 0, 1);
        __syncthreads();
        ttt_gelu_tile(s, t.z1, t.x, n);
        __syncthreads();
    }
    TttView input = s.mlp ? ttt_view(t.x, wide) : ttt_view(t.k, narrow);
    ttt_product(t.g, narrow, n, s.d, last.in, input, ttt_view(last.w, last.row), last.b, 0, 1);
    __syncthreads();
    ttt_inner_gradient(s, t, n);
    __syncthreads();
    if (s.mlp) {
        ttt_product(t.r, wide, n, s.f, s.d, ttt_view(t.g, narrow), ttt_turned(last.w, last.row),
                    nullptr, 0, 1);
        __syncthreads();
        for (int i = threadIdx.x; i < n * s.f; i += TTT_THREADS) {
            int token = i / s.f, at = token * wide + i % s.f;
            t.u1[at] = t.lambda[token] * (t.r[at] * ttt_gelu(t.z1[at]).slope);
        }
        __syncthreads();
    }
}

/* zb = b w + bias - tau p u for one layer, with p and tau p on the way. */
__device__ __noinline__ inline void ttt_query_layer(const TttTiles &t, const TttLayer &layer,
                                                    const float *a, const float *b, const float *u,
                                                    float *p, float *tp, float *zb, int rows, int n)
{
    int in = ttt_row(layer.in), out = ttt_row(layer.out), square = ttt_row(rows);
    ttt_product(p, square, n, n, layer.in, ttt_view(b, in), ttt_turned(a, in), nullptr, 0, 1);
    ttt_product(zb, out, n, layer.out, layer.in, ttt_view(b, in), ttt_view(layer.w, layer.row),
                layer.b, 0, 1);
    __syncthreads();
    for (int i = threadIdx.x; i < n * n; i += TTT_THREADS) {
        int r = i / n, c = i % n, at = r * square + c;
        float value = c <= r ? 1 + p[at] : 0.0f;
        p[at] = value;
        tp[at] = t.tau[r] * value;
    }
    __syncthreads();
    ttt_product(zb, out, n, layer.out, n, ttt_view(tp, square), ttt_view(u, out), zb, out, -1);
    __syncthreads();
}

/* zb, not yet normalised. zb1 and xb may be one tile. */
__device__ inline void ttt_query_pass(const TttSize &s, const TttState &state, const TttTiles &t,
                                      int n)
{
    if (!s.mlp) {
        ttt_query_layer(t, state.last, t.k, t.q, t.u, t.p, t.tp, t.zb, s.rows, n);
        return;
    }
    ttt_query_layer(t, state.first, t.k, t.q, t.u1, t.p1, t.tp1, t.zb1, s.rows, n);
    ttt_gelu_tile(s, t.zb1, t.xb, n);
    __syncthreads();
    ttt_query_layer(t, state.last, t.x, t.xb, t.u, t.p, t.tp, t.zb, s.rows, n);
}

__device__ __noinline__ inline void ttt_update_layer(const TttLayer &from, const TttLayer &to,
                                                     const float *a, const float *u, int n,
                                                     float tau)
{
    int out = ttt_row(from.out);
    ttt_product(to.w, to.row, from.in, from.out, n, ttt_turned(a, ttt_row(from.in)),
                ttt_view(u, out), from.w, from.row, -tau);
    ttt_add_columns(to.b, from.b, u, out, n, from.out, -tau);
}

/* The state behind the mini-batch, in place or elsewhere. */
__device__ inline void ttt_update(const TttSize &s, const TttState &from, const TttState &to,
                                  const TttTiles &t, int n)
{
    float tau = t.tau[n - 1];
    if (s.mlp) {
        ttt_update_layer(from.first, to.first, t.k, t.u1, n, tau);
    }
    ttt_update_layer(from.last, to.last, s.mlp ? t.x : t.k, t.u, n, tau);
    __syncthreads();
}

/* Tokens of mini-batch `step`. */
__device__ inline int ttt_tokens(const TttSize &s, int step)
{
    return min(s.mini, s.seq - step * s.mini);
}

/* ---- Host ---- */

template <typename T> static TttParameters<T> ttt_parameters(const TttWeights *w)
{
    return {(const T *)w->index.data, (const T *)w->rate_bias.data, (const T *)w->gamma.data,
            (const T *)w->beta.data,  (const T *)w->w1.data,        (const T *)w->b1.data,
            (const T *)w->w2.data,    (const T *)w->b2.data};
}

/* Everything but groups and what memory is taken. */
TttSize ttt_any_size(const CudaBackend *backend, const TttShape *shape);

/* Blocks that one group of sequences per head makes are topped up to this many, if the batch has
 * them. It depends on the shape alone, since it decides the order of sums over sequences. */
int ttt_any_groups(const TttSize &size);

/* ttt_any_backward.cu */
void ttt_any_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                      Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                      void *ws);
size_t ttt_any_backward_ws(const Ctx *c, const TttShape *shape, DType dtype);
