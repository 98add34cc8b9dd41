/* The description of the machine, and its measured rates. */
#include "record/machine.h"

#include "base/clock.h"
#include "base/mem.h"
#include "support/json_assert.h"

#include <cblas.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_metrics__machine_describes_this_one(void **state)
{
    (void)state;
    Machine machine;
    machine_describe(&machine, "v3");
    char host[256];
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_string_equal(machine.host, host);
    assert_true(machine.cores >= 1 && machine.cores <= sysconf(_SC_NPROCESSORS_CONF));
    double pages = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    assert_true(fabs(machine.memory_bytes.number - pages) < 0.01 * pages);
    assert_true(strlen(machine.cpu) > 0 && strlen(machine.kernel) > 0);
    cJSON *json = machine_json(&machine);
    assert_text(json, "simd", "v3");
    assert_true(cJSON_IsNull(member(json, "sgemm_gflops")));
    assert_true(cJSON_IsNull(member(json, "ceiling_threads")));
#if defined PACER_HAVE_ONEDNN
    assert_non_null(strstr(machine.blas, "oneDNN"));
#elif defined PACER_HAVE_OPENBLAS
    assert_non_null(strstr(machine.blas, "OpenBLAS"));
#endif
    cJSON_Delete(json);
}

static bool within_twenty(double one, double other)
{
    return one > other / 20 && one < other * 20;
}

/* Against a clock around the same work: agreement within a factor finds a wrong unit or formula,
 * which is there every time; a process that had to wait is not. */
static void test_metrics__rates_have_the_right_size(void **state)
{
    (void)state;
    enum { N = 512, TRIES = 20 };
    size_t bytes = (size_t)64 << 20;
    float *block = mem_zalloc((size_t)(3 * N * N), sizeof *block);
    char *from = mem_alloc(bytes), *to = mem_alloc(bytes);
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    bool product = false, copy = false;
    for (int i = 0; i < TRIES && !(product && copy); i++) {
        Machine machine;
        machine_describe(&machine, NULL);
        machine_measure(&machine, 1, DT_F32, (Effort){0.02, EFFORT_BYTES});
        assert_int_equal(machine.threads, 1);
        assert_true(machine.sgemm_gflops.known && machine.copy_gbs.known);
        double start = clock_seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, N, N, N, 1, block, N, block + N * N,
                    N, 0, block + 2 * N * N, N);
        double gflops = 2e-9 * N * N * N / (clock_seconds() - start);
        start = clock_seconds();
        memcpy(to, from, bytes);
        double gbs = 2e-9 * (double)bytes / (clock_seconds() - start);
        assert_int_equal(to[bytes - 1], 1);
        product = product || within_twenty(machine.sgemm_gflops.number, gflops);
        copy = copy || within_twenty(machine.copy_gbs.number, gbs);
    }
    assert_true(product && copy);
    free(block);
    free(from);
    free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics__machine_describes_this_one),
        cmocka_unit_test(test_metrics__rates_have_the_right_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
