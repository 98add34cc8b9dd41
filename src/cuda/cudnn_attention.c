#include "cuda/cudnn.h"

#ifdef PACER_HAVE_CUDNN

#include "cuda/cudnn_graph.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* Causal attention as the graph of small operations that cuDNN recognises and fuses. The names
 * below are those of the usual derivation: s scores, p probabilities, ds gradient at the scores.
 *
 *   forward    s = scale q k^T, masked;  lse = log sum exp s;  p = exp(s - max) / sum;  o = p v
 *   backward   p = exp(s - lse);  dv = p^T do;  dp = do v^T;  ds = scale (dp - rowsum(do o)) p;
 *              dk = ds^T q;  dq = ds k
 *
 * Tensors in memory are packed as the model has them (HeadShape), so nothing is transposed or
 * copied. Where the graph could be drawn differently, small things decide which kernels cuDNN
 * finds: p and ds reach a product as bf16, lse is computed even where nobody reads it, the row sums
 * of backward pass through a multiplication by one into memory (else cuDNN keeps all scores in its
 * workspace), and dq is the direct output of its product, which makes its sums run in a fixed
 * order.
 *
 * A shape's graph is built when it is first asked about, and compiled when it first runs. */

enum {
    ID_Q = 1,
    ID_K,
    ID_V,
    ID_O,
    ID_LSE,
    ID_DO,
    ID_DQ,
    ID_DK,
    ID_DV,
    ID_ROWSUM,
    ID_SCALE,
    ID_MINUS_INFINITY,
    ID_ONE
};

/* One direction of one shape. */
typedef struct Entry {
    HeadShape shape;
    bool backward;
    CudnnGraph *graph; /* until it is compiled; keeps the reason when cuDNN cannot do it */
    Descriptor config;
    int64_t workspace; /* bytes that cuDNN wants */
    Descriptor plan;   /* NULL until it is compiled */
    struct Entry *next;
} Entry;

struct Cudnn {
    CudnnLibrary lib;
    cudaStream_t stream;
    Entry *entries;
};

/* Rows of (B,T) order; `width` elements from row to row, heads D apart. */
static TensorLayout in_rows(HeadShape s, int64_t heads, int64_t width)
{
    return (TensorLayout){{s.batch, heads, s.seq, s.head_dim},
                          {s.seq * width, s.head_dim, width, 1}};
}

static TensorLayout packed(HeadShape s, int64_t heads)
{
    return in_rows(s, heads, (s.heads + 2 * s.kv_heads) * s.head_dim);
}

static TensorLayout swapped(TensorLayout t)
{
    return (TensorLayout){{t.size[0], t.size[1], t.size[3], t.size[2]},
                          {t.stride[0], t.stride[1], t.stride[3], t.stride[2]}};
}

static TensorLayout contiguous(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (TensorLayout){{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

/* A graph under construction, with the layouts that most of its tensors have. */
typedef struct {
    CudnnGraph *graph;
    HeadShape shape;
    TensorLayout scores; /* (B,H,T,T) */
    TensorLayout rows;   /* (B,H,T,1) */
    Descriptor scale;
} Builder;

static Builder builder_of(CudnnGraph *graph, HeadShape s)
{
    return (Builder){.graph = graph,
                     .shape = s,
                     .scores = contiguous(s.batch, s.heads, s.seq, s.seq),
                     .rows = contiguous(s.batch, s.heads, s.seq, 1),
                     .scale = graph_scalar(graph, ID_SCALE)};
}

static Descriptor new_scores(Builder *b)
{
    return graph_virtual(b->graph, CUDNN_DATA_FLOAT, &b->scores);
}

static Descriptor new_rows(Builder *b)
{
    return graph_virtual(b->graph, CUDNN_DATA_FLOAT, &b->rows);
}

static Descriptor in_memory(Builder *b, int64_t id, TensorLayout layout)
{
    return graph_memory(b->graph, id, CUDNN_DATA_BFLOAT16, &layout);
}

/* scale * q k^T */
static Descriptor scaled_scores(Builder *b, Descriptor q, Descriptor k_swapped)
{
    Descriptor raw = new_scores(b), scaled = new_scores(b);
    graph_matmul(b->graph, q, k_swapped, raw);
    graph_binary(b->graph, CUDNN_POINTWISE_MUL, raw, b->scale, scaled);
    return scaled;
}

/* x where the row (query) is not before the column (key), else minus infinity. */
static Descriptor masked(Builder *b, Descriptor x)
{
    Descriptor row = graph_virtual(b->graph, CUDNN_DATA_INT32, &b->scores);
    Descriptor column = graph_virtual(b->graph, CUDNN_DATA_INT32, &b->scores);
    Descriptor keep = graph_virtual(b->graph, CUDNN_DATA_BOOLEAN, &b->scores);
    Descriptor out = new_scores(b);
    graph_index(b->graph, 2, x, row);
    graph_index(b->graph, 3, x, column);
    graph_compare(b->graph, CUDNN_POINTWISE_CMP_GE, row, column, keep);
    graph_select(b->graph, keep, x, graph_scalar(b->graph, ID_MINUS_INFINITY), out);
    return out;
}

static void build_forward(CudnnGraph *graph, HeadShape shape)
{
    Builder b = builder_of(graph, shape);
    Descriptor q = in_memory(&b, ID_Q, packed(shape, shape.heads));
    Descriptor k_swapped = in_memory(&b, ID_K, swapped(packed(shape, shape.kv_heads)));
    Descriptor v = in_memory(&b, ID_V, packed(shape, shape.kv_heads));
    Descriptor o = in_memory(&b, ID_O, in_rows(shape, shape.heads, shape.heads * shape.head_dim));
    Descriptor lse = graph_memory(graph, ID_LSE, CUDNN_DATA_FLOAT, &b.rows);

    Descriptor s = masked(&b, scaled_scores(&b, q, k_swapped));
    Descriptor largest = new_rows(&b), below = new_scores(&b), e = new_scores(&b);
    graph_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, s, largest);
    graph_binary(graph, CUDNN_POINTWISE_SUB, s, largest, below);
    graph_unary(graph, CUDNN_POINTWISE_EXP, below, e);
    Descriptor sum = new_rows(&b), log_sum = new_rows(&b);
    graph_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    graph_unary(graph, CUDNN_POINTWISE_LOG, sum, log_sum);
    graph_binary(graph, CUDNN_POINTWISE_ADD, largest, log_sum, lse);
    Descriptor p = graph_virtual(graph, CUDNN_DATA_BFLOAT16, &b.scores);
    graph_binary(graph, CUDNN_POINTWISE_DIV, e, sum, p);
    graph_matmul(graph, p, v, o);
}

/* The transpose of scores, as bf16. */
static Descriptor transposed(Builder *b, Descriptor scores)
{
    TensorLayout layout = b->scores;
    layout.stride[2] = 1;
    layout.stride[3] = b->shape.seq;
    Descriptor out = graph_virtual(b->graph, CUDNN_DATA_BFLOAT16, &layout);
    graph_reshape(b->graph, scores, out);
    return out;
}

/* out (G heads) = scores^T x (H heads), summed over the query heads that share a key/value head. */
static void gradient_of_shared(Builder *b, Descriptor scores, Descriptor x, Descriptor out)
{
    HeadShape s = b->shape;
    Descriptor turned = transposed(b, scores);
    if (s.kv_heads == s.heads) {
        graph_matmul(b->graph, turned, x, out);
        return;
    }
    TensorLayout all = contiguous(s.batch, s.heads, s.seq, s.head_dim);
    Descriptor each = graph_virtual(b->graph, CUDNN_DATA_BFLOAT16, &all);
    graph_matmul(b->graph, turned, x, each);
    graph_reduce(b->graph, CUDNN_REDUCE_TENSOR_ADD, each, out);
}

/* rowsum(do o), in memory. */
static Descriptor row_sums(Builder *b, Descriptor o, Descriptor d_o)
{
    HeadShape s = b->shape;
    TensorLayout layout = contiguous(s.batch, s.heads, s.seq, s.head_dim);
    Descriptor products = graph_virtual(b->graph, CUDNN_DATA_FLOAT, &layout);
    Descriptor sums = new_rows(b);
    Descriptor out = graph_memory(b->graph, ID_ROWSUM, CUDNN_DATA_FLOAT, &b->rows);
    graph_binary(b->graph, CUDNN_POINTWISE_MUL, d_o, o, products);
    graph_reduce(b->graph, CUDNN_REDUCE_TENSOR_ADD, products, sums);
    graph_binary(b->graph, CUDNN_POINTWISE_MUL, sums, graph_scalar(b->graph, ID_ONE), out);
    return out;
}

static void build_backward(CudnnGraph *graph, HeadShape shape)
{
    Builder b = builder_of(graph, shape);
    TensorLayout q_layout = packed(shape, shape.heads), kv_layout = packed(shape, shape.kv_heads);
    TensorLayout o_layout = in_rows(shape, shape.heads, shape.heads * shape.head_dim);
    Descriptor q = in_memory(&b, ID_Q, q_layout), dq = in_memory(&b, ID_DQ, q_layout);
    Descriptor k_swapped = in_memory(&b, ID_K, swapped(kv_layout));
    Descriptor v_swapped = in_memory(&b, ID_V, swapped(kv_layout));
    Descriptor dk = in_memory(&b, ID_DK, kv_layout), dv = in_memory(&b, ID_DV, kv_layout);
    Descriptor o = in_memory(&b, ID_O, o_layout), d_o = in_memory(&b, ID_DO, o_layout);
    Descriptor lse = graph_memory(graph, ID_LSE, CUDNN_DATA_FLOAT, &b.rows);

    Descriptor sums = row_sums(&b, o, d_o);
    Descriptor below = new_scores(&b), p = new_scores(&b);
    graph_binary(graph, CUDNN_POINTWISE_SUB, scaled_scores(&b, q, k_swapped), lse, below);
    graph_unary(graph, CUDNN_POINTWISE_EXP, masked(&b, below), p);
    gradient_of_shared(&b, p, d_o, dv);

    Descriptor dp = new_scores(&b), centred = new_scores(&b), weighted = new_scores(&b);
    Descriptor ds = new_scores(&b);
    graph_matmul(graph, d_o, v_swapped, dp);
    graph_binary(graph, CUDNN_POINTWISE_SUB, dp, sums, centred);
    graph_binary(graph, CUDNN_POINTWISE_MUL, centred, p, weighted);
    graph_binary(graph, CUDNN_POINTWISE_MUL, weighted, b.scale, ds);
    gradient_of_shared(&b, ds, q, dk);

    Descriptor k = graph_virtual(graph, CUDNN_DATA_BFLOAT16, &kv_layout);
    graph_reshape(graph, k_swapped, k);
    graph_matmul(graph, ds, k, dq);
}

static bool same_shape(HeadShape a, HeadShape b)
{
    return a.batch == b.batch && a.seq == b.seq && a.heads == b.heads && a.kv_heads == b.kv_heads &&
           a.head_dim == b.head_dim;
}

/* The entry of a shape, made if need be; entry->graph->failed when cuDNN cannot do it. */
static Entry *find_entry(Cudnn *cudnn, HeadShape shape, bool backward)
{
    for (Entry *entry = cudnn->entries; entry != NULL; entry = entry->next) {
        if (entry->backward == backward && same_shape(entry->shape, shape)) {
            return entry;
        }
    }
    Entry *entry = mem_zalloc(1, sizeof *entry);
    entry->shape = shape;
    entry->backward = backward;
    entry->graph = graph_new(&cudnn->lib);
    (backward ? build_backward : build_forward)(entry->graph, shape);
    graph_configure(entry->graph, &entry->config, &entry->workspace);
    entry->next = cudnn->entries;
    cudnn->entries = entry;
    return entry;
}

static void describe(const Entry *entry, char *text, size_t size)
{
    HeadShape s = entry->shape;
    snprintf(text, size,
             "cuDNN attention %s of %lld sequences, %lld tokens, %lld and %lld heads of %lld",
             entry->backward ? "backward" : "forward", (long long)s.batch, (long long)s.seq,
             (long long)s.heads, (long long)s.kv_heads, (long long)s.head_dim);
}

static void fail(const Entry *entry, const char *problem)
{
    char text[CUDNN_WHY_SIZE];
    describe(entry, text, sizeof text);
    cuda_fail(text, problem, __FILE__, __LINE__);
}

static Entry *usable_entry(Cudnn *cudnn, HeadShape shape, bool backward)
{
    Entry *entry = find_entry(cudnn, shape, backward);
    if (entry->plan == NULL && entry->graph->failed) {
        fail(entry, entry->graph->why);
    }
    return entry;
}

static Entry *compiled_entry(Cudnn *cudnn, HeadShape shape, bool backward)
{
    Entry *entry = usable_entry(cudnn, shape, backward);
    if (entry->plan != NULL) {
        return entry;
    }
    enum cudaStreamCaptureStatus status;
    CUDA_CHECK(cudaStreamIsCapturing(cudnn->stream, &status));
    PACER_ASSERT(status == cudaStreamCaptureStatusNone,
                 "attention of a new shape while a graph is captured");
    int64_t workspace = 0;
    entry->plan = graph_compile(entry->graph, entry->config, &workspace);
    if (entry->plan == NULL) {
        fail(entry, entry->graph->why);
    }
    PACER_ASSERT(workspace <= entry->workspace, "cuDNN wants %lld bytes of workspace, %lld planned",
                 (long long)workspace, (long long)entry->workspace);
    graph_free(entry->graph);
    entry->graph = NULL;
    return entry;
}

const char *cudnn_attention_problem(Cudnn *cudnn, HeadShape shape)
{
    for (int backward = 0; backward < 2; backward++) {
        const Entry *entry = find_entry(cudnn, shape, backward);
        if (entry->plan == NULL && entry->graph->failed) {
            return entry->graph->why;
        }
    }
    return NULL;
}

void cudnn_attention_plan(Cudnn *cudnn, HeadShape shape)
{
    compiled_entry(cudnn, shape, false);
    compiled_entry(cudnn, shape, true);
}

/* ws: cuDNN's own part, then the row sums of backward. */
static size_t own_bytes(const Entry *entry)
{
    return ((size_t)entry->workspace + 255) / 256 * 256;
}

size_t cudnn_attention_forward_ws(Cudnn *cudnn, HeadShape shape)
{
    return own_bytes(usable_entry(cudnn, shape, false));
}

size_t cudnn_attention_backward_ws(Cudnn *cudnn, HeadShape shape)
{
    size_t rows = (size_t)(shape.batch * shape.heads * shape.seq);
    return own_bytes(usable_entry(cudnn, shape, true)) + rows * sizeof(float);
}

/* q, k and v of packed rows, or their gradients. */
static void *part_of(Tensor qkv, int64_t heads_before, HeadShape shape)
{
    return (char *)qkv.data + (size_t)(heads_before * shape.head_dim) * dtype_size(qkv.dtype);
}

static void run(Cudnn *cudnn, const Entry *entry, int count, const int64_t *ids,
                void *const *pointers, void *ws)
{
    cudnnStatus_t status = graph_run(&cudnn->lib, entry->plan, count, ids, pointers, ws);
    if (status != CUDNN_STATUS_SUCCESS) {
        char why[2 * CUDNN_WHY_SIZE];
        cudnn_explain(&cudnn->lib, "running it", status, why, sizeof why);
        fail(entry, why);
    }
}

void cudnn_attention_forward(Cudnn *cudnn, Tensor qkv, HeadShape shape, Tensor out, Tensor lse,
                             void *ws)
{
    const Entry *entry = compiled_entry(cudnn, shape, false);
    float scale = (float)score_scale(shape), minus_infinity = -INFINITY;
    const int64_t ids[] = {ID_Q, ID_K, ID_V, ID_O, ID_LSE, ID_SCALE, ID_MINUS_INFINITY};
    void *const pointers[] = {part_of(qkv, 0, shape),
                              part_of(qkv, shape.heads, shape),
                              part_of(qkv, shape.heads + shape.kv_heads, shape),
                              out.data,
                              lse.data,
                              &scale,
                              &minus_infinity};
    run(cudnn, entry, sizeof ids / sizeof ids[0], ids, pointers, ws);
}

void cudnn_attention_backward(Cudnn *cudnn, Tensor dout, Tensor qkv, Tensor out, Tensor lse,
                              HeadShape shape, Tensor dqkv, void *ws)
{
    const Entry *entry = compiled_entry(cudnn, shape, true);
    float scale = (float)score_scale(shape), minus_infinity = -INFINITY, one = 1.0f;
    const int64_t ids[] = {ID_Q,  ID_K,  ID_V,  ID_O,      ID_LSE,   ID_DO,
                           ID_DQ, ID_DK, ID_DV, ID_ROWSUM, ID_SCALE, ID_MINUS_INFINITY,
                           ID_ONE};
    void *const pointers[] = {part_of(qkv, 0, shape),
                              part_of(qkv, shape.heads, shape),
                              part_of(qkv, shape.heads + shape.kv_heads, shape),
                              out.data,
                              lse.data,
                              dout.data,
                              part_of(dqkv, 0, shape),
                              part_of(dqkv, shape.heads, shape),
                              part_of(dqkv, shape.heads + shape.kv_heads, shape),
                              (char *)ws + own_bytes(entry),
                              &scale,
                              &minus_infinity,
                              &one};
    run(cudnn, entry, sizeof ids / sizeof ids[0], ids, pointers, ws);
}

static Cudnn *load(char *why, size_t size)
{
    Cudnn *cudnn = mem_zalloc(1, sizeof *cudnn);
    if (!cudnn_library_open(&cudnn->lib, why, size)) {
        free(cudnn);
        return NULL;
    }
    return cudnn;
}

Cudnn *cudnn_open(CudaBackend *backend, char *why, size_t size)
{
    Cudnn *cudnn = load(why, size);
    if (cudnn == NULL) {
        return NULL;
    }
    cudnn->stream = backend->stream;
    cudnnStatus_t status = cudnn->lib.cudnnCreate(&cudnn->lib.handle);
    if (status == CUDNN_STATUS_SUCCESS) {
        status = cudnn->lib.cudnnSetStream(cudnn->lib.handle, backend->stream);
    }
    if (status != CUDNN_STATUS_SUCCESS) {
        cudnn_explain(&cudnn->lib, "opening cuDNN", status, why, size);
        cudnn_close(cudnn);
        return NULL;
    }
    return cudnn;
}

Cudnn *cudnn_open_described(const char *device, char *why, size_t size)
{
    Cudnn *cudnn = load(why, size);
    if (cudnn == NULL) {
        return NULL;
    }
    CudnnLibrary *lib = &cudnn->lib;
    cudnnStatus_t status =
        lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &lib->device);
    if (status == CUDNN_STATUS_SUCCESS) {
        status =
            lib->cudnnBackendSetAttribute(lib->device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                          CUDNN_TYPE_CHAR, (int64_t)strlen(device), device);
    }
    if (status == CUDNN_STATUS_SUCCESS) {
        status = lib->cudnnBackendFinalize(lib->device);
    }
    if (status != CUDNN_STATUS_SUCCESS) {
        cudnn_explain(lib, "describing a device", status, why, size);
        cudnn_close(cudnn);
        return NULL;
    }
    return cudnn;
}

void cudnn_close(Cudnn *cudnn)
{
    if (cudnn == NULL) {
        return;
    }
    while (cudnn->entries != NULL) {
        Entry *entry = cudnn->entries;
        cudnn->entries = entry->next;
        graph_free(entry->graph);
        if (entry->plan != NULL) {
            cudnn->lib.cudnnBackendDestroyDescriptor(entry->plan);
        }
        free(entry);
    }
    cudnn_library_close(&cudnn->lib);
    free(cudnn);
}

#endif
