/* The backward kernel of test-time training for any shape (ttt_any.cuh).
 *
 * Mini-batches are taken from the last to the first, and each needs the state at its start. A block
 * gets them from a forward scan of its sequence without the queries: it keeps the state at the
 * start of every section of `stride` mini-batches, then, section by section from the last, scans
 * again and keeps the state of each mini-batch. Where all states of a sequence fit there is one
 * section; else the stride is about the root of their number. Memory is then bounded and the price
 * is one more scan.
 *
 * Gradients of parameters are summed by a block over its sequences, written as partial sums to the
 * workspace, and added up in a fixed order by a second kernel. */
#include "cuda/ttt_any_backward.cuh"

#define STATES_BYTES ((int64_t)128 << 20) /* of states, where one section is to do */

/* ---- Tokens ---- */

/* dout of the mini-batch into dq. */
template <typename T>
__device__ __noinline__ void load_dout(const TttSize &s, const BackwardMemory &m, const T *dout,
                                       int64_t row0, int head, int n)
{
    int row = ttt_row(s.d);
    for (int i = threadIdx.x; i < n * s.d; i += TTT_THREADS) {
        int token = i / s.d, c = i % s.d;
        m.dq[token * row + c] = to_f32(dout[((row0 + token) * s.heads + head) * s.d + c]);
    }
    for (int i = threadIdx.x; i < n; i += TTT_THREADS) {
        m.dots[i] = 0;
    }
    __syncthreads();
}

/* The mini-batch's rows of dx, dq and dk turned back, and what tau and the rate get. */
template <typename T>
__device__ __noinline__ void store_gradients(const TttSize &s, const BackwardMemory &m,
                                             const float *rope, T *dx, int64_t row0, int head,
                                             int n)
{
    const TttTiles &t = m.t;
    int half = s.d / 2, row = ttt_row(s.d);
    int64_t all = (int64_t)s.heads * s.d;
    for (int i = threadIdx.x; i < n * half; i += TTT_THREADS) {
        int token = i / half, pair = i % half, at = token * row + 2 * pair;
        T *to = dx + (row0 + token) * s.width + head * s.d + 2 * pair;
        float cosine = rope[token * s.d + pair], sine = rope[token * s.d + half + pair];
        float dt0 = -t.gamma[2 * pair] * m.du[at], dt1 = -t.gamma[2 * pair + 1] * m.du[at + 1];
        float q0 = m.dq[at], q1 = m.dq[at + 1];
        float k0 = m.dk[at] - dt0, k1 = m.dk[at + 1] - dt1;
        to[0] = from_f32<T>(q0 * cosine + q1 * sine);
        to[1] = from_f32<T>(q1 * cosine - q0 * sine);
        to[all] = from_f32<T>(k0 * cosine + k1 * sine);
        to[all + 1] = from_f32<T>(k1 * cosine - k0 * sine);
        to[2 * all] = from_f32<T>(dt0);
        to[2 * all + 1] = from_f32<T>(dt1);
    }
    for (int i = threadIdx.x; i < n; i += TTT_THREADS) {
        T *to = dx + (row0 + i) * s.width;
        to[3 * all + head] = from_f32<T>(m.dlambda[i] * t.slope[i]);
        for (int64_t c = 3 * all + s.heads + head; c < s.width; c += s.heads) {
            to[c] = from_f32<T>(0.0f);
        }
    }
    if (threadIdx.x < WARP) {
        float rate = 0, dots = 0;
        for (int i = threadIdx.x; i < n; i += WARP) {
            rate = fmaf(m.dlambda[i], t.slope[i], rate);
            dots += m.dots[i];
        }
        rate = warp_sum(rate);
        dots = warp_sum(dots);
        if (threadIdx.x == 0) {
            *m.drate += rate;
            m.dtau[n - 1] -= dots;
        }
    }
    __syncthreads();
}

/* ---- States ---- */

__device__ static void copy_state(const TttSize &s, const float *from, float *to)
{
    for (int i = threadIdx.x; i < ttt_state_floats(s); i += TTT_THREADS) {
        to[i] = from[i];
    }
    __syncthreads();
}

/* The state at `at` becomes m.state, in shared memory if there is room for it. */
__device__ __noinline__ static void enter(const TttSize &s, BackwardMemory &m, float *at)
{
    if (m.home_is_near && at != m.home) {
        copy_state(s, at, m.home);
        at = m.home;
    }
    if (threadIdx.x == 0) {
        m.state = ttt_state_at(s, at);
    }
    __syncthreads();
}

template <typename T> struct BackwardIn {
    TttParameters<T> w;
    const T *x, *dout;
    const float *rope;
    T *dx;
};

/* One mini-batch of the scan: from m.state, the state behind it to `to`. */
template <typename T>
__device__ __noinline__ void scan(const TttSize &s, BackwardMemory &m, const BackwardIn<T> &in,
                                  float *to, int64_t sequence, int step, int head)
{
    if (threadIdx.x == 0) {
        m.next = ttt_state_at(s, to);
    }
    int n = ttt_tokens(s, step);
    ttt_load_tokens(s, in.w, m.t, in.x, in.rope, sequence * s.seq + (int64_t)step * s.mini, head,
                    n);
    ttt_inner_pass(s, m.state, m.t, n);
    ttt_update(s, m.state, m.next, m.t, n);
}

/* One mini-batch of the way back, from m.state. */
template <typename T>
__device__ __forceinline__ void backward_mini(const TttSize &s, const BackwardMemory &m,
                                              const BackwardIn<T> &in, int64_t sequence, int step,
                                              int head)
{
    int n = ttt_tokens(s, step);
    int64_t row0 = sequence * s.seq + (int64_t)step * s.mini;
    ttt_load_tokens(s, in.w, m.t, in.x, in.rope, row0, head, n);
    load_dout(s, m, in.dout, row0, head, n);
    ttt_inner_pass(s, m.state, m.t, n);
    ttt_query_pass(s, m.state, m.t, n);
    backward_tiles(s, m, n);
    store_gradients(s, m, in.rope, in.dx, row0, head, n);
}

template <typename T>
__device__ __forceinline__ void backward_sequence(const TttSize &s, BackwardMemory &m,
                                                  const BackwardIn<T> &in, int64_t sequence,
                                                  int head)
{
    int64_t floats = ttt_state_floats(s);
    enter(s, m, m.home);
    ttt_load_state(s, in.w, m.state, head);
    copy_state(s, m.home, m.kept);
    for (int step = 0; step < (s.sections - 1) * s.stride; step++) {
        scan(s, m, in, m.home, sequence, step, head);
        if ((step + 1) % s.stride == 0) {
            copy_state(s, m.home, m.kept + (step + 1) / s.stride * floats);
        }
    }
    for (int section = s.sections - 1; section >= 0; section--) {
        int first = section * s.stride, last = min(first + s.stride, s.steps) - 1;
        enter(s, m, m.kept + section * floats);
        for (int step = first; step < last; step++) {
            scan(s, m, in, m.each + (step - first) * floats, sequence, step, head);
            enter(s, m, m.each + (step - first) * floats);
        }
        for (int step = last; step >= first; step--) {
            enter(s, m,
                  step > first ? m.each + (step - first - 1) * floats : m.kept + section * floats);
            backward_mini(s, m, in, sequence, step, head);
        }
    }
}

/* ---- Kernels ---- */

/* A block's partial sums: the state's gradient with rows as ttt_state has them, then gamma,
 * beta, rate_bias and tau. */
__host__ __device__ static int64_t layer_count(const TttLayer &layer)
{
    return (int64_t)layer.in * layer.out + layer.out;
}

__host__ __device__ static int64_t partial_floats(const TttSize &s)
{
    TttState state = ttt_state_at(s, nullptr);
    return (s.mlp ? layer_count(state.first) : 0) + layer_count(state.last) + 2 * s.d + 1 + s.mini;
}

__device__ static void add_layer(const TttLayer &grad, float *to, bool set)
{
    int weights = grad.in * grad.out;
    for (int i = threadIdx.x; i < weights + grad.out; i += TTT_THREADS) {
        float value =
            i < weights ? grad.w[i / grad.out * grad.row + i % grad.out] : grad.b[i - weights];
        to[i] = set ? value : to[i] + value;
    }
}

template <typename T>
__global__ void __launch_bounds__(TTT_THREADS, 2)
    ttt_any_backward_blocks(TttSize size, BackwardIn<T> inputs, float *partials, float *ws)
{
    extern __shared__ float shared[];
    __shared__ TttSize s;
    __shared__ BackwardIn<T> in;
    __shared__ BackwardMemory m;
    static_assert(sizeof s + sizeof in + sizeof m + 64 <= TTT_KEPT_BYTES, "room for addresses");
    int head = blockIdx.x, group = blockIdx.y;
    int64_t block = (int64_t)head * size.groups + group;
    if (threadIdx.x == 0) {
        TttRoom room = {shared, ws + block * size.slot_floats, size.room_floats, 0, 0};
        s = size;
        in = inputs;
        backward_memory(size, &room, &m);
    }
    __syncthreads();
    float *partial = partials + block * partial_floats(s);
    for (int i = threadIdx.x; i < s.d; i += TTT_THREADS) {
        m.dgamma[i] = m.dbeta[i] = 0;
    }
    for (int i = threadIdx.x; i < s.mini; i += TTT_THREADS) {
        m.dtau[i] = 0;
    }
    if (threadIdx.x == 0) {
        *m.drate = 0;
    }
    ttt_load_parameters(s, in.w, m.t, head);
    for (int sequence = group; sequence < s.batch; sequence += s.groups) {
        for (int i = threadIdx.x; i < ttt_state_floats(s); i += TTT_THREADS) {
            m.grad[i] = 0;
        }
        __syncthreads();
        backward_sequence(s, m, in, sequence, head);
        bool set = sequence == group;
        if (s.mlp) {
            add_layer(m.first.grad, partial, set);
        }
        add_layer(m.last.grad, partial + (s.mlp ? layer_count(m.first.grad) : 0), set);
        __syncthreads();
    }
    partial += (s.mlp ? layer_count(m.first.grad) : 0) + layer_count(m.last.grad);
    for (int i = threadIdx.x; i < s.d; i += TTT_THREADS) {
        partial[i] = m.dgamma[i];
        partial[s.d + i] = m.dbeta[i];
    }
    for (int i = threadIdx.x; i < s.mini; i += TTT_THREADS) {
        partial[2 * s.d + 1 + i] = m.dtau[i];
    }
    if (threadIdx.x == 0) {
        partial[2 * s.d] = *m.drate;
    }
}

/* Where gradients go, in the order of a partial: tensors (H, size). */
#define OUTPUTS 7
struct Gradients {
    float *to[OUTPUTS], *index;
    int64_t size[OUTPUTS];
    bool add;
};

/* Sums over the groups: a thread makes one element of a head's gradients. */
__global__ void __launch_bounds__(TTT_THREADS)
    ttt_any_fold(TttSize s, Gradients gradients, const float *partials)
{
    int64_t floats = partial_floats(s), head = blockIdx.y;
    int64_t at = (int64_t)blockIdx.x * TTT_THREADS + threadIdx.x;
    if (at >= floats - s.mini) {
        return;
    }
    const float *from = partials + head * s.groups * floats + at;
    float sum = 0;
#pragma unroll 4
    for (int group = 0; group < s.groups; group++) {
        sum += from[group * floats];
    }
    float *to = nullptr;
#pragma unroll
    for (int part = 0; part < OUTPUTS; part++) {
        if (at >= 0 && at < gradients.size[part]) {
            to = gradients.to[part] + head * gradients.size[part] + at;
        }
        at -= gradients.size[part];
    }
    *to = gradients.add ? *to + sum : sum;
}

/* index, which all heads share: a warp makes one element. */
template <typename T>
__global__ void __launch_bounds__(WARP)
    ttt_any_fold_index(TttSize s, Gradients gradients, const T *index, const float *partials)
{
    int64_t floats = partial_floats(s);
    int i = blockIdx.x, blocks = s.heads * s.groups;
    float sum = 0;
    for (int block = threadIdx.x; block < blocks; block += WARP) {
        sum += partials[block * floats + floats - s.mini + i];
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) {
        float value = 1.0f / (i + 1) + to_f32(index[i]) >= 0 ? sum : 0.0f;
        gradients.index[i] = gradients.add ? gradients.index[i] + value : value;
    }
}

/* ---- Host ---- */

static TttSize backward_size(const CudaBackend *backend, const TttShape *shape)
{
    TttSize s = ttt_any_size(backend, shape);
    s.groups = ttt_any_groups(s);
    int64_t blocks = (int64_t)s.heads * s.groups;
    int64_t all = blocks * s.steps * ttt_state_floats(s) * (int64_t)sizeof(float);
    s.stride = s.steps;
    if (all > STATES_BYTES) {
        for (s.stride = 1; s.stride * s.stride < s.steps;) {
            s.stride++;
        }
    }
    s.sections = (int)ceil_div(s.steps, s.stride);
    TttRoom room = {nullptr, nullptr, s.room_floats, 0, 0};
    BackwardMemory counted;
    backward_memory(s, &room, &counted);
    s.shared_floats = (int)room.shared_used;
    s.slot_floats = room.global_used;
    return s;
}

template <typename T>
static void launch_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape,
                            const TttWeights *w, Tensor rope, Tensor dx, const TttWeights *grads,
                            Mode mode, void *ws)
{
    cudaStream_t stream = cuda_of(c)->stream;
    TttSize s = backward_size(cuda_of(c), shape);
    int64_t blocks = (int64_t)s.heads * s.groups;
    float *partials = (float *)ws + blocks * s.slot_floats;
    BackwardIn<T> in = {ttt_parameters<T>(w), (const T *)x.data, (const T *)dout.data,
                        (const float *)rope.data, (T *)dx.data};
    int bytes = s.shared_floats * (int)sizeof(float);
    CUDA_CHECK(cudaFuncSetAttribute(ttt_any_backward_blocks<T>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    dim3 grid((unsigned)s.heads, (unsigned)s.groups);
    ttt_any_backward_blocks<T><<<grid, TTT_THREADS, bytes, stream>>>(s, in, partials, (float *)ws);
    CUDA_LAUNCHED("ttt_any_backward_blocks");
    int64_t d = s.d, f = s.f;
    const Gradients gradients = {{(float *)grads->w1.data, (float *)grads->b1.data,
                                  (float *)grads->w2.data, (float *)grads->b2.data,
                                  (float *)grads->gamma.data, (float *)grads->beta.data,
                                  (float *)grads->rate_bias.data},
                                 (float *)grads->index.data,
                                 {d * f, f, s.mlp ? f * d : 0, s.mlp ? d : 0, d, d, 1},
                                 mode == MODE_ADD};
    dim3 fold((unsigned)ceil_div(partial_floats(s) - s.mini, TTT_THREADS), (unsigned)s.heads);
    ttt_any_fold<<<fold, TTT_THREADS, 0, stream>>>(s, gradients, partials);
    CUDA_LAUNCHED("ttt_any_fold");
    ttt_any_fold_index<T>
        <<<(unsigned)s.mini, WARP, 0, stream>>>(s, gradients, (const T *)w->index.data, partials);
    CUDA_LAUNCHED("ttt_any_fold_index");
}

void ttt_any_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                      Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                      void *ws)
{
    (void)states;
    CUDA_FOR_TYPE(x.dtype, launch_backward, c, dout, x, shape, w, rope, dx, grads, mode, ws);
}

size_t ttt_any_backward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    const CudaBackend *backend = cuda_of(c);
    (void)dtype;
    TttSize s = backward_size(backend, shape);
    int64_t block = s.slot_floats + partial_floats(s);
    return (size_t)(s.heads * s.groups * block) * sizeof(float);
}
