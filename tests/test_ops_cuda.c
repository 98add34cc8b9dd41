/* Every op of the CUDA backend against ref, by the rule of op_check.h, in f32 and bf16, with each kind of
 * attention. Without a GPU there is nothing to compare, and the program says so. */
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
    AttentionKind kind = device->cudnn ? ATTENTION_CUDNN : k->attention;
    return cuda_attention_refusal(gpu, kind, k->heads, act) == NULL;
}

static void check(DType act)
{
    const char *only = getenv("PACER_TEST_OP"); /* one op, for a debugger or a sanitizer */
    OpDevice devices[] = {{.name = "cuda", .backend = gpu, .covers = covers},
                          {.name = "cuda", .backend = gpu, .skew = 1, .covers = covers},
                          {.name = "cudnn", .backend = gpu, .cudnn = true, .covers = covers}};
    for (int op = 0; op < OP_COUNT; op++) {
        if (only == NULL || strcmp(only, op_name((OpId)op)) == 0) {
            print_message("%s\n", op_name((OpId)op));
            op_check_devices(devices, 3, (OpId)op, act, 0);
        }
    }
}

/* The general kernels of test-time training where those on tensor cores would be taken. */
static void test_ops_cuda__ttt_any_bf16(void **state)
{
    (void)state;
    OpDevice device = {.name = "cuda, general ttt", .backend = gpu, .covers = covers};
    setenv("PACER_TTT_KERNEL", "any", 1);
    op_check_devices(&device, 1, OP_TTT_FORWARD, DT_BF16, 0);
    op_check_devices(&device, 1, OP_TTT_BACKWARD, DT_BF16, 0);
    unsetenv("PACER_TTT_KERNEL");
}

static void test_ops_cuda__f32(void **state)
{
    (void)state;
    check(DT_F32);
}

static void test_ops_cuda__bf16(void **state)
{
    (void)state;
    check(DT_BF16);
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
