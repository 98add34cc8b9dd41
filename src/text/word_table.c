/* A slot holds 32 bits of the hash, whose low bits are also the slot where the search begins, so
 * that a table grows without a look at its strings. A string is stored as its size and its
 * bytes, in units of four bytes; `place` is the block's number and the unit within. Blocks have
 * one size, but for a string that does not fit into one: that gets a block of its own. SHORT
 * bytes behind any string can be read. */
#define XXH_INLINE_ALL
#include "text/word_table.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    SHORT = WORD_TABLE_AHEAD,
    UNIT = 4,              /* bytes */
    BLOCK_UNITS = 1 << 16, /* of a common block: 256 KiB */
    FIRST_SLOTS = 1 << 10, /* a power of two */
    FULL_NUMERATOR = 3,    /* a table grows when 3/4 of its slots are taken */
    FULL_DENOMINATOR = 4,
};

typedef struct {
    uint64_t number;
    uint32_t tag;   /* of the hash */
    uint32_t place; /* 0: empty; nothing is stored in unit 0 of block 0 */
} Slot;

struct WordTable {
    uint64_t seed;
    Slot *slots;
    size_t slot_count; /* a power of two */
    size_t words;
    size_t text_units; /* of all strings with their sizes */
    uint32_t **blocks;
    size_t block_count, block_capacity;
    size_t current; /* the block that is being filled */
    size_t filled;  /* units of it */
};

static void add_block(WordTable *table, size_t units)
{
    PACER_ASSERT(table->block_count < UINT32_MAX / BLOCK_UNITS, "%zu blocks", table->block_count);
    table->blocks =
        mem_grow(table->blocks, table->block_count, &table->block_capacity, sizeof *table->blocks);
    table->blocks[table->block_count++] = mem_alloc(units * UNIT + SHORT);
}

static void start_filling(WordTable *table)
{
    table->current = 0;
    table->filled = 1;
    table->words = 0;
    table->text_units = 0;
}

WordTable *word_table_open(uint64_t seed)
{
    WordTable *table = mem_zalloc(1, sizeof *table);
    table->seed = seed;
    table->slot_count = FIRST_SLOTS;
    table->slots = mem_zalloc(table->slot_count, sizeof *table->slots);
    add_block(table, BLOCK_UNITS);
    start_filling(table);
    return table;
}

static void free_content(WordTable *table)
{
    for (size_t i = 0; i < table->block_count; i++) {
        free(table->blocks[i]);
    }
    free(table->blocks);
    free(table->slots);
}

void word_table_close(WordTable *table)
{
    if (table != NULL) {
        free_content(table);
        free(table);
    }
}

void word_table_clear(WordTable *table)
{
    memset(table->slots, 0, table->slot_count * sizeof *table->slots);
    while (table->block_count > 1) {
        free(table->blocks[--table->block_count]);
    }
    start_filling(table);
}

static const uint32_t *units_at(const WordTable *table, uint32_t place)
{
    return table->blocks[place / BLOCK_UNITS] + place % BLOCK_UNITS;
}

static size_t units_of(size_t size)
{
    return 1 + (size + UNIT - 1) / UNIT;
}

static uint32_t store(WordTable *table, const uint8_t *bytes, size_t size)
{
    PACER_ASSERT(size < UINT32_MAX, "a word of %zu bytes", size);
    size_t units = units_of(size), block, unit;
    if (units >= BLOCK_UNITS) {
        add_block(table, units);
        block = table->block_count - 1;
        unit = 0;
    } else {
        if (table->filled + units > BLOCK_UNITS) {
            add_block(table, BLOCK_UNITS);
            table->current = table->block_count - 1;
            table->filled = 0;
        }
        block = table->current;
        unit = table->filled;
        table->filled += units;
    }
    uint32_t *out = table->blocks[block] + unit;
    out[0] = (uint32_t)size;
    memcpy(out + 1, bytes, size);
    table->text_units += units;
    return (uint32_t)(block * BLOCK_UNITS + unit);
}

static void resize_slots(WordTable *table, size_t count)
{
    Slot *old = table->slots;
    size_t old_count = table->slot_count, mask = count - 1;
    table->slots = mem_zalloc(count, sizeof *table->slots);
    table->slot_count = count;
    for (size_t i = 0; i < old_count; i++) {
        if (old[i].place != 0) {
            size_t at = old[i].tag & mask;
            while (table->slots[at].place != 0) {
                at = (at + 1) & mask;
            }
            table->slots[at] = old[i];
        }
    }
    free(old);
}

static bool is_full(size_t words, size_t slots)
{
    return words >= slots / FULL_DENOMINATOR * FULL_NUMERATOR;
}

/* A string that is looked for. One of up to SHORT bytes is looked at as two numbers, with zeros
 * behind its end, so that neither its hash nor a comparison branches on its size: sizes are what
 * a processor does not foresee in text. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    uint64_t halves[2]; /* of a short one */
    uint32_t tag;
} Key;

/* SHORT bytes are read, of which `size` count. */
static inline void load_short(const uint8_t *bytes, size_t size, uint64_t halves[2])
{
    static const uint8_t masks[2 * SHORT] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    };
    uint64_t mask[2];
    memcpy(mask, masks + SHORT - size, sizeof mask);
    memcpy(halves, bytes, sizeof mask);
    halves[0] &= mask[0];
    halves[1] &= mask[1];
}

/* A product of two words of 64 bits, the upper half folded over the lower one. */
static inline uint32_t hash_short(const uint64_t halves[2], size_t size, uint64_t seed)
{
    __extension__ typedef unsigned __int128 Wide;
    Wide product = (Wide)(halves[0] ^ seed ^ 0x9e3779b97f4a7c15u) *
                   (halves[1] ^ (seed << 32 | seed >> 32) ^ 0xd6e8feb86659fd93u ^ size << 56);
    return (uint32_t)((uint64_t)(product >> 64) ^ (uint64_t)product);
}

/* SHORT bytes can be read at `bytes`, whatever the size. */
static inline Key key_of(const WordTable *table, const uint8_t *bytes, size_t size)
{
    Key key = {.bytes = bytes, .size = size};
    if (size <= SHORT) {
        load_short(bytes, size, key.halves);
        key.tag = hash_short(key.halves, size, table->seed);
    } else {
        key.tag = (uint32_t)XXH3_64bits_withSeed(bytes, size, table->seed);
    }
    return key;
}

static inline bool is_at(const WordTable *table, uint32_t place, const Key *key)
{
    const uint32_t *units = units_at(table, place);
    if (units[0] != key->size) {
        return false;
    }
    if (key->size > SHORT) {
        return memcmp(units + 1, key->bytes, key->size) == 0;
    }
    uint64_t halves[2];
    load_short((const uint8_t *)(units + 1), key->size, halves);
    return ((halves[0] ^ key->halves[0]) | (halves[1] ^ key->halves[1])) == 0;
}

static Slot *add(WordTable *table, const Key *key)
{
    if (is_full(table->words, table->slot_count)) {
        resize_slots(table, 2 * table->slot_count);
    }
    size_t mask = table->slot_count - 1, at = key->tag & mask;
    while (table->slots[at].place != 0) {
        at = (at + 1) & mask;
    }
    table->words++;
    table->slots[at] = (Slot){.tag = key->tag, .place = store(table, key->bytes, key->size)};
    return &table->slots[at];
}

/* NULL when the string is not there. */
static inline Slot *search(const WordTable *table, const Key *key)
{
    size_t mask = table->slot_count - 1;
    for (size_t at = key->tag & mask; table->slots[at].place != 0; at = (at + 1) & mask) {
        if (table->slots[at].tag == key->tag && is_at(table, table->slots[at].place, key)) {
            return &table->slots[at];
        }
    }
    return NULL;
}

static inline Slot *find(WordTable *table, const Key *key)
{
    Slot *slot = search(table, key);
    return slot != NULL ? slot : add(table, key);
}

/* For bytes behind which nothing can be read; a short string is copied. */
static Key key_of_bytes(const WordTable *table, const uint8_t *bytes, size_t size,
                        uint8_t copy[SHORT])
{
    if (size <= SHORT) {
        memset(copy, 0, SHORT);
        memcpy(copy, bytes, size);
        bytes = copy;
    }
    return key_of(table, bytes, size);
}

bool word_table_find(const WordTable *table, const uint8_t *bytes, size_t size, size_t readable,
                     uint64_t *number)
{
    uint8_t copy[SHORT];
    Key key =
        readable >= SHORT ? key_of(table, bytes, size) : key_of_bytes(table, bytes, size, copy);
    const Slot *slot = search(table, &key);
    *number = slot != NULL ? slot->number : 0;
    return slot != NULL;
}

static Slot *find_bytes(WordTable *table, const uint8_t *bytes, size_t size)
{
    uint8_t copy[SHORT];
    Key key = key_of_bytes(table, bytes, size, copy);
    return find(table, &key);
}

uint64_t *word_table_at(WordTable *table, const uint8_t *bytes, size_t size)
{
    return &find_bytes(table, bytes, size)->number;
}

uint64_t *word_table_keep(WordTable *table, const uint8_t *bytes, size_t size,
                          const uint8_t **stored)
{
    Slot *slot = find_bytes(table, bytes, size);
    *stored = (const uint8_t *)(units_at(table, slot->place) + 1);
    return &slot->number;
}

void word_table_count(WordTable *table, const uint8_t *text, size_t begin, const size_t *ends,
                      int pieces)
{
    Key keys[WORD_TABLE_PIECES];
    PACER_ASSERT(pieces <= WORD_TABLE_PIECES, "%d pieces", pieces);
    size_t mask = table->slot_count - 1;
    for (int i = 0; i < pieces; i++) {
        keys[i] = key_of(table, text + begin, ends[i] - begin);
        __builtin_prefetch(&table->slots[keys[i].tag & mask]);
        begin = ends[i];
    }
    for (int i = 0; i < pieces; i++) {
        const Slot *slot = &table->slots[keys[i].tag & mask];
        if (slot->tag == keys[i].tag) {
            __builtin_prefetch(units_at(table, slot->place));
        }
    }
    for (int i = 0; i < pieces; i++) {
        find(table, &keys[i])->number++;
    }
}

static Slot *find_slot(WordTable *table, const WordTable *other, const Slot *slot)
{
    const uint32_t *units = units_at(other, slot->place);
    Key key = key_of(table, (const uint8_t *)(units + 1), units[0]);
    return find(table, &key);
}

void word_table_add(WordTable *table, const WordTable *other)
{
    PACER_ASSERT(table->seed == other->seed, "tables of two seeds");
    for (size_t i = 0; i < other->slot_count; i++) {
        if (other->slots[i].place != 0) {
            find_slot(table, other, &other->slots[i])->number += other->slots[i].number;
        }
    }
}

size_t word_table_words(const WordTable *table)
{
    return table->words;
}

static size_t memory_of(size_t slots, size_t text_units)
{
    return slots * sizeof(Slot) + text_units * UNIT;
}

size_t word_table_memory(const WordTable *table)
{
    return memory_of(table->slot_count, table->text_units);
}

size_t word_table_slots(const WordTable *table)
{
    return table->slot_count;
}

bool word_table_slot(const WordTable *table, size_t slot, Word *word)
{
    const Slot *found = &table->slots[slot];
    if (found->place == 0) {
        return false;
    }
    const uint32_t *units = units_at(table, found->place);
    *word = (Word){(const uint8_t *)(units + 1), units[0], found->number};
    return true;
}

static size_t slots_for(size_t words)
{
    size_t slots = FIRST_SLOTS;
    while (is_full(words, slots)) {
        slots *= 2;
    }
    return slots;
}

/* What would be left of the table without numbers up to `dropped`, and the smallest one of
 * those. */
typedef struct {
    size_t words, text_units;
    uint64_t smallest, sum;
} Rest;

static Rest rest_above(const WordTable *table, uint64_t dropped)
{
    Rest rest = {.smallest = UINT64_MAX};
    for (size_t i = 0; i < table->slot_count; i++) {
        const Slot *slot = &table->slots[i];
        if (slot->place != 0 && slot->number > dropped) {
            rest.words++;
            rest.text_units += units_of(units_at(table, slot->place)[0]);
            rest.sum += slot->number;
            rest.smallest = slot->number < rest.smallest ? slot->number : rest.smallest;
        }
    }
    return rest;
}

uint64_t word_table_drop(WordTable *table, size_t limit)
{
    uint64_t dropped = 0, sum = 0;
    Rest rest = rest_above(table, dropped);
    uint64_t all = rest.sum;
    while (rest.words > 0 && memory_of(slots_for(rest.words), rest.text_units) > limit) {
        dropped = rest.smallest;
        rest = rest_above(table, dropped);
    }
    sum = all - rest.sum;
    if (sum == 0) {
        return 0;
    }
    WordTable *fresh = word_table_open(table->seed);
    resize_slots(fresh, slots_for(rest.words));
    for (size_t i = 0; i < table->slot_count; i++) {
        const Slot *slot = &table->slots[i];
        if (slot->place != 0 && slot->number > dropped) {
            find_slot(fresh, table, slot)->number = slot->number;
        }
    }
    free_content(table);
    *table = *fresh;
    free(fresh);
    return sum;
}
