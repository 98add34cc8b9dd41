#include "cpu/threads.h"

#include "base/signals.h"

#include <omp.h>
#include <string.h>

_Static_assert((THREADS_SUM_PARTS & (THREADS_SUM_PARTS - 1)) == 0, "parts are joined in halves");

/* Below this a single thread is as fast. */
#define WORTH_BYTES ((size_t)1 << 20)

/* Byte `part` / `parts` of the way, on a cache line. */
static size_t cut(size_t bytes, int parts, int part)
{
    return part == parts ? bytes : bytes / (size_t)parts * (size_t)part / 64 * 64;
}

void threads_shield(int threads)
{
#pragma omp parallel num_threads(threads)
    if (omp_get_thread_num() > 0) {
        signals_block(NULL);
    }
}

void threads_copy(void *to, const void *from, size_t bytes, int threads)
{
    if (bytes == 0) {
        return; /* to may then be NULL */
    }
    int parts = bytes < WORTH_BYTES ? 1 : threads;
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        size_t first = cut(bytes, parts, part), size = cut(bytes, parts, part + 1) - first;
        if (from != NULL) {
            memcpy((char *)to + first, (const char *)from + first, size);
        } else {
            memset((char *)to + first, 0, size);
        }
    }
}

static void add_into(float *to, const float *from, int64_t count)
{
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

void threads_join_sums(float *partial, int64_t stride, int64_t width, float *out, Mode mode)
{
    for (int64_t half = THREADS_SUM_PARTS / 2; half > 0; half /= 2) {
        for (int64_t part = 0; part < half; part++) {
            add_into(partial + part * stride, partial + (part + half) * stride, width);
        }
    }
    if (mode == MODE_ADD) {
        add_into(out, partial, width);
    } else {
        memcpy(out, partial, (size_t)width * sizeof *out);
    }
}
