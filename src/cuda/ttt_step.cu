/* Test-time training token by token, for generation: one block per (sequence, head), all arithmetic
 * in f32.
 *
 * The state of a pair is W, b of each layer at the mini-batch's start and the sums A, a of lambda
 * times inner gradient since (ops.h: op_ttt_step). With u = lambda g of the new token the layer
 * that it sees is W - tau (A + a_in^T u), so its query needs no matrix that is not in memory:
 *   zb = b_in W + b - tau (b_in A + a + (b_in . a_in + 1) u)
 * for the layer's inputs a_in on the key side and b_in on the query side. The new sums are
 * written last, or, behind the last token of a mini-batch, the new W and b and sums of 0. */
#include "cuda/ttt_any.cuh"

#define STEP_THREADS 512
#define STEP_WARPS (STEP_THREADS / WARP)
#define START_THREADS 256

/* One layer in the state: w (in, out), b (out), and the sums of both. */
struct StepLayer {
    float *w, *b, *sum_w, *sum_b;
    int in, out;
};

/* Vectors in shared memory. (d): q, k, t = v - k, g (z before), u, zb, qa. (f), TTT_MLP only:
 * z1, x, u1, zb1, qa1, xb. parts: sums of groups of rows. */
struct StepMemory {
    float *q, *k, *t, *g, *u, *zb, *qa, *z1, *x, *u1, *zb1, *qa1, *xb, *parts;
};

/* Groups of rows that columns() sums apart. */
__host__ __device__ static int row_groups(int cols, int lanes)
{
    int groups = STEP_THREADS * lanes / cols;
    return groups > 1 ? groups : 1;
}

__host__ __device__ static int step_memory(const TttSize &s, int lanes, float *at, StepMemory *m)
{
    int used = 0;
    float **narrow[] = {&m->q, &m->k, &m->t, &m->g, &m->u, &m->zb, &m->qa};
    float **wide[] = {&m->z1, &m->x, &m->u1, &m->zb1, &m->qa1, &m->xb};
    for (float **vector : narrow) {
        *vector = at != nullptr ? at + used : nullptr;
        used += s.d;
    }
    for (float **vector : wide) {
        *vector = at != nullptr ? at + used : nullptr;
        used += s.mlp ? s.f : 0;
    }
    m->parts = at != nullptr ? at + used : nullptr;
    int first = 2 * row_groups(s.f, lanes) * s.f, last = 2 * row_groups(s.d, lanes) * s.d;
    return used + (first > last ? first : last);
}

/* out0 (cols) = u0 m, and out1 = u1 m with VECTORS of 2, for m (rows, cols). Begins and ends
 * with a barrier. */
template <int VECTORS, int LANES>
__device__ __noinline__ void columns(const float *m, int rows, int cols, const float *u0,
                                     const float *u1, float *out0, float *out1, float *parts)
{
    int across = cols / LANES, groups = row_groups(cols, LANES);
    __syncthreads();
    for (int item = threadIdx.x; item < across * groups; item += STEP_THREADS) {
        int c = item % across * LANES, group = item / across;
        float sum[VECTORS][LANES] = {};
#pragma unroll 4
        for (int r = group; r < rows; r += groups) {
            float value[LANES];
            load_lanes(m + (int64_t)r * cols + c, value);
#pragma unroll
            for (int i = 0; i < LANES; i++) {
                sum[0][i] = fmaf(u0[r], value[i], sum[0][i]);
                if constexpr (VECTORS == 2) {
                    sum[1][i] = fmaf(u1[r], value[i], sum[1][i]);
                }
            }
        }
#pragma unroll
        for (int v = 0; v < VECTORS; v++) {
#pragma unroll
            for (int i = 0; i < LANES; i++) {
                parts[(v * groups + group) * cols + c + i] = sum[v][i];
            }
        }
    }
    __syncthreads();
    for (int item = threadIdx.x; item < VECTORS * cols; item += STEP_THREADS) {
        int v = item / cols, c = item % cols;
        float sum = 0;
        for (int group = 0; group < groups; group++) {
            sum += parts[(v * groups + group) * cols + c];
        }
        (v == 0 ? out0 : out1)[c] = sum;
    }
    __syncthreads();
}

/* A sum over the block, the same in every thread: each warp makes it. */
__device__ static float dot(const float *a, const float *b, int count)
{
    float sum = 0;
    for (int i = threadIdx.x % WARP; i < count; i += WARP) {
        sum = fmaf(a[i], b[i], sum);
    }
    return warp_sum(sum);
}

/* The layer's sums with the token's a^T u, or the state behind it and sums of 0. */
template <int LANES>
__device__ static void add_token(const StepLayer &layer, const float *a, const float *u, float tau,
                                 bool commit)
{
    int across = layer.out / LANES;
#pragma unroll 2
    for (int item = threadIdx.x; item < layer.in * across; item += STEP_THREADS) {
        int r = item / across, c = item % across * LANES;
        int64_t at = (int64_t)r * layer.out + c;
        float sum[LANES], w[LANES];
        load_lanes(layer.sum_w + at, sum);
#pragma unroll
        for (int i = 0; i < LANES; i++) {
            sum[i] = fmaf(a[r], u[c + i], sum[i]);
        }
        if (commit) {
            load_lanes(layer.w + at, w);
#pragma unroll
            for (int i = 0; i < LANES; i++) {
                w[i] = fmaf(-tau, sum[i], w[i]);
                sum[i] = 0;
            }
            store_lanes(layer.w + at, w);
        }
        store_lanes(layer.sum_w + at, sum);
    }
    for (int c = threadIdx.x; c < layer.out; c += STEP_THREADS) {
        float sum = layer.sum_b[c] + u[c];
        if (commit) {
            layer.b[c] = fmaf(-tau, sum, layer.b[c]);
            sum = 0;
        }
        layer.sum_b[c] = sum;
    }
}

/* What a token brings: turned q and k and the target. */
template <typename T>
__device__ static void load_token(const TttSize &s, const StepMemory &m, const T *x,
                                  const float *rope, int head)
{
    int half = s.d / 2;
    int64_t all = (int64_t)s.heads * s.d;
    for (int pair = threadIdx.x; pair < half; pair += STEP_THREADS) {
        const T *from = x + head * s.d + 2 * pair;
        float cosine = rope[pair], sine = rope[half + pair];
        float q0 = to_f32(from[0]), q1 = to_f32(from[1]);
        float k0 = to_f32(from[all]), k1 = to_f32(from[all + 1]);
        m.q[2 * pair] = q0 * cosine - q1 * sine;
        m.q[2 * pair + 1] = q1 * cosine + q0 * sine;
        m.k[2 * pair] = k0 * cosine - k1 * sine;
        m.k[2 * pair + 1] = k1 * cosine + k0 * sine;
        m.t[2 * pair] = to_f32(from[2 * all]) - m.k[2 * pair];
        m.t[2 * pair + 1] = to_f32(from[2 * all + 1]) - m.k[2 * pair + 1];
    }
}

/* By one warp: g holds a W and becomes the inner gradient at a W + b; u = lambda g. */
template <typename T>
__device__ static void inner_gradient(const TttSize &s, const StepMemory &m, const float *b,
                                      const T *gamma, const T *beta, float lambda)
{
    int lane = threadIdx.x % WARP;
    float sum = 0, along = 0;
    for (int c = lane; c < s.d; c += WARP) {
        m.g[c] += b[c];
    }
    float sigma = ttt_normalise(m.g, s.d, s.eps, lane);
    for (int c = lane; c < s.d; c += WARP) {
        float weight = to_f32(gamma[c]);
        float y = weight * (fmaf(weight, m.g[c], to_f32(beta[c])) - m.t[c]);
        sum += y;
        along = fmaf(y, m.g[c], along);
        m.u[c] = y;
    }
    float mean = warp_sum(sum) / s.d, slant = warp_sum(along) / s.d;
    for (int c = lane; c < s.d; c += WARP) {
        m.g[c] = (m.u[c] - mean - m.g[c] * slant) / sigma;
        m.u[c] = lambda * m.g[c];
    }
}

/* zb at column c of a layer, from b_in W and b_in A; near = b_in . a_in + 1. */
__device__ static float seen(const StepLayer &layer, float bw, float ba, float u, float near,
                             float tau, int c)
{
    return bw + layer.b[c] - tau * (ba + layer.sum_b[c] + near * u);
}

template <typename T, int LANES>
__global__ void __launch_bounds__(STEP_THREADS, 1)
    ttt_step_kernel(TttSize s, TttParameters<T> w, const T *x, const float *rope,
                    const int32_t *position, float *state, T *out)
{
    extern __shared__ float shared[];
    StepMemory m;
    step_memory(s, LANES, shared, &m);
    int sequence = blockIdx.x / s.heads, head = blockIdx.x % s.heads;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int i = *position % s.mini;
    int in = s.mlp ? s.f : s.d;
    int64_t first_count = s.mlp ? (int64_t)s.d * s.f + s.f : 0;
    int64_t last_count = (int64_t)in * s.d + s.d, count = first_count + last_count;
    float *w1 = state + blockIdx.x * 2 * count, *w2 = w1 + first_count;
    StepLayer first = {w1, w1 + s.d * s.f, w1 + count, w1 + count + s.d * s.f, s.d, s.f};
    StepLayer last = {w2, w2 + in * s.d, w2 + count, w2 + count + in * s.d, in, s.d};
    x += sequence * s.width;
    float rate = to_f32(x[3 * (int64_t)s.heads * s.d + head]) + to_f32(w.rate_bias[head]);
    float lambda = s.rate / (1 + expf(-rate));
    float tau = fmaxf(0.0f, 1.0f / (i + 1) + to_f32(w.index[i]));
    const T *gamma = w.gamma + head * s.d, *beta = w.beta + head * s.d;
    load_token(s, m, x, rope + (int64_t)i * s.d, head);

    const float *a = m.k, *b = m.q;
    if (s.mlp) {
        columns<2, LANES>(first.w, s.d, s.f, m.k, m.q, m.z1, m.zb1, m.parts);
        columns<1, LANES>(first.sum_w, s.d, s.f, m.q, nullptr, m.qa1, nullptr, m.parts);
        for (int c = threadIdx.x; c < s.f; c += STEP_THREADS) {
            m.z1[c] += first.b[c];
            m.x[c] = ttt_gelu(m.z1[c]).value;
        }
        columns<1, LANES>(last.w, in, s.d, m.x, nullptr, m.g, nullptr, m.parts);
    } else {
        columns<2, LANES>(last.w, in, s.d, m.k, m.q, m.g, m.zb, m.parts);
    }
    if (warp == 0) {
        inner_gradient(s, m, last.b, gamma, beta, lambda);
    }
    __syncthreads();
    if (s.mlp) {
        float near = dot(m.q, m.k, s.d) + 1;
#pragma unroll 4
        for (int r = warp; r < s.f; r += STEP_WARPS) {
            float back = dot(last.w + (int64_t)r * s.d, m.g, s.d);
            if (lane == 0) {
                float u = lambda * (back * ttt_gelu(m.z1[r]).slope);
                m.u1[r] = u;
                m.xb[r] = ttt_gelu(seen(first, m.zb1[r], m.qa1[r], u, near, tau, r)).value;
            }
        }
        columns<1, LANES>(last.w, in, s.d, m.xb, nullptr, m.zb, nullptr, m.parts);
        a = m.x;
        b = m.xb;
    }
    columns<1, LANES>(last.sum_w, in, s.d, b, nullptr, m.qa, nullptr, m.parts);
    if (warp == 0) {
        float near = dot(b, a, in) + 1;
        for (int c = lane; c < s.d; c += WARP) {
            m.zb[c] = seen(last, m.zb[c], m.qa[c], m.u[c], near, tau, c);
        }
        ttt_normalise(m.zb, s.d, s.eps, lane);
        T *to = out + (int64_t)blockIdx.x * s.d;
        for (int c = lane; c < s.d; c += WARP) {
            to[c] = from_f32<T>(m.q[c] + fmaf(to_f32(gamma[c]), m.zb[c], to_f32(beta[c])));
        }
    }
    __syncthreads();
    bool commit = i == s.mini - 1;
    if (s.mlp) {
        add_token<LANES>(first, m.k, m.u1, tau, commit);
    }
    add_token<LANES>(last, a, m.u, tau, commit);
}

/* The state before the first token: the layer's parameters, and sums of 0. A block per pair and
 * piece. */
template <typename T>
__global__ void __launch_bounds__(START_THREADS)
    ttt_start_kernel(TttSize s, TttParameters<T> w, float *state)
{
    int64_t head = blockIdx.x % s.heads;
    int64_t at = (int64_t)blockIdx.y * START_THREADS + threadIdx.x;
    const T *from[4] = {w.w1, w.b1, w.w2, w.b2};
    int64_t matrix = (int64_t)s.d * s.f;
    int64_t size[4] = {matrix, s.f, s.mlp ? matrix : 0, s.mlp ? s.d : 0};
    int64_t count = size[0] + size[1] + size[2] + size[3], left = at;
    if (at >= 2 * count) {
        return;
    }
    float value = 0;
#pragma unroll
    for (int part = 0; part < 4; part++) {
        if (left >= 0 && left < size[part]) {
            value = to_f32(from[part][head * size[part] + left]);
        }
        left -= size[part];
    }
    state[blockIdx.x * 2 * count + at] = value;
}

template <typename T, int LANES>
static void launch_step_lanes(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w,
                              Tensor rope, Tensor position, Tensor state, Tensor out)
{
    TttSize s = ttt_any_size(cuda_of(c), shape);
    StepMemory counted;
    int bytes = step_memory(s, LANES, nullptr, &counted) * (int)sizeof(float);
    CUDA_CHECK(cudaFuncSetAttribute(ttt_step_kernel<T, LANES>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    unsigned pairs = (unsigned)(s.batch * s.heads);
    ttt_step_kernel<T, LANES><<<pairs, STEP_THREADS, bytes, cuda_of(c)->stream>>>(
        s, ttt_parameters<T>(w), (const T *)x.data, (const float *)rope.data,
        (const int32_t *)position.data, (float *)state.data, (T *)out.data);
    CUDA_LAUNCHED("ttt_step_kernel");
}

template <typename T>
static void launch_step(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                        Tensor position, Tensor state, Tensor out)
{
    if (aligned_16(state.data) && shape->head_dim % 4 == 0) {
        launch_step_lanes<T, 4>(c, x, shape, w, rope, position, state, out);
    } else {
        launch_step_lanes<T, 1>(c, x, shape, w, rope, position, state, out);
    }
}

template <typename T>
static void launch_start(Ctx *c, const TttShape *shape, const TttWeights *w, Tensor state)
{
    TttSize s = ttt_any_size(cuda_of(c), shape);
    dim3 grid((unsigned)(s.batch * s.heads),
              (unsigned)ceil_div(2 * ttt_state(shape), START_THREADS));
    ttt_start_kernel<T><<<grid, START_THREADS, 0, cuda_of(c)->stream>>>(s, ttt_parameters<T>(w),
                                                                        (float *)state.data);
    CUDA_LAUNCHED("ttt_start_kernel");
}

void cuda_ttt_start(Ctx *c, const TttShape *shape, const TttWeights *w, Tensor state)
{
    CUDA_FOR_TYPE(w->w1.dtype, launch_start, c, shape, w, state);
}

void cuda_ttt_step(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                   Tensor position, Tensor state, Tensor out)
{
    CUDA_FOR_TYPE(x.dtype, launch_step, c, x, shape, w, rope, position, state, out);
}
