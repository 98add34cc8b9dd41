/* A heap with four children to a node, so that few cache lines are touched on the way down. */
#include "text/pair_heap.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>

enum { CHILDREN = 4 };

void pair_heap_free(PairHeap *heap)
{
    free(heap->entries);
    heap->entries = NULL;
    heap->count = heap->capacity = 0;
}

static bool comes_first(const PairHeap *heap, const PairEntry *a, const PairEntry *b)
{
    if (a->count != b->count) {
        return a->count > b->count;
    }
    if (a->pair != b->pair) {
        return heap->before(heap->context, a->pair, b->pair);
    }
    return a->age < b->age;
}

/* Puts the entry where it belongs on the way down from `at`, whose own entry is gone. */
static void sink(PairHeap *heap, size_t at, PairEntry entry)
{
    for (;;) {
        size_t child = CHILDREN * at + 1, best = child;
        if (child >= heap->count) {
            break;
        }
        size_t end = child + CHILDREN < heap->count ? child + CHILDREN : heap->count;
        for (size_t i = child + 1; i < end; i++) {
            if (comes_first(heap, &heap->entries[i], &heap->entries[best])) {
                best = i;
            }
        }
        if (!comes_first(heap, &heap->entries[best], &entry)) {
            break;
        }
        heap->entries[at] = heap->entries[best];
        at = best;
    }
    heap->entries[at] = entry;
}

void pair_heap_push(PairHeap *heap, uint64_t pair, int64_t count, uint32_t list)
{
    if (heap->count == heap->capacity) {
        heap->capacity = heap->capacity > 0 ? heap->capacity / 2 * 3 : 1024;
        heap->entries = mem_realloc(heap->entries, heap->capacity, sizeof *heap->entries);
    }
    PairEntry entry = {.pair = pair, .count = count, .list = list, .age = heap->next_age++};
    size_t at = heap->count++;
    while (at > 0) {
        size_t parent = (at - 1) / CHILDREN;
        if (!comes_first(heap, &entry, &heap->entries[parent])) {
            break;
        }
        heap->entries[at] = heap->entries[parent];
        at = parent;
    }
    heap->entries[at] = entry;
}

PairEntry pair_heap_pop(PairHeap *heap)
{
    PACER_ASSERT(heap->count > 0, "nothing to take");
    PairEntry first = heap->entries[0];
    PairEntry last = heap->entries[--heap->count];
    if (heap->count > 0) {
        sink(heap, 0, last);
    }
    return first;
}

void pair_heap_recount(PairHeap *heap, int64_t count)
{
    PACER_ASSERT(heap->count > 0, "nothing to count again");
    PairEntry entry = heap->entries[0];
    entry.count = count;
    sink(heap, 0, entry);
}
