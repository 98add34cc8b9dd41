#include "cpu/sgemm.h"

#include "base/assert.h"
#include "cpu/amx/product.h"
#include "cpu/threads.h"

#include <cblas.h>
#include <stdio.h>

#ifdef PACER_HAVE_ONEDNN
#include <dnnl.h>
#endif

/* Fewer operations than this are not worth waking the other threads for. */
#define THREADS_WORTH_FLOPS 2e6

void product_square(int threads, DType dtype, void *space, int64_t n, const void *a, const void *b,
                    float *out)
{
#ifdef PACER_ISA_AMX
    if (dtype == DT_BF16) {
        BfProduct product = {.m = n, .n = n, .k = n, .a = a, .b = b, .out = out, .wide = true};
        product_amx(threads, space, product);
        return;
    }
#endif
    (void)space;
    PACER_ASSERT(dtype == DT_F32, "no products in %s", dtype_name(dtype));
    sgemm(threads, false, false, n, n, n, a, b, out, n, MODE_SET);
}

size_t product_space(int threads, DType dtype)
{
#ifdef PACER_ISA_AMX
    return dtype == DT_BF16 ? product_space_amx(threads) : 0;
#else
    (void)threads, (void)dtype;
    return 0;
#endif
}

static void set_cblas_threads(int threads)
{
#ifdef PACER_HAVE_OPENBLAS
    if (openblas_get_num_threads() != threads) {
        openblas_set_num_threads(threads);
    }
#else
    (void)threads;
#endif
}

static void sgemm_cblas(int threads, bool a_transposed, bool b_transposed, int64_t m, int64_t n,
                        int64_t k, const float *a, const float *b, float *out, int64_t out_stride,
                        Mode mode)
{
    double flops = 2.0 * (double)m * (double)n * (double)k;
    set_cblas_threads(flops < THREADS_WORTH_FLOPS ? 1 : threads);
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans,
                b_transposed ? CblasTrans : CblasNoTrans, (int)m, (int)n, (int)k, 1.0f, a,
                (int)(a_transposed ? m : k), b, (int)(b_transposed ? k : n),
                mode == MODE_ADD ? 1.0f : 0.0f, out, (int)out_stride);
}

#ifdef PACER_HAVE_ONEDNN

typedef struct {
    bool a_transposed, b_transposed;
    int64_t m, n, k;
    const float *a, *b;
    float *out, beta;
    int64_t out_stride;
} Product;

static void make_rows(const Product *p, Span rows)
{
    if (rows.first >= rows.last) {
        return;
    }
    const float *a = p->a + rows.first * (p->a_transposed ? 1 : p->k);
    dnnl_status_t status = dnnl_sgemm(
        p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', rows.last - rows.first, p->n,
        p->k, 1.0f, a, p->a_transposed ? p->m : p->k, p->b, p->b_transposed ? p->k : p->n, p->beta,
        p->out + rows.first * p->out_stride, p->out_stride);
    PACER_ASSERT(status == dnnl_success, "oneDNN says %d to a product of (%lld, %lld, %lld)",
                 (int)status, (long long)p->m, (long long)p->n, (long long)p->k);
}

/* Rows of the product are cut among pacer's own threads, each of which calls oneDNN for its part
 * (inside a parallel region oneDNN uses the calling thread alone): there is no meeting point
 * before the end, and on data that comes from memory it is faster than the library's own
 * threads. On one thread, where there is no such region, the CBLAS does the work: oneDNN 2.6
 * called so writes beyond its memory (small products, AVX-512). */
void sgemm(int threads, bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
           const float *a, const float *b, float *out, int64_t out_stride, Mode mode)
{
    if (threads == 1) {
        sgemm_cblas(1, a_transposed, b_transposed, m, n, k, a, b, out, out_stride, mode);
        return;
    }
    double flops = 2.0 * (double)m * (double)n * (double)k;
    int parts = flops < THREADS_WORTH_FLOPS ? 1 : threads;
    float beta = mode == MODE_ADD ? 1.0f : 0.0f;
    Product product = {a_transposed, b_transposed, m, n, k, a, b, out, beta, out_stride};
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        make_rows(&product, span_of_floats(m, parts, part));
    }
}

void sgemm_library(char *text, size_t size)
{
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
}

#else

void sgemm(int threads, bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
           const float *a, const float *b, float *out, int64_t out_stride, Mode mode)
{
    sgemm_cblas(threads, a_transposed, b_transposed, m, n, k, a, b, out, out_stride, mode);
}

void sgemm_library(char *text, size_t size)
{
#ifdef PACER_HAVE_OPENBLAS
    snprintf(text, size, "%s", openblas_get_config());
#else
    snprintf(text, size, "CBLAS of unknown make");
#endif
}

#endif
