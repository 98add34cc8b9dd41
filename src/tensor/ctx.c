#include "tensor/ctx.h"

#include <string.h>

void ctx_init(Ctx *c, Backend *backend)
{
    memset(c, 0, sizeof *c);
    c->backend = backend;
    c->attention = ATTENTION_FLASH;
    c->watching = true;
    c->layer = CTX_NO_LAYER;
    arena_init_counting(&c->saved, "saved");
    arena_init_counting(&c->scratch, "scratch");
    arena_init_counting(&c->host, "host");
}

Tensor ctx_save(Ctx *c, MemKind kind, DType dtype, int64_t a, int64_t b)
{
    return arena_push(&c->saved, kind, dtype, 2, (int64_t[]){a, b});
}

Tensor ctx_scratch(Ctx *c, MemKind kind, DType dtype, int64_t a, int64_t b)
{
    return arena_push(&c->scratch, kind, dtype, 2, (int64_t[]){a, b});
}

OpStat ctx_total(const Ctx *c)
{
    OpStat total = {0};
    for (int op = 0; op < OP_COUNT; op++) {
        total.flops += c->stats[op].flops;
        total.bytes += c->stats[op].bytes;
        total.calls += c->stats[op].calls;
    }
    return total;
}

void ctx_repeat(Ctx *c, const OpStat before[OP_COUNT], int64_t times)
{
    for (int op = 0; op < OP_COUNT; op++) {
        OpStat *stat = &c->stats[op];
        stat->flops += (stat->flops - before[op].flops) * (double)times;
        stat->bytes += (stat->bytes - before[op].bytes) * (double)times;
        stat->calls += (stat->calls - before[op].calls) * times;
    }
}
