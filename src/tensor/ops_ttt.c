/* The wrappers of the test-time-training ops. FLOPs are those of the products of the dual form,
 * 2 per multiply-add, triangular ones counted in full: for a row and head 6 D^2 + 4 m D (linear)
 * or 56 D^2 + 20 m D (mlp), and twice that for backward; what a backend computes again is not
 * counted. */
#include "tensor/ops_internal.h"

static double ttt_flops(const TttShape *s)
{
    double d = (double)s->head_dim, m = (double)s->mini;
    double head = s->kind == TTT_MLP ? 56 * d * d + 20 * m * d : 6 * d * d + 4 * m * d;
    return (double)(s->batch * s->seq * s->heads) * head;
}

static OpShape shape_of_ttt(const TttShape *s)
{
    return (OpShape){{s->batch, s->seq, s->heads, s->head_dim}};
}

static void check_weights(const TttShape *s, const TttWeights *w, DType dtype)
{
    int64_t h = s->heads, d = s->head_dim, f = ttt_inner(s);
    bool mlp = s->kind == TTT_MLP;
    const struct {
        const char *name;
        Tensor tensor;
        int64_t count;
        bool needed;
    } all[] = {{"index", w->index, s->mini, true}, {"rate_bias", w->rate_bias, h, true},
               {"gamma", w->gamma, h * d, true},   {"beta", w->beta, h * d, true},
               {"w1", w->w1, h * d * f, true},     {"b1", w->b1, h * f, true},
               {"w2", w->w2, h * f * d, mlp},      {"b2", w->b2, h * d, mlp}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (!all[i].needed) {
            PACER_ASSERT(!tensor_given(all[i].tensor), "%s given to a linear inner model",
                         all[i].name);
            continue;
        }
        PACER_ASSERT(tensor_count(all[i].tensor) == all[i].count && all[i].tensor.dtype == dtype,
                     "%s is %s, wanted %lld elements of %s", all[i].name, DESCRIBE(all[i].tensor),
                     (long long)all[i].count, dtype_name(dtype));
    }
}

static double weight_bytes(const TttWeights *w)
{
    return bytes_of(w->w1) + bytes_of(w->b1) + bytes_of(w->w2) + bytes_of(w->b2);
}

static void check_shape(const TttShape *s, int64_t rows, Tensor x, const TttWeights *w, Tensor rope,
                        Tensor out)
{
    PACER_ASSERT(s->batch > 0 && s->seq > 0 && s->heads > 0 && s->head_dim > 0 && s->mini > 0,
                 "ttt of %lld x %lld, %lld heads of %lld, mini-batch %lld", (long long)s->batch,
                 (long long)s->seq, (long long)s->heads, (long long)s->head_dim,
                 (long long)s->mini);
    PACER_ASSERT(s->width >= 3 * s->heads * s->head_dim + s->heads, "rows of %lld elements",
                 (long long)s->width);
    CHECK_SHAPE_2D(x, rows, s->width);
    CHECK_SHAPE_2D(out, rows, s->heads * s->head_dim);
    CHECK_DTYPE(out, x.dtype);
    check_rope(rope, s->mini < s->seq ? s->mini : s->seq, s->head_dim, x.dtype);
    check_weights(s, w, x.dtype);
}

Tensor op_ttt_states_shape(const Ctx *c, const TttShape *shape, DType dtype)
{
    const Ops *ops = ops_for(c, dtype);
    size_t bytes = ops->ttt_states_bytes != NULL ? ops->ttt_states_bytes(c, shape, dtype) : 0;
    return bytes > 0 ? tensor_1d(NULL, DT_I32, (int64_t)((bytes + 3) / 4)) : TENSOR_NONE;
}

Tensor op_ttt_states(Ctx *c, const TttShape *shape, DType dtype)
{
    Tensor states = op_ttt_states_shape(c, shape, dtype);
    return tensor_given(states) ? arena_push(&c->saved, MEM_ATTENTION, DT_I32, 1, states.dim)
                                : TENSOR_NONE;
}

void op_ttt_forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                    Tensor out, Tensor states)
{
    check_shape(shape, shape->batch * shape->seq, x, w, rope, out);
    const Ops *ops = ops_for(c, x.dtype);
    size_t ws = ops->ttt_forward_ws != NULL ? ops->ttt_forward_ws(c, shape, x.dtype) : 0;
    double bytes = bytes_of(x) + bytes_of(out) + bytes_of(states) + weight_bytes(w);
    OpCall call = op_begin(c, OP_TTT_FORWARD, ttt_flops(shape), bytes, ws, shape_of_ttt(shape));
    DISPATCH(call, ops->ttt_forward(c, x, shape, w, rope, out, states, call.ws));
}

void op_ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                     Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode)
{
    check_shape(shape, shape->batch * shape->seq, x, w, rope, dout);
    CHECK_SAME(dx, x);
    check_weights(shape, grads, dtype_accumulate(x.dtype));
    const Ops *ops = ops_for(c, x.dtype);
    size_t ws = ops->ttt_backward_ws != NULL ? ops->ttt_backward_ws(c, shape, x.dtype) : 0;
    double bytes = 2 * bytes_of(x) + bytes_of(dout) + bytes_of(states) + weight_bytes(w) +
                   weight_bytes(grads) * (mode == MODE_ADD ? 2 : 1);
    OpCall call =
        op_begin(c, OP_TTT_BACKWARD, 2 * ttt_flops(shape), bytes, ws, shape_of_ttt(shape));
    DISPATCH(call, ops->ttt_backward(c, dout, x, shape, w, rope, states, dx, grads, mode, call.ws));
}

static void check_state(const TttShape *s, const TttWeights *w, Tensor state)
{
    CHECK_SHAPE_2D(state, s->batch * s->heads, 2 * ttt_state(s));
    CHECK_DTYPE(state, dtype_accumulate(w->w1.dtype));
}

void op_ttt_start(Ctx *c, const TttShape *shape, const TttWeights *w, Tensor state)
{
    check_weights(shape, w, w->w1.dtype);
    check_state(shape, w, state);
    OpCall call =
        op_begin(c, OP_TTT_START, 0, weight_bytes(w) + bytes_of(state), 0, shape_of_ttt(shape));
    DISPATCH(call, ops_for(c, w->w1.dtype)->ttt_start(c, shape, w, state));
}

void op_ttt_step(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                 Tensor position, Tensor state, Tensor out)
{
    check_shape(shape, shape->batch, x, w, rope, out);
    check_state(shape, w, state);
    check_position(position);
    /* Products of a row with a matrix: k W, q W, and the outer product of the update. */
    double flops = 6.0 * (double)(shape->batch * shape->heads) * (double)shape->head_dim *
                   (double)ttt_inner(shape) * (shape->kind == TTT_MLP ? 2 : 1);
    OpCall call = op_begin(c, OP_TTT_STEP, flops, bytes_of(x) + bytes_of(out) + 2 * bytes_of(state),
                           0, shape_of_ttt(shape));
    DISPATCH(call, ops_for(c, x.dtype)->ttt_step(c, x, shape, w, rope, position, state, out));
}
