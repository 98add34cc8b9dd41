/* The wrappers of ops over elements and flat ranges: sums of two tensors, activations, the loss,
 * sums, the optimizer, and what looks at exact bits. See ops.c for what a wrapper does and how
 * it counts. */
#include "tensor/ops_internal.h"

void op_add(Ctx *c, Tensor a, Tensor b, Tensor out)
{
    CHECK_SAME(a, b);
    CHECK_SAME(a, out);
    OpCall call = op_begin(c, OP_ADD, 0, 3 * bytes_of(out), 0, shape_of(out));
    DISPATCH(call, ops_for(c, out.dtype)->add(c, a, b, out));
}

void op_scale(Ctx *c, Tensor x, double factor, double cap, Tensor out)
{
    CHECK_SAME(x, out);
    OpCall call = op_begin(c, OP_SCALE, 0, 2 * bytes_of(out), 0, shape_of(out));
    DISPATCH(call, ops_for(c, out.dtype)->scale(c, x, factor, cap, out));
}

void op_gated_forward(Ctx *c, Activation act, Tensor gate_up, Tensor y)
{
    CHECK_SHAPE_2D(gate_up, y.dim[0], 2 * y.dim[1]);
    CHECK_DTYPE(gate_up, y.dtype);
    OpCall call = op_begin(c, OP_GATED_FORWARD, 0, 3 * bytes_of(y), 0, shape_of(y));
    DISPATCH(call, ops_for(c, y.dtype)->gated_forward(c, act, gate_up, y));
}

void op_gated_backward(Ctx *c, Activation act, Tensor dy, Tensor gate_up, Tensor dgate_up)
{
    CHECK_SHAPE_2D(gate_up, dy.dim[0], 2 * dy.dim[1]);
    CHECK_SAME(gate_up, dgate_up);
    CHECK_DTYPE(gate_up, dy.dtype);
    OpCall call = op_begin(c, OP_GATED_BACKWARD, 0, 5 * bytes_of(dy), 0, shape_of(dy));
    DISPATCH(call, ops_for(c, dy.dtype)->gated_backward(c, act, dy, gate_up, dgate_up));
}

void op_act_forward(Ctx *c, Activation act, Tensor x, Tensor y)
{
    CHECK_SAME(x, y);
    OpCall call = op_begin(c, OP_ACT_FORWARD, 0, 2 * bytes_of(x), 0, shape_of(x));
    DISPATCH(call, ops_for(c, x.dtype)->act_forward(c, act, x, y));
}

void op_act_backward(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx)
{
    CHECK_SAME(dy, x);
    CHECK_SAME(dx, x);
    OpCall call = op_begin(c, OP_ACT_BACKWARD, 0, 3 * bytes_of(x), 0, shape_of(x));
    DISPATCH(call, ops_for(c, x.dtype)->act_backward(c, act, dy, x, dx));
}

void op_xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
             double scale, bool gradient)
{
    PACER_ASSERT(classes > 0 && classes <= logits.dim[1], "%lld classes of %s", (long long)classes,
                 DESCRIBE(logits));
    PACER_ASSERT(logits.rank == 2, "logits are %s", DESCRIBE(logits));
    CHECK_SHAPE_1D(targets, logits.dim[0]);
    CHECK_DTYPE(targets, DT_I32);
    CHECK_SHAPE_1D(losses, logits.dim[0]);
    CHECK_DTYPE(losses, dtype_accumulate(logits.dtype));
    double bytes = bytes_of(logits) * (gradient ? 2 : 1) + bytes_of(losses);
    OpCall call = op_begin(c, OP_XENT, 0, bytes, 0, shape_of(logits));
    DISPATCH(
        call,
        ops_for(c, logits.dtype)->xent(c, logits, classes, cap, targets, losses, scale, gradient));
}

void op_sum(Ctx *c, Tensor x, double scale, Tensor out, Mode mode)
{
    CHECK_SHAPE_1D(x, tensor_count(x));
    CHECK_SHAPE_1D(out, 1);
    CHECK_DTYPE(out, x.dtype);
    OpCall call = op_begin(c, OP_SUM, 0, bytes_of(x), 0, shape_of(x));
    DISPATCH(call, ops_for(c, x.dtype)->sum(c, x, scale, out, mode));
}

void op_sum_squares(Ctx *c, Tensor x, Tensor out, Mode mode)
{
    CHECK_SHAPE_1D(x, tensor_count(x));
    CHECK_SHAPE_1D(out, 1);
    CHECK_DTYPE(out, x.dtype);
    const Ops *ops = ops_for(c, x.dtype);
    size_t ws = ops->sum_squares_ws != NULL ? ops->sum_squares_ws(c, x) : 0;
    OpCall call = op_begin(c, OP_SUM_SQUARES, 0, bytes_of(x), ws, shape_of(x));
    DISPATCH(call, ops->sum_squares(c, x, out, mode, call.ws));
}

/* The slots of an update: a copy in bf16 is written with the weights. */
static const Ops *ops_of_update(const Ctx *c, const UpdateArgs *args)
{
    return ops_for(c, tensor_given(args->low) ? args->low.dtype : args->param.dtype);
}

/* Reads gradient, weights and states; writes weights, states and the copy in bf16. */
static OpCall begin_update(Ctx *c, OpId op, const UpdateArgs *args, int states)
{
    CHECK_SHAPE_1D(args->param, tensor_count(args->param));
    bool split = args->param.dtype == DT_REST;
    DType acc = args->grad.dtype;
    CHECK_SHAPE_1D(args->grad, args->param.dim[0]);
    CHECK_DTYPE(args->param, split ? DT_REST : acc);
    PACER_ASSERT(!split || (tensor_given(args->low) && acc == DT_F32), "low is %s, grad is %s",
                 DESCRIBE(args->low), DESCRIBE(args->grad));
    double bytes =
        (split ? 2 : 1) * bytes_of(args->low) + bytes_of(args->grad) + 2 * bytes_of(args->param);
    for (int i = 0; i < states; i++) {
        CHECK_SHAPE_1D(args->state[i], args->param.dim[0]);
        CHECK_DTYPE(args->state[i], args->state[i].dtype == DT_BF16 ? DT_BF16 : acc);
        bytes += 2 * bytes_of(args->state[i]);
    }
    CHECK_SHAPE_1D(args->hyper, HYPER_COUNT);
    CHECK_DTYPE(args->hyper, DT_F32);
    CHECK_SHAPE_1D(args->norm_sq, 1);
    if (tensor_given(args->left_out)) {
        CHECK_SAME(args->left_out, args->norm_sq);
    }
    if (tensor_given(args->low)) {
        CHECK_SHAPE_1D(args->low, args->param.dim[0]);
        CHECK_DTYPE(args->low, DT_BF16);
    }
    return op_begin(c, op, 0, bytes, 0, shape_of(args->param));
}

void op_adamw(Ctx *c, UpdateArgs args)
{
    OpCall call = begin_update(c, OP_ADAMW, &args, 2);
    DISPATCH(call, ops_of_update(c, &args)->adamw(c, args));
}

void op_sgd(Ctx *c, UpdateArgs args)
{
    OpCall call = begin_update(c, OP_SGD, &args, 1);
    DISPATCH(call, ops_of_update(c, &args)->sgd(c, args));
}

void op_cast(Ctx *c, Tensor from, Tensor to)
{
    PACER_ASSERT(tensor_count(from) == tensor_count(to), "from is %s, to is %s", DESCRIBE(from),
                 DESCRIBE(to));
    PACER_ASSERT(from.dtype != DT_I32 && to.dtype != DT_I32, "from is %s, to is %s", DESCRIBE(from),
                 DESCRIBE(to));
    OpCall call = op_begin(c, OP_CAST, 0, bytes_of(from) + bytes_of(to), 0, shape_of(from));
    const Ops *ops = ops_for(c, from.dtype == DT_F64 || to.dtype == DT_F64 ? DT_F64 : DT_F32);
    DISPATCH(call, ops->cast(c, from, to));
}

void op_checksum(Ctx *c, Tensor x, Tensor out)
{
    CHECK_SHAPE_1D(out, 2);
    CHECK_DTYPE(out, DT_I32);
    const Ops *ops = &c->backend->ops;
    size_t ws = ops->checksum_ws != NULL ? ops->checksum_ws(c, x) : 0;
    OpCall call = op_begin(c, OP_CHECKSUM, 0, bytes_of(x), ws, shape_of(x));
    DISPATCH(call, ops->checksum(c, x, out, call.ws));
}
