#include "support/op_check.h"

#include "base/mem.h"
#include "support/op_naive.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SEED 20240229
#define FEW_ELEMENTS 8
#define SMALL_OUTPUT 64 /* elements below which more draws of the input tell more (OpSpec.draws) */

OpError op_error(const double *truth, const double *values, int64_t count)
{
    OpError e = {0};
    double squares = 0, truth_squares = 0;
    for (int64_t i = 0; i < count; i++) {
        double error = fabs(values[i] - truth[i]);
        if (!(error <= e.max)) { /* also for a NaN */
            e.max = error;
            e.worst = i;
        }
        e.scale_max = fmax(e.scale_max, fabs(truth[i]));
        squares += error * error;
        truth_squares += truth[i] * truth[i];
    }
    e.rms = sqrt(squares / (double)count);
    e.scale_rms = sqrt(truth_squares / (double)count);
    return e;
}

/* Half the distance between 1 and the next number. */
static double unit_roundoff(DType dtype)
{
    return dtype == DT_F64 ? 0x1p-53 : dtype == DT_BF16 ? 0x1p-8 : 0x1p-24;
}

/* Results that a device is measured against. */
typedef struct {
    OpInput in;
    OpOutput truth;
    OpError fair[OP_ARGS_MAX]; /* of the naive sums */
} Bar;

static void check_output(const Bar *bar, int arg, const OpOutput *got, OpDevice device)
{
    const OpArg *a = &op_spec(bar->in.k.op)->arg[arg];
    char label[OP_LABEL_SIZE];
    int64_t count = op_input_count(&bar->in, arg);
    const double *truth = bar->truth.after[arg], *values = got->after[arg];
    OpError error = op_error(truth, values, count);
    OpError fair = bar->fair[arg];
    double roundoff = unit_roundoff(op_arg_tensor(a, &bar->in.k, bar->in.act).dtype);
    if (!(fair.rms <= sqrt(unit_roundoff(bar->in.act)) * fair.scale_rms)) {
        fail_msg("%s in %s: %s of ref and of naive sums disagree, rms %.3g of %.3g",
                 op_case_label(&bar->in.k, label), dtype_name(bar->in.act), a->name, fair.rms,
                 fair.scale_rms);
    }
    /* A few elements can owe a small error of the naive sums to luck; large inputs have parts that
     * are large and cancel. */
    double factor = count < FEW_ELEMENTS ? 4 : 2;
    double slack = 4 * roundoff * fmax(1, bar->in.k.scale);
    /* The rounding of a capped score is a part of the cap, whatever the score. */
    double capped = 4 * unit_roundoff(dtype_accumulate(bar->in.act)) * bar->in.k.heads.cap;
    double max_allowed = factor * fair.max + slack * fair.scale_max + capped;
    double rms_allowed = factor * fair.rms + slack * fair.scale_rms + capped;
    if (!(error.max <= max_allowed && error.rms <= rms_allowed)) {
        fail_msg("%s in %s on %s, %d threads, skew %d: %s[%lld] is %.9g, true %.9g; error at most "
                 "%.3g of %.3g allowed, rms %.3g of %.3g (value rms %.3g)",
                 op_case_label(&bar->in.k, label), dtype_name(bar->in.act), device.name,
                 device.backend->threads, device.skew, a->name, (long long)error.worst,
                 values[error.worst], truth[error.worst], error.max, max_allowed, error.rms,
                 rms_allowed, error.scale_rms);
    }
}

/* Error of the naive sums in every output of an input. */
static void naive_errors(const OpInput *in, const OpOutput *truth, Backend *naive,
                         OpError errors[OP_ARGS_MAX])
{
    const OpSpec *spec = op_spec(in->k.op);
    OpOutput out = op_run(in, (OpRun){.backend = naive, .act = in->act});
    for (int i = 0; i < op_spec_count(spec); i++) {
        int64_t count = op_input_count(in, i);
        if (count > 0 && op_arg_written(&spec->arg[i])) {
            errors[i] = op_error(truth->after[i], out.after[i], count);
        }
    }
    op_output_free(&out);
}

static Bar bar_make(const OpCase *k, DType act, Backend *ref, Backend *naive)
{
    const OpSpec *spec = op_spec(k->op);
    OpRun exact = {.backend = ref, .act = DT_F64};
    Bar bar = {.in = op_input_make(k, act, SEED)};
    bar.truth = op_run(&bar.in, exact);
    naive_errors(&bar.in, &bar.truth, naive, bar.fair);
    for (int draw = 1; draw < spec->draws; draw++) {
        OpError other[OP_ARGS_MAX] = {0};
        OpInput in = op_input_make(k, act, SEED + (uint64_t)draw);
        OpOutput truth = op_run(&in, exact);
        naive_errors(&in, &truth, naive, other);
        for (int i = 0; i < op_spec_count(spec); i++) {
            if (op_input_count(&in, i) < SMALL_OUTPUT) {
                bar.fair[i].max = fmax(bar.fair[i].max, other[i].max);
                bar.fair[i].rms = fmax(bar.fair[i].rms, other[i].rms);
                bar.fair[i].scale_max = fmax(bar.fair[i].scale_max, other[i].scale_max);
                bar.fair[i].scale_rms = fmax(bar.fair[i].scale_rms, other[i].scale_rms);
            }
        }
        op_output_free(&truth);
        op_input_free(&in);
    }
    return bar;
}

static void bar_free(Bar *bar)
{
    op_output_free(&bar->truth);
    op_input_free(&bar->in);
}

static void check_device(const Bar *bar, OpDevice device)
{
    const OpSpec *spec = op_spec(bar->in.k.op);
    char label[OP_LABEL_SIZE];
    OpRun run = {
        .backend = device.backend, .act = bar->in.act, .skew = device.skew, .cudnn = device.cudnn};
    OpOutput first = op_run(&bar->in, run), again = op_run(&bar->in, run);
    for (int i = 0; i < op_spec_count(spec); i++) {
        int64_t count = op_input_count(&bar->in, i);
        if (count == 0 || !op_arg_written(&spec->arg[i])) {
            continue;
        }
        if (memcmp(first.after[i], again.after[i], (size_t)count * sizeof(double)) != 0) {
            fail_msg("%s: %s differs between two runs on %s, %d threads",
                     op_case_label(&bar->in.k, label), spec->arg[i].name, device.name,
                     device.backend->threads);
        }
        check_output(bar, i, &first, device);
    }
    op_output_free(&first);
    op_output_free(&again);
}

void op_check_devices(const OpDevice *devices, int device_count, OpId op, DType act,
                      double most_work)
{
    OpCase *cases = mem_alloc(OP_CASES_MAX * sizeof *cases);
    int count = op_cases(op, cases);
    assert_true(count > 0);
    Backend *ref = ref_backend_open(), *naive = op_naive_open();
    for (int i = 0; i < count; i++) {
        if (most_work > 0 && op_case_work(&cases[i]) > most_work) {
            continue;
        }
        Bar bar = bar_make(&cases[i], act, ref, naive);
        for (int device = 0; device < device_count; device++) {
            if (devices[device].covers == NULL ||
                devices[device].covers(&devices[device], &cases[i], act)) {
                check_device(&bar, devices[device]);
            }
        }
        bar_free(&bar);
    }
    naive->close(naive);
    ref->close(ref);
    free(cases);
}
