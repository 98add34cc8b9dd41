#pragma once
/* Batches made ahead of their use by a thread of its own. Micro-step m of rank r, counted from
 * the start, holds the sequences start + (m x ranks + r) x batch and the batch - 1 that follow:
 * all ranks together walk the loader's order without gap or overlap. */
#include "data/loader.h"

#define PREFETCH_DEPTH 4 /* one batch in use, the others ready or being made */

typedef struct {
    int32_t *tokens;  /* (batch, seq) */
    int32_t *targets; /* (batch, seq) */
    int32_t *order;   /* (batch x seq) rows sorted by token, equal tokens in row order */
    int32_t *starts; /* (batch x seq) of documents that are kept apart (document_starts), or NULL */
    uint64_t first;  /* index of the first sequence */
} Batch;

typedef struct {
    int64_t batch;
    uint64_t start; /* index of the first sequence of micro-step 0 of rank 0 */
    int rank, ranks;
    void *memory; /* of prefetch_bytes, 64-byte aligned (pinned, say); NULL: allocated here */
} PrefetchOptions;

typedef struct Prefetch Prefetch;

/* What the batches and the sort take; separate: documents are kept apart. */
size_t prefetch_bytes(int64_t batch, int64_t seq, uint64_t vocab, bool separate);

/* Starts the thread. The loader must outlive it. */
int prefetch_open(Prefetch **out, const Loader *loader, PrefetchOptions options);

/* The next batch, valid until the next call; adds the seconds spent waiting for it to *waited
 * (may be NULL). An error in the thread is returned here, with its message, now and at every
 * later call. */
int prefetch_next(Prefetch *prefetch, Batch *batch, double *waited);

void prefetch_close(Prefetch *prefetch); /* at any moment; NULL is fine */

/* order (n): stable sort of rows by ids[row]; ids are in [0, vocab). counts (vocab) is scratch. */
void prefetch_sort(const int32_t *ids, int64_t n, uint64_t vocab, uint32_t *counts, int32_t *order);
