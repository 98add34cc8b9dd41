#pragma once
/* A device: its memory and its table of operations. The model never looks inside. */
#include "tensor/ops.h"

typedef struct Backend Backend;

struct Backend {
    const char *name; /* "ref", "cpu", "cuda" */
    Ops ops;
    int threads;

    /* One block, aligned to ARENA_ALIGN; NULL when there is not that much. Called a few times at
     * start, never during a step. */
    void *(*alloc)(Backend *backend, size_t bytes);
    void (*release)(Backend *backend, void *block);
    size_t (*available)(Backend *backend); /* bytes that alloc could still give; 0 if unknown */

    /* Ordered with the operations; upload may return before the copy is done only if the source
     * stays valid until sync. */
    void (*upload)(Backend *backend, void *to, const void *from_host, size_t bytes);
    void (*download)(Backend *backend, void *to_host, const void *from, size_t bytes); /* waits */
    void (*zero)(Backend *backend, void *to, size_t bytes);
    void (*sync)(Backend *backend);

    void (*close)(Backend *backend); /* frees the backend itself */
};

/* Plain loops, double accumulation, f32, bf16 and f64: the truth the others are tested against. */
Backend *ref_backend_open(void);

/* threads > 0. Starts from ref's operations and overrides what it does faster (f32). */
Backend *cpu_backend_open(int threads);
