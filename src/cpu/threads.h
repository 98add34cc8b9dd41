#pragma once
/* How work is cut for threads. A loop runs over `parts` with a static schedule, and what a part
 * computes depends only on the shapes and on `parts`: results never depend on timing. */
#include "tensor/ctx.h"

/* Fewer elements than this are not worth waking the other threads for. */
#define THREADS_WORTH_ELEMENTS 32768

/* Sums over many rows (gradients of weights and biases of norms and linear maps) are cut into this
 * many parts whatever the number of threads, so that their result does not depend on it. */
#define THREADS_SUM_PARTS 64

typedef struct {
    int64_t first, last; /* [first, last) */
} Span;

/* Part `part` of [0, count) cut into `parts` pieces whose sizes differ by one at most. */
static inline Span span_of(int64_t count, int64_t parts, int64_t part)
{
    int64_t size = count / parts, rest = count % parts;
    int64_t first = part * size + (part < rest ? part : rest);
    return (Span){first, first + size + (part < rest ? 1 : 0)};
}

/* The same for elements of f32 tensors, cut on cache lines where the tensor starts on one. */
static inline Span span_of_floats(int64_t count, int64_t parts, int64_t part)
{
    Span lines = span_of((count + 15) / 16, parts, part);
    int64_t first = lines.first * 16, last = lines.last * 16;
    return (Span){first < count ? first : count, last < count ? last : count};
}

/* All threads of the backend, or one when `elements` are too few. Never a number between, so that
 * the runtime keeps one team of threads alive. */
static inline int threads_for(const Ctx *c, int64_t elements)
{
    return elements < THREADS_WORTH_ELEMENTS ? 1 : c->backend->threads;
}

/* out (width) = or += the sum of the THREADS_SUM_PARTS rows of partial, which lie `stride` apart
 * and are used up. Rows are added in pairs, then pairs of pairs: fixed in order, and more exact. */
void threads_join_sums(float *partial, int64_t stride, int64_t width, float *out, Mode mode);

/* Has this many threads, which compute from now on for the caller, take no signals
 * (base/signals.h). */
void threads_shield(int threads);

/* memcpy by several threads where that is faster; from NULL: zeros. */
void threads_copy(void *to, const void *from, size_t bytes, int threads);
