/* Muon: the momentum of a matrix, with its singular values made equal, is the step. In terms of
 * torch.optim.Muon with Nesterov's momentum and adjust_lr_fn="match_rms_adamw":
 *
 *   m = mu m + g;  u = g + mu m;  x = u / |u|
 *   five times: a = x x^T, x = 3.4445 x - 4.7750 a x + 2.0315 a a x
 *   w -= lr (0.2 sqrt(max(rows, columns)) x + decay w)
 *
 * The iteration brings all singular values near 1, so the size of m does not matter. The last
 * line's factor makes the step's root mean square about 0.2, as AdamW's is, so that one rate suits
 * both. A matrix with more rows than columns multiplies by x^T x from the right instead: that is
 * the smaller square, and the same result.
 *
 * Composed from ops that every backend has. What looks odd has these reasons:
 *   - m = mu m + g with clipping is op_sgd with rate 0; and once more on a copy of m, u.
 *   - 1 / |u| stays in backend memory: op_sgd clips by norm_sq, here that of u, and the limit is so
 *     small that everything is clipped. UNIT_SCALE takes the limit, and the 1e-6 that op_sgd adds
 *     to a norm, out of the range of u.
 *   - u and then the step lie where the gradient was, so that ranks can exchange them. */
#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

#define NS_A 3.4445
#define NS_B (-4.7750)
#define NS_C 2.0315
#define MATCH_ADAMW 0.2

#define UNIT_NORM 0x1p-40f /* largest norm: u becomes UNIT_NORM / sqrt(UNIT_SCALE) u / |u| */
#define UNIT_SCALE 0x1p40  /* of |u|^2 before it is compared */
#define UNIT_BACK 0x1p60   /* sqrt(UNIT_SCALE) / UNIT_NORM */

enum { ROW_MOMENTUM, ROW_UNIT, ROW_STEP, MUON_HYPERS };

/* Orthogonal steps grow with the root of the width; wider models need rates that fall with it. */
static void fill_hyper(const OptimizerSettings *s, double rate, double growth, int64_t step,
                       float *hyper)
{
    (void)step;
    memset(hyper, 0, MUON_HYPERS * HYPER_COUNT * sizeof *hyper);
    float *momentum = hyper + ROW_MOMENTUM * HYPER_COUNT, *last = hyper + ROW_STEP * HYPER_COUNT;
    momentum[HYPER_BETA1] = (float)s->momentum;
    momentum[HYPER_CLIP] = (float)s->clip;
    hyper[ROW_UNIT * HYPER_COUNT + HYPER_CLIP] = UNIT_NORM;
    last[HYPER_LR] = (float)(rate / sqrt(growth));
    last[HYPER_DECAY] = (float)(s->weight_decay * sqrt(growth));
}

/* Squares of the smaller side, and what a product of bf16 is summed in; none where products are in
 * that type themselves. */
typedef struct {
    Tensor gram, poly, part; /* (k,k) each */
    Tensor sum;              /* (k,k) acc */
} Squares;

/* y = factor (NS_A x + NS_B a x + NS_C a a x), a = x x^T, or the same from the right. x, y (R,C).
 * a is symmetric: a a^T is a a. */
static void iterate(Ctx *c, Tensor x, Tensor y, const Squares *s, double factor)
{
    bool wide = x.dim[0] <= x.dim[1];
    if (wide) {
        op_linear_forward(c, x, x, TENSOR_NONE, s->gram);
    } else if (tensor_given(s->sum)) {
        op_linear_backward_weight(c, x, x, s->sum, TENSOR_NONE, MODE_SET);
        op_cast(c, s->sum, s->gram);
    } else {
        op_linear_backward_weight(c, x, x, s->gram, TENSOR_NONE, MODE_SET);
    }
    op_scale(c, s->gram, factor * NS_B, 0, s->poly);
    op_scale(c, s->gram, factor * NS_C, 0, s->part);
    op_linear_backward_input(c, s->part, s->gram, s->poly, MODE_ADD);
    op_scale(c, x, factor * NS_A, 0, y);
    op_linear_backward_input(c, wide ? s->poly : x, wide ? x : s->poly, y, MODE_ADD);
}

static Tensor flat(Tensor t)
{
    return tensor_1d(t.data, t.dtype, tensor_count(t));
}

static Tensor hyper_row(const Optimizer *o, int hyper, int row)
{
    return tensor_rows(o->hyper, (int64_t)(hyper + row) * HYPER_COUNT, HYPER_COUNT);
}

static Tensor scratch_like(Ctx *c, Tensor t)
{
    return flat(ctx_scratch(c, MEM_SCRATCH, t.dtype, 1, tensor_count(t)));
}

/* Gradient to u. Weights stay: the rate is 0. */
static void begin(Ctx *c, const Optimizer *o, int hyper, UpdateArgs args)
{
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor u = scratch_like(c, args.grad);
    args.low = args.param.dtype == DT_REST ? args.low : TENSOR_NONE; /* it is a part of param */
    args.decay = false;
    args.hyper = hyper_row(o, hyper, ROW_MOMENTUM);
    bool rounded = args.state[0].dtype != u.dtype;
    if (rounded) { /* m of this update, as it is before it is rounded */
        op_cast(c, args.state[0], u);
    }
    op_sgd(c, args);
    if (!rounded) {
        op_cast(c, args.state[0], u);
    }
    args.state[0] = u;
    for (int i = 0; i < (rounded ? 2 : 1); i++) {
        op_sgd(c, args);
    }
    op_cast(c, u, args.grad);
    arena_release(&c->scratch, mark);
}

/* x (n) = u / |u| / UNIT_BACK. unused (n) is no weight, but has a rate of 0 as one. */
static void make_unit(Ctx *c, const Optimizer *o, int hyper, Tensor u, Tensor x, Tensor unused)
{
    Tensor norm_sq = flat(ctx_scratch(c, MEM_SCRATCH, u.dtype, 1, 1));
    op_sum_squares(c, u, norm_sq, MODE_SET);
    op_scale(c, norm_sq, UNIT_SCALE, 0, norm_sq);
    op_cast(c, u, x);
    op_sgd(c, (UpdateArgs){.param = unused,
                           .grad = u,
                           .state = {x},
                           .hyper = hyper_row(o, hyper, ROW_UNIT),
                           .norm_sq = norm_sq,
                           .tokens = 1});
}

/* u to the step of rate 1. */
static void shape(Ctx *c, const Optimizer *o, int hyper, Tensor u)
{
    int64_t rows = u.dim[0], columns = u.dim[1], side = rows < columns ? rows : columns;
    DType acc = u.dtype, type = o->products;
    ArenaMark mark = arena_mark(&c->scratch);
    Tensor from = ctx_scratch(c, MEM_SCRATCH, acc, rows, columns);
    Tensor to = ctx_scratch(c, MEM_SCRATCH, acc, rows, columns);
    make_unit(c, o, hyper, flat(u), flat(from), flat(to));
    Squares squares = {.gram = ctx_scratch(c, MEM_SCRATCH, type, side, side),
                       .poly = ctx_scratch(c, MEM_SCRATCH, type, side, side),
                       .part = ctx_scratch(c, MEM_SCRATCH, type, side, side)};
    if (type != acc) {
        Tensor unit = from;
        squares.sum = ctx_scratch(c, MEM_SCRATCH, acc, side, side);
        from = ctx_scratch(c, MEM_SCRATCH, type, rows, columns);
        to = ctx_scratch(c, MEM_SCRATCH, type, rows, columns);
        op_cast(c, unit, from);
    }
    op_scale(c, from, UNIT_BACK, 0, from);
    double scale = MATCH_ADAMW * sqrt((double)(rows > columns ? rows : columns));
    for (int i = 0; i < o->settings.muon_steps; i++) {
        iterate(c, from, to, &squares, i + 1 < o->settings.muon_steps ? 1 : scale);
        Tensor made = to;
        to = from;
        from = made;
    }
    op_cast(c, from, u);
    arena_release(&c->scratch, mark);
}

/* The step is taken, by op_sgd without momentum: 0 times a buffer of numbers. */
static void update(Ctx *c, const Optimizer *o, int hyper, UpdateArgs args)
{
    ArenaMark mark = arena_mark(&c->scratch);
    args.state[0] = scratch_like(c, args.grad);
    args.hyper = hyper_row(o, hyper, ROW_STEP);
    args.as_is = true;
    op_cast(c, args.grad, args.state[0]);
    op_sgd(c, args);
    arena_release(&c->scratch, mark);
}

const UpdateRule rule_muon = {.states = 1,
                              .state_names = {"momentum"},
                              .hypers = MUON_HYPERS,
                              .fill_hyper = fill_hyper,
                              .begin = begin,
                              .shape = shape,
                              .update = update};
