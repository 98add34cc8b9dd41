#pragma once
/* Pairs of ids with a number each: how often two neighbours occur, or which merge joins them. Open
 * addressing over slots of 16 bytes. */
#include <stddef.h>
#include <stdint.h>

/* A pair as one number; in ascending order of the left id, then of the right one. */
static inline uint64_t pair_of(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

static inline uint32_t pair_left(uint64_t pair)
{
    return (uint32_t)(pair >> 32);
}

static inline uint32_t pair_right(uint64_t pair)
{
    return (uint32_t)pair;
}

typedef struct {
    uint64_t pair;
    int64_t number;
} PairSlot;

typedef struct {
    PairSlot *slots;
    size_t slot_count; /* a power of two */
    size_t pairs;
} PairTable;

void pair_table_init(PairTable *table);
void pair_table_free(PairTable *table); /* no-op on a zeroed table */

/* The number of a pair, 0 for one that never came in. Threads may share a table that is only
 * asked. */
int64_t pair_table_get(const PairTable *table, uint64_t pair);

/* The number, to read or to write until the next call; a new pair comes in with 0. */
int64_t *pair_table_at(PairTable *table, uint64_t pair);
