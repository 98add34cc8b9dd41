#pragma once
/* Pairs of ids and how often each occurs: open addressing over slots of 16 bytes. */
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
    int64_t count;
} PairSlot;

typedef struct {
    PairSlot *slots;
    size_t slot_count; /* a power of two */
    size_t pairs;
} PairTable;

void pair_table_init(PairTable *table);
void pair_table_free(PairTable *table); /* no-op on a zeroed table */

int64_t pair_table_get(const PairTable *table, uint64_t pair); /* 0 for a pair never added to */
void pair_table_add(PairTable *table, uint64_t pair, int64_t change);
