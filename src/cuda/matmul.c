#include "cuda/matmul.h"

#include "base/assert.h"

#include <stdio.h>

/* The linear slots as products of contiguous row-major matrices:
 *   y (N,O)  = x (N,I) w^T      w stored (O,I)
 *   dx (N,I) = dy (N,O) w
 *   dw (O,I) = dy^T x           both stored with N rows; the only ones with f32 outputs for bf16 inputs
 * The bias is added, and gelu applied, in cuBLASLt's epilogue, on the f32 sums. */

/* More products than this in one call do not fit the launch grid of some algorithms. */
#define BATCH_MOST 32768

static Matmul *matmul_of(const Ctx *c)
{
    return cuda_of(c)->matmul;
}

static void run_or_fail(Matmul *matmul, const Product *product)
{
    if (!matmul_run(matmul, product)) {
        const Gemm *g = &product->gemm;
        char text[256];
        snprintf(
            text, sizeof text,
            "cuBLASLt has no algorithm for (%lld, %lld, %lld) %s to %s, rows of %lld, %lld, %lld "
            "at %p, %p, %p",
            (long long)g->m, (long long)g->n, (long long)g->k, dtype_name(g->in_type),
            dtype_name(g->out_type), (long long)g->lda, (long long)g->ldb, (long long)g->ldc, g->a,
            g->b, g->out);
        cuda_fail("matrix product", text, __FILE__, __LINE__);
    }
}

void cuda_gemm(CudaBackend *backend, const Gemm *gemm)
{
    Product product = {.gemm = *gemm, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    Gemm *part = &product.gemm;
    size_t in_size = dtype_size(gemm->in_type), out_size = dtype_size(gemm->out_type);
    for (int first = 0; first < gemm->batch; first += BATCH_MOST) {
        int left = gemm->batch - first;
        part->batch = left < BATCH_MOST ? left : BATCH_MOST;
        part->a = (const char *)gemm->a + (size_t)(first * gemm->stride_a) * in_size;
        part->b = (const char *)gemm->b + (size_t)(first * gemm->stride_b) * in_size;
        part->out = (char *)gemm->out + (size_t)(first * gemm->stride_c) * out_size;
        run_or_fail(backend->matmul, &product);
    }
}

static float beta_of(Mode mode)
{
    return mode == MODE_ADD ? 1.0f : 0.0f;
}

/* y = x w^T */
static Gemm forward_gemm(Tensor x, Tensor w, Tensor y)
{
    int64_t rows = x.dim[0], in = x.dim[1], out = w.dim[0];
    return (Gemm){.m = rows,
                  .n = out,
                  .k = in,
                  .transpose_b = true,
                  .a = x.data,
                  .b = w.data,
                  .out = y.data,
                  .lda = in,
                  .ldb = in,
                  .ldc = out,
                  .batch = 1,
                  .in_type = x.dtype,
                  .out_type = y.dtype,
                  .alpha = 1.0f};
}

/* dx = dy w */
static Gemm backward_input_gemm(Tensor dy, Tensor w, Tensor dx, Mode mode)
{
    int64_t rows = dy.dim[0], out = w.dim[0], in = w.dim[1];
    return (Gemm){.m = rows,
                  .n = in,
                  .k = out,
                  .a = dy.data,
                  .b = w.data,
                  .out = dx.data,
                  .lda = out,
                  .ldb = in,
                  .ldc = in,
                  .batch = 1,
                  .in_type = dy.dtype,
                  .out_type = dx.dtype,
                  .alpha = 1.0f,
                  .beta = beta_of(mode)};
}

void cuda_linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y)
{
    Product product = {.gemm = forward_gemm(x, w, y), .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    if (tensor_given(bias)) {
        product.epilogue = CUBLASLT_EPILOGUE_BIAS;
        product.bias = bias.data;
    }
    run_or_fail(matmul_of(c), &product);
}

void cuda_linear_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode)
{
    Product product = {.gemm = backward_input_gemm(dy, w, dx, mode),
                       .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    run_or_fail(matmul_of(c), &product);
}

void cuda_linear_backward_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode,
                                 void *ws)
{
    int64_t rows = x.dim[0], in = x.dim[1], out = dy.dim[1];
    Product product = {.gemm = {.m = out,
                                .n = in,
                                .k = rows,
                                .transpose_a = true,
                                .a = dy.data,
                                .b = x.data,
                                .out = dw.data,
                                .lda = out,
                                .ldb = in,
                                .ldc = in,
                                .batch = 1,
                                .in_type = x.dtype,
                                .out_type = dw.dtype,
                                .alpha = 1.0f,
                                .beta = beta_of(mode)},
                       .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    run_or_fail(matmul_of(c), &product);
    if (tensor_given(dbias)) {
        cuda_column_sum(c, dy, dbias, mode, ws);
    }
}

size_t cuda_linear_backward_weight_ws(const Ctx *c, Tensor x, Tensor dy)
{
    (void)x;
    return cuda_column_sum_ws(c, dy);
}

/* cuBLASLt's gelu is the tanh form, but computed with bf16 results in mind; in f32 it is left to pacer's
 * own kernel. Rows of aux have to be a multiple of 8 elements, and its start aligned. */
static bool epilogue_covers(Tensor aux)
{
    return aux.dtype == DT_BF16 && aux.dim[1] % 8 == 0 && (uintptr_t)aux.data % 16 == 0;
}

void cuda_linear_gelu_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y)
{
    Product product = {
        .gemm = forward_gemm(x, w, y), .epilogue = CUBLASLT_EPILOGUE_GELU_AUX, .aux = pre.data};
    if (tensor_given(bias)) {
        product.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
        product.bias = bias.data;
    }
    if (!epilogue_covers(pre) || !matmul_run(matmul_of(c), &product)) {
        cuda_linear_forward(c, x, w, bias, pre);
        cuda_gelu_forward(c, pre, y);
    }
}

/* Product and gelu' one after the other, some rows at a time, since dpre may be the only memory there is
 * and may hold pre. */
static void gelu_backward_by_rows(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre)
{
    int64_t rows = pre.dim[0], width = pre.dim[1];
    int64_t most = (int64_t)(MATMUL_STAGING_BYTES / ((size_t)width * dtype_size(pre.dtype)));
    PACER_ASSERT(most > 0, "a row of %lld elements does not fit the staging block",
                 (long long)width);
    for (int64_t first = 0; first < rows; first += most) {
        int64_t count = rows - first < most ? rows - first : most;
        Tensor dact = tensor_2d(matmul_staging(matmul_of(c)), pre.dtype, count, width);
        cuda_linear_backward_input(c, tensor_rows(dy, first, count), w, dact, MODE_SET);
        cuda_gelu_backward(c, dact, tensor_rows(pre, first, count),
                           tensor_rows(dpre, first, count));
    }
}

/* Milliseconds of gelu's gradient in place. */
static float time_gelu_backward(Ctx *c, Tensor pre, Tensor dpre)
{
    cudaStream_t stream = cuda_of(c)->stream;
    cudaEvent_t start, stop;
    float ms;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    cuda_gelu_backward(c, dpre, pre, dpre);
    CUDA_CHECK(cudaEventRecord(start, stream));
    cuda_gelu_backward(c, dpre, pre, dpre);
    CUDA_CHECK(cudaEventRecord(stop, stream));
    CUDA_CHECK(cudaEventSynchronize(stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    return ms;
}

/* When the fused product has just been timed: gives it up where two kernels take less. cuBLASLt has few
 * algorithms with this epilogue, poor ones for some shapes. */
static void compare_with_two_kernels(Ctx *c, const Product *fused, Tensor pre, Tensor dpre)
{
    Matmul *matmul = matmul_of(c);
    Product plain = {.gemm = fused->gemm, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    float together = matmul_timed(matmul, fused), alone = matmul_timed(matmul, &plain);
    if (together > 0 && alone > 0 && alone + time_gelu_backward(c, pre, dpre) < together) {
        matmul_give_up(matmul, fused);
    }
}

/* In place is left to the rows: cuBLASLt does not promise that an epilogue's input may be its output. */
void cuda_linear_gelu_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre)
{
    Matmul *matmul = matmul_of(c);
    Product product = {.gemm = backward_input_gemm(dy, w, dpre, MODE_SET),
                       .epilogue = CUBLASLT_EPILOGUE_DGELU,
                       .aux = pre.data};
    if (dpre.data == pre.data) {
        gelu_backward_by_rows(c, dy, w, pre, dpre);
        return;
    }
    if (epilogue_covers(pre)) {
        if (matmul_is_new(matmul, &product)) {
            compare_with_two_kernels(c, &product, pre, dpre);
        }
        if (matmul_run(matmul, &product)) {
            return;
        }
    }
    cuda_linear_backward_input(c, dy, w, dpre, MODE_SET);
    cuda_gelu_backward(c, dpre, pre, dpre);
}
