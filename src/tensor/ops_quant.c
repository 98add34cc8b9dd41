/* The ops over e4m3 operands: checks, counts and dispatch, as in ops.c. A fused slot that a backend
 * lacks is composed: the plain op into scratch, then op_quantise. */
#include "tensor/ops_internal.h"

#define QUANT_ALIGN 16 /* what products in e4m3 ask of every dimension */

Quant quant_rows(Quant q, int64_t first, int64_t count)
{
    if (tensor_given(q.rows)) {
        q.rows = tensor_rows(q.rows, first, count);
    }
    if (tensor_given(q.columns)) {
        if (q.columns.data != NULL) {
            q.columns.data = (uint8_t *)q.columns.data + first;
        }
        q.columns.dim[1] = count;
    }
    return q;
}

/* Of a (rows, width) matrix, in the layouts that are given. Without columns there may be any number
 * of rows. */
static void check_codes(Quant q, int64_t rows, int64_t width)
{
    PACER_ASSERT((rows % QUANT_ALIGN == 0 || !tensor_given(q.columns)) && width % QUANT_ALIGN == 0,
                 "(%lld, %lld) in e4m3: no multiples of 16", (long long)rows, (long long)width);
    if (tensor_given(q.rows)) {
        CHECK_SHAPE_2D(q.rows, rows, width);
        CHECK_DTYPE(q.rows, DT_E4M3);
    }
    if (tensor_given(q.columns)) {
        CHECK_SHAPE_2D(q.columns, width, rows);
        CHECK_DTYPE(q.columns, DT_E4M3);
        PACER_ASSERT(q.stride >= rows && q.stride % QUANT_ALIGN == 0,
                     "columns of %lld, stride %lld", (long long)rows, (long long)q.stride);
    }
    CHECK_SHAPE_1D(q.scale, SCALE_COUNT);
    CHECK_DTYPE(q.scale, DT_F32);
    if (tensor_given(q.largest)) {
        CHECK_SHAPE_1D(q.largest, 1);
        CHECK_DTYPE(q.largest, DT_F32);
    }
}

/* What products read. */
static void check_quant(Quant q, int64_t rows, int64_t width)
{
    PACER_ASSERT(rows % QUANT_ALIGN == 0, "%lld rows in e4m3: no multiple of 16", (long long)rows);
    check_codes(q, rows, width);
}

static void check_sums(Tensor dbias, int64_t width, DType act)
{
    if (tensor_given(dbias)) {
        CHECK_SHAPE_1D(dbias, width);
        CHECK_DTYPE(dbias, dtype_accumulate(act));
    }
}

static double quant_bytes(Quant q)
{
    return bytes_of(q.rows) + bytes_of(q.columns);
}

static int64_t quant_height(Quant q)
{
    return tensor_given(q.rows) ? q.rows.dim[0] : q.columns.dim[1];
}

static int64_t quant_width(Quant q)
{
    return tensor_given(q.rows) ? q.rows.dim[1] : q.columns.dim[0];
}

void op_quantise(Ctx *c, Tensor x, Quant q, Tensor dbias, Mode mode)
{
    const Ops *ops = ops_for(c, x.dtype);
    check_codes(q, x.dim[0], x.dim[1]);
    check_sums(dbias, x.dim[1], x.dtype);
    size_t ws = ops->quantise_ws != NULL ? ops->quantise_ws(c, x, dbias) : 0;
    OpCall call = op_begin(c, OP_QUANTISE, 0, bytes_of(x) + quant_bytes(q), ws, shape_of(x));
    DISPATCH(call, ops->quantise(c, x, q, dbias, mode, call.ws));
}

void op_quant_turn(Ctx *c, Quant q)
{
    check_quant(q, q.rows.dim[0], q.rows.dim[1]);
    PACER_ASSERT(tensor_given(q.columns), "codes are turned to nowhere");
    OpCall call = op_begin(c, OP_QUANT_TURN, 0, quant_bytes(q), 0, shape_of(q.rows));
    DISPATCH(call, c->backend->ops.quant_turn(c, q));
}

void op_rescale(Ctx *c, Tensor scales, Tensor largest)
{
    CHECK_SHAPE_2D(scales, largest.dim[0], SCALE_COUNT);
    CHECK_DTYPE(scales, DT_F32);
    PACER_ASSERT(largest.rank == 2, "rank %d", largest.rank);
    CHECK_DTYPE(largest, DT_F32);
    OpCall call = op_begin(c, OP_RESCALE, 0, 2 * (bytes_of(scales) + bytes_of(largest)), 0,
                           shape_of(largest));
    DISPATCH(call, c->backend->ops.rescale(c, scales, largest));
}

void op_quant_forward(Ctx *c, Quant x, Quant w, Tensor bias, Tensor y)
{
    int64_t rows = y.dim[0], outputs = y.dim[1], inputs = x.rows.dim[1];
    check_quant(x, rows, inputs);
    check_quant(w, outputs, inputs);
    PACER_ASSERT(tensor_given(x.rows) && tensor_given(w.rows), "a product without its rows");
    if (tensor_given(bias)) {
        CHECK_SHAPE_1D(bias, outputs);
        CHECK_DTYPE(bias, y.dtype);
    }
    double flops = 2.0 * (double)rows * (double)outputs * (double)inputs;
    OpCall call =
        op_begin(c, OP_QUANT_FORWARD, flops, bytes_of(x.rows) + bytes_of(w.rows) + bytes_of(y), 0,
                 (OpShape){{rows, inputs, outputs}});
    DISPATCH(call, ops_for(c, y.dtype)->quant_forward(c, x, w, bias, y));
}

void op_quant_backward_input(Ctx *c, Quant dy, Quant w, Tensor dx, Mode mode)
{
    int64_t rows = dx.dim[0], inputs = dx.dim[1], outputs = dy.rows.dim[1];
    check_quant(dy, rows, outputs);
    check_quant(w, outputs, inputs);
    PACER_ASSERT(tensor_given(dy.rows) && tensor_given(w.columns),
                 "a product without rows of dy or columns of w");
    double flops = 2.0 * (double)rows * (double)outputs * (double)inputs;
    double bytes = bytes_of(dy.rows) + bytes_of(w.columns) + bytes_out(dx, mode);
    OpCall call =
        op_begin(c, OP_QUANT_BACKWARD_INPUT, flops, bytes, 0, (OpShape){{rows, inputs, outputs}});
    DISPATCH(call, ops_for(c, dx.dtype)->quant_backward_input(c, dy, w, dx, mode));
}

void op_quant_backward_weight(Ctx *c, Quant x, Quant dy, Tensor dw, Mode mode)
{
    int64_t outputs = dw.dim[0], inputs = dw.dim[1], rows = x.columns.dim[1];
    check_quant(x, rows, inputs);
    check_quant(dy, rows, outputs);
    PACER_ASSERT(tensor_given(x.columns) && tensor_given(dy.columns),
                 "a product without its columns");
    double flops = 2.0 * (double)rows * (double)outputs * (double)inputs;
    double bytes = bytes_of(x.columns) + bytes_of(dy.columns) + bytes_out(dw, mode);
    OpCall call =
        op_begin(c, OP_QUANT_BACKWARD_WEIGHT, flops, bytes, 0, (OpShape){{rows, inputs, outputs}});
    DISPATCH(call, c->backend->ops.quant_backward_weight(c, x, dy, dw, mode));
}

void op_quant_norm(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Quant y, Tensor stats)
{
    const Ops *ops = ops_for(c, x.dtype);
    if (ops->quant_norm == NULL || c->composed) {
        ArenaMark mark = arena_mark(&c->scratch);
        Tensor plain = ctx_scratch(c, MEM_SCRATCH, x.dtype, x.dim[0], x.dim[1]);
        if (tensor_given(h)) {
            op_add_norm_forward(c, x, h, norm, r, plain, stats);
        } else {
            op_norm_forward(c, x, norm, plain, stats);
        }
        op_quantise(c, plain, y, TENSOR_NONE, MODE_SET);
        arena_release(&c->scratch, mark);
        return;
    }
    check_quant(y, x.dim[0], x.dim[1]);
    CHECK_SHAPE_1D(norm.weight, x.dim[1]);
    CHECK_SHAPE_2D(stats, x.dim[0], 2);
    double bytes = bytes_of(x) + quant_bytes(y) + bytes_of(stats);
    if (tensor_given(h)) {
        CHECK_SAME(h, x);
        CHECK_SAME(r, x);
        bytes += bytes_of(h) + bytes_of(r);
    }
    OpCall call = op_begin(c, OP_QUANT_NORM, 0, bytes, 0, shape_of(x));
    DISPATCH(call, ops->quant_norm(c, x, h, norm, r, y, stats));
}

/* (N,2F) of a gated part makes (N,F). */
static void check_act(Tensor x, bool gated, int64_t rows, int64_t width)
{
    CHECK_SHAPE_2D(x, rows, gated ? 2 * width : width);
}

void op_quant_act(Ctx *c, Activation act, bool gated, Tensor x, Quant y)
{
    const Ops *ops = ops_for(c, x.dtype);
    int64_t rows = quant_height(y), width = quant_width(y);
    check_act(x, gated, rows, width);
    if (ops->quant_act == NULL || c->composed) {
        ArenaMark mark = arena_mark(&c->scratch);
        Tensor plain = ctx_scratch(c, MEM_SCRATCH, x.dtype, rows, width);
        if (gated) {
            op_gated_forward(c, act, x, plain);
        } else {
            op_act_forward(c, act, x, plain);
        }
        op_quantise(c, plain, y, TENSOR_NONE, MODE_SET);
        arena_release(&c->scratch, mark);
        return;
    }
    check_quant(y, rows, width);
    OpCall call = op_begin(c, OP_QUANT_ACT, 0, bytes_of(x) + quant_bytes(y), 0, shape_of(x));
    DISPATCH(call, ops->quant_act(c, act, gated, x, y));
}

void op_quant_act_backward(Ctx *c, Activation act, bool gated, Tensor dy, Tensor x, Quant dx,
                           Tensor dbias, Mode mode)
{
    const Ops *ops = ops_for(c, x.dtype);
    check_act(x, gated, dy.dim[0], dy.dim[1]);
    if (ops->quant_act_backward == NULL || c->composed) {
        ArenaMark mark = arena_mark(&c->scratch);
        Tensor plain = ctx_scratch(c, MEM_SCRATCH, x.dtype, x.dim[0], x.dim[1]);
        if (gated) {
            op_gated_backward(c, act, dy, x, plain);
        } else {
            op_act_backward(c, act, dy, x, plain);
        }
        op_quantise(c, plain, dx, dbias, mode);
        arena_release(&c->scratch, mark);
        return;
    }
    check_quant(dx, x.dim[0], x.dim[1]);
    check_sums(dbias, x.dim[1], x.dtype);
    size_t ws = ops->quant_act_backward_ws != NULL ? ops->quant_act_backward_ws(c, x, dbias) : 0;
    double bytes = bytes_of(dy) + bytes_of(x) + quant_bytes(dx);
    OpCall call = op_begin(c, OP_QUANT_ACT_BACKWARD, 0, bytes, ws, shape_of(x));
    DISPATCH(call, ops->quant_act_backward(c, act, gated, dy, x, dx, dbias, mode, call.ws));
}

void op_quant_xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets,
                   Tensor losses, double scale, Quant dlogits)
{
    const Ops *ops = ops_for(c, logits.dtype);
    if (ops->quant_xent == NULL || c->composed) {
        op_xent(c, logits, classes, cap, targets, losses, scale, true);
        op_quantise(c, logits, dlogits, TENSOR_NONE, MODE_SET);
        return;
    }
    check_quant(dlogits, logits.dim[0], logits.dim[1]);
    CHECK_SHAPE_1D(targets, logits.dim[0]);
    CHECK_SHAPE_1D(losses, logits.dim[0]);
    size_t ws = ops->quant_xent_ws != NULL ? ops->quant_xent_ws(c, logits) : 0;
    OpCall call = op_begin(c, OP_QUANT_XENT, 0, bytes_of(logits) + quant_bytes(dlogits), ws,
                           shape_of(logits));
    DISPATCH(call,
             ops->quant_xent(c, logits, classes, cap, targets, losses, scale, dlogits, call.ws));
}
