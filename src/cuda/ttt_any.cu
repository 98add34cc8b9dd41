/* The forward kernel of test-time training for any shape (ttt_any.cuh), and the table of the
 * general kernels. */
#include "cuda/ttt_any.cuh"

/* With a large state a multiprocessor holds one block. */
#define TARGET_BLOCKS 264
#define LARGE_STATE_FLOATS 16384
#define MOST_GROUPS 65535 /* of a grid */

struct ForwardMemory {
    TttTiles t;
    TttState state;
};

__host__ __device__ static void forward_memory(const TttSize &s, TttRoom *room, ForwardMemory *m)
{
    *m = {};
    TttTiles *t = &m->t;
    ttt_take_vectors(room, s, t);
    m->state = ttt_state_at(s, ttt_take(room, ttt_state_floats(s)));
    float **narrow[] = {&t->q, &t->k, &t->t, &t->g, &t->u, &t->zb};
    for (float **tile : narrow) {
        *tile = ttt_take_tile(room, s.rows, s.d);
    }
    t->p = t->p1 = ttt_take_tile(room, s.rows, s.rows);
    t->tp = t->tp1 = ttt_take_tile(room, s.rows, s.rows);
    if (s.mlp) {
        float **wide[] = {&t->z1, &t->x, &t->u1, &t->xb};
        for (float **tile : wide) {
            *tile = ttt_take_tile(room, s.rows, s.f);
        }
        t->r = t->u1;
        t->zb1 = t->xb;
    }
}

/* out = q + norm(zb) */
template <typename T>
__device__ static void store_output(const TttSize &s, const TttTiles &t, T *out, int64_t row0,
                                    int head, int n)
{
    int lane = threadIdx.x % WARP, row = ttt_row(s.d);
    for (int i = threadIdx.x / WARP; i < n; i += TTT_WARPS) {
        float *z = t.zb + i * row;
        const float *q = t.q + i * row;
        ttt_normalise(z, s.d, s.eps, lane);
        T *to = out + ((row0 + i) * s.heads + head) * s.d;
        for (int c = lane; c < s.d; c += WARP) {
            to[c] = from_f32<T>(q[c] + fmaf(t.gamma[c], z[c], t.beta[c]));
        }
    }
    __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(TTT_THREADS, 2)
    ttt_any_forward(TttSize size, TttParameters<T> parameters, const T *x, const float *rope,
                    T *out, float *ws)
{
    extern __shared__ float shared[];
    __shared__ TttSize s;
    __shared__ TttParameters<T> w;
    __shared__ ForwardMemory m;
    static_assert(sizeof s + sizeof w + sizeof m + 64 <= TTT_KEPT_BYTES, "room for addresses");
    int head = blockIdx.x, group = blockIdx.y;
    if (threadIdx.x == 0) {
        TttRoom room = {shared, ws + ((int64_t)head * size.groups + group) * size.slot_floats,
                        size.room_floats, 0, 0};
        s = size;
        w = parameters;
        forward_memory(size, &room, &m);
    }
    __syncthreads();
    ttt_load_parameters(s, w, m.t, head);
    for (int sequence = group; sequence < s.batch; sequence += s.groups) {
        ttt_load_state(s, w, m.state, head);
        for (int step = 0; step < s.steps; step++) {
            int n = ttt_tokens(s, step);
            int64_t row0 = (int64_t)sequence * s.seq + (int64_t)step * s.mini;
            ttt_load_tokens(s, w, m.t, x, rope, row0, head, n);
            ttt_inner_pass(s, m.state, m.t, n);
            ttt_query_pass(s, m.state, m.t, n);
            store_output(s, m.t, out, row0, head, n);
            if (step + 1 < s.steps) {
                ttt_update(s, m.state, m.state, m.t, n);
            }
        }
    }
}

TttSize ttt_any_size(const CudaBackend *backend, const TttShape *shape)
{
    TttSize s = {};
    s.room_floats = (backend->shared_bytes - TTT_KEPT_BYTES) / (int)sizeof(float);
    s.mlp = shape->kind == TTT_MLP;
    s.batch = (int)shape->batch;
    s.seq = (int)shape->seq;
    s.heads = (int)shape->heads;
    s.d = (int)shape->head_dim;
    s.f = (int)ttt_inner(shape);
    s.mini = (int)shape->mini;
    s.rows = s.mini < s.seq ? s.mini : s.seq;
    s.steps = (int)ttt_steps(shape);
    s.width = shape->width;
    s.rate = (float)(shape->base_rate / (double)shape->head_dim);
    s.eps = (float)shape->eps;
    return s;
}

int ttt_any_groups(const TttSize &s)
{
    int target = ttt_state_floats(s) > LARGE_STATE_FLOATS ? TARGET_BLOCKS / 2 : TARGET_BLOCKS;
    return (int)clamp_to(ceil_div(target, s.heads), 1, s.batch);
}

static TttSize forward_size(const CudaBackend *backend, const TttShape *shape)
{
    TttSize s = ttt_any_size(backend, shape);
    TttRoom room = {nullptr, nullptr, s.room_floats, 0, 0};
    ForwardMemory counted;
    forward_memory(s, &room, &counted);
    s.shared_floats = (int)room.shared_used;
    s.slot_floats = room.global_used;
    s.groups = room.global_used > 0 ? ttt_any_groups(s) : (int)clamp_to(s.batch, 1, MOST_GROUPS);
    return s;
}

template <typename T>
static void launch_forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w,
                           Tensor rope, Tensor out, void *ws)
{
    TttSize s = forward_size(cuda_of(c), shape);
    int bytes = s.shared_floats * (int)sizeof(float);
    CUDA_CHECK(cudaFuncSetAttribute(ttt_any_forward<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    bytes));
    dim3 grid((unsigned)s.heads, (unsigned)s.groups);
    ttt_any_forward<T><<<grid, TTT_THREADS, bytes, cuda_of(c)->stream>>>(
        s, ttt_parameters<T>(w), (const T *)x.data, (const float *)rope.data, (T *)out.data,
        (float *)ws);
    CUDA_LAUNCHED("ttt_any_forward");
}

static void any_forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                        Tensor out, Tensor states, void *ws)
{
    (void)states;
    CUDA_FOR_TYPE(x.dtype, launch_forward, c, x, shape, w, rope, out, ws);
}

static size_t any_forward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    const CudaBackend *backend = cuda_of(c);
    (void)dtype;
    TttSize s = forward_size(backend, shape);
    return (size_t)s.heads * (size_t)s.groups * (size_t)s.slot_floats * sizeof(float);
}

static size_t no_states(const Ctx *c, const TttShape *shape, DType dtype)
{
    (void)c, (void)shape, (void)dtype;
    return 0;
}

static bool any_covers(const CudaBackend *backend, const TttShape *shape, DType dtype)
{
    (void)backend;
    return (dtype == DT_F32 || dtype == DT_BF16) && shape->head_dim % 2 == 0 &&
           shape->head_dim <= CUDA_TTT_MOST_HEAD && shape->mini <= CUDA_TTT_MOST_MINI;
}

extern "C" const CudaTtt cuda_ttt_any = {any_covers,       any_forward,         any_forward_ws,
                                         ttt_any_backward, ttt_any_backward_ws, no_states};
