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
#define MOST_WORK_BF16 3e5 /* the same code over another element type */
#else
#define MOST_WORK 0
#define MOST_WORK_BF16 0
#endif

/* bf16 where there are kernels for it: devices without have the reference's ops, and TTT has
 * none. */
static bool covers_bf16(const OpDevice *device, const OpCase *k, DType act)
{
    (void)act;
    return device->backend->low_ops != NULL && k->op != OP_TTT_FORWARD &&
           k->op != OP_TTT_BACKWARD && k->op != OP_TTT_START && k->op != OP_TTT_STEP;
}

static void check_bf16(const OpDevices *all, OpId op)
{
    OpDevice device[OP_DEVICES_MAX];
    for (int i = 0; i < all->count; i++) {
        device[i] = all->device[i];
        device[i].covers = covers_bf16;
    }
    op_check_devices(device, all->count, op, DT_BF16, MOST_WORK_BF16);
}

#define X(name, slot, fused)                                                     \
    static void test_ops_cpu__##name(void **state)                               \
    {                                                                            \
        const OpDevices *all = *state;                                           \
        op_check_devices(all->device, all->count, OP_##name, DT_F32, MOST_WORK); \
    }                                                                            \
    static void test_ops_cpu_bf16__##name(void **state)                          \
    {                                                                            \
        check_bf16(*state, OP_##name);                                           \
    }
PACER_ACT_OPS(X)
#undef X

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name, slot, fused)                                          \
    {"test_ops_cpu__" #slot, test_ops_cpu__##name, NULL, NULL, NULL}, \
        {"test_ops_cpu_bf16__" #slot, test_ops_cpu_bf16__##name, NULL, NULL, NULL},
        PACER_ACT_OPS(X)
#undef X
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
