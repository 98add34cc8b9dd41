/* Products of f32 matrices against plain loops: whatever number of threads they are cut for, rows
 * and columns in odd numbers, a result that lies inside a wider matrix; and which kernels of
 * OpenBLAS suit the processor. */
#include "base/mem.h"
#include "base/rng.h"
#include "cpu/cpu.h"
#include "cpu/sgemm.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef PACER_HAVE_OPENBLAS
#include <cblas.h>
#endif

#define BEYOND 3 /* columns of the matrix that out is a part of, behind it */
#define MARK -77.0f

typedef struct {
    int64_t m, n, k;
} Shape;

static float at(const float *x, bool transposed, int64_t rows, int64_t cols, int64_t i, int64_t j)
{
    return transposed ? x[j * rows + i] : x[i * cols + j];
}

/* What is not the product's stays; the rest is within f32's rounding of k products and sums. */
static void compare(Shape s, const float *a, bool a_transposed, const float *b, bool b_transposed,
                    const float *out, Mode mode)
{
    int64_t stride = s.n + BEYOND;
    for (int64_t i = 0; i < s.m; i++) {
        for (int64_t j = 0; j < stride; j++) {
            float got = out[i * stride + j];
            if (j >= s.n) {
                assert_true(got == MARK);
                continue;
            }
            double sum = mode == MODE_ADD ? MARK : 0, size = fabs(sum);
            for (int64_t l = 0; l < s.k; l++) {
                double product = (double)at(a, a_transposed, s.m, s.k, i, l) *
                                 (double)at(b, b_transposed, s.k, s.n, l, j);
                sum += product;
                size += fabs(product);
            }
            double bound = 1.2e-7 * (double)(s.k + 2) * size;
            if (!(fabs(got - sum) <= bound)) {
                fail_msg("(%lld, %lld, %lld): element (%lld, %lld) is %.9g, not %.9g",
                         (long long)s.m, (long long)s.n, (long long)s.k, (long long)i, (long long)j,
                         (double)got, sum);
            }
        }
    }
}

static void check(Shape s, int threads, bool a_transposed, bool b_transposed, Mode mode)
{
    size_t size = (size_t)(s.m * (s.n + BEYOND));
    float *a = mem_alloc((size_t)(s.m * s.k) * sizeof *a);
    float *b = mem_alloc((size_t)(s.k * s.n) * sizeof *b);
    float *out = mem_alloc(size * sizeof *out), *again = mem_alloc(size * sizeof *again);
    rng_normals(1, 2, 0, (uint64_t)(s.m * s.k), a);
    rng_normals(1, 3, 0, (uint64_t)(s.k * s.n), b);
    for (size_t i = 0; i < size; i++) {
        out[i] = again[i] = MARK;
    }
    sgemm(threads, a_transposed, b_transposed, s.m, s.n, s.k, a, b, out, s.n + BEYOND, mode);
    sgemm(threads, a_transposed, b_transposed, s.m, s.n, s.k, a, b, again, s.n + BEYOND, mode);
    assert_memory_equal(out, again, size * sizeof *out);
    compare(s, a, a_transposed, b, b_transposed, out, mode);
    free(a);
    free(b);
    free(out);
    free(again);
}

static void every_cut_gives_the_product(void **state)
{
    (void)state;
    /* Too small for several threads; wide; high; deep; a part of few columns for each of many. */
    const Shape shapes[] = {
        {7, 5, 3}, {33, 1000, 40}, {1000, 33, 40}, {65, 67, 501}, {17, 900, 90}};
    const int threads[] = {1, 2, 3, 5, 16};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            for (int kind = 0; kind < 8; kind++) {
                check(shapes[i], threads[t], kind & 1, kind & 2, kind & 4 ? MODE_ADD : MODE_SET);
            }
        }
    }
}

/* The CBLAS starts no threads of its own, and the host program's number of threads stays. */
static void threads_of_the_library_are_not_used(void **state)
{
    (void)state;
    omp_set_num_threads(3);
    check((Shape){33, 1000, 40}, 2, false, true, MODE_SET);
    check((Shape){33, 1000, 40}, 1, false, true, MODE_SET);
    assert_int_equal(omp_get_max_threads(), 3);
#ifdef PACER_HAVE_OPENBLAS
    if (openblas_get_parallel() == OPENBLAS_THREAD) {
        assert_int_equal(openblas_get_num_threads(), 1);
    }
#endif
}

static void kernels_suit_the_processor(void **state)
{
    (void)state;
    const char *better = sgemm_better_core();
    char text[192];
    sgemm_library(text, sizeof text);
#ifdef PACER_HAVE_OPENBLAS
    const char *core = openblas_get_corename();
    bool wide = strcmp(core, "SkylakeX") == 0 || strcmp(core, "Cooperlake") == 0 ||
                strcmp(core, "SapphireRapids") == 0;
    if (wide || strcmp(core, "Zen") == 0 || cpu_level() == 0) {
        assert_null(better);
    } else if (cpu_level() == 2 && better != NULL) {
        assert_true(strcmp(better, "SkylakeX") == 0 || strcmp(core, "Haswell") != 0);
    }
    assert_non_null(strstr(text, core));
    assert_null(strstr(text, "chosen by pacer"));
    sgemm_core_was_chosen();
    sgemm_library(text, sizeof text);
    assert_non_null(strstr(text, "chosen by pacer"));
#else
    assert_null(better);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_gives_the_product),
        cmocka_unit_test(threads_of_the_library_are_not_used),
        cmocka_unit_test(kernels_suit_the_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
