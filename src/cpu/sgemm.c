#include "cpu/sgemm.h"

#include "base/assert.h"
#include "base/log.h"
#include "cpu/bf16/product.h"
#include "cpu/cpu.h"
#include "cpu/threads.h"

#include <cblas.h>
#include <ctype.h>
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef PACER_HAVE_ONEDNN
#include <dnnl.h>
#endif

/* Fewer operations than this are not worth waking the other threads for. */
#define THREADS_WORTH_FLOPS 2e6

/* A library copies the rows of a and the columns of b that it multiplies into an order of its own.
 * An element of them costs as much as so many multiply-adds. */
#define COPIED_AS_PRODUCTS 32

void product_square(int threads, DType dtype, void *space, int64_t n, const void *a, const void *b,
                    float *out)
{
#ifdef PACER_ISA_BF16
    if (dtype == DT_BF16) {
        product_bf16(threads, space,
                     (BfProduct){.engine = *cpu_bf16_engines(),
                                 .m = n,
                                 .n = n,
                                 .k = n,
                                 .a = a,
                                 .b = b,
                                 .out = out,
                                 .wide = true});
        return;
    }
#endif
    (void)space;
    PACER_ASSERT(dtype == DT_F32, "no products in %s", dtype_name(dtype));
    sgemm(threads, false, false, n, n, n, a, b, out, n, MODE_SET);
}

size_t product_space(int threads, DType dtype)
{
#ifdef PACER_ISA_BF16
    return dtype == DT_BF16 ? product_bf16_space(threads) : 0;
#else
    (void)threads, (void)dtype;
    return 0;
#endif
}

/* --- which library, and which of its kernels --- */

#ifdef PACER_HAVE_OPENBLAS

static bool core_is_chosen; /* sgemm_core_was_chosen */

/* OpenBLAS's kernels by what they need; any other name is of kernels with less than AVX2. Zen: what
 * OpenBLAS has for AMD's processors, with AVX-512 or without. */
static int core_level(const char *core)
{
    static const struct {
        const char *name;
        int level;
    } cores[] = {{"Haswell", 1},  {"Excavator", 1},  {"Zen", 2},
                 {"SkylakeX", 2}, {"Cooperlake", 2}, {"SapphireRapids", 2}};
    for (size_t i = 0; i < sizeof cores / sizeof *cores; i++) {
        if (strcasecmp(core, cores[i].name) == 0) {
            return cores[i].level;
        }
    }
    return 0;
}

/* Whether the library has these kernels: builds for a choice of processors export a table of
 * each. */
static bool has_core(const char *core)
{
    char table[64];
    int length = snprintf(table, sizeof table, "gotoblas_%s", core);
    for (int i = 0; i < length; i++) {
        table[i] = i < 9 ? table[i] : (char)toupper((unsigned char)table[i]);
    }
    return dlsym(RTLD_DEFAULT, table) != NULL;
}

const char *sgemm_better_core(void)
{
    static const char *const best[] = {NULL, "Haswell", "SkylakeX"}; /* by level */
    for (int level = cpu_level(); level > core_level(openblas_get_corename()); level--) {
        if (has_core(best[level])) {
            return best[level];
        }
    }
    return NULL;
}

bool sgemm_starts_threads(void)
{
    return openblas_get_parallel() == OPENBLAS_THREAD;
}

void sgemm_core_was_chosen(void)
{
    core_is_chosen = true;
}

static void tell_cblas(char *text, size_t size)
{
    snprintf(text, size, "%s%s", openblas_get_config(),
             core_is_chosen ? " (kernels chosen by pacer)" : "");
}

#else

const char *sgemm_better_core(void)
{
    return NULL;
}

bool sgemm_starts_threads(void)
{
    return false;
}

void sgemm_core_was_chosen(void) {}

static void tell_cblas(char *text, size_t size)
{
    snprintf(text, size, "CBLAS of unknown make");
}

#endif

/* --- products --- */

typedef struct {
    bool a_transposed, b_transposed;
    int64_t m, n, k;
    const float *a, *b;
    float *out, beta;
    int64_t out_stride;
} Product;

/* The product of some rows of a with some columns of b; all of k in any case. */
static Product part_of(const Product *whole, Span rows, Span cols)
{
    Product part = *whole;
    part.a += rows.first * (whole->a_transposed ? 1 : whole->k);
    part.b += cols.first * (whole->b_transposed ? whole->k : 1);
    part.out += rows.first * whole->out_stride + cols.first;
    part.m = rows.last - rows.first;
    part.n = cols.last - cols.first;
    return part;
}

/* On the calling thread. a_stride, b_stride: from row to row, of the whole matrices. */
static void multiply_cblas(const Product *p, int64_t a_stride, int64_t b_stride)
{
    cblas_sgemm(CblasRowMajor, p->a_transposed ? CblasTrans : CblasNoTrans,
                p->b_transposed ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, 1.0f,
                p->a, (int)a_stride, p->b, (int)b_stride, p->beta, p->out, (int)p->out_stride);
}

#ifdef PACER_HAVE_ONEDNN

static void multiply_onednn(const Product *p, int64_t a_stride, int64_t b_stride)
{
    dnnl_status_t status =
        dnnl_sgemm(p->a_transposed ? 'T' : 'N', p->b_transposed ? 'T' : 'N', p->m, p->n, p->k, 1.0f,
                   p->a, a_stride, p->b, b_stride, p->beta, p->out, p->out_stride);
    PACER_ASSERT(status == dnnl_success, "oneDNN says %d to a product of (%lld, %lld, %lld)",
                 (int)status, (long long)p->m, (long long)p->n, (long long)p->k);
}

#define multiply_part multiply_onednn
#define BY_CBLAS false

#else

#define multiply_part multiply_cblas
#define BY_CBLAS true

#endif

/* OpenBLAS's own threads are never used: those of its pthread build would compute beside OpenMP's.
 * The setting is the whole process's. OpenMP builds have no use for it: they take one thread inside
 * a parallel region, and outside as many as a region would get (multiply_alone). */
static void keep_cblas_to_one_thread(void)
{
#ifdef PACER_HAVE_OPENBLAS
    if (openblas_get_num_threads() != 1) {
        openblas_set_num_threads(1);
    }
#endif
}

static void multiply_alone(const Product *p, int64_t a_stride, int64_t b_stride)
{
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    keep_cblas_to_one_thread();
    multiply_cblas(p, a_stride, b_stride);
    omp_set_num_threads(before);
}

/* How many threads may call the CBLAS at the same time. OpenBLAS has memory for twice as many calls
 * as the threads that it was built for, and ends the process for one more. */
static int most_callers(int threads)
{
#ifdef PACER_HAVE_OPENBLAS
    const char *word = "MAX_THREADS=", *found = strstr(openblas_get_config(), word);
    long most = found != NULL ? strtol(found + strlen(word), NULL, 10) : 0;
    return most > 0 && most < threads ? (int)most : threads;
#else
    return threads;
#endif
}

/* How out (m,n) is cut into down x across parts of which every thread has one at most: for a CBLAS
 * so that the largest part takes the shortest time. oneDNN takes rows. */
typedef struct {
    int down, across;
} Grid;

static int64_t largest_part(int64_t count, int parts)
{
    Span first = span_of_floats(count, parts, 0);
    return first.last - first.first;
}

static Grid cut_for(int threads, int64_t m, int64_t n)
{
    Grid best = {threads, 1};
    double least = 0;
    for (int across = 1; across <= threads; across++) {
        Grid grid = {threads / across, across};
        double rows = (double)largest_part(m, grid.down);
        double cols = (double)largest_part(n, grid.across);
        double cost = rows * cols + COPIED_AS_PRODUCTS * (rows + cols);
        if (across == 1 || cost < least) {
            best = grid;
            least = cost;
        }
    }
    return best;
}

/* Parts of the product are made by pacer's own threads, each of which calls the library for its
 * part: there is no meeting point before the end, on data that comes from memory it is faster than
 * a library's own threads, and it does not matter which threads a CBLAS was built with. Inside a
 * parallel region oneDNN uses the calling thread alone. On one thread, where there is no such
 * region, the CBLAS does the work: oneDNN 2.6 called so writes beyond its memory (small products,
 * AVX-512). */
void sgemm(int threads, bool a_transposed, bool b_transposed, int64_t m, int64_t n, int64_t k,
           const float *a, const float *b, float *out, int64_t out_stride, Mode mode)
{
    Product product = {.a_transposed = a_transposed,
                       .b_transposed = b_transposed,
                       .m = m,
                       .n = n,
                       .k = k,
                       .a = a,
                       .b = b,
                       .out = out,
                       .beta = mode == MODE_ADD ? 1.0f : 0.0f,
                       .out_stride = out_stride};
    int64_t a_stride = a_transposed ? m : k, b_stride = b_transposed ? k : n;
    if (threads == 1 || 2.0 * (double)m * (double)n * (double)k < THREADS_WORTH_FLOPS) {
        multiply_alone(&product, a_stride, b_stride);
        return;
    }
    Grid grid = BY_CBLAS ? cut_for(most_callers(threads), m, n) : (Grid){threads, 1};
    keep_cblas_to_one_thread();
    int parts = grid.down * grid.across;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int i = 0; i < parts; i++) {
        Product part = part_of(&product, span_of_floats(m, grid.down, i / grid.across),
                               span_of_floats(n, grid.across, i % grid.across));
        if (part.m > 0 && part.n > 0) {
            multiply_part(&part, a_stride, b_stride);
        }
    }
}

void sgemm_warn(int threads)
{
    const char *core = getenv("OPENBLAS_CORETYPE") == NULL ? sgemm_better_core() : NULL;
    if (core != NULL && (threads == 1 || BY_CBLAS)) {
        log_warn(
            "OpenBLAS took kernels that are too old for this processor, and products of matrices "
            "in f32 take several times as long: start the program with OPENBLAS_CORETYPE=%s",
            core);
    }
}

void sgemm_library(char *text, size_t size)
{
    char cblas[160];
    tell_cblas(cblas, sizeof cblas);
#ifdef PACER_HAVE_ONEDNN
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, size, "oneDNN %d.%d.%d beside %s", version->major, version->minor,
             version->patch, cblas);
#else
    snprintf(text, size, "%s", cblas);
#endif
}
