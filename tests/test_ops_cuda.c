/* Every op of the CUDA backend against ref, by the rule of op_check.h, in f32 and bf16, with
 * each kind of attention. Without a GPU there is nothing to compare, and the program says so. */
#include "base/err.h"
#include "cuda/cuda.h"
#include "support/op_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static Backend *gpu;

static bool covers(const OpDevice *device, const OpCase *k, DType act)
{
    if (k->op != OP_ATTENTION_FORWARD && k->op != OP_ATTENTION_BACKWARD) {
        return !device->cudnn;
    }
    if (device->cudnn && k->attention == ATTENTION_NAIVE) {
        return false;
    }
    AttentionKind kind = device->cudnn ? ATTENTION_LIBRARY : k->attention;
    return backend_attention_refusal(gpu, kind, k->heads, act) == NULL;
}

/* Ops [first, last] on each device. */
static void check(const OpDevice *devices, int count, OpId first, OpId last, DType act)
{
    const char *only = getenv("PACER_TEST_OP"); /* one op, for a debugger or a sanitizer */
    for (int op = (int)first; op <= (int)last; op++) {
        if (only == NULL || strcmp(only, op_name((OpId)op)) == 0) {
            print_message("%s\n", op_name((OpId)op));
            op_check_devices(devices, count, (OpId)op, act, 0);
        }
    }
}

static void check_all(DType act)
{
    OpDevice devices[] = {{.name = "cuda", .backend = gpu, .covers = covers},
                          {.name = "cuda", .backend = gpu, .skew = 1, .covers = covers},
                          {.name = "cudnn", .backend = gpu, .cudnn = true, .covers = covers}};
    check(devices, 3, (OpId)0, OP_ATTENTION_STEP, act); /* test_quant has those behind it */
}

/* The kernels that take any shape, which in bf16 have others before them. */
static void test_ops_cuda__ttt_any_bf16(void **state)
{
    (void)state;
    OpDevice device = {.name = "cuda, general ttt", .backend = gpu, .covers = covers};
    setenv("PACER_TTT_KERNEL", "any", 1);
    check(&device, 1, OP_TTT_FORWARD, OP_TTT_BACKWARD, DT_BF16);
    unsetenv("PACER_TTT_KERNEL");
}

static void test_ops_cuda__f32(void **state)
{
    (void)state;
    check_all(DT_F32);
}

static void test_ops_cuda__bf16(void **state)
{
    (void)state;
    check_all(DT_BF16);
}

int main(void)
{
    setenv("PACER_TUNE", "off", 1); /* shapes are tiny */
    if (cuda_backend_open(0, &gpu) != 0) {
        printf("skipped: %s\n", err_message());
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_cuda__f32),
        cmocka_unit_test(test_ops_cuda__bf16),
        cmocka_unit_test(test_ops_cuda__ttt_any_bf16),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    gpu->close(gpu);
    return failed;
}
