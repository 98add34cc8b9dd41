#include "tensor/arena.h"

#include "base/assert.h"

#include <string.h>

const char *mem_kind_name(MemKind kind)
{
    static const char *const names[] = {
        [MEM_PARAMS] = "parameters",   [MEM_GRADS] = "gradients",
        [MEM_OPTIMIZER] = "optimizer", [MEM_CONSTANTS] = "constants",
        [MEM_BATCH] = "batch",         [MEM_RESIDUAL] = "residual",
        [MEM_NORM] = "norm",           [MEM_MIXER] = "mixer",
        [MEM_ATTENTION] = "attention", [MEM_FFN] = "ffn",
        [MEM_HEAD] = "head",           [MEM_SCRATCH] = "scratch",
    };
    return names[kind];
}

void arena_init_counting(Arena *arena, const char *name)
{
    *arena = (Arena){.name = name};
}

void arena_init(Arena *arena, const char *name, void *base, size_t capacity)
{
    *arena = (Arena){.name = name, .base = base, .capacity = capacity};
}

/* The next bytes of the block; NULL while counting. */
static void *take(Arena *arena, size_t bytes)
{
    void *data = arena->base != NULL ? arena->base + arena->used : NULL;
    PACER_ASSERT(arena->base == NULL || bytes <= arena->capacity - arena->used,
                 "arena %s: %zu more bytes of %zu, %zu used", arena->name, bytes, arena->capacity,
                 arena->used);
    arena->used = size_sum(arena->used, bytes);
    return data;
}

static void note_peak(Arena *arena)
{
    if (arena->used > arena->peak) {
        arena->peak = arena->used;
        memcpy(arena->peak_by_kind, arena->by_kind, sizeof arena->by_kind);
    }
}

Tensor arena_push(Arena *arena, MemKind kind, DType dtype, int rank, const int64_t *dims)
{
    Tensor t = {.dtype = dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
        PACER_ASSERT(dims[i] >= 0, "negative dimension %lld", (long long)dims[i]);
        t.dim[i] = dims[i];
    }
    size_t bytes = (tensor_bytes(t) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    t.data = take(arena, bytes);
    arena->by_kind[kind] = size_sum(arena->by_kind[kind], bytes);
    note_peak(arena);
    return t;
}

ArenaMark arena_mark(const Arena *arena)
{
    ArenaMark mark = {.used = arena->used};
    memcpy(mark.by_kind, arena->by_kind, sizeof mark.by_kind);
    return mark;
}

void arena_release(Arena *arena, ArenaMark mark)
{
    PACER_ASSERT(mark.used <= arena->used, "arena %s: released %zu below %zu", arena->name,
                 arena->used, mark.used);
    arena->used = mark.used;
    memcpy(arena->by_kind, mark.by_kind, sizeof arena->by_kind);
}

void arena_retake(Arena *arena, ArenaMark mark)
{
    PACER_ASSERT(mark.used >= arena->used && mark.used <= arena->peak,
                 "arena %s: %zu of %zu used, taken again up to %zu", arena->name, arena->used,
                 arena->peak, mark.used);
    arena->used = mark.used;
    memcpy(arena->by_kind, mark.by_kind, sizeof arena->by_kind);
}

Tensor arena_between(const Arena *arena, ArenaMark from, ArenaMark to)
{
    void *data = arena->base != NULL ? arena->base + from.used : NULL;
    return tensor_1d(data, DT_E4M3, (int64_t)(to.used - from.used));
}

Tensor arena_push_like(Arena *arena, const Arena *like, ArenaMark from, ArenaMark to)
{
    Tensor bytes = arena_between(like, from, to);
    bytes.data = take(arena, tensor_bytes(bytes));
    for (int kind = 0; kind < MEM_KINDS; kind++) {
        size_t pushed = to.by_kind[kind] - from.by_kind[kind];
        arena->by_kind[kind] = size_sum(arena->by_kind[kind], pushed);
    }
    note_peak(arena);
    return bytes;
}
