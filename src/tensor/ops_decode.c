/* The wrappers of the ops that generate token by token from kept keys and values. Their slots are
 * the only plain ones that a backend may leave empty: it trains all the same. See ops.c for what a
 * wrapper does.
 *
 * How far a sequence has come lies in backend memory, so the work of an attention step is not
 * known here. It is counted for a full context: FLOPs and bytes are the most that the step may
 * take. */
#include "tensor/ops_internal.h"

static void check_slot(const Ctx *c, OpId op, bool filled)
{
    PACER_ASSERT(filled, "the %s backend has no %s: generate without the cache", c->backend->name,
                 op_name(op));
}

static void check_position(Tensor position)
{
    CHECK_SHAPE_1D(position, 1);
    CHECK_DTYPE(position, DT_I32);
}

void op_embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position, Tensor out)
{
    const Ops *ops = &c->backend->ops;
    check_slot(c, OP_EMBED_STEP, ops->embed_step != NULL);
    PACER_ASSERT(out.rank == 2, "out is %s", DESCRIBE(out));
    CHECK_DTYPE(ids, DT_I32);
    CHECK_SHAPE_1D(ids, out.dim[0]);
    CHECK_SHAPE_2D(table, table.dim[0], out.dim[1]);
    CHECK_WEIGHT(c, table, out.dtype);
    check_position(position);
    if (tensor_given(positions)) {
        CHECK_SHAPE_2D(positions, positions.dim[0], out.dim[1]);
        CHECK_DTYPE(positions, table.dtype);
    }
    double bytes = bytes_of(ids) + 2 * bytes_of(out);
    OpCall call = op_begin(c, OP_EMBED_STEP, 0, bytes, 0, shape_of(out));
    DISPATCH(call, ops->embed_step(c, ids, table, positions, position, out));
}

/* The context of the cache: tokens of a sequence that it has room for. */
static int64_t check_cache(Tensor cache, HeadShape s, DType dtype)
{
    PACER_ASSERT(s.batch > 0 && s.heads > 0 && s.kv_heads > 0 && s.heads % s.kv_heads == 0,
                 "%lld sequences, %lld heads over %lld key/value heads", (long long)s.batch,
                 (long long)s.heads, (long long)s.kv_heads);
    CHECK_DTYPE(cache, dtype);
    PACER_ASSERT(cache.rank == 3 && cache.dim[1] > 0 && cache.dim[1] % (2 * s.kv_heads) == 0 &&
                     cache.dim[2] == s.head_dim,
                 "the cache of %lld key/value heads of %lld is %s", (long long)s.kv_heads,
                 (long long)s.head_dim, DESCRIBE(cache));
    return cache.dim[1] / (2 * s.kv_heads);
}

static int64_t qkv_width(HeadShape s)
{
    return (s.heads + 2 * s.kv_heads) * s.head_dim;
}

void op_attention_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache)
{
    const Ops *ops = &c->backend->ops;
    check_slot(c, OP_ATTENTION_FILL, ops->attention_fill != NULL);
    CHECK_SHAPE_2D(qkv, shape.batch * shape.seq, qkv_width(shape));
    int64_t context = check_cache(cache, shape, qkv.dtype), sequences = cache.dim[0];
    PACER_ASSERT(sequences > 0 && sequences % shape.batch == 0,
                 "%lld sequences from a batch of %lld", (long long)sequences,
                 (long long)shape.batch);
    PACER_ASSERT(shape.seq > 0 && shape.seq <= context, "%lld tokens for a cache of %lld",
                 (long long)shape.seq, (long long)context);
    double read = (double)(shape.batch * shape.seq * 2 * shape.kv_heads * shape.head_dim) *
                  (double)dtype_size(qkv.dtype);
    double copies = (double)(sequences / shape.batch);
    OpCall call = op_begin(c, OP_ATTENTION_FILL, 0, read * (1 + copies), 0,
                           (OpShape){{shape.batch, shape.seq, shape.kv_heads, shape.head_dim}});
    DISPATCH(call, ops->attention_fill(c, qkv, shape, cache));
}

void op_attention_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                       Tensor cache, Tensor out)
{
    const Ops *ops = &c->backend->ops;
    check_slot(c, OP_ATTENTION_STEP, ops->attention_step != NULL);
    int64_t context = check_cache(cache, shape, qkv.dtype);
    PACER_ASSERT(cache.dim[0] == shape.batch, "%lld sequences, cache %s", (long long)shape.batch,
                 DESCRIBE(cache));
    CHECK_SHAPE_2D(qkv, shape.batch, qkv_width(shape));
    CHECK_SHAPE_2D(out, shape.batch, shape.heads * shape.head_dim);
    CHECK_DTYPE(out, qkv.dtype);
    check_position(position);
    if (tensor_given(rope)) {
        CHECK_DTYPE(rope, dtype_accumulate(qkv.dtype));
        PACER_ASSERT(shape.head_dim % 2 == 0, "rope needs an even head width, not %lld",
                     (long long)shape.head_dim);
        PACER_ASSERT(rope.rank == 2 && rope.dim[0] >= context && rope.dim[1] == shape.head_dim,
                     "rope table is %s for a context of %lld", DESCRIBE(rope), (long long)context);
    }
    size_t ws =
        ops->attention_step_ws != NULL ? ops->attention_step_ws(c, shape, qkv.dtype, context) : 0;
    double flops = 4.0 * (double)(shape.batch * shape.heads * shape.head_dim) * (double)context;
    double bytes = bytes_of(qkv) + bytes_of(out) + bytes_of(cache);
    OpCall call = op_begin(c, OP_ATTENTION_STEP, flops, bytes, ws,
                           (OpShape){{shape.batch, context, shape.heads, shape.head_dim}});
    DISPATCH(call, ops->attention_step(c, qkv, shape, rope, position, cache, out, call.ws));
}
