/* Every op of the cpu backend against ref, by the rule of support/op_check.h: with one, two and
 * three threads, on aligned tensors and on others, with every instruction set of this machine. */
#include "support/op_devices.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static int open_devices(void **state)
{
    OpDevices *all = mem_zalloc(1, sizeof *all);
    *state = all;
    return op_devices_open_cpu(all);
}

static int close_devices(void **state)
{
    op_devices_close(*state);
    free(*state);
    return 0;
}

/* Under a sanitizer ref takes most of the time; the largest shapes are left to the plain build. */
#ifdef __SANITIZE_ADDRESS__
#define MOST_WORK 3e6
#else
#define MOST_WORK 0
#endif

#define X(name, slot, fused)                                                     \
    static void test_ops_cpu__##name(void **state)                               \
    {                                                                            \
        const OpDevices *all = *state;                                           \
        op_check_devices(all->device, all->count, OP_##name, DT_F32, MOST_WORK); \
    }
PACER_ACT_OPS(X)
#undef X

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name, slot, fused) {"test_ops_cpu__" #slot, test_ops_cpu__##name, NULL, NULL, NULL},
        PACER_ACT_OPS(X)
#undef X
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
