/* With ops_small.c and ops_ttt.c the only place that checks, counts and dispatches. Each op_*
 * asserts the shapes and types of its contract, adds its work to the counters, takes the slot's
 * workspace from the scratch arena, and calls the slot unless this is a dry run. This file has the
 * names, what opens and closes every op, and the ops over rows of the model: embedding, linear
 * maps, norms, attention.
 *
 * FLOPs are those of the matrix products (2 per multiply-add), attention included; a causal
 * attention counts the lower triangle with its diagonal only, of a window what it sees, and its
 * backward counts four products, not the recomputation of the scores. Bytes are the least that must
 * be read and written once. How far a sequence has come that is generated token by token lies in
 * backend memory: a step of attention is counted for a full context, the most that it may take. */
#include "tensor/ops_internal.h"

const char *attention_name(AttentionKind kind)
{
    return kind == ATTENTION_NAIVE ? "naive" : kind == ATTENTION_FLASH ? "flash" : "cudnn";
}

const char *backend_attention_refusal(const Backend *backend, AttentionKind kind, HeadShape shape,
                                      DType dtype)
{
    if (backend->attention_refusal != NULL) {
        return backend->attention_refusal(backend, kind, shape, dtype);
    }
    return kind == ATTENTION_LIBRARY ? "only a GPU has it; use flash or auto" : NULL;
}

AttentionKind backend_attention_choose(Backend *backend, HeadShape shape, DType dtype)
{
    return backend->attention_choose != NULL ? backend->attention_choose(backend, shape, dtype)
                                             : ATTENTION_FLASH;
}

const char *backend_ttt_refusal(const Backend *backend, const TttShape *shape, DType dtype)
{
    return backend->ttt_refusal != NULL ? backend->ttt_refusal(backend, shape, dtype) : NULL;
}

Sensors *backend_sensors(Backend *backend)
{
    return backend->sensors_open != NULL ? backend->sensors_open(backend) : NULL;
}

const char *op_name(OpId op)
{
    static const char *const names[] = {
#define X(name, slot, fused) #slot,
        PACER_OPS(X)
#undef X
    };
    return names[op];
}

const char *ops_missing(const Ops *ops)
{
    const bool missing[] = {
#define X(name, slot, fused) !(fused) && ops->slot == NULL,
        PACER_OPS(X)
#undef X
    };
    for (OpId op = 0; op < OP_COUNT; op++) {
        if (missing[op]) {
            return op_name(op);
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
    TraceCall told = {op, NULL, c->layer, flops, bytes, shape};
    if (c->note != NULL) {
        c->note(c->note_user, &told);
    }
    if (!c->dry) {
        trace_call(c->trace, told);
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

void check_rope(Tensor table, int64_t positions, int64_t head_dim, DType dtype)
{
    PACER_ASSERT(head_dim % 2 == 0, "rope needs an even head width, not %lld", (long long)head_dim);
    PACER_ASSERT(table.rank == 2 && table.dim[0] >= positions && table.dim[1] == head_dim,
                 "rope table is %s for %lld positions", DESCRIBE(table), (long long)positions);
    CHECK_DTYPE(table, dtype_accumulate(dtype));
}

void check_position(Tensor position)
{
    CHECK_SHAPE_1D(position, 1);
    CHECK_DTYPE(position, DT_I32);
}

static OpShape shape_of_linear(Tensor x, Tensor y)
{
    return (OpShape){{x.dim[0], x.dim[1], y.dim[1]}};
}

static OpShape shape_of_heads(HeadShape s)
{
    return (OpShape){{s.batch, s.seq, s.heads, s.head_dim}};
}

/* rows: of whole sequences. */
static void check_starts(Tensor starts, int64_t rows)
{
    if (tensor_given(starts)) {
        CHECK_SHAPE_1D(starts, rows);
        CHECK_DTYPE(starts, DT_I32);
    }
}

/* positions, if there are any: a row for each of `seq`. */
static void check_embed(const Ctx *c, Tensor ids, Tensor table, Tensor positions, int64_t seq,
                        Tensor out)
{
    PACER_ASSERT(out.rank == 2, "out is %s", DESCRIBE(out));
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
}

void op_embed_forward(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                      int64_t seq, Tensor out)
{
    check_embed(c, ids, table, positions, seq, out);
    check_starts(starts, out.dim[0]);
    double bytes = bytes_of(ids) + 2 * bytes_of(out);
    OpCall call = op_begin(c, OP_EMBED_FORWARD, 0, bytes, 0, shape_of(out));
    DISPATCH(call,
             ops_for(c, out.dtype)->embed_forward(c, ids, table, positions, starts, seq, out));
}

void op_embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position, Tensor out)
{
    check_embed(c, ids, table, positions, 1, out);
    check_position(position);
    double bytes = bytes_of(ids) + 2 * bytes_of(out);
    OpCall call = op_begin(c, OP_EMBED_STEP, 0, bytes, 0, shape_of(out));
    DISPATCH(call, ops_for(c, out.dtype)->embed_step(c, ids, table, positions, position, out));
}

void op_embed_backward(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                       Tensor dpositions, Tensor starts, int64_t seq, Mode dtable_mode,
                       Mode dpositions_mode)
{
    CHECK_DTYPE(ids, DT_I32);
    CHECK_SHAPE_1D(ids, dout.dim[0]);
    CHECK_SAME(order, ids);
    CHECK_SHAPE_2D(dtable, dtable.dim[0], dout.dim[1]);
    CHECK_DTYPE(dtable, dtype_accumulate(dout.dtype));
    PACER_ASSERT(seq > 0 && dout.dim[0] % seq == 0, "%lld rows, seq %lld", (long long)dout.dim[0],
                 (long long)seq);
    check_starts(starts, dout.dim[0]);
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
    DISPATCH(call, ops_for(c, dout.dtype)
                       ->embed_backward(c, ids, order, dout, dtable, dpositions, starts, seq,
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
    DISPATCH(call, ops_for(c, x.dtype)->linear_forward(c, x, w, bias, y));
}

void op_linear_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode)
{
    double flops = check_linear(dx, w, dy);
    CHECK_DTYPE(w, dx.dtype);
    double bytes = bytes_of(dy) + bytes_of(w) + bytes_out(dx, mode);
    OpCall call = op_begin(c, OP_LINEAR_BACKWARD_INPUT, flops, bytes, 0, shape_of_linear(dx, dy));
    DISPATCH(call, ops_for(c, dy.dtype)->linear_backward_input(c, dy, w, dx, mode));
}

void op_linear_backward_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode)
{
    double flops = check_linear(x, dw, dy);
    CHECK_DTYPE(dw, dtype_accumulate(x.dtype));
    check_bias(dbias, dw, dw.dtype);
    const Ops *ops = ops_for(c, x.dtype);
    size_t ws =
        ops->linear_backward_weight_ws != NULL ? ops->linear_backward_weight_ws(c, x, dy) : 0;
    double bytes = bytes_of(x) + bytes_of(dy) + bytes_out(dw, mode);
    OpCall call = op_begin(c, OP_LINEAR_BACKWARD_WEIGHT, flops, bytes, ws, shape_of_linear(x, dy));
    DISPATCH(call, ops->linear_backward_weight(c, x, dy, dw, dbias, mode, call.ws));
}

void op_linear_gelu_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y)
{
    const Ops *ops = ops_for(c, x.dtype);
    if (ops->linear_gelu_forward == NULL || c->composed) {
        op_linear_forward(c, x, w, bias, pre);
        op_act_forward(c, ACT_GELU, pre, y);
        return;
    }
    double flops = check_linear(x, w, y);
    CHECK_SAME(pre, y);
    CHECK_DTYPE(w, x.dtype);
    check_bias(bias, w, x.dtype);
    double bytes = bytes_of(x) + bytes_of(w) + 2 * bytes_of(y);
    OpCall call = op_begin(c, OP_LINEAR_GELU_FORWARD, flops, bytes, 0, shape_of_linear(x, y));
    DISPATCH(call, ops->linear_gelu_forward(c, x, w, bias, pre, y));
}

void op_linear_gelu_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre)
{
    const Ops *ops = ops_for(c, dy.dtype);
    if (ops->linear_gelu_backward_input == NULL || c->composed) {
        ArenaMark mark = arena_mark(&c->scratch);
        Tensor dact = ctx_scratch(c, MEM_SCRATCH, pre.dtype, pre.dim[0], pre.dim[1]);
        op_linear_backward_input(c, dy, w, dact, MODE_SET);
        op_act_backward(c, ACT_GELU, dact, pre, dpre);
        arena_release(&c->scratch, mark);
        return;
    }
    double flops = check_linear(dpre, w, dy);
    CHECK_SAME(pre, dpre);
    CHECK_DTYPE(w, dy.dtype);
    double bytes = bytes_of(dy) + bytes_of(w) + 2 * bytes_of(pre);
    OpCall call =
        op_begin(c, OP_LINEAR_GELU_BACKWARD_INPUT, flops, bytes, 0, shape_of_linear(dpre, dy));
    DISPATCH(call, ops->linear_gelu_backward_input(c, dy, w, pre, dpre));
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
    DISPATCH(call, ops_for(c, x.dtype)->norm_forward(c, x, norm, y, stats));
}

void op_add_norm_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y, Tensor stats)
{
    const Ops *ops = ops_for(c, x.dtype);
    if (ops->add_norm_forward == NULL || c->composed) {
        op_add(c, x, h, r);
        op_norm_forward(c, r, norm, y, stats);
        return;
    }
    check_norm(r, norm, stats);
    CHECK_SAME(x, h);
    CHECK_SAME(x, r);
    CHECK_SAME(x, y);
    OpCall call =
        op_begin(c, OP_ADD_NORM_FORWARD, 0, 4 * bytes_of(x) + bytes_of(stats), 0, shape_of(x));
    DISPATCH(call, ops->add_norm_forward(c, x, h, norm, r, y, stats));
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
    const Ops *ops = ops_for(c, x.dtype);
    size_t ws = ops->norm_backward_ws != NULL ? ops->norm_backward_ws(c, x) : 0;
    double bytes = 2 * bytes_of(x) + bytes_out(dx, dx_mode) + bytes_of(stats);
    OpCall call = op_begin(c, OP_NORM_BACKWARD, 0, bytes, ws, shape_of(x));
    DISPATCH(call,
             ops->norm_backward(c, dy, x, norm, stats, dx, dx_mode, dweight, dbias, mode, call.ws));
}

void op_norm_pieces(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights)
{
    PACER_ASSERT(x.rank == 2 && dweights.rank == 2 && x.dim[0] % dweights.dim[0] == 0,
                 "x is %s, dweights %s", DESCRIBE(x), DESCRIBE(dweights));
    CHECK_SAME(dy, x);
    CHECK_SHAPE_2D(stats, x.dim[0], 2);
    CHECK_DTYPE(stats, dtype_accumulate(x.dtype));
    CHECK_SHAPE_2D(dweights, dweights.dim[0], x.dim[1]);
    CHECK_DTYPE(dweights, dtype_accumulate(x.dtype));
    double bytes = 2 * bytes_of(x) + bytes_of(stats) + bytes_of(dweights);
    OpCall call = op_begin(c, OP_NORM_PIECES, 0, bytes, 0, shape_of(x));
    DISPATCH(call, ops_for(c, x.dtype)->norm_pieces(c, dy, x, stats, dweights));
}

static void check_heads(Tensor qkv, int64_t rows, HeadShape s)
{
    CHECK_SHAPE_2D(qkv, rows, packed_width(s));
    PACER_ASSERT(s.kv_heads > 0 && s.heads % s.kv_heads == 0,
                 "%lld heads over %lld key/value heads", (long long)s.heads, (long long)s.kv_heads);
    PACER_ASSERT(s.window >= 0 && s.scale >= 0 && s.cap >= 0, "window %lld, scale %g, cap %g",
                 (long long)s.window, s.scale, s.cap);
    check_starts(s.starts, rows);
}

/* The part of a row of qkv that is q and k. */
static double turned_share(HeadShape s)
{
    return (double)(s.heads + s.kv_heads) / (double)(s.heads + 2 * s.kv_heads);
}

static void check_head_norm(Tensor qkv, HeadShape shape, HeadNorm norm)
{
    check_heads(qkv, shape.batch * shape.seq, shape);
    CHECK_SHAPE_1D(norm.q, shape.head_dim);
    CHECK_SAME(norm.k, norm.q);
    CHECK_DTYPE(norm.q, qkv.dtype);
}

void op_head_norm_forward(Ctx *c, Tensor qkv, HeadShape shape, HeadNorm norm, Tensor out)
{
    check_head_norm(qkv, shape, norm);
    CHECK_SAME(out, qkv);
    double share = out.data == qkv.data ? turned_share(shape) : 1;
    OpCall call =
        op_begin(c, OP_HEAD_NORM_FORWARD, 0, 2 * share * bytes_of(qkv), 0, shape_of_heads(shape));
    DISPATCH(call, ops_for(c, qkv.dtype)->head_norm_forward(c, qkv, shape, norm, out));
}

void op_head_norm_backward(Ctx *c, Tensor dout, Tensor qkv, HeadShape shape, HeadNorm norm,
                           Tensor dqkv, Tensor dq, Tensor dk, Mode mode)
{
    check_head_norm(qkv, shape, norm);
    CHECK_SAME(dout, qkv);
    CHECK_SAME(dqkv, qkv);
    CHECK_SHAPE_1D(dq, shape.head_dim);
    CHECK_DTYPE(dq, dtype_accumulate(qkv.dtype));
    CHECK_SAME(dk, dq);
    const Ops *ops = ops_for(c, qkv.dtype);
    size_t ws = ops->head_norm_backward_ws != NULL ? ops->head_norm_backward_ws(c, shape) : 0;
    double share = turned_share(shape), moved = dqkv.data == dout.data ? share : 1;
    OpCall call = op_begin(c, OP_HEAD_NORM_BACKWARD, 0, (share + 2 * moved) * bytes_of(qkv), ws,
                           shape_of_heads(shape));
    DISPATCH(call, ops->head_norm_backward(c, dout, qkv, shape, norm, dqkv, dq, dk, mode, call.ws));
}

void op_rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse)
{
    check_heads(qkv, shape.batch * shape.seq, shape);
    check_rope(table, shape.seq, shape.head_dim, qkv.dtype);
    double bytes = 2 * turned_share(shape) * bytes_of(qkv);
    OpCall call = op_begin(c, OP_ROPE, 0, bytes, 0, shape_of_heads(shape));
    DISPATCH(call, ops_for(c, qkv.dtype)->rope(c, qkv, shape, table, inverse));
}

Tensor op_attention_aux_shape(const Ctx *c, HeadShape s, DType dtype)
{
    bool naive = c->attention == ATTENTION_NAIVE;
    return (Tensor){.dtype = naive ? dtype : dtype_accumulate(dtype),
                    .rank = naive ? 4 : 3,
                    .dim = {s.batch, s.heads, s.seq, naive ? s.seq : 0}};
}

Tensor op_attention_aux(Ctx *c, HeadShape s, DType dtype)
{
    Tensor shape = op_attention_aux_shape(c, s, dtype);
    return arena_push(&c->saved, MEM_ATTENTION, shape.dtype, shape.rank, shape.dim);
}

static void check_aux(const Ctx *c, Tensor aux, HeadShape s, DType dtype)
{
    bool naive = c->attention == ATTENTION_NAIVE;
    int64_t count = s.batch * s.heads * s.seq * (naive ? s.seq : 1);
    CHECK_DTYPE(aux, naive ? dtype : dtype_accumulate(dtype));
    PACER_ASSERT(tensor_count(aux) == count, "aux is %s, wanted %lld elements", DESCRIBE(aux),
                 (long long)count);
}

/* Where documents begin lies in backend memory: they count as one. */
static double attention_flops(HeadShape s)
{
    double most = (double)keys_at_most(s, s.seq);
    double seen = most * (most + 1) / 2 + ((double)s.seq - most) * most; /* keys of all queries */
    return 4.0 * (double)(s.batch * s.heads * s.head_dim) * seen;
}

bool op_attention_turns(const Ctx *c, HeadShape shape, DType dtype)
{
    const Ops *ops = ops_for(c, dtype);
    return !c->composed && ops->attention_turns != NULL && ops->attention_turns(c, shape, dtype);
}

static void check_turns(const Ctx *c, HeadShape shape, DType dtype)
{
    if (tensor_given(shape.turns)) {
        check_rope(shape.turns, shape.seq, shape.head_dim, dtype);
        PACER_ASSERT(op_attention_turns(c, shape, dtype), "attention on %s does not turn heads",
                     c->backend->name);
    }
}

void op_attention_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux)
{
    check_heads(qkv, shape.batch * shape.seq, shape);
    check_turns(c, shape, qkv.dtype);
    CHECK_SHAPE_2D(out, qkv.dim[0], shape.heads * shape.head_dim);
    CHECK_DTYPE(out, qkv.dtype);
    check_aux(c, aux, shape, qkv.dtype);
    const Ops *ops = ops_for(c, qkv.dtype);
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
    check_heads(qkv, shape.batch * shape.seq, shape);
    check_turns(c, shape, qkv.dtype);
    CHECK_SAME(dqkv, qkv);
    CHECK_SAME(dout, out);
    CHECK_SHAPE_2D(out, qkv.dim[0], shape.heads * shape.head_dim);
    check_aux(c, aux, shape, qkv.dtype);
    const Ops *ops = ops_for(c, qkv.dtype);
    size_t ws =
        ops->attention_backward_ws != NULL ? ops->attention_backward_ws(c, shape, qkv.dtype) : 0;
    double bytes = 2 * bytes_of(qkv) + 2 * bytes_of(out) + bytes_of(aux);
    OpCall call = op_begin(c, OP_ATTENTION_BACKWARD, 2 * attention_flops(shape), bytes, ws,
                           shape_of_heads(shape));
    DISPATCH(call, ops->attention_backward(c, dout, qkv, out, aux, shape, dqkv, call.ws));
}

/* The context of the cache: tokens of a sequence that it has room for. */
static int64_t check_cache(Tensor cache, HeadShape s, DType dtype)
{
    CHECK_DTYPE(cache, dtype);
    PACER_ASSERT(cache.rank == 3 && cache.dim[1] > 0 && cache.dim[1] % (2 * s.kv_heads) == 0 &&
                     cache.dim[2] == s.head_dim,
                 "the cache of %lld key/value heads of %lld is %s", (long long)s.kv_heads,
                 (long long)s.head_dim, DESCRIBE(cache));
    return cache.dim[1] / (2 * s.kv_heads);
}

void op_attention_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache)
{
    check_heads(qkv, shape.batch * shape.seq, shape);
    int64_t context = check_cache(cache, shape, qkv.dtype), sequences = cache.dim[0];
    PACER_ASSERT(sequences > 0 && shape.batch > 0 && sequences % shape.batch == 0,
                 "%lld sequences from a batch of %lld", (long long)sequences,
                 (long long)shape.batch);
    PACER_ASSERT(shape.seq > 0 && shape.seq <= context, "%lld tokens for a cache of %lld",
                 (long long)shape.seq, (long long)context);
    double read = (double)(shape.batch * shape.seq * 2 * shape.kv_heads * shape.head_dim) *
                  (double)dtype_size(qkv.dtype);
    double copies = (double)(sequences / shape.batch);
    OpCall call = op_begin(c, OP_ATTENTION_FILL, 0, read * (1 + copies), 0,
                           (OpShape){{shape.batch, shape.seq, shape.kv_heads, shape.head_dim}});
    DISPATCH(call, ops_for(c, qkv.dtype)->attention_fill(c, qkv, shape, cache));
}

void op_attention_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                       Tensor cache, Tensor out)
{
    const Ops *ops = ops_for(c, qkv.dtype);
    check_heads(qkv, shape.batch, shape);
    PACER_ASSERT(!tensor_given(shape.starts), "documents in a sequence that is generated");
    int64_t context = check_cache(cache, shape, qkv.dtype);
    PACER_ASSERT(cache.dim[0] == shape.batch, "%lld sequences, cache %s", (long long)shape.batch,
                 DESCRIBE(cache));
    CHECK_SHAPE_2D(out, shape.batch, shape.heads * shape.head_dim);
    CHECK_DTYPE(out, qkv.dtype);
    check_position(position);
    if (tensor_given(rope)) {
        check_rope(rope, context, shape.head_dim, qkv.dtype);
    }
    size_t ws =
        ops->attention_step_ws != NULL ? ops->attention_step_ws(c, shape, qkv.dtype, context) : 0;
    double seen = (double)keys_at_most(shape, context);
    double flops = 4.0 * (double)(shape.batch * shape.heads * shape.head_dim) * seen;
    double bytes = bytes_of(qkv) + bytes_of(out) + bytes_of(cache) * seen / (double)context;
    OpCall call = op_begin(c, OP_ATTENTION_STEP, flops, bytes, ws,
                           (OpShape){{shape.batch, context, shape.heads, shape.head_dim}});
    DISPATCH(call, ops->attention_step(c, qkv, shape, rope, position, cache, out, call.ws));
}
