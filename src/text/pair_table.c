#include "text/pair_table.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

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
    return slot->pair == pair ? slot->number : 0;
}

int64_t *pair_table_at(PairTable *table, uint64_t pair)
{
    PairSlot *slot = find(table, pair);
    if (slot->pair != pair) {
        if (table->pairs >= table->slot_count / 4 * 3) {
            grow(table);
            slot = find(table, pair);
        }
        *slot = (PairSlot){pair, 0};
        table->pairs++;
    }
    return &slot->number;
}
