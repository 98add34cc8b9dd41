#include "cuda/matmul.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/mem.h"
#include "cuda/few_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The linear slots as products of contiguous row-major matrices:
 *   y (N,O)  = x (N,I) w^T      w stored (O,I)
 *   dx (N,I) = dy (N,O) w
 *   dw (O,I) = dy^T x           both stored with N rows; the only ones with f32 outputs for bf16
 *   inputs
 * Few rows forward are for kernels of their own (few_rows.cu). The bias is added, and gelu applied,
 * in cuBLASLt's epilogue, on the f32 sums. The bias gradient, column sums of dy, may come out of
 * the product that reads dy anyway. */

/* Of the largest bias gradient: what sums in f32 may differ by, and sums or results in bf16 do
 * not keep. */
#define SUMS_TOLERANCE 2e-4f

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
    if (cuda_few_rows(c, x, w, bias, TENSOR_NONE, y)) {
        return;
    }
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

typedef struct {
    cudaStream_t stream;
    cudaEvent_t start, stop;
} Stopwatch;

static Stopwatch stopwatch_start(const Ctx *c)
{
    Stopwatch watch = {.stream = cuda_of(c)->stream};
    CUDA_CHECK(cudaEventCreate(&watch.start));
    CUDA_CHECK(cudaEventCreate(&watch.stop));
    CUDA_CHECK(cudaEventRecord(watch.start, watch.stream));
    return watch;
}

/* Milliseconds of what has been put on the stream since; the watch is gone. */
static float stopwatch_stop(Stopwatch *watch)
{
    float ms;
    CUDA_CHECK(cudaEventRecord(watch->stop, watch->stream));
    CUDA_CHECK(cudaEventSynchronize(watch->stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, watch->start, watch->stop));
    CUDA_CHECK(cudaEventDestroy(watch->start));
    CUDA_CHECK(cudaEventDestroy(watch->stop));
    return ms;
}

/* Milliseconds of the column sums of dy. */
static float time_column_sum(Ctx *c, Tensor dy, void *ws)
{
    const int rounds = 4;
    Tensor sums = tensor_1d(matmul_staging(matmul_of(c)), DT_F32, dy.dim[1]);
    cuda_column_sum(c, dy, sums, MODE_SET, ws);
    Stopwatch watch = stopwatch_start(c);
    for (int i = 0; i < rounds; i++) {
        cuda_column_sum(c, dy, sums, MODE_SET, ws);
    }
    return stopwatch_stop(&watch) / (float)rounds;
}

/* Whether the product with sums makes the same ones twice, equal to the kernel's up to the
 * rounding of f32 sums. Sums of zeros or of numbers that are none show nothing: false. When dw
 * is only set, it holds the product's result afterwards; it is not touched when it would be
 * added to. */
static bool sums_agree(Ctx *c, const Product *fused, Tensor dy, void *ws)
{
    Matmul *matmul = matmul_of(c);
    const Gemm *g = &fused->gemm;
    size_t width = (size_t)g->m;
    Product trial = *fused;
    void *scratch = NULL;
    if (g->beta != 0.0f) {
        if (cudaMalloc(&scratch, width * (size_t)g->n * dtype_size(g->out_type)) != cudaSuccess) {
            (void)cudaGetLastError();
            return false;
        }
        trial.gemm.out = scratch;
    }
    float *staging = matmul_staging(matmul), *sums = mem_alloc(3 * width * sizeof *sums);
    for (size_t i = 0; i < 2; i++) {
        trial.bias = staging + i * width;
        run_or_fail(matmul, &trial);
    }
    cuda_column_sum(c, dy, tensor_1d(staging + 2 * width, DT_F32, g->m), MODE_SET, ws);
    cudaStream_t stream = cuda_of(c)->stream;
    CUDA_CHECK(
        cudaMemcpyAsync(sums, staging, 3 * width * sizeof *sums, cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CUDA_CHECK(cudaFree(scratch));
    float largest = 0;
    for (size_t i = 0; i < width; i++) {
        largest = fmaxf(largest, fabsf(sums[2 * width + i]));
    }
    bool agree =
        largest > 0 && isfinite(largest) && memcmp(sums, sums + width, width * sizeof *sums) == 0;
    for (size_t i = 0; i < width && agree; i++) { /* false for a NaN too */
        agree = fabsf(sums[i] - sums[2 * width + i]) <= SUMS_TOLERANCE * largest;
    }
    free(sums);
    return agree;
}

/* When the product with sums has just been timed: gives it up where product and kernel take
 * less, or its sums are not as good. */
static void compare_with_column_sum(Ctx *c, const Product *fused, Tensor dy, void *ws)
{
    Matmul *matmul = matmul_of(c);
    float together = matmul_timed(matmul, fused);
    if (together <= 0) {
        return;
    }
    Product plain = {.gemm = fused->gemm, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    float alone = matmul_time(matmul, &plain), sum = time_column_sum(c, dy, ws);
    bool faster = alone > 0 && together < alone + sum;
    bool agrees = faster && sums_agree(c, fused, dy, ws);
    log_debug("weight gradient (%lld, %lld, %lld) with bias sums %.3f ms, without %.3f + %.3f: %s",
              (long long)fused->gemm.m, (long long)fused->gemm.n, (long long)fused->gemm.k,
              (double)together, (double)alone, (double)sum,
              !faster  ? "two kernels"
              : agrees ? "one product"
                       : "two kernels, since the sums of one product differ");
    if (!agrees) {
        matmul_give_up(matmul, fused);
    }
}

/* Aligned, so that sums on their way through the staging block, of which there may be three,
 * make no difference to the plan. */
static bool sums_covered(const Product *product, Tensor dbias)
{
    uintptr_t bits = (uintptr_t)product->gemm.out | (uintptr_t)dbias.data;
    int64_t width = product->gemm.m;
    return bits % 16 == 0 && width % 8 == 0 && product->gemm.out_type == DT_F32 &&
           dbias.dtype == DT_F32 && (size_t)width * 3 * sizeof(float) <= MATMUL_STAGING_BYTES;
}

/* The product, and dbias out of its epilogue: written, so that sums to be added pass through the
 * staging block. False when nothing has been done. */
static bool weight_with_sums(Ctx *c, const Product *plain, Tensor dy, Tensor dbias, Mode mode,
                             void *ws)
{
    Matmul *matmul = matmul_of(c);
    if (!sums_covered(plain, dbias)) {
        return false;
    }
    Tensor sums = dbias;
    if (mode == MODE_ADD) {
        sums.data = matmul_staging(matmul);
    }
    Product fused = *plain;
    fused.epilogue = CUBLASLT_EPILOGUE_BGRADB; /* cuBLASLt's B is the row-major a */
    fused.bias = sums.data;
    if (matmul_is_new(matmul, &fused)) {
        compare_with_column_sum(c, &fused, dy, ws);
    }
    if (!matmul_run(matmul, &fused)) {
        return false;
    }
    if (mode == MODE_ADD) {
        cuda_add(c, dbias, sums, dbias);
    }
    return true;
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
    if (tensor_given(dbias) && weight_with_sums(c, &product, dy, dbias, mode, ws)) {
        return;
    }
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

/* out (m,n) = a (m,k) b^T, b being (n,k): the one form that e4m3 has. */
static Gemm quant_gemm(Tensor a, int64_t lda, Quant of_a, Tensor b, int64_t ldb, Quant of_b,
                       Tensor out, Mode mode)
{
    return (Gemm){.m = a.dim[0],
                  .n = b.dim[0],
                  .k = a.dim[1],
                  .transpose_b = true,
                  .a = a.data,
                  .b = b.data,
                  .out = out.data,
                  .lda = lda,
                  .ldb = ldb,
                  .ldc = b.dim[0],
                  .batch = 1,
                  .in_type = DT_E4M3,
                  .out_type = out.dtype,
                  .alpha = 1.0f,
                  .beta = beta_of(mode),
                  .scale_a = (const float *)of_a.scale.data + SCALE_INVERSE,
                  .scale_b = (const float *)of_b.scale.data + SCALE_INVERSE};
}

void cuda_quant_forward(Ctx *c, Quant x, Quant w, Tensor bias, Tensor y)
{
    int64_t in = x.rows.dim[1];
    Product product = {.gemm = quant_gemm(x.rows, in, x, w.rows, in, w, y, MODE_SET),
                       .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    if (tensor_given(bias)) {
        product.epilogue = CUBLASLT_EPILOGUE_BIAS;
        product.bias = bias.data;
    }
    run_or_fail(matmul_of(c), &product);
}

void cuda_quant_backward_input(Ctx *c, Quant dy, Quant w, Tensor dx, Mode mode)
{
    Product product = {
        .gemm = quant_gemm(dy.rows, dy.rows.dim[1], dy, w.columns, w.stride, w, dx, mode),
        .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    run_or_fail(matmul_of(c), &product);
}

void cuda_quant_backward_weight(Ctx *c, Quant x, Quant dy, Tensor dw, Mode mode)
{
    Product product = {.gemm =
                           quant_gemm(dy.columns, dy.stride, dy, x.columns, x.stride, x, dw, mode),
                       .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    run_or_fail(matmul_of(c), &product);
}

/* cuBLASLt's gelu is the tanh form, but computed with bf16 results in mind; in f32 it is left to
 * pacer's own kernel. Rows of aux have to be a multiple of 8 elements, and its start aligned. */
static bool epilogue_covers(Tensor aux)
{
    return aux.dtype == DT_BF16 && aux.dim[1] % 8 == 0 && (uintptr_t)aux.data % 16 == 0;
}

void cuda_linear_gelu_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y)
{
    if (cuda_few_rows(c, x, w, bias, pre, y)) {
        return;
    }
    Product product = {
        .gemm = forward_gemm(x, w, y), .epilogue = CUBLASLT_EPILOGUE_GELU_AUX, .aux = pre.data};
    if (tensor_given(bias)) {
        product.epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
        product.bias = bias.data;
    }
    if (!epilogue_covers(pre) || !matmul_run(matmul_of(c), &product)) {
        cuda_linear_forward(c, x, w, bias, pre);
        cuda_act_forward(c, ACT_GELU, pre, y);
    }
}

/* Product and gelu' one after the other, some rows at a time, since dpre may be the only memory
 * there is and may hold pre. */
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
        cuda_act_backward(c, ACT_GELU, dact, tensor_rows(pre, first, count),
                          tensor_rows(dpre, first, count));
    }
}

/* Milliseconds of gelu's gradient in place. */
static float time_gelu_backward(Ctx *c, Tensor pre, Tensor dpre)
{
    cuda_act_backward(c, ACT_GELU, dpre, pre, dpre);
    Stopwatch watch = stopwatch_start(c);
    cuda_act_backward(c, ACT_GELU, dpre, pre, dpre);
    return stopwatch_stop(&watch);
}

/* When the fused product has just been timed: gives it up where two kernels take less. cuBLASLt
 * has few algorithms with this epilogue, poor ones for some shapes. */
static void compare_with_two_kernels(Ctx *c, const Product *fused, Tensor pre, Tensor dpre)
{
    Matmul *matmul = matmul_of(c);
    Product plain = {.gemm = fused->gemm, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    float together = matmul_timed(matmul, fused), alone = 0;
    if (together > 0) {
        alone = matmul_time(matmul, &plain);
    }
    if (alone > 0 && alone + time_gelu_backward(c, pre, dpre) < together) {
        matmul_give_up(matmul, fused);
    }
}

/* In place is left to the rows: cuBLASLt does not promise that an epilogue's input may be its
 * output. */
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
    cuda_act_backward(c, ACT_GELU, dpre, pre, dpre);
}
