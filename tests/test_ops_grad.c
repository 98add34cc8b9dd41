/* Backward ops of ref against central differences of its forward ops, in f64.
 *
 * The loss is the sum of a forward op's outputs times random weights, which are the incoming
 * gradient of the backward op. Arguments of the two ops are matched by name: what both name is
 * shared, "dX" is the weight of a forward output X and the gradient of a forward input X. Every
 * element of a small input is moved by itself; of a large one some, and the whole of it in random
 * directions.
 * op_run adds its own checks: gradients to be assigned start as NaN, inputs stay as they are, and
 * outputs that may be inputs are. */
#include "support/op_harness.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SEED 77
#define STEP 2e-5
#define TOLERANCE 3e-7
/* Under a sanitizer, which slows ref down, the small shapes do. */
#ifdef __SANITIZE_ADDRESS__
#define MOST_WORK 2e4
#else
#define MOST_WORK 2e6 /* of a case; differences take hundreds of passes */
#endif
#define ALL_BELOW 64 /* elements that are moved one by one */
#define SOME 6       /* elements, and as many directions, of larger inputs */

/* A scalar function of the values of one argument of a forward case. */
typedef struct {
    OpInput in;
    OpRun run;
    const double *weights; /* of output `out` */
    int out;
} Loss;

static double loss_at(const Loss *loss, int arg, const double *x)
{
    OpInput in = loss->in;
    in.before[arg] = (double *)x;
    OpOutput out = op_run(&in, loss->run);
    double sum = 0;
    for (int64_t i = 0; i < op_input_count(&in, loss->out); i++) {
        sum += out.after[loss->out][i] * loss->weights[i];
    }
    op_output_free(&out);
    return sum;
}

/* Slope of the loss at argument `arg` in `direction`, whose root mean square is about 1. */
static double slope_along(const Loss *loss, int arg, const double *direction, int64_t count)
{
    double *x = mem_alloc((size_t)count * sizeof *x);
    double side[2];
    for (int s = 0; s < 2; s++) {
        for (int64_t i = 0; i < count; i++) {
            x[i] = loss->in.before[arg][i] + (s == 0 ? STEP : -STEP) * direction[i];
        }
        side[s] = loss_at(loss, arg, x);
    }
    free(x);
    return (side[0] - side[1]) / (2 * STEP);
}

/* gradient (count) against differences of the loss in argument `arg`. */
static void check_gradient(const Loss *loss, int arg, const double *gradient, int64_t count,
                           const char *label)
{
    double *direction = mem_zalloc((size_t)count, sizeof *direction);
    float *normals = mem_alloc((size_t)count * sizeof *normals);
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        squares += gradient[i] * gradient[i];
    }
    double rms = sqrt(squares / (double)count);
    int64_t singles = count < ALL_BELOW ? count : SOME;
    for (int64_t s = 0; s < singles; s++) {
        int64_t i =
            count < ALL_BELOW ? s : (int64_t)rng_below(SEED, 1, (uint64_t)s, (uint64_t)count);
        direction[i] = 1;
        double slope = slope_along(loss, arg, direction, count);
        direction[i] = 0;
        if (!(fabs(slope - gradient[i]) <= TOLERANCE * (rms + fabs(gradient[i])))) {
            fail_msg("%s: gradient [%lld] is %.12g, differences give %.12g", label, (long long)i,
                     gradient[i], slope);
        }
    }
    for (int d = 0; count >= ALL_BELOW && d < SOME; d++) {
        rng_normals(SEED, 2 + (uint64_t)d, 0, (uint64_t)count, normals);
        double along = 0;
        for (int64_t i = 0; i < count; i++) {
            direction[i] = normals[i];
            along += gradient[i] * direction[i];
        }
        double slope = slope_along(loss, arg, direction, count);
        if (!(fabs(slope - along) <= TOLERANCE * sqrt(squares))) {
            fail_msg("%s: slope in direction %d is %.12g, differences give %.12g", label, d, along,
                     slope);
        }
    }
    free(normals);
    free(direction);
}

/* What the backward op put into or added to argument `arg`; caller frees. */
static double *contribution(const OpInput *in, const OpOutput *out, int arg)
{
    int64_t count = op_input_count(in, arg);
    bool adds = op_arg_reads_old(&op_spec(in->k.op)->arg[arg], &in->k);
    double *values = mem_alloc((size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++) {
        values[i] = out->after[arg][i] - (adds ? in->before[arg][i] : 0);
    }
    return values;
}

/* Gives the backward case the values of the forward pass that it names. */
static void share_values(OpInput *back, const OpInput *in, const OpOutput *out)
{
    const OpSpec *spec = op_spec(in->k.op), *back_spec = op_spec(back->k.op);
    for (int i = 0; i < op_spec_count(back_spec); i++) {
        int same = op_spec_find(spec, back_spec->arg[i].name, &in->k);
        if (back->before[i] != NULL && same >= 0) {
            op_input_set(back, i, out->after[same]);
        }
    }
    op_input_follow(back);
}

/* Number of gradients checked. */
static int check_case(Backend *ref, OpId forward, const OpCase *backward)
{
    OpRun run = {.backend = ref, .act = DT_F64};
    OpCase k = *backward;
    k.op = forward;
    k.alias = 0;
    k.option = true; /* so that every input exists that backward may have a gradient of */
    OpInput in = op_input_make(&k, DT_F64, SEED);
    OpOutput out = op_run(&in, run);
    OpInput back = op_input_make(backward, DT_F64, SEED + 1);
    share_values(&back, &in, &out);
    OpOutput gradients = op_run(&back, run);

    const OpSpec *spec = op_spec(forward), *back_spec = op_spec(backward->op);
    Loss loss = {.in = in, .run = run};
    int checked = 0;
    char name[64], label[OP_LABEL_SIZE], text[OP_LABEL_SIZE + 64];
    for (int i = 0; i < op_spec_count(spec); i++) {
        snprintf(name, sizeof name, "d%s", spec->arg[i].name);
        int at = op_spec_find(back_spec, name, backward);
        if (at >= 0 && spec->arg[i].use == USE_OUT) {
            loss.out = i;
            loss.weights = back.before[at];
        }
    }
    assert_non_null(loss.weights);
    for (int i = 0; i < op_spec_count(spec); i++) {
        snprintf(name, sizeof name, "d%s", spec->arg[i].name);
        int at = op_spec_find(back_spec, name, backward);
        if (at >= 0 && spec->arg[i].use == USE_IN) {
            snprintf(text, sizeof text, "%s: %s", op_case_label(backward, label), name);
            double *gradient = contribution(&back, &gradients, at);
            check_gradient(&loss, i, gradient, op_input_count(&in, i), text);
            free(gradient);
            checked++;
        }
    }
    op_output_free(&gradients);
    op_input_free(&back);
    op_output_free(&out);
    op_input_free(&in);
    return checked;
}

/* A norm over one element is a step of height 2 and width sqrt(eps): no place for differences. */
static bool is_smooth(const OpCase *k)
{
    return k->op != OP_NORM_BACKWARD || k->width > 1;
}

static void check_pair_below(double most_work, OpId forward, OpId backward, int gradients)
{
    OpCase *cases = mem_alloc(OP_CASES_MAX * sizeof *cases);
    int count = op_cases(backward, cases), most = 0;
    Backend *ref = ref_backend_open();
    for (int i = 0; i < count; i++) {
        if (op_case_work(&cases[i]) < most_work && is_smooth(&cases[i])) {
            int checked = check_case(ref, forward, &cases[i]);
            most = checked > most ? checked : most;
        }
    }
    assert_int_equal(most, gradients);
    ref->close(ref);
    free(cases);
}

static void check_pair(OpId forward, OpId backward, int gradients)
{
    check_pair_below(MOST_WORK, forward, backward, gradients);
}

static void test_ops_grad__embed(void **state)
{
    (void)state;
    check_pair(OP_EMBED_FORWARD, OP_EMBED_BACKWARD, 2);
}

static void test_ops_grad__linear_input(void **state)
{
    (void)state;
    check_pair(OP_LINEAR_FORWARD, OP_LINEAR_BACKWARD_INPUT, 1);
}

static void test_ops_grad__linear_weight(void **state)
{
    (void)state;
    check_pair(OP_LINEAR_FORWARD, OP_LINEAR_BACKWARD_WEIGHT, 2);
}

static void test_ops_grad__norm(void **state)
{
    (void)state;
    check_pair(OP_NORM_FORWARD, OP_NORM_BACKWARD, 3);
}

static void test_ops_grad__head_norm(void **state)
{
    (void)state;
    check_pair(OP_HEAD_NORM_FORWARD, OP_HEAD_NORM_BACKWARD, 3);
}

static void test_ops_grad__attention(void **state)
{
    (void)state;
    check_pair(OP_ATTENTION_FORWARD, OP_ATTENTION_BACKWARD, 1);
}

static void test_ops_grad__gated(void **state)
{
    (void)state;
    check_pair(OP_GATED_FORWARD, OP_GATED_BACKWARD, 1);
}

static void test_ops_grad__act(void **state)
{
    (void)state;
    check_pair(OP_ACT_FORWARD, OP_ACT_BACKWARD, 1);
}

/* The input and eight parameters. A forward pass of ref takes some passes of `work`, and there
 * are many. */
static void test_ops_grad__ttt(void **state)
{
    (void)state;
    check_pair_below(1e5, OP_TTT_FORWARD, OP_TTT_BACKWARD, 9);
}

/* Rope in place: the gradient of its input is that of its output, rotated back. */
static void test_ops_grad__rope(void **state)
{
    (void)state;
    OpCase *cases = mem_alloc(OP_CASES_MAX * sizeof *cases);
    int count = op_cases(OP_ROPE, cases);
    Backend *ref = ref_backend_open();
    OpRun run = {.backend = ref, .act = DT_F64};
    for (int i = 0; i < count; i++) {
        OpCase opposite = cases[i];
        opposite.flag = !opposite.flag;
        OpInput weights = op_input_make(&opposite, DT_F64, SEED + 1);
        OpOutput gradient = op_run(&weights, run);
        Loss loss = {
            .in = op_input_make(&cases[i], DT_F64, SEED), .run = run, .weights = weights.before[0]};
        char label[OP_LABEL_SIZE];
        check_gradient(&loss, 0, gradient.after[0], op_input_count(&loss.in, 0),
                       op_case_label(&cases[i], label));
        op_input_free(&loss.in);
        op_output_free(&gradient);
        op_input_free(&weights);
    }
    ref->close(ref);
    free(cases);
}

/* The op's own scale is the weight of every row's loss. Rows without a target are in the cases. */
static void test_ops_grad__xent(void **state)
{
    (void)state;
    OpCase *cases = mem_alloc(OP_CASES_MAX * sizeof *cases);
    int count = op_cases(OP_XENT, cases);
    Backend *ref = ref_backend_open();
    OpRun run = {.backend = ref, .act = DT_F64};
    for (int i = 0; i < count; i++) {
        /* The difference of two sums over thousands of rows has no digits left for one logit, nor
         * that of two losses for one of many that a cap has brought together. */
        if (!cases[i].option || cases[i].rows > 1000 ||
            (cases[i].cap > 0 && cases[i].outs > 100000)) {
            continue;
        }
        OpInput in = op_input_make(&cases[i], DT_F64, SEED);
        OpOutput gradient = op_run(&in, run);
        double *weights = mem_alloc((size_t)cases[i].rows * sizeof *weights);
        for (int64_t n = 0; n < cases[i].rows; n++) {
            weights[n] = 0.37; /* the scale that op_spec.c passes */
        }
        Loss loss = {.in = in, .run = run, .weights = weights, .out = 2};
        loss.in.k.option = false;
        char label[OP_LABEL_SIZE];
        check_gradient(&loss, 0, gradient.after[0], op_input_count(&in, 0),
                       op_case_label(&cases[i], label));
        for (int64_t e = 0; e < op_input_count(&in, 0); e++) {
            if (in.before[1][e / cases[i].outs] < 0) {
                assert_true(gradient.after[0][e] == 0);
                assert_true(gradient.after[2][e / cases[i].outs] == 0);
            }
        }
        free(weights);
        op_output_free(&gradient);
        op_input_free(&in);
    }
    ref->close(ref);
    free(cases);
}

/* The loss of `pre` is weights . (gelu(pre) w^T), that is dact . gelu(pre) with dact = weights w;
 * the differences go through act_forward, and dact is summed here. */
static void test_ops_grad__linear_gelu_input(void **state)
{
    (void)state;
    OpCase *cases = mem_alloc(OP_CASES_MAX * sizeof *cases);
    int count = op_cases(OP_LINEAR_GELU_BACKWARD_INPUT, cases);
    Backend *ref = ref_backend_open();
    OpRun run = {.backend = ref, .act = DT_F64};
    for (int i = 0; i < count; i++) {
        OpCase k = cases[i];
        if (op_case_work(&k) > MOST_WORK) {
            continue;
        }
        OpInput back = op_input_make(&k, DT_F64, SEED);
        OpOutput gradient = op_run(&back, run);
        double *dact = mem_zalloc((size_t)(k.rows * k.width), sizeof *dact);
        for (int64_t e = 0; e < k.rows * k.width * k.outs; e++) {
            int64_t n = e / k.outs / k.width, column = e / k.outs % k.width, o = e % k.outs;
            dact[n * k.width + column] +=
                back.before[0][n * k.outs + o] * back.before[1][o * k.width + column];
        }
        OpCase gelu = {.op = OP_ACT_FORWARD, .act = ACT_GELU, .rows = k.rows, .width = k.width};
        Loss loss = {
            .in = op_input_make(&gelu, DT_F64, SEED), .run = run, .weights = dact, .out = 1};
        op_input_set(&loss.in, 0, back.before[2]);
        char label[OP_LABEL_SIZE];
        check_gradient(&loss, 0, gradient.after[3], k.rows * k.width, op_case_label(&k, label));
        op_input_free(&loss.in);
        free(dact);
        op_output_free(&gradient);
        op_input_free(&back);
    }
    ref->close(ref);
    free(cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_grad__embed),
        cmocka_unit_test(test_ops_grad__linear_input),
        cmocka_unit_test(test_ops_grad__linear_weight),
        cmocka_unit_test(test_ops_grad__linear_gelu_input),
        cmocka_unit_test(test_ops_grad__norm),
        cmocka_unit_test(test_ops_grad__head_norm),
        cmocka_unit_test(test_ops_grad__rope),
        cmocka_unit_test(test_ops_grad__attention),
        cmocka_unit_test(test_ops_grad__gated),
        cmocka_unit_test(test_ops_grad__act),
        cmocka_unit_test(test_ops_grad__xent),
        cmocka_unit_test(test_ops_grad__ttt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
