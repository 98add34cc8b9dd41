#pragma once
/* A stack of tensors in one block of memory. Forward pushes, backward releases in reverse order, so
 * mark and release are the whole liveness analysis. A counting arena has no memory: it hands out
 * tensors without data and only measures, which is how a run is planned before it allocates. */
#include "tensor/tensor.h"

/* What memory is for; the rows of the memory plan. */
typedef enum {
    MEM_PARAMS,
    MEM_GRADS,
    MEM_OPTIMIZER,
    MEM_CONSTANTS, /* rope table, hyperparameters, norms and losses of a step */
    MEM_BATCH,     /* token ids on the device */
    MEM_RESIDUAL,  /* residual stream, kept for the norms' backward */
    MEM_NORM,      /* outputs and statistics of norms */
    MEM_MIXER,     /* packed q, k, v and the mixer's output */
    MEM_ATTENTION, /* what attention keeps for its backward */
    MEM_FFN,       /* feed-forward activations */
    MEM_HEAD,      /* logits chunk and losses */
    MEM_SCRATCH,   /* dead again before the op or block that took it ends */
    MEM_KINDS
} MemKind;

const char *mem_kind_name(MemKind kind);

#define ARENA_ALIGN 256

typedef struct {
    const char *name;
    uint8_t *base; /* NULL while counting */
    size_t capacity, used, peak;
    size_t by_kind[MEM_KINDS], peak_by_kind[MEM_KINDS]; /* now; at the moment of the peak */
} Arena;

typedef struct {
    size_t used;
    size_t by_kind[MEM_KINDS];
} ArenaMark;

void arena_init_counting(Arena *arena, const char *name);
void arena_init(Arena *arena, const char *name, void *base, size_t capacity);

/* Uninitialised memory; asserts when a planned arena overflows: the plan was wrong. A counting
 * arena stays at SIZE_MAX once it has come there. */
Tensor arena_push(Arena *arena, MemKind kind, DType dtype, int rank, const int64_t *dims);

ArenaMark arena_mark(const Arena *arena);
void arena_release(Arena *arena, ArenaMark mark);

/* Takes again what was released down from this mark: what was pushed there meanwhile has its place,
 * all else is as it was. */
void arena_retake(Arena *arena, ArenaMark mark);

/* What lies between two marks, as bytes: (n) e4m3. */
Tensor arena_between(const Arena *arena, ArenaMark from, ArenaMark to);

/* As many bytes as were pushed on `like` between two marks, for the same purposes. */
Tensor arena_push_like(Arena *arena, const Arena *like, ArenaMark from, ArenaMark to);
