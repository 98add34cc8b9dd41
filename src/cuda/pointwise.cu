/* Ops without sums: addition, scaling, rotary positions and the activation functions of the
 * feed-forward part. They move memory and little else, so each reads and writes every element once,
 * 16 bytes at a time, with f32 in between. Every thread reads what it overwrites, so that outputs
 * may be inputs. */
#include "cuda/activation.cuh"
#include "cuda/few_rows.h"

#define MAP_THREADS 256
#define MAP_PIECES 2 /* pieces of LANES elements that a thread has in flight */
#define ROW_THREADS 256

/* ---- Element by element over flat arrays ---- */

template <typename T> struct Add {
    static constexpr bool binary = true;
    __device__ static float apply(float a, float b)
    {
        return a + b;
    }
};

template <typename T, Activation A> struct Act {
    static constexpr bool binary = false;
    __device__ static float apply(float x, float)
    {
        return act_value<T, A>(x);
    }
};

template <typename T, Activation A> struct ActBackward {
    static constexpr bool binary = true;
    __device__ static float apply(float dy, float x)
    {
        return dy * act_slope<T, A>(x);
    }
};

/* out[i] = Op(a[i], b[i]) for i < count; the elements that fill no piece go to the first block. */
template <typename T, int LANES, typename Op>
__global__ void __launch_bounds__(MAP_THREADS)
    map_elements(const T *a, const T *b, T *out, int64_t count)
{
    await_previous();
    int64_t pieces = count / LANES;
    int64_t first = (int64_t)blockIdx.x * (MAP_THREADS * MAP_PIECES) + threadIdx.x;
    float left[MAP_PIECES][LANES] = {}, right[MAP_PIECES][LANES] = {};
#pragma unroll
    for (int i = 0; i < MAP_PIECES; i++) {
        int64_t piece = first + i * MAP_THREADS;
        if (piece < pieces) {
            load_lanes(a + piece * LANES, left[i]);
            if (Op::binary) {
                load_lanes(b + piece * LANES, right[i]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < MAP_PIECES; i++) {
        int64_t piece = first + i * MAP_THREADS;
        if (piece < pieces) {
#pragma unroll
            for (int k = 0; k < LANES; k++) {
                left[i][k] = Op::apply(left[i][k], right[i][k]);
            }
            store_lanes(out + piece * LANES, left[i]);
        }
    }
    int64_t rest = pieces * LANES + threadIdx.x;
    if (blockIdx.x == 0 && rest < count) {
        float other = Op::binary ? to_f32(b[rest]) : 0;
        out[rest] = from_f32<T>(Op::apply(to_f32(a[rest]), other));
    }
}

template <typename T, int LANES, typename Op>
static void launch_map(cudaStream_t stream, const T *a, const T *b, T *out, int64_t count)
{
    int64_t blocks = ceil_div(count / LANES, MAP_THREADS * MAP_PIECES);
    cuda_start(map_elements<T, LANES, Op>, (unsigned)clamp_to(blocks, 1, INT32_MAX), MAP_THREADS, 0,
               stream, a, b, out, count);
    CUDA_LAUNCHED("map_elements");
}

/* b may be NULL when Op takes one input. */
template <typename T, typename Op> static void map(Ctx *c, Tensor a, Tensor b, Tensor out)
{
    const T *left = (const T *)a.data, *right = (const T *)b.data;
    T *to = (T *)out.data;
    int64_t count = tensor_count(out);
    cudaStream_t stream = cuda_of(c)->stream;
    if (aligned_16(left, right, to)) {
        launch_map<T, wide_lanes<T>, Op>(stream, left, right, to, count);
    } else {
        launch_map<T, 1, Op>(stream, left, right, to, count);
    }
}

template <typename T> static void launch_add(Ctx *c, Tensor a, Tensor b, Tensor out)
{
    map<T, Add<T>>(c, a, b, out);
}

template <typename T, Activation A> static void map_act(Ctx *c, Tensor x, Tensor y)
{
    Tensor none = {};
    map<T, Act<T, A>>(c, x, none, y);
}

template <typename T, Activation A>
static void map_act_backward(Ctx *c, Tensor dy, Tensor x, Tensor dx)
{
    map<T, ActBackward<T, A>>(c, dy, x, dx);
}

template <typename T> static void launch_act(Ctx *c, Activation act, Tensor x, Tensor y)
{
    FOR_ACT(act, T, map_act, c, x, y)
}

template <typename T>
static void launch_act_backward(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx)
{
    FOR_ACT(act, T, map_act_backward, c, dy, x, dx)
}

/* out[i] = factor x[i], capped where cap is above 0. */
template <typename T, int LANES>
__global__ void __launch_bounds__(MAP_THREADS)
    scale_elements(const T *x, float factor, float cap, T *out, int64_t pieces)
{
    await_previous();
    int64_t piece = (int64_t)blockIdx.x * MAP_THREADS + threadIdx.x;
    if (piece < pieces) {
        float value[LANES];
        load_lanes(x + piece * LANES, value);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            value[k] *= factor;
            value[k] = cap > 0 ? capped<true>(value[k], cap) : value[k];
        }
        store_lanes(out + piece * LANES, value);
    }
}

template <typename T, int LANES>
static void scale_pieces(Ctx *c, const T *x, float factor, float cap, T *out, int64_t pieces)
{
    unsigned blocks = (unsigned)clamp_to(ceil_div(pieces, MAP_THREADS), 1, INT32_MAX);
    cuda_start(scale_elements<T, LANES>, blocks, MAP_THREADS, 0, cuda_of(c)->stream, x, factor, cap,
               out, pieces);
    CUDA_LAUNCHED("scale_elements");
}

template <typename T>
static void launch_scale(Ctx *c, Tensor x, float factor, float cap, Tensor out)
{
    const T *from = (const T *)x.data;
    T *to = (T *)out.data;
    int64_t count = tensor_count(out);
    if (count % wide_lanes<T> == 0 && aligned_16(from, to)) {
        scale_pieces<T, wide_lanes<T>>(c, from, factor, cap, to, count / wide_lanes<T>);
    } else {
        scale_pieces<T, 1>(c, from, factor, cap, to, count);
    }
}

void cuda_scale(Ctx *c, Tensor x, double factor, double cap, Tensor out)
{
    CUDA_FOR_TYPE(out.dtype, launch_scale, c, x, (float)factor, (float)cap, out);
}

void cuda_add(Ctx *c, Tensor a, Tensor b, Tensor out)
{
    CUDA_FOR_TYPE(out.dtype, launch_add, c, a, b, out);
}

void cuda_act_forward(Ctx *c, Activation act, Tensor x, Tensor y)
{
    CUDA_FOR_TYPE(x.dtype, launch_act, c, act, x, y);
}

void cuda_act_backward(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx)
{
    CUDA_FOR_TYPE(x.dtype, launch_act_backward, c, act, dy, x, dx);
}

/* ---- By rows: a block has one row of N ---- */

/* Threads for `pieces` pieces of a row. */
static unsigned row_threads(int64_t pieces)
{
    return (unsigned)round_to_warps(clamp_to(pieces, 1, ROW_THREADS));
}

/* y (N,F) = act(gate) * up, gate_up (N,2F). Blocks (N, shares of a row). */
template <typename T, int LANES, Activation A>
__global__ void __launch_bounds__(ROW_THREADS) gated(const T *gate_up, T *y, int64_t width)
{
    await_previous();
    const T *row = gate_up + blockIdx.x * 2 * width;
    int64_t first = (int64_t)(blockIdx.y * blockDim.x + threadIdx.x) * LANES;
    for (int64_t at = first; at < width; at += (int64_t)gridDim.y * blockDim.x * LANES) {
        float gate[LANES], up[LANES];
        load_lanes(row + at, gate);
        load_lanes(row + width + at, up);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            up[k] *= act_value<T, A>(gate[k]);
        }
        store_lanes(y + blockIdx.x * width + at, up);
    }
}

/* dgate = dy up act'(gate), dup = dy act(gate); dgate_up may be gate_up. */
template <typename T, int LANES, Activation A>
__global__ void __launch_bounds__(ROW_THREADS)
    gated_slopes(const T *dy, const T *gate_up, T *dgate_up, int64_t width)
{
    await_previous();
    int64_t start = blockIdx.x * 2 * width;
    for (int64_t at = threadIdx.x * LANES; at < width; at += blockDim.x * LANES) {
        float gate[LANES], up[LANES], slope[LANES];
        load_lanes(gate_up + start + at, gate);
        load_lanes(gate_up + start + width + at, up);
        load_lanes(dy + blockIdx.x * width + at, slope);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            gated_slope<T, A>(slope[k], &gate[k], &up[k]);
        }
        store_lanes(dgate_up + start + at, gate);
        store_lanes(dgate_up + start + width + at, up);
    }
}

template <typename T, Activation A> static void rows_gated(Ctx *c, Tensor gate_up, Tensor y)
{
    const T *from = (const T *)gate_up.data;
    T *to = (T *)y.data;
    unsigned rows = (unsigned)y.dim[0];
    int64_t width = y.dim[1];
    constexpr int lanes = wide_lanes<T>;
    bool wide = width % lanes == 0 && aligned_16(from, to);
    void (*kernel)(const T *, T *, int64_t) = wide ? gated<T, lanes, A> : gated<T, 1, A>;
    int64_t pieces = wide ? width / lanes : width;
    unsigned threads = row_threads(pieces);
    unsigned shares = rows <= CUDA_FEW_ROWS ? (unsigned)ceil_div(pieces, threads) : 1;
    cuda_start(kernel, dim3(rows, shares), threads, 0, cuda_of(c)->stream, from, to, width);
    CUDA_LAUNCHED("gated");
}

template <typename T, Activation A>
static void rows_gated_backward(Ctx *c, Tensor dy, Tensor gate_up, Tensor dgate_up)
{
    const T *slope = (const T *)dy.data, *from = (const T *)gate_up.data;
    T *to = (T *)dgate_up.data;
    unsigned rows = (unsigned)dy.dim[0];
    int64_t width = dy.dim[1];
    cudaStream_t stream = cuda_of(c)->stream;
    constexpr int lanes = wide_lanes<T>;
    if (width % lanes == 0 && aligned_16(slope, from, to)) {
        cuda_start(gated_slopes<T, lanes, A>, rows, row_threads(width / lanes), 0, stream, slope,
                   from, to, width);
    } else {
        cuda_start(gated_slopes<T, 1, A>, rows, row_threads(width), 0, stream, slope, from, to,
                   width);
    }
    CUDA_LAUNCHED("gated_slopes");
}

template <typename T> static void launch_gated(Ctx *c, Activation act, Tensor gate_up, Tensor y)
{
    FOR_ACT(act, T, rows_gated, c, gate_up, y)
}

template <typename T>
static void launch_gated_backward(Ctx *c, Activation act, Tensor dy, Tensor gate_up,
                                  Tensor dgate_up)
{
    FOR_ACT(act, T, rows_gated_backward, c, dy, gate_up, dgate_up)
}

void cuda_gated_forward(Ctx *c, Activation act, Tensor gate_up, Tensor y)
{
    CUDA_FOR_TYPE(y.dtype, launch_gated, c, act, gate_up, y);
}

void cuda_gated_backward(Ctx *c, Activation act, Tensor dy, Tensor gate_up, Tensor dgate_up)
{
    CUDA_FOR_TYPE(dy.dtype, launch_gated_backward, c, act, dy, gate_up, dgate_up);
}

/* Turns the pairs (i, i + half) of the first `heads` heads of a row of `width`; table (>= seq, 2
 * half). starts (rows), or NULL: where the row's document begins. A thread turns LANES pairs at a
 * time, and LANES divides half. */
template <typename T, int LANES>
__global__ void __launch_bounds__(ROW_THREADS)
    rotate_heads(T *qkv, const float *table, const int32_t *starts, int64_t width, int heads,
                 int half, int seq, float direction)
{
    await_previous();
    T *row = qkv + blockIdx.x * width;
    int position = (int)(blockIdx.x % seq) - (starts != NULL ? starts[blockIdx.x] : 0);
    const float *angles = table + (int64_t)position * 2 * half;
    int per_head = half / LANES;
    for (int piece = threadIdx.x; piece < heads * per_head; piece += blockDim.x) {
        int head = piece / per_head, i = (piece - head * per_head) * LANES;
        T *first = row + (int64_t)head * 2 * half + i, *second = first + half;
        float a[LANES], b[LANES], cosine[LANES], sine[LANES];
        load_lanes(first, a);
        load_lanes(second, b);
        load_lanes(angles + i, cosine);
        load_lanes(angles + half + i, sine);
#pragma unroll
        for (int k = 0; k < LANES; k++) {
            turn_pair(a[k], b[k], cosine[k], sine[k] * direction);
        }
        store_lanes(first, a);
        store_lanes(second, b);
    }
}

template <typename T>
static void launch_rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse)
{
    T *data = (T *)qkv.data;
    const float *angles = (const float *)table.data;
    const int32_t *starts = (const int32_t *)shape.starts.data;
    unsigned rows = (unsigned)(shape.batch * shape.seq);
    int heads = (int)(shape.heads + shape.kv_heads), half = (int)(shape.head_dim / 2);
    int64_t width = qkv.dim[1], pairs = (int64_t)heads * half;
    float direction = inverse ? -1.0f : 1.0f;
    cudaStream_t stream = cuda_of(c)->stream;
    constexpr int lanes = wide_lanes<T>;
    if (half % lanes == 0 && aligned_16(data, angles)) {
        cuda_start(rotate_heads<T, lanes>, rows, row_threads(pairs / lanes), 0, stream, data,
                   angles, starts, width, heads, half, (int)shape.seq, direction);
    } else {
        cuda_start(rotate_heads<T, 1>, rows, row_threads(pairs), 0, stream, data, angles, starts,
                   width, heads, half, (int)shape.seq, direction);
    }
    CUDA_LAUNCHED("rotate_heads");
}

void cuda_rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse)
{
    CUDA_FOR_TYPE(qkv.dtype, launch_rope, c, qkv, shape, table, inverse);
}
