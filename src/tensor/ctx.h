#pragma once
/* What a pass of the model carries along: the backend, the two activation arenas, the counters, and
 * the choices that ops depend on. */
#include "tensor/backend.h"

typedef struct {
    double flops, bytes; /* of matrix products; moved at least */
    double seconds;      /* only with Ctx.timing */
    int64_t calls;
} OpStat;

struct Ctx {
    Backend *backend;
    Arena saved;   /* pushed in forward, released in backward */
    Arena scratch; /* mark and release inside one op or block */
    bool dry;      /* check, count and measure, but compute nothing */
    bool timing;   /* sync after each op and add its time to stats */
    bool composed; /* ignore fused slots */
    AttentionKind attention;
    OpStat stats[OP_COUNT];
};

/* Everything but the arenas, which the caller sets up. */
void ctx_init(Ctx *c, Backend *backend);

Tensor ctx_save(Ctx *c, MemKind kind, DType dtype, int64_t a, int64_t b);    /* (a,b) on saved */
Tensor ctx_scratch(Ctx *c, MemKind kind, DType dtype, int64_t a, int64_t b); /* (a,b) on scratch */

void ctx_reset_stats(Ctx *c);
OpStat ctx_total(const Ctx *c); /* sum over ops */
