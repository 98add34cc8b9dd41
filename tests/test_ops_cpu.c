/* Every op of the cpu backend against ref, by the rule of support/op_check.h: with one, two and
 * three threads, on aligned tensors and on others, with every instruction set of this machine. */
#include "support/op_check.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define DEVICES_MAX 7

typedef struct {
    OpDevice device[DEVICES_MAX];
    int count;
} Devices;

static void add_device(Devices *all, const char *name, Backend *backend, int skew)
{
    all->device[all->count++] = (OpDevice){.name = name, .backend = backend, .skew = skew};
}

/* The instruction sets beside the one that a plain start picks; a machine may lack some. */
static void add_other_isas(Devices *all)
{
    static const char *const isas[] = {"base", "v3", "v4"};
    char *before = getenv("PACER_SIMD") != NULL ? mem_strdup(getenv("PACER_SIMD")) : NULL;
    for (int i = 0; i < 3; i++) {
        setenv("PACER_SIMD", isas[i], 1);
        Backend *backend = cpu_backend_open(2);
        if (backend != NULL) {
            add_device(all, isas[i], backend, 0);
        }
    }
    unsetenv("PACER_SIMD");
    if (before != NULL) {
        setenv("PACER_SIMD", before, 1);
        free(before);
    }
}

static int open_devices(void **state)
{
    Devices *all = mem_zalloc(1, sizeof *all);
    for (int threads = 1; threads <= 3; threads++) {
        add_device(all, "cpu", cpu_backend_open(threads), 0);
    }
    add_device(all, "cpu", cpu_backend_open(2), 1);
    add_other_isas(all);
    *state = all;
    for (int i = 0; i < all->count; i++) {
        if (all->device[i].backend == NULL) {
            return -1;
        }
    }
    return 0;
}

static int close_devices(void **state)
{
    Devices *all = *state;
    for (int i = 0; i < all->count; i++) {
        all->device[i].backend->close(all->device[i].backend);
    }
    free(all);
    return 0;
}

#define X(name, text)                                                    \
    static void test_ops_cpu__##name(void **state)                       \
    {                                                                    \
        const Devices *all = *state;                                     \
        op_check_devices(all->device, all->count, OP_##name, DT_F32, 0); \
    }
PACER_OPS(X)
#undef X

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name, text) {"test_ops_cpu__" text, test_ops_cpu__##name, NULL, NULL, NULL},
        PACER_OPS(X)
#undef X
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
