#pragma once
/* What a pass of the model carries along: the backend, the two activation arenas, the counters, and
 * the choices that ops depend on. */
#include "tensor/trace.h"

typedef struct {
    double flops, bytes; /* of matrix products; moved at least */
    int64_t calls;
} OpStat;

#define CTX_NO_LAYER (-1)

struct Ctx {
    Backend *backend;
    Arena saved;                /* pushed in forward, released in backward */
    Arena scratch;              /* mark and release inside one op or block */
    Arena host;                 /* memory of the host, for what is offloaded (offload.h) */
    double copied[COPY_QUEUES]; /* bytes to it and from it */
    bool dry;                   /* check, count and measure, but compute nothing */
    bool composed;              /* ignore fused slots */
    int layer;    /* that the ops to come belong to, for the trace; CTX_NO_LAYER: none */
    Trace *trace; /* told of every op; NULL: none */
    /* Called for every op, in dry runs too; NULL: nobody wants to know. */
    void (*note)(void *user, const TraceCall *call);
    void (*note_copy)(void *user, CopyQueue queue, double bytes); /* the same of every copy */
    void *note_user;
    /* Told by a backward pass: the gradients of decaying parameters from this offset of the flat
     * buffer on are complete. NULL: nobody wants to know. */
    void (*ready)(void *user, int64_t from);
    void *ready_user;
    /* Told by a forward pass, once for each parameter: these elements of the flat buffer of
     * weights are read from now on; and by a backward pass, again of each layer's. NULL: nobody
     * wants to know. */
    void (*need)(void *user, int64_t offset, int64_t count);
    void *need_user;
    AttentionKind attention;
    bool watching; /* the largest values that become codes are kept (Quant.largest) */
    bool
        ttt_keep; /* a TTT layer's forward keeps its inner states, where the backend can use them */
    OpStat stats[OP_COUNT];
};

/* The slots that do ops over this element type. */
static inline const Ops *ops_for(const Ctx *c, DType dtype)
{
    const Backend *backend = c->backend;
    const Ops *other =
        dtype == DT_BF16 && backend->low_ops != NULL ? backend->low_ops : backend->other_ops;
    return dtype != DT_F32 && other != NULL ? other : &backend->ops;
}

/* Everything but the arenas, which the caller sets up. */
void ctx_init(Ctx *c, Backend *backend);

Tensor ctx_save(Ctx *c, MemKind kind, DType dtype, int64_t a, int64_t b);    /* (a,b) on saved */
Tensor ctx_scratch(Ctx *c, MemKind kind, DType dtype, int64_t a, int64_t b); /* (a,b) on scratch */

OpStat ctx_total(const Ctx *c); /* sum over ops */

/* Counts the work since `before` (stats then) so many times more: how a dry run counts what is
 * the same each time. */
void ctx_repeat(Ctx *c, const OpStat before[OP_COUNT], int64_t times);
