/* Fused ops of the cpu backend against the plain ops that they are made of, on the same backend: by
 * the rule of support/op_check.h with the composition as the measure, and counted as one op. */
#include "support/op_check.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#define SEED 31

/* Whether the backend fills the fused slot. */
static bool is_fused(const Backend *backend, OpId op)
{
    switch (op) {
    case OP_LINEAR_GELU_FORWARD:
        return backend->ops.linear_gelu_forward != NULL;
    case OP_LINEAR_GELU_BACKWARD_INPUT:
        return backend->ops.linear_gelu_backward_input != NULL;
    case OP_ADD_NORM_FORWARD:
        return backend->ops.add_norm_forward != NULL;
    default:
        return false;
    }
}

/* Errors of the fused op and of the composition against ref in f64. */
static void check_case(Backend *ref, Backend *device, const OpCase *k)
{
    const OpSpec *spec = op_spec(k->op);
    char label[OP_LABEL_SIZE];
    op_case_label(k, label);
    OpInput in = op_input_make(k, DT_F32, SEED);
    OpOutput truth = op_run(&in, (OpRun){.backend = ref, .act = DT_F64});
    OpOutput fused = op_run(&in, (OpRun){.backend = device, .act = DT_F32});
    OpOutput composed = op_run(&in, (OpRun){.backend = device, .act = DT_F32, .composed = true});

    assert_int_equal(fused.stats[k->op].calls, is_fused(device, k->op) ? 1 : 0);
    assert_int_equal(composed.stats[k->op].calls, 0);
    double fused_flops = 0, composed_flops = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        fused_flops += fused.stats[op].flops;
        composed_flops += composed.stats[op].flops;
    }
    assert_true(fused_flops == composed_flops);

    for (int i = 0; i < op_spec_count(spec); i++) {
        int64_t count = op_input_count(&in, i);
        if (count == 0 || !op_arg_written(&spec->arg[i])) {
            continue;
        }
        OpError error = op_error(truth.after[i], fused.after[i], count);
        OpError bar = op_error(truth.after[i], composed.after[i], count);
        if (!(error.max <= 2 * bar.max + 0x1p-22 * bar.scale_max &&
              error.rms <= 2 * bar.rms + 0x1p-22 * bar.scale_rms)) {
            fail_msg(
                "%s, %d threads: %s[%lld] fused is %.9g, composed %.9g, true %.9g; rms error %.3g "
                "beside %.3g",
                label, device->threads, spec->arg[i].name, (long long)error.worst,
                fused.after[i][error.worst], composed.after[i][error.worst],
                truth.after[i][error.worst], error.rms, bar.rms);
        }
    }
    op_output_free(&composed);
    op_output_free(&fused);
    op_output_free(&truth);
    op_input_free(&in);
}

static void check_op(OpId op)
{
    OpCase *cases = mem_alloc(OP_CASES_MAX * sizeof *cases);
    int count = op_cases(op, cases);
    Backend *ref = ref_backend_open();
    for (int threads = 1; threads <= 2; threads++) {
        Backend *device = cpu_backend_open(threads);
        assert_non_null(device);
        for (int i = 0; i < count; i++) {
            check_case(ref, device, &cases[i]);
        }
        device->close(device);
    }
    ref->close(ref);
    free(cases);
}

static void test_fused__linear_gelu_forward(void **state)
{
    (void)state;
    check_op(OP_LINEAR_GELU_FORWARD);
}

static void test_fused__linear_gelu_backward_input(void **state)
{
    (void)state;
    check_op(OP_LINEAR_GELU_BACKWARD_INPUT);
}

static void test_fused__add_norm_forward(void **state)
{
    (void)state;
    check_op(OP_ADD_NORM_FORWARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused__linear_gelu_forward),
        cmocka_unit_test(test_fused__linear_gelu_backward_input),
        cmocka_unit_test(test_fused__add_norm_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
