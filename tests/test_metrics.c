/* The description of the machine, and its measured rates. */
#include "metrics/machine.h"

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

/* Against a clock around the same work: agreement within a factor finds a wrong unit or formula. */
static void test_metrics__rates_have_the_right_size(void **state)
{
    (void)state;
    Machine machine;
    machine_describe(&machine, NULL);
    machine_measure(&machine, 1, 0.02);
    assert_int_equal(machine.threads, 1);
    const int n = 512;
    float *block = mem_zalloc((size_t)(3 * n * n), sizeof *block);
    double best = INFINITY;
    for (int i = 0; i < 4; i++) {
        double start = clock_seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, block, n, block + n * n,
                    n, 0, block + 2 * n * n, n);
        best = fmin(best, clock_seconds() - start);
    }
    double gflops = 2.0 * n * n * n / best / 1e9;
    assert_true(machine.sgemm_gflops.known && machine.copy_gbs.known);
    assert_true(machine.sgemm_gflops.number > gflops / 20 &&
                machine.sgemm_gflops.number < gflops * 20);
    free(block);
    size_t bytes = (size_t)64 << 20;
    char *from = mem_alloc(bytes), *to = mem_alloc(bytes);
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    double start = clock_seconds();
    memcpy(to, from, bytes);
    double gbs = 2.0 * (double)bytes / (clock_seconds() - start) / 1e9;
    assert_int_equal(to[bytes - 1], 1);
    assert_true(machine.copy_gbs.number > gbs / 20 && machine.copy_gbs.number < gbs * 20);
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
