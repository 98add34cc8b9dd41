/* Attention that keeps its probabilities, (B,H,T,T) in the activation type: products by cuda_gemm
 * on the packed rows where they lie, with a softmax over the keys that are seen between them.
 * Scores and their gradients are f32: scores of bf16 activations pass through the workspace, those
 * of f32 are made in place of the probabilities. Backward makes scores again only for their caps.
 * To bound the workspace, sequences are taken some at a time. */
#include "cuda/attention_sight.cuh"

#define WORKSPACE_BYTES ((int64_t)256 << 20) /* about; at least one sequence */
#define ROWS_PER_BLOCK 4                     /* a warp per row */

/* Matrices of every sequence and head: elements from one row, sequence and head to the next. */
typedef struct {
    void *data;
    DType dtype;
    int64_t row, sequence, head;
    bool of_kv; /* has kv_heads heads instead of heads */
} Matrices;

/* out = alpha op(a) op(b) for each sequence and query head, op(a) (m,k), op(b) (k,n). Where
 * `out` has a matrix per key/value head, it is the sum over its query heads, in their order. */
typedef struct {
    Matrices a, b, out;
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    float alpha;
} HeadProduct;

static void *matrix_at(Matrices x, HeadShape s, int64_t h)
{
    int64_t head = x.of_kv ? h / (s.heads / s.kv_heads) : h;
    return (char *)x.data + (size_t)(head * x.head) * dtype_size(x.dtype);
}

static void multiply(Ctx *c, HeadShape s, const HeadProduct *p)
{
    int64_t group = s.heads / s.kv_heads;
    bool by_head = s.heads <= s.batch * group; /* which needs fewer calls */
    for (int64_t i = 0; i < (by_head ? s.heads : s.batch * group); i++) {
        /* A head of every sequence, or member i % group of every group of heads of one sequence. */
        int64_t h = by_head ? i : i % group, sequence = by_head ? 0 : i / group;
        const Matrices *x[3] = {&p->a, &p->b, &p->out};
        int64_t stride[3];
        char *data[3];
        for (int j = 0; j < 3; j++) {
            stride[j] = by_head ? x[j]->sequence : x[j]->of_kv ? x[j]->head : x[j]->head * group;
            data[j] = (char *)matrix_at(*x[j], s, h) +
                      (size_t)(sequence * x[j]->sequence) * dtype_size(x[j]->dtype);
        }
        Gemm gemm = {};
        gemm.m = p->m;
        gemm.n = p->n;
        gemm.k = p->k;
        gemm.transpose_a = p->transpose_a;
        gemm.transpose_b = p->transpose_b;
        gemm.a = data[0];
        gemm.b = data[1];
        gemm.out = data[2];
        gemm.lda = p->a.row;
        gemm.ldb = p->b.row;
        gemm.ldc = p->out.row;
        gemm.stride_a = stride[0];
        gemm.stride_b = stride[1];
        gemm.stride_c = stride[2];
        gemm.batch = (int)(by_head ? s.batch : s.kv_heads);
        gemm.in_type = p->a.dtype;
        gemm.out_type = p->out.dtype;
        gemm.alpha = p->alpha;
        gemm.beta = p->out.of_kv && h % group > 0 ? 1.0f : 0.0f;
        cuda_gemm(cuda_of(c), &gemm);
    }
}

/* The q, k or v part of packed rows, from sequence `first` on. */
typedef enum { PART_Q, PART_K, PART_V } Part;

static Matrices packed(Tensor qkv, HeadShape s, Part part, int64_t first)
{
    int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim;
    int64_t column =
        part == PART_Q ? 0 : (s.heads + (part == PART_V ? s.kv_heads : 0)) * s.head_dim;
    int64_t at = first * s.seq * width + column;
    Matrices x = {};
    x.data = (char *)qkv.data + (size_t)at * dtype_size(qkv.dtype);
    x.dtype = qkv.dtype;
    x.row = width;
    x.sequence = s.seq * width;
    x.head = s.head_dim;
    x.of_kv = part != PART_Q;
    return x;
}

/* out or dout, from sequence `first` on. */
static Matrices of_heads(Tensor t, HeadShape s, int64_t first)
{
    int64_t width = s.heads * s.head_dim;
    Matrices x = {};
    x.data = (char *)t.data + (size_t)(first * s.seq * width) * dtype_size(t.dtype);
    x.dtype = t.dtype;
    x.row = width;
    x.sequence = s.seq * width;
    x.head = s.head_dim;
    return x;
}

/* (B,H,T,T), rows `pitch` elements apart. */
static Matrices square(void *data, DType dtype, HeadShape s, int64_t pitch)
{
    Matrices x = {};
    x.data = data;
    x.dtype = dtype;
    x.row = pitch;
    x.head = s.seq * pitch;
    x.sequence = s.heads * x.head;
    return x;
}

static void *squares_from(Tensor t, HeadShape s, int64_t first)
{
    return (char *)t.data + (size_t)(first * s.heads * s.seq * s.seq) * dtype_size(t.dtype);
}

/* Rows of scores, of sequences from `first` on: row r is query r % seq of head r / seq. */
typedef struct {
    Sight sight;
    int first, heads;
    int64_t rows;
} ScoreRows;

static __device__ __forceinline__ float capped(float score, const Sight &sight)
{
    return sight.cap > 0 ? sight.cap * tanhf(score * sight.inverse) : score;
}

/* p (rows,seq) = softmax of scores (rows,seq) f32, scaled and not yet capped, over the keys that a
 * query sees, zero elsewhere; p may be scores. */
template <typename T>
static __global__ void __launch_bounds__(ROWS_PER_BLOCK *WARP)
    softmax_kernel(const float *scores, T *p, ScoreRows of)
{
    int64_t row = (int64_t)blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / WARP;
    if (row >= of.rows) {
        return;
    }
    int seq = of.sight.seq, lane = threadIdx.x % WARP, last = (int)(row % seq);
    int first = of.sight.first(of.first + (int)(row / seq / of.heads), last);
    const float *from = scores + row * seq;
    T *to = p + row * seq;
    float largest = -INFINITY, total = 0;
    for (int j = first + lane; j <= last; j += WARP) {
        largest = fmaxf(largest, capped(from[j], of.sight));
    }
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance));
    }
    for (int j = first + lane; j <= last; j += WARP) {
        total += expf(capped(from[j], of.sight) - largest);
    }
    total = warp_sum(total);
    for (int j = lane; j < seq; j += WARP) {
        bool seen = j >= first && j <= last;
        to[j] = from_f32<T>(seen ? expf(capped(from[j], of.sight) - largest) / total : 0.0f);
    }
}

/* Row by row, from p and dp f32: ds = p (dp - sum of p dp), zero where a key is not seen, in place
 * of dp; with a cap times 1 - tanh(score / cap)^2, of scores as softmax_kernel has them. For bf16 a
 * row of ds takes the first half of its row's bytes. */
template <typename T>
static __global__ void __launch_bounds__(ROWS_PER_BLOCK *WARP)
    softmax_backward_kernel(const T *p, const float *scores, float *dp, ScoreRows of)
{
    int64_t row = (int64_t)blockIdx.x * ROWS_PER_BLOCK + threadIdx.x / WARP;
    if (row >= of.rows) {
        return;
    }
    int seq = of.sight.seq, lane = threadIdx.x % WARP, last = (int)(row % seq);
    int first = of.sight.first(of.first + (int)(row / seq / of.heads), last);
    const T *weight = p + row * seq;
    const float *from = dp + row * seq;
    T *to = (T *)(dp + row * seq);
    float mean = 0;
    for (int j = first + lane; j <= last; j += WARP) {
        mean += to_f32(weight[j]) * from[j];
    }
    mean = warp_sum(mean);
    for (int j0 = 0; j0 < seq; j0 += WARP) {
        int j = j0 + lane;
        bool seen = j >= first && j <= last;
        float value = seen ? to_f32(weight[j]) * (from[j] - mean) : 0.0f;
        if (seen && of.sight.cap > 0) {
            float share = tanhf(scores[row * seq + j] * of.sight.inverse);
            value *= 1.0f - share * share;
        }
        __syncwarp(); /* the warp has read up to element j0 + 31, and writes no further */
        if (j < seq) {
            to[j] = from_f32<T>(value);
        }
    }
}

/* The k and v columns of packed rows of `width` from sums (rows, columns) f32. */
template <typename T>
static __global__ void __launch_bounds__(256)
    round_kernel(const float *sums, T *to, int64_t count, int columns, int64_t width)
{
    int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i < count) {
        to[i / columns * width + width - columns + i % columns] = from_f32<T>(sums[i]);
    }
}

template <typename T> static void softmax(Ctx *c, const float *scores, void *p, ScoreRows of)
{
    softmax_kernel<T><<<(unsigned)ceil_div(of.rows, ROWS_PER_BLOCK), ROWS_PER_BLOCK * WARP, 0,
                        cuda_of(c)->stream>>>(scores, (T *)p, of);
    CUDA_LAUNCHED("naive attention, softmax");
}

template <typename T>
static void softmax_backward(Ctx *c, const void *p, const float *scores, float *dp, ScoreRows of)
{
    softmax_backward_kernel<T><<<(unsigned)ceil_div(of.rows, ROWS_PER_BLOCK), ROWS_PER_BLOCK * WARP,
                                 0, cuda_of(c)->stream>>>((const T *)p, scores, dp, of);
    CUDA_LAUNCHED("naive attention, softmax backward");
}

template <typename T> static void round_sums(Ctx *c, const float *sums, Matrices to, HeadShape s)
{
    int64_t columns = 2 * s.kv_heads * s.head_dim, count = s.batch * s.seq * columns;
    round_kernel<T><<<(unsigned)ceil_div(count, 256), 256, 0, cuda_of(c)->stream>>>(
        sums, (T *)to.data, count, (int)columns, to.row);
    CUDA_LAUNCHED("naive attention, rounding");
}

/* Sequences that are taken at a time. */
static int64_t sequences_at_once(HeadShape s)
{
    int64_t each = s.heads * s.seq * s.seq * (int64_t)sizeof(float);
    return clamp_to(WORKSPACE_BYTES / each, 1, s.batch);
}

/* s: the sequences from `first` on. */
static ScoreRows rows_of(HeadShape s, int64_t first)
{
    ScoreRows of = {};
    of.sight = sight_of(s);
    of.first = (int)first;
    of.heads = (int)s.heads;
    of.rows = s.batch * s.heads * s.seq;
    return of;
}

/* out (B,H,T,T) f32 = scale q k^T of the sequences from `first` on. */
static void score(Ctx *c, Tensor qkv, HeadShape s, int64_t first, Matrices out)
{
    HeadProduct product = {};
    product.a = packed(qkv, s, PART_Q, first);
    product.b = packed(qkv, s, PART_K, first);
    product.out = out;
    product.transpose_b = true;
    product.m = product.n = s.seq;
    product.k = s.head_dim;
    product.alpha = (float)score_scale(s);
    multiply(c, s, &product);
}

/* ws: scores f32 of some sequences; none for f32. */
size_t cuda_naive_forward_ws(const CudaBackend *backend, HeadShape shape, DType dtype)
{
    (void)backend;
    int64_t scores = sequences_at_once(shape) * shape.heads * shape.seq * shape.seq;
    return dtype == DT_F32 ? 0 : (size_t)scores * sizeof(float);
}

void cuda_naive_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor probabilities,
                        void *ws)
{
    int64_t seq = shape.seq, dim = shape.head_dim;
    int64_t at_once = qkv.dtype == DT_F32 ? shape.batch : sequences_at_once(shape);
    for (int64_t first = 0; first < shape.batch; first += at_once) {
        HeadShape s = shape;
        s.batch = clamp_to(shape.batch - first, 1, at_once);
        void *p_data = squares_from(probabilities, s, first);
        Matrices p = square(p_data, qkv.dtype, s, seq);
        Matrices scores = square(qkv.dtype == DT_F32 ? p_data : ws, DT_F32, s, seq);

        score(c, qkv, s, first, scores);
        CUDA_FOR_TYPE(qkv.dtype, softmax, c, (const float *)scores.data, p_data, rows_of(s, first));

        HeadProduct value = {};
        value.a = p;
        value.b = packed(qkv, s, PART_V, first);
        value.out = of_heads(out, s, first);
        value.m = value.k = seq;
        value.n = dim;
        value.alpha = 1.0f;
        multiply(c, s, &value);
    }
}

/* Whether dk and dv are summed over query heads in f32 first, so that they are rounded once. */
static bool sums_apart(HeadShape s, DType dtype)
{
    return dtype != DT_F32 && s.heads > s.kv_heads;
}

/* ws, for some sequences: dp, then ds (n,H,T,T) f32; where needed scores (n,H,T,T) f32, and sums of
 * dk and dv (n,T,2GD) f32. */
size_t cuda_naive_backward_ws(const CudaBackend *backend, HeadShape shape, DType dtype)
{
    (void)backend;
    int64_t each = shape.heads * shape.seq * shape.seq * (shape.cap > 0 ? 2 : 1);
    if (sums_apart(shape, dtype)) {
        each += shape.seq * 2 * shape.kv_heads * shape.head_dim;
    }
    return (size_t)(sequences_at_once(shape) * each) * sizeof(float);
}

/* dk and dv of the sequences from `first` on. */
static void keys_backward(Ctx *c, HeadShape s, Matrices ds, Matrices p, Matrices q, Matrices dout,
                          Matrices dk, Matrices dv)
{
    HeadProduct product = {};
    product.a = ds;
    product.b = q;
    product.out = dk;
    product.transpose_a = true;
    product.m = product.k = s.seq;
    product.n = s.head_dim;
    product.alpha = (float)score_scale(s);
    multiply(c, s, &product);
    product.a = p;
    product.b = dout;
    product.out = dv;
    product.alpha = 1.0f;
    multiply(c, s, &product);
}

void cuda_naive_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor probabilities, HeadShape shape,
                         Tensor dqkv, void *ws)
{
    int64_t seq = shape.seq, dim = shape.head_dim, at_once = sequences_at_once(shape);
    int64_t squares = at_once * shape.heads * seq * seq;
    float *dp_data = (float *)ws, *scores = dp_data + squares;
    float *sums = scores + (shape.cap > 0 ? squares : 0);
    for (int64_t first = 0; first < shape.batch; first += at_once) {
        HeadShape s = shape;
        s.batch = clamp_to(shape.batch - first, 1, at_once);
        void *p_data = squares_from(probabilities, s, first);
        Matrices p = square(p_data, qkv.dtype, s, seq);
        Matrices ds = square(ws, qkv.dtype, s, qkv.dtype == DT_F32 ? seq : 2 * seq);
        Matrices gradient = of_heads(dout, s, first), q = packed(qkv, s, PART_Q, first);

        HeadProduct product = {};
        product.a = gradient;
        product.b = packed(qkv, s, PART_V, first);
        product.out = square(ws, DT_F32, s, seq);
        product.transpose_b = true;
        product.m = product.n = seq;
        product.k = dim;
        product.alpha = 1.0f;
        multiply(c, s, &product);

        if (s.cap > 0) {
            score(c, qkv, s, first, square(scores, DT_F32, s, seq));
        }
        CUDA_FOR_TYPE(qkv.dtype, softmax_backward, c, p_data, scores, dp_data, rows_of(s, first));

        HeadProduct query = {};
        query.a = ds;
        query.b = packed(qkv, s, PART_K, first);
        query.out = packed(dqkv, s, PART_Q, first);
        query.m = query.k = seq;
        query.n = dim;
        query.alpha = (float)score_scale(s);
        multiply(c, s, &query);

        Matrices dk = packed(dqkv, s, PART_K, first), dv = packed(dqkv, s, PART_V, first);
        if (!sums_apart(s, qkv.dtype)) {
            keys_backward(c, s, ds, p, q, gradient, dk, dv);
            continue;
        }
        Matrices sum_k = dk, sum_v = dv;
        sum_k.dtype = sum_v.dtype = DT_F32;
        sum_k.row = sum_v.row = 2 * s.kv_heads * dim;
        sum_k.sequence = sum_v.sequence = seq * sum_k.row;
        sum_k.data = sums;
        sum_v.data = sums + s.kv_heads * dim;
        keys_backward(c, s, ds, p, q, gradient, sum_k, sum_v);
        round_sums<Bf16>(c, sums, packed(dqkv, s, PART_Q, first), s);
    }
}
