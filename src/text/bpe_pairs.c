#include "text/bpe_pairs.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- Counts of pairs ---- */

enum { FIRST_SLOTS = 1 << 12 };
#define EMPTY UINT64_MAX /* no id is that large */

static void make_slots(PairTable *table, size_t count)
{
    table->slots = mem_alloc(count * sizeof *table->slots);
    memset(table->slots, 0xff, count * sizeof *table->slots);
    table->slot_count = count;
}

void pair_table_init(PairTable *table)
{
    make_slots(table, FIRST_SLOTS);
    table->pairs = 0;
}

void pair_table_free(PairTable *table)
{
    free(table->slots);
    *table = (PairTable){0};
}

/* The slot of the pair, or the empty one where it belongs. The upper half of a product with an odd
 * constant, folded over the lower half, depends on every bit of both ids. */
static PairSlot *find(const PairTable *table, uint64_t pair)
{
    size_t mask = table->slot_count - 1;
    __extension__ typedef unsigned __int128 Wide;
    Wide product = (Wide)(pair ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    size_t at = (size_t)((uint64_t)(product >> 64) ^ (uint64_t)product) & mask;
    while (table->slots[at].pair != pair && table->slots[at].pair != EMPTY) {
        at = (at + 1) & mask;
    }
    return &table->slots[at];
}

static void grow(PairTable *table)
{
    PairTable old = *table;
    make_slots(table, 2 * old.slot_count);
    for (size_t i = 0; i < old.slot_count; i++) {
        if (old.slots[i].pair != EMPTY) {
            *find(table, old.slots[i].pair) = old.slots[i];
        }
    }
    free(old.slots);
}

int64_t pair_table_get(const PairTable *table, uint64_t pair)
{
    const PairSlot *slot = find(table, pair);
    return slot->pair == pair ? slot->count : 0;
}

void pair_table_add(PairTable *table, uint64_t pair, int64_t change)
{
    PairSlot *slot = find(table, pair);
    if (slot->pair == pair) {
        slot->count += change;
        return;
    }
    if (table->pairs >= table->slot_count / 4 * 3) {
        grow(table);
        slot = find(table, pair);
    }
    *slot = (PairSlot){pair, change};
    table->pairs++;
}

/* ---- Candidates ---- */

/* A heap with four children to a node, so that few cache lines are touched on the way down. */
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

/* ---- Lists of words ---- */

void word_lists_free(WordLists *lists)
{
    free(lists->chunks);
    *lists = (WordLists){0};
}

static uint32_t take_chunk(WordLists *lists)
{
    uint32_t chunk = lists->unused;
    if (chunk != 0) {
        lists->unused = lists->chunks[chunk].next;
    } else {
        if (lists->count == lists->capacity) {
            lists->capacity = lists->capacity > 0 ? lists->capacity / 2 * 3 : 4096;
            lists->chunks = mem_realloc(lists->chunks, lists->capacity, sizeof *lists->chunks);
        }
        if (lists->count == 0) {
            lists->count = 1;
        }
        PACER_ASSERT(lists->count < UINT32_MAX, "%zu chunks of words", lists->count);
        chunk = (uint32_t)lists->count++;
    }
    lists->chunks[chunk] = (WordChunk){0};
    return chunk;
}

void word_list_add(WordLists *lists, WordList *list, uint32_t word)
{
    if (list->last == word) {
        return;
    }
    list->last = word;
    if (list->head != 0) {
        uint32_t *words = lists->chunks[list->tail].words;
        for (int i = 1; i < WORD_LIST_CHUNK; i++) {
            if (words[i] == 0) {
                words[i] = word;
                return;
            }
        }
    }
    uint32_t chunk = take_chunk(lists);
    lists->chunks[chunk].words[0] = word;
    if (list->head == 0) {
        list->head = chunk;
    } else {
        lists->chunks[list->tail].next = chunk;
    }
    list->tail = chunk;
}

bool word_list_take(WordLists *lists, uint32_t *head, uint32_t words[WORD_LIST_CHUNK])
{
    uint32_t chunk = *head;
    if (chunk == 0) {
        return false;
    }
    memcpy(words, lists->chunks[chunk].words, sizeof lists->chunks[chunk].words);
    *head = lists->chunks[chunk].next;
    lists->chunks[chunk].next = lists->unused;
    lists->unused = chunk;
    return true;
}
