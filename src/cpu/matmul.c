/* Linear maps of many rows by the library's matrix product (sgemm.h), in bf16 by pacer's own
 * (bf16/product.h). The bias of a forward costs nothing extra: in f32 rows of y are set to it and
 * the product is added, where a plain product would have set them to zero first.
 * linear_gelu_forward stays composed: cut into blocks of rows that keep gelu's input in the cache,
 * the product loses more to packing the weights again for each block than gelu gains. Products are
 * never called from inside a parallel region. */
#include "cpu/cpu.h"

#include "base/assert.h"
#include "cpu/bf16/product.h"
#include "cpu/sgemm.h"
#include "cpu/threads.h"

#include <string.h>

/* Every row of y (rows, cols) = bias (cols). */
static void spread_bias(const Ctx *c, Tensor bias, Tensor y)
{
    int64_t rows = y.dim[0], cols = y.dim[1];
    float *to = y.data;
    int threads = threads_for(c, rows * cols);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        memcpy(to + row * cols, bias.data, (size_t)cols * sizeof *to);
    }
}

/* Rows of t that fit in the backend's block, as elements of dtype. */
static int64_t block_rows(Tensor t, DType dtype)
{
    int64_t rows = (int64_t)(CPU_BLOCK_BYTES / ((size_t)t.dim[1] * dtype_size(dtype)));
    PACER_ASSERT(rows > 0, "a row of %lld elements is larger than a block", (long long)t.dim[1]);
    return rows;
}

/* out (m,n) = or += a b, in f32 or, from matrices in bf16, as bf16/product.h has it. bias (n), of
 * bf16 alone: added. */
static void multiply(const Ctx *c, bool a_transposed, bool b_transposed, int64_t m, int64_t n,
                     int64_t k, Tensor a, Tensor b, Tensor bias, Tensor out, Mode mode)
{
    int threads = c->backend->threads;
    if (a.dtype == DT_F32) {
        sgemm(threads, a_transposed, b_transposed, m, n, k, a.data, b.data, out.data, n, mode);
        return;
    }
#ifdef PACER_ISA_BF16
    product_bf16(threads, cpu_backend(c)->packed,
                 (BfProduct){.engine = *cpu_bf16_engines(),
                             .a_transposed = a_transposed,
                             .b_transposed = b_transposed,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = a.data,
                             .b = b.data,
                             .bias = tensor_given(bias) ? bias.data : NULL,
                             .out = out.data,
                             .wide = out.dtype == DT_F32,
                             .mode = mode});
#else
    (void)bias;
    PACER_ASSERT(false, "no products in %s", dtype_name(a.dtype));
#endif
}

/* Weights in bf16 beside f32 become f32 in the block, some rows at a time, each of which is a
 * column of y. */
void matmul_linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y)
{
    bool biased = tensor_given(bias);
    if (x.dtype != DT_F32) {
        multiply(c, false, true, x.dim[0], w.dim[0], w.dim[1], x, w, bias, y, MODE_SET);
        return;
    }
    if (biased) {
        spread_bias(c, bias, y);
    }
    bool low = w.dtype != DT_F32;
    int64_t outputs = w.dim[0], most = low ? block_rows(w, DT_F32) : outputs;
    for (int64_t first = 0; first < outputs; first += most) {
        Tensor part = tensor_rows(w, first, most < outputs - first ? most : outputs - first);
        if (low) {
            Tensor wide = tensor_2d(cpu_backend(c)->block, DT_F32, part.dim[0], part.dim[1]);
            c->backend->ops.cast(c, part, wide);
            part = wide;
        }
        sgemm(c->backend->threads, false, true, x.dim[0], part.dim[0], part.dim[1], x.data,
              part.data, (float *)y.data + first, outputs, biased ? MODE_ADD : MODE_SET);
    }
}

static void linear_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode)
{
    multiply(c, false, false, dy.dim[0], w.dim[1], w.dim[0], dy, w, TENSOR_NONE, dx, mode);
}

/* sums (cols) += rows of x (rows, cols), four at a time, then one by one. */
#define SUM_ROWS(Elem, value, x, rows, cols, sums)                                              \
    do {                                                                                        \
        int64_t row = (rows).first;                                                             \
        for (; row + 4 <= (rows).last; row += 4) {                                              \
            const Elem *a = (const Elem *)(x) + row * (cols), *b = a + (cols), *d = b + (cols), \
                       *e = d + (cols);                                                         \
            _Pragma("omp simd") for (int64_t i = 0; i < (cols); i++)                            \
            {                                                                                   \
                (sums)[i] += (value(a[i]) + value(b[i])) + (value(d[i]) + value(e[i]));         \
            }                                                                                   \
        }                                                                                       \
        for (; row < (rows).last; row++) {                                                      \
            const Elem *a = (const Elem *)(x) + row * (cols);                                   \
            _Pragma("omp simd") for (int64_t i = 0; i < (cols); i++)                            \
            {                                                                                   \
                (sums)[i] += value(a[i]);                                                       \
            }                                                                                   \
        }                                                                                       \
    } while (0)

/* sums (cols) = the sum of the given rows of x (.., cols). */
static void sum_rows(Tensor x, Span rows, int64_t cols, float *sums)
{
    memset(sums, 0, (size_t)cols * sizeof *sums);
    if (x.dtype == DT_F32) {
        SUM_ROWS(float, , x.data, rows, cols, sums);
    } else {
        SUM_ROWS(uint16_t, f32_from_bf16, x.data, rows, cols, sums);
    }
}

/* dbias (O) = or += column sums of dy (N,O), by way of partial (THREADS_SUM_PARTS, O). */
static void bias_backward(const Ctx *c, Tensor dy, Tensor dbias, Mode mode, float *partial)
{
    int64_t rows = dy.dim[0], cols = dy.dim[1];
    int threads = threads_for(c, rows * cols);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < THREADS_SUM_PARTS; part++) {
        sum_rows(dy, span_of(rows, THREADS_SUM_PARTS, part), cols, partial + part * cols);
    }
    threads_join_sums(partial, cols, cols, dbias.data, mode);
}

static void linear_backward_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode,
                                   void *ws)
{
    multiply(c, true, false, dw.dim[0], dw.dim[1], x.dim[0], dy, x, TENSOR_NONE, dw, mode);
    if (tensor_given(dbias)) {
        bias_backward(c, dy, dbias, mode, ws);
    }
}

static size_t linear_backward_weight_ws(const Ctx *c, Tensor x, Tensor dy)
{
    (void)c;
    (void)x;
    return (size_t)dy.dim[1] * THREADS_SUM_PARTS * sizeof(float);
}

/* Over the same memory the product waits in the block, one block of rows after the other. */
static void linear_gelu_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre)
{
    const Ops *ops = ops_for(c, pre.dtype);
    if (dpre.data != pre.data) {
        ops->linear_backward_input(c, dy, w, dpre, MODE_SET);
        ops->act_backward(c, ACT_GELU, dpre, pre, dpre);
        return;
    }
    int64_t rows = pre.dim[0], block = block_rows(pre, pre.dtype);
    for (int64_t row = 0; row < rows; row += block) {
        int64_t count = block < rows - row ? block : rows - row;
        Tensor dact = tensor_2d(cpu_backend(c)->block, pre.dtype, count, pre.dim[1]);
        Tensor pre_rows = tensor_rows(pre, row, count);
        ops->linear_backward_input(c, tensor_rows(dy, row, count), w, dact, MODE_SET);
        ops->act_backward(c, ACT_GELU, dact, pre_rows, pre_rows);
    }
}

void matmul_fill(Ops *ops)
{
    ops->linear_backward_input = linear_backward_input;
    ops->linear_backward_weight = linear_backward_weight;
    ops->linear_backward_weight_ws = linear_backward_weight_ws;
    ops->linear_gelu_backward_input = linear_gelu_backward_input;
}
