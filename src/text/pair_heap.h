#pragma once
/* Candidates for the next merge, the most frequent first. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t pair; /* pair_of */
    int64_t count; /* when it came in, or was last looked at */
    uint32_t list; /* of words */
    uint32_t age;  /* of two candidates alike the one that came first is first */
} PairEntry;

/* Of two pairs that are equally frequent, whether `a` comes first. */
typedef bool (*PairBefore)(const void *context, uint64_t a, uint64_t b);

typedef struct {
    PairEntry *entries;
    size_t count, capacity;
    uint32_t next_age;
    PairBefore before;
    const void *context;
} PairHeap; /* zeroed, but for before and context: empty */

void pair_heap_free(PairHeap *heap);
void pair_heap_push(PairHeap *heap, uint64_t pair, int64_t count, uint32_t list);
PairEntry pair_heap_pop(PairHeap *heap); /* the heap is not empty */

/* Gives the first candidate another count, and thereby its place. */
void pair_heap_recount(PairHeap *heap, int64_t count);
