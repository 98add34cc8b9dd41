/* With ops_small.c the only place that checks, counts and dispatches. Each op_* asserts the shapes
 * and types of its contract, adds its work to the counters, takes the slot's workspace from the
 * scratch arena, and calls the slot unless this is a dry run. This file has the names, what opens
 * and closes every op, and the ops over rows of the model: embedding, linear maps, norms,
 * attention.
 *
 * FLOPs are those of the matrix products (2 per multiply-add), attention included; a causal
 * attention counts the lower triangle with its diagonal only, and its backward counts four
 * products, not the recomputation of the scores. Bytes are the least that must be read and
 * written once. */
#include "tensor/ops_internal.h"

#include "tensor/compose.h"

const char *attention_name(AttentionKind kind)
{
    return kind == ATTENTION_NAIVE ? "naive" : kind == ATTENTION_FLASH ? "flash" : "cudnn";
}

const char *backend_attention_refusal(const Backend *backend, AttentionKind kind, HeadShape shape,
                                      DType dtype)
{
    return backend->attention_refusal != NULL
               ? backend->attention_refusal(backend, kind, shape, dtype)
               : NULL;
}

AttentionKind backend_attention(const Backend *backend, AttentionKind wanted, HeadShape shape,
                                DType dtype)
{
    const AttentionKind kinds[] = {wanted, ATTENTION_FLASH};
    for (int i = 0; i < 2; i++) {
        if (backend_attention_refusal(backend, kinds[i], shape, dtype) == NULL) {
            return kinds[i];
        }
    }
    return ATTENTION_NAIVE;
}

const char *op_name(OpId op)
{
    static const char *const names[] = {
#define X(name, text) [OP_##name] = text,
        PACER_OPS(X)
#undef X
    };
    return names[op];
}

const char *ops_missing(const Ops *ops)
{
    const struct {
        const char *name;
        bool filled;
    } required[] = {
#define REQUIRED(slot) {#slot, ops->slot != NULL}
        REQUIRED(embed_forward),
        REQUIRED(embed_backward),
        REQUIRED(linear_forward),
        REQUIRED(linear_backward_input),
        REQUIRED(linear_backward_weight),
        REQUIRED(add),
        REQUIRED(norm_forward),
        REQUIRED(norm_backward),
        REQUIRED(rope),
        REQUIRED(attention_forward),
        REQUIRED(attention_backward),
        REQUIRED(gated_forward),
        REQUIRED(gated_backward),
        REQUIRED(act_forward),
        REQUIRED(act_backward),
        REQUIRED(xent),
        REQUIRED(sum),
        REQUIRED(sum_squares),
        REQUIRED(adamw),
        REQUIRED(cast),
        REQUIRED(checksum),
        REQUIRED(ttt_forward),
        REQUIRED(ttt_backward),
        REQUIRED(ttt_start),
        REQUIRED(ttt_step),
#undef REQUIRED
    };
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        if (!required[i].filled) {
            return required[i].name;
        }
    }
    return NULL;
}

OpCall op_begin(Ctx *c, OpId op, double flops, double bytes, size_t ws_bytes, OpShape shape)
{
    OpCall call = {.c = c, .mark = arena_mark(&c->scratch)};
    if (ws_bytes > 0) {
        call.ws = ctx_scratch(c, MEM_SCRATCH, DT_I32, (int64_t)((ws_bytes + 3) / 4), 1).data;
    }
    OpStat *stat = &c->stats[op];
    stat->calls++;
    stat->flops += flops;
    stat->bytes += bytes;
    if (c->note != NULL) {
        c->note(c->note_user, op, shape, flops);
    }
    if (!c->dry) {
        trace_call(c->trace, (TraceCall){op, NULL, c->layer, flops, bytes, shape});
    }
    return call;
}

void op_end(OpCall call)
{
    if (!call.c->dry) {
        trace_called(call.c->trace);
    }
    arena_release(&call.c->scratch, call.mark);
}

static OpShape shape_of_linear(Tensor x, Tensor y)
{
    return (OpShape){{x.dim[0], x.dim[1], y.dim[1]}};
}

static OpShape shape_of_heads(HeadShape s)
{
    return (OpShape){{s.batch, s.seq, s.heads, s.head_dim}};
}

void op_embed_forward(Ctx *c, Tensor ids, Tensor table, Tensor positions, int64_t seq, Tensor out)
{
    CHECK_DTYPE(ids, DT_I32);
    CHECK_SHAPE_1D(ids, out.dim[0]);
    CHECK_SHAPE_2D(table, table.dim[0], out.dim[1]);
    CHECK_WEIGHT(c, table, out.dtype);
    PACER_ASSERT(seq > 0 && out.dim[0] % seq == 0, "%lld rows, seq %lld", (long long)out.dim[0],
                 (long long)seq);
    if (tensor_given(positions)) {
        CHECK_DTYPE(positions, table.dtype);
        PACER_ASSERT(positions.rank == 2 && positions.dim[0] >= seq &&
                         positions.dim[1] == out.dim[1],
                     "positions are %s, seq %lld", DESCRIBE(positions), (long long)seq);
    }
    double bytes = bytes_of(ids) + 2 * bytes_of(out);
    OpCall call = op_begin(c, OP_EMBED_FORWARD, 0, bytes, 0, shape_of(out));
    DISPATCH(call, c->backend->ops.embed_forward(c, ids, table, positions, seq, out));
}

void op_embed_backward(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                       Tensor dpositions, int64_t seq, Mode dtable_mode, Mode dpositions_mode)
{
    CHECK_DTYPE(ids, DT_I32);
    CHECK_SHAPE_1D(ids, dout.dim[0]);
    CHECK_SAME(order, ids);
    CHECK_SHAPE_2D(dtable, dtable.dim[0], dout.dim[1]);
    CHECK_DTYPE(dtable, dtype_accumulate(dout.dtype));
    PACER_ASSERT(seq > 0 && dout.dim[0] % seq == 0, "%lld rows, seq %lld", (long long)dout.dim[0],
                 (long long)seq);
    double bytes = 2 * bytes_of(ids) + bytes_of(dout) +
                   (dtable_mode == MODE_SET ? bytes_of(dtable) : 2 * bytes_of(dout));
    if (tensor_given(dpositions)) {
        CHECK_DTYPE(dpositions, dtable.dtype);
        PACER_ASSERT(dpositions.rank == 2 && dpositions.dim[0] >= seq &&
                         dpositions.dim[1] == dout.dim[1],
                     "dpositions are %s, seq %lld", DESCRIBE(dpositions), (long long)seq);
        bytes += bytes_of(dout) + bytes_out(dpositions, dpositions_mode);
    }
    OpCall call = op_begin(c, OP_EMBED_BACKWARD, 0, bytes, 0, shape_of(dout));
    DISPATCH(call, c->backend->ops.embed_backward(c, ids, order, dout, dtable, dpositions, seq,
                                                  dtable_mode, dpositions_mode));
}

/* rows x outputs x inputs of a linear map, checked. */
static double check_linear(Tensor x, Tensor w, Tensor y)
{
    CHECK_SHAPE_2D(x, y.dim[0], w.dim[1]);
    CHECK_SHAPE_2D(y, x.dim[0], w.dim[0]);
    CHECK_DTYPE(y, x.dtype);
    PACER_ASSERT(w.rank == 2, "w is %s", DESCRIBE(w));
    return 2.0 * (double)y.dim[0] * (double)y.dim[1] * (double)x.dim[1];
}

static void check_bias(Tensor bias, Tensor w, DType dtype)
{
    if (tensor_given(bias)) {
        CHECK_SHAPE_1D(bias, w.dim[0]);
        CHECK_DTYPE(bias, dtype);
    }
}

void op_linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y)
{
    double flops = check_linear(x, w, y);
    CHECK_WEIGHT(c, w, x.dtype);
    check_bias(bias, w, x.dtype);
    OpCall call = op_begin(c, OP_LINEAR_FORWARD, flops, bytes_of(x) + bytes_of(w) + bytes_of(y), 0,
                           shape_of_linear(x, y));
    DISPATCH(call, c->backend->ops.linear_forward(c, x, w, bias, y));
}

void op_linear_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode)
{
    double flops = check_linear(dx, w, dy);
    CHECK_DTYPE(w, dx.dtype);
    double bytes = bytes_of(dy) + bytes_of(w) + bytes_out(dx, mode);
    OpCall call = op_begin(c, OP_LINEAR_BACKWARD_INPUT, flops, bytes, 0, shape_of_linear(dx, dy));
    DISPATCH(call, c->backend->ops.linear_backward_input(c, dy, w, dx, mode));
}

void op_linear_backward_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode)
{
    double flops = check_linear(x, dw, dy);
    CHECK_DTYPE(dw, dtype_accumulate(x.dtype));
    check_bias(dbias, dw, dw.dtype);
    const Ops *ops = &c->backend->ops;
    size_t ws =
        ops->linear_backward_weight_ws != NULL ? ops->linear_backward_weight_ws(c, x, dy) : 0;
    double bytes = bytes_of(x) + bytes_of(dy) + bytes_out(dw, mode);
    OpCall call = op_begin(c, OP_LINEAR_BACKWARD_WEIGHT, flops, bytes, ws, shape_of_linear(x, dy));
    DISPATCH(call, ops->linear_backward_weight(c, x, dy, dw, dbias, mode, call.ws));
}

void op_linear_gelu_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y)
{
    if (c->backend->ops.linear_gelu_forward == NULL || c->composed) {
        compose_linear_gelu_forward(c, x, w, bias, pre, y);
        return;
    }
    double flops = check_linear(x, w, y);
    CHECK_SAME(pre, y);
    CHECK_DTYPE(w, x.dtype);
    check_bias(bias, w, x.dtype);
    double bytes = bytes_of(x) + bytes_of(w) + 2 * bytes_of(y);
    OpCall call = op_begin(c, OP_LINEAR_GELU_FORWARD, flops, bytes, 0, shape_of_linear(x, y));
    DISPATCH(call, c->backend->ops.linear_gelu_forward(c, x, w, bias, pre, y));
}

void op_linear_gelu_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre)
{
    if (c->backend->ops.linear_gelu_backward_input == NULL || c->composed) {
        compose_linear_gelu_backward_input(c, dy, w, pre, dpre);
        return;
    }
    double flops = check_linear(dpre, w, dy);
    CHECK_SAME(pre, dpre);
    CHECK_DTYPE(w, dy.dtype);
    double bytes = bytes_of(dy) + bytes_of(w) + 2 * bytes_of(pre);
    OpCall call =
        op_begin(c, OP_LINEAR_GELU_BACKWARD_INPUT, flops, bytes, 0, shape_of_linear(dpre, dy));
    DISPATCH(call, c->backend->ops.linear_gelu_backward_input(c, dy, w, pre, dpre));
}

static void check_norm(Tensor x, Norm norm, Tensor stats)
{
    PACER_ASSERT(x.rank == 2, "x is %s", DESCRIBE(x));
    CHECK_SHAPE_1D(norm.weight, x.dim[1]);
    CHECK_DTYPE(norm.weight, x.dtype);
    PACER_ASSERT(tensor_given(norm.bias) == (norm.kind == NORM_LAYER), "bias of norm kind %d",
                 norm.kind);
    if (tensor_given(norm.bias)) {
        CHECK_SAME(norm.bias, norm.weight);
    }
    CHECK_SHAPE_2D(stats, x.dim[0], 2);
    CHECK_DTYPE(stats, dtype_accumulate(x.dtype));
}

void op_norm_forward(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats)
{
    check_norm(x, norm, stats);
    CHECK_SAME(x, y);
    OpCall call =
        op_begin(c, OP_NORM_FORWARD, 0, 2 * bytes_of(x) + bytes_of(stats), 0, shape_of(x));
    DISPATCH(call, c->backend->ops.norm_forward(c, x, norm, y, stats));
}

void op_add_norm_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y, Tensor stats)
{
    if (c->backend->ops.add_norm_forward == NULL || c->composed) {
        compose_add_norm_forward(c, x, h, norm, r, y, stats);
        return;
    }
    check_norm(r, norm, stats);
    CHECK_SAME(x, h);
    CHECK_SAME(x, r);
    CHECK_SAME(x, y);
    OpCall call =
        op_begin(c, OP_ADD_NORM_FORWARD, 0, 4 * bytes_of(x) + bytes_of(stats), 0, shape_of(x));
    DISPATCH(call, c->backend->ops.add_norm_forward(c, x, h, norm, r, y, stats));
}

void op_norm_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx, Mode dx_mode,
                      Tensor dweight, Tensor dbias, Mode mode)
{
    check_norm(x, norm, stats);
    CHECK_SAME(dy, x);
    CHECK_SAME(dx, x);
    CHECK_SHAPE_1D(dweight, x.dim[1]);
    CHECK_DTYPE(dweight, dtype_accumulate(x.dtype));
    PACER_ASSERT(tensor_given(dbias) == tensor_given(norm.bias), "dbias of norm kind %d",
                 norm.kind);
    if (tensor_given(dbias)) {
        CHECK_SAME(dbias, dweight);
    }
    const Ops *ops = &c->backend->ops;
    size_t ws = ops->norm_backward_ws != NULL ? ops->norm_backward_ws(c, x) : 0;
    double bytes = 2 * bytes_of(x) + bytes_out(dx, dx_mode) + bytes_of(stats);
    OpCall call = op_begin(c, OP_NORM_BACKWARD, 0, bytes, ws, shape_of(x));
    DISPATCH(call,
             ops->norm_backward(c, dy, x, norm, stats, dx, dx_mode, dweight, dbias, mode, call.ws));
}

static void check_heads(Tensor qkv, HeadShape s)
{
    CHECK_SHAPE_2D(qkv, s.batch * s.seq, (s.heads + 2 * s.kv_heads) * s.head_dim);
    PACER_ASSERT(s.kv_heads > 0 && s.heads % s.kv_heads == 0,
                 "%lld heads over %lld key/value heads", (long long)s.heads, (long long)s.kv_heads);
}

void op_rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse)
{
    check_heads(qkv, shape);
    PACER_ASSERT(shape.head_dim % 2 == 0, "rope needs an even head width, not %lld",
                 (long long)shape.head_dim);
    PACER_ASSERT(table.rank == 2 && table.dim[0] >= shape.seq && table.dim[1] == shape.head_dim,
                 "rope table is %s for seq %lld", DESCRIBE(table), (long long)shape.seq);
    CHECK_DTYPE(table, dtype_accumulate(qkv.dtype));
    double share =
        (double)(shape.heads + shape.kv_heads) / (double)(shape.heads + 2 * shape.kv_heads);
    OpCall call = op_begin(c, OP_ROPE, 0, 2 * share * bytes_of(qkv), 0, shape_of_heads(shape));
    DISPATCH(call, c->backend->ops.rope(c, qkv, shape, table, inverse));
}

Tensor op_attention_aux(Ctx *c, HeadShape s, DType dtype)
{
    if (c->attention == ATTENTION_NAIVE) {
        int64_t dims[] = {s.batch, s.heads, s.seq, s.seq};
        return arena_push(&c->saved, MEM_ATTENTION, dtype, 4, dims);
    }
    int64_t dims[] = {s.batch, s.heads, s.seq};
    return arena_push(&c->saved, MEM_ATTENTION, dtype_accumulate(dtype), 3, dims);
}

static void check_aux(const Ctx *c, Tensor aux, HeadShape s, DType dtype)
{
    bool naive = c->attention == ATTENTION_NAIVE;
    int64_t count = s.batch * s.heads * s.seq * (naive ? s.seq : 1);
    CHECK_DTYPE(aux, naive ? dtype : dtype_accumulate(dtype));
    PACER_ASSERT(tensor_count(aux) == count, "aux is %s, wanted %lld elements", DESCRIBE(aux),
                 (long long)count);
}

static double attention_flops(HeadShape s)
{
    return 2.0 * (double)(s.batch * s.heads * s.head_dim) * (double)s.seq * (double)(s.seq + 1);
}

void op_attention_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux)
{
    check_heads(qkv, shape);
    CHECK_SHAPE_2D(out, qkv.dim[0], shape.heads * shape.head_dim);
    CHECK_DTYPE(out, qkv.dtype);
    check_aux(c, aux, shape, qkv.dtype);
    const Ops *ops = &c->backend->ops;
    size_t ws =
        ops->attention_forward_ws != NULL ? ops->attention_forward_ws(c, shape, qkv.dtype) : 0;
    double bytes = bytes_of(qkv) + bytes_of(out) + bytes_of(aux);
    OpCall call =
        op_begin(c, OP_ATTENTION_FORWARD, attention_flops(shape), bytes, ws, shape_of_heads(shape));
    DISPATCH(call, ops->attention_forward(c, qkv, shape, out, aux, call.ws));
}

void op_attention_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux, HeadShape shape,
                           Tensor dqkv)
{
    check_heads(qkv, shape);
    CHECK_SAME(dqkv, qkv);
    CHECK_SAME(dout, out);
    CHECK_SHAPE_2D(out, qkv.dim[0], shape.heads * shape.head_dim);
    check_aux(c, aux, shape, qkv.dtype);
    const Ops *ops = &c->backend->ops;
    size_t ws =
        ops->attention_backward_ws != NULL ? ops->attention_backward_ws(c, shape, qkv.dtype) : 0;
    double bytes = 2 * bytes_of(qkv) + 2 * bytes_of(out) + bytes_of(aux);
    OpCall call = op_begin(c, OP_ATTENTION_BACKWARD, 2 * attention_flops(shape), bytes, ws,
                           shape_of_heads(shape));
    DISPATCH(call, ops->attention_backward(c, dout, qkv, out, aux, shape, dqkv, call.ws));
}
