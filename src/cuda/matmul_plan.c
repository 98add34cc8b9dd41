#include "cuda/matmul_plan.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* Row-major onto column-major: memory that holds a row-major (r,c) matrix holds its transpose (c,r)
 * column-major, with the same leading dimension. So out = op(a) op(b) is computed as out^T =
 * op(b)^T op(a)^T, where b comes first and nothing moves: an operand that is used as stored is used
 * as stored there too.
 *
 * A plan is made once per ProductKey and kept. Pointers and scalars are no part of it: those of
 * bias and aux are set on the descriptor at each launch. */

/* The most that any algorithm asks of a pointer; tensors in arenas have more. */
#define ALIGN_MOST 16

static int32_t alignment(const void *pointer, int64_t stride, DType dtype)
{
    uintptr_t bits = (uintptr_t)pointer | (uintptr_t)stride * dtype_size(dtype) | ALIGN_MOST;
    return (int32_t)(bits & -bits);
}

static int32_t smaller(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static ProductKey key_of(const Product *p)
{
    const Gemm *g = &p->gemm;
    bool batched = g->batch > 1;
    int64_t stride_a = batched ? g->stride_a : 0, stride_b = batched ? g->stride_b : 0,
            stride_c = batched ? g->stride_c : 0;
    int32_t align_c = alignment(g->out, stride_c, g->out_type);
    align_c = smaller(align_c, alignment(p->bias, 0, g->out_type));
    align_c = smaller(align_c, alignment(p->aux, 0, g->out_type));
    return (ProductKey){.m = g->m,
                        .n = g->n,
                        .k = g->k,
                        .batch = g->batch,
                        .lda = g->lda,
                        .ldb = g->ldb,
                        .ldc = g->ldc,
                        .stride_a = stride_a,
                        .stride_b = stride_b,
                        .stride_c = stride_c,
                        .transpose_a = g->transpose_a,
                        .transpose_b = g->transpose_b,
                        .in_type = g->in_type,
                        .out_type = g->out_type,
                        .epilogue = (int32_t)p->epilogue,
                        .adds = g->beta != 0.0f,
                        .align_a = alignment(g->a, stride_a, g->in_type),
                        .align_b = alignment(g->b, stride_b, g->in_type),
                        .align_c = align_c};
}

const char *product_key_text(const ProductKey *key, char text[PRODUCT_KEY_TEXT_SIZE])
{
    snprintf(text, PRODUCT_KEY_TEXT_SIZE,
             "%lldx%lldx%lld batch %lld a%s b%s ld %lld %lld %lld stride %lld %lld %lld %s to %s "
             "epilogue %d adds %d align %d %d %d",
             (long long)key->m, (long long)key->n, (long long)key->k, (long long)key->batch,
             key->transpose_a ? "^T" : "", key->transpose_b ? "^T" : "", (long long)key->lda,
             (long long)key->ldb, (long long)key->ldc, (long long)key->stride_a,
             (long long)key->stride_b, (long long)key->stride_c, dtype_name((DType)key->in_type),
             dtype_name((DType)key->out_type), key->epilogue, key->adds, key->align_a, key->align_b,
             key->align_c);
    return text;
}

static cudaDataType_t type_of(int32_t dtype)
{
    PACER_ASSERT(dtype == DT_F32 || dtype == DT_BF16 || dtype == DT_E4M3,
                 "a product on the device takes f32, bf16 or fp8, not %s",
                 dtype_name((DType)dtype));
    return dtype == DT_F32 ? CUDA_R_32F : dtype == DT_BF16 ? CUDA_R_16BF : CUDA_R_8F_E4M3;
}

/* A matrix stored as (rows, columns) row-major. */
static cublasLtMatrixLayout_t make_layout(int32_t dtype, int64_t rows, int64_t columns, int64_t ld,
                                          int64_t batch, int64_t stride)
{
    cublasLtMatrixLayout_t layout;
    int32_t count = (int32_t)batch;
    LT_CHECK(
        cublasLtMatrixLayoutCreate(&layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, ld));
    LT_CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count));
    LT_CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &stride, sizeof stride));
    return layout;
}

static void set_op(Plan *plan, cublasLtMatmulDescAttributes_t attribute, const void *value,
                   size_t size)
{
    LT_CHECK(cublasLtMatmulDescSetAttribute(plan->op, attribute, value, size));
}

static void set_pointers(const Plan *plan, const Product *product)
{
    const Gemm *g = &product->gemm;
    if (g->in_type == DT_E4M3) {
        LT_CHECK(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                                &g->scale_b, sizeof g->scale_b));
        LT_CHECK(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                                &g->scale_a, sizeof g->scale_a));
    }
    if (product->bias != NULL) {
        LT_CHECK(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                &product->bias, sizeof product->bias));
    }
    if (product->aux != NULL) {
        LT_CHECK(cublasLtMatmulDescSetAttribute(plan->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                                &product->aux, sizeof product->aux));
    }
}

static Plan *make_plan(Matmul *matmul, const ProductKey *key, const Product *product)
{
    Plan *plan = mem_zalloc(1, sizeof *plan);
    plan->key = *key;
    /* f32 products sum in f32 without TF32; the scalars alpha and beta are f32 everywhere. */
    LT_CHECK(cublasLtMatmulDescCreate(&plan->op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    cublasOperation_t op_left = key->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_right = key->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set_op(plan, CUBLASLT_MATMUL_DESC_TRANSA, &op_left, sizeof op_left);
    set_op(plan, CUBLASLT_MATMUL_DESC_TRANSB, &op_right, sizeof op_right);
    set_op(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &product->epilogue, sizeof product->epilogue);
    if (product->aux != NULL) {
        set_op(plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &key->n, sizeof key->n);
    }
    set_pointers(plan, product);
    plan->left =
        make_layout(key->in_type, key->transpose_b ? key->n : key->k,
                    key->transpose_b ? key->k : key->n, key->ldb, key->batch, key->stride_b);
    plan->right =
        make_layout(key->in_type, key->transpose_a ? key->k : key->m,
                    key->transpose_a ? key->m : key->k, key->lda, key->batch, key->stride_a);
    plan->out = make_layout(key->out_type, key->m, key->n, key->ldc, key->batch, key->stride_c);
    matmul_choose(matmul, plan, product);
    return plan;
}

static void free_plan(Plan *plan)
{
    cublasLtMatrixLayoutDestroy(plan->left);
    cublasLtMatrixLayoutDestroy(plan->right);
    cublasLtMatrixLayoutDestroy(plan->out);
    cublasLtMatmulDescDestroy(plan->op);
    free(plan);
}

/* The plan of that key, or NULL; *first is the list it belongs to. */
static Plan *known_plan(Matmul *matmul, const ProductKey *key, Plan ***first)
{
    *first = &matmul->bucket[io_hash(key, sizeof *key) % PLAN_BUCKETS];
    Plan *plan = **first;
    while (plan != NULL && memcmp(&plan->key, key, sizeof *key) != 0) {
        plan = plan->next;
    }
    return plan;
}

static Plan *find_plan(Matmul *matmul, const Product *product)
{
    ProductKey key = key_of(product);
    Plan **first, *plan = known_plan(matmul, &key, &first);
    if (plan == NULL) {
        plan = make_plan(matmul, &key, product);
        plan->next = *first;
        *first = plan;
    }
    return plan;
}

bool matmul_is_new(Matmul *matmul, const Product *product)
{
    ProductKey key = key_of(product);
    Plan **first;
    return known_plan(matmul, &key, &first) == NULL;
}

cublasStatus_t plan_launch(Matmul *matmul, const Plan *plan, const Product *product,
                           const cublasLtMatmulAlgo_t *algo, void *out)
{
    const Gemm *g = &product->gemm;
    return cublasLtMatmul(matmul->handle, plan->op, &g->alpha, g->b, plan->left, g->a, plan->right,
                          &g->beta, out, plan->out, out, plan->out, algo, matmul->workspace,
                          MATMUL_WORKSPACE_BYTES, matmul->backend->stream);
}

bool matmul_run(Matmul *matmul, const Product *product)
{
    const Gemm *g = &product->gemm;
    PACER_ASSERT(g->m > 0 && g->n > 0 && g->k > 0 && g->batch > 0,
                 "product of (%lld, %lld, %lld), batch %d", (long long)g->m, (long long)g->n,
                 (long long)g->k, g->batch);
    double start = clock_seconds();
    Plan *plan = find_plan(matmul, product);
    if (!plan->usable) {
        return false;
    }
    set_pointers(plan, product);
    cublasStatus_t status = plan_launch(matmul, plan, product, &plan->algo, g->out);
    char text[PRODUCT_KEY_TEXT_SIZE];
    if (status != CUBLAS_STATUS_SUCCESS) {
        cuda_fail(product_key_text(&plan->key, text), cublasLtGetStatusString(status), __FILE__,
                  __LINE__);
    }
    if (!plan->used && log_shows(LOG_DEBUG)) {
        log_debug("%s: first launched after %.2f ms", product_key_text(&plan->key, text),
                  1e3 * (clock_seconds() - start));
    }
    plan->used = true;
    return true;
}

float matmul_timed(Matmul *matmul, const Product *product)
{
    return find_plan(matmul, product)->ms;
}

float matmul_time(Matmul *matmul, const Product *product)
{
    Plan *plan = find_plan(matmul, product);
    if (plan->usable && plan->ms == 0) {
        set_pointers(plan, product);
        plan->ms = matmul_time_plan(matmul, plan, product);
    }
    return plan->ms;
}

void matmul_give_up(Matmul *matmul, const Product *product)
{
    Plan *plan = find_plan(matmul, product);
    plan->usable = false;
    plan->ms = 0;
    if (matmul->cache != NULL) {
        tune_cache_lock(matmul->cache);
        tune_cache_add(matmul->cache, &plan->key, &matmul_given_up);
        tune_cache_unlock(matmul->cache);
    }
}

void *matmul_staging(Matmul *matmul)
{
    return (char *)matmul->workspace + MATMUL_WORKSPACE_BYTES;
}

Matmul *matmul_open(CudaBackend *backend)
{
    Matmul *matmul = mem_zalloc(1, sizeof *matmul);
    matmul->backend = backend;
    LT_CHECK(cublasLtCreate(&matmul->handle));
    CUDA_CHECK(cudaMalloc(&matmul->workspace, MATMUL_WORKSPACE_BYTES + MATMUL_STAGING_BYTES));
    matmul->cache = tune_cache_open(backend->device);
    return matmul;
}

void matmul_close(Matmul *matmul)
{
    if (matmul == NULL) {
        return;
    }
    for (int i = 0; i < PLAN_BUCKETS; i++) {
        while (matmul->bucket[i] != NULL) {
            Plan *plan = matmul->bucket[i];
            matmul->bucket[i] = plan->next;
            free_plan(plan);
        }
    }
    tune_cache_close(matmul->cache);
    cudaFree(matmul->workspace);
    cublasLtDestroy(matmul->handle);
    free(matmul);
}
