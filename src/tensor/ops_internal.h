#pragma once
/* What the wrappers of ops.c, ops_small.c and ops_ttt.c share: checks of a contract, the frame
 * around a call of a slot, and counts. */
#include "base/assert.h"
#include "tensor/ctx.h"

#define DESCRIBE(t) tensor_describe(t, (char[TENSOR_TEXT_SIZE]){0})

#define CHECK_SHAPE_2D(t, a, b)                                           \
    PACER_ASSERT((t).rank == 2 && (t).dim[0] == (a) && (t).dim[1] == (b), \
                 #t " is %s, wanted (%lld, %lld)", DESCRIBE(t), (long long)(a), (long long)(b))

#define CHECK_SHAPE_1D(t, a)                                                                  \
    PACER_ASSERT((t).rank == 1 && (t).dim[0] == (a), #t " is %s, wanted (%lld)", DESCRIBE(t), \
                 (long long)(a))

#define CHECK_DTYPE(t, wanted) \
    PACER_ASSERT((t).dtype == (wanted), #t " is %s, wanted %s", DESCRIBE(t), dtype_name(wanted))

#define CHECK_SAME(a, b)                                                                       \
    PACER_ASSERT(tensor_same_shape(a, b) && (a).dtype == (b).dtype, #a " is %s, " #b " is %s", \
                 DESCRIBE(a), DESCRIBE(b))

/* A matrix or table that is only read: of the activation type, or bf16 beside f32 where the
 * backend can. */
#define CHECK_WEIGHT(c, t, act)                                                               \
    PACER_ASSERT((t).dtype == (act) ||                                                        \
                     ((t).dtype == DT_BF16 && (act) == DT_F32 && (c)->backend->bf16_weights), \
                 #t " is %s beside activations of %s on %s", DESCRIBE(t), dtype_name(act),    \
                 (c)->backend->name)

/* Of rotary positions from 0 on, for heads of activations of that type. */
void check_rope(Tensor table, int64_t positions, int64_t head_dim, DType dtype);
void check_position(Tensor position);

/* An open op: its workspace is on the scratch arena until op_end. */
typedef struct {
    Ctx *c;
    ArenaMark mark;
    void *ws;
} OpCall;

OpCall op_begin(Ctx *c, OpId op, double flops, double bytes, size_t ws_bytes, OpShape shape);
void op_end(OpCall call);

/* Calls the slot unless this is a dry run, and closes the op. */
#define DISPATCH(call, slot_call) \
    do {                          \
        if (!(call).c->dry) {     \
            slot_call;            \
        }                         \
        op_end(call);             \
    } while (0)

static inline double bytes_of(Tensor t)
{
    return (double)tensor_bytes(t);
}

/* A MODE_ADD output is read as well as written. */
static inline double bytes_out(Tensor t, Mode mode)
{
    return bytes_of(t) * (mode == MODE_ADD ? 2 : 1);
}

static inline OpShape shape_of(Tensor t)
{
    OpShape shape = {{0}};
    memcpy(shape.dim, t.dim, (size_t)t.rank * sizeof t.dim[0]);
    return shape;
}
