#include "text/unicode.h"

#include "base/assert.h"
#include "text/unicode_ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Classes are looked up in two stages: the upper bits of a character choose a block of 256 classes
 * of two bits, and equal blocks are stored once. The ranges that tools/unicode_ranges.py wrote are
 * expanded into this form when the first character is asked for. */
#define BLOCK_BITS 8
#define BLOCK_CHARACTERS (1u << BLOCK_BITS)
#define BLOCK_BYTES (BLOCK_CHARACTERS / 4)
#define CHARACTERS 0x110000u
#define MAX_BLOCKS 256 /* so that a byte names one; Unicode 16.0 has 137 different ones */

static uint8_t block_of[CHARACTERS >> BLOCK_BITS];
static uint8_t blocks[MAX_BLOCKS][BLOCK_BYTES];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool
    ready; /* asked before pthread_once, which is slow to say that nothing is to do */

typedef struct {
    const UnicodeRange *ranges;
    size_t count, next; /* ranges before `next` lie before the block that is being filled */
    CharClass class;
} RangeList;

static void fill_block(uint8_t block[BLOCK_BYTES], uint32_t first, RangeList *list)
{
    uint32_t last = first + BLOCK_CHARACTERS - 1;
    while (list->next < list->count && list->ranges[list->next].first <= last) {
        UnicodeRange range = list->ranges[list->next];
        uint32_t from = range.first > first ? range.first : first;
        uint32_t to = range.last < last ? range.last : last;
        for (uint32_t i = from - first; i <= to - first; i++) {
            block[i / 4] |= (uint8_t)(list->class << (i % 4 * 2));
        }
        if (range.last > last) {
            return;
        }
        list->next++;
    }
}

static void build_blocks(void)
{
    RangeList lists[] = {
        {unicode_letters, sizeof unicode_letters / sizeof unicode_letters[0], 0, CHAR_LETTER},
        {unicode_numbers, sizeof unicode_numbers / sizeof unicode_numbers[0], 0, CHAR_NUMBER},
        {unicode_spaces, sizeof unicode_spaces / sizeof unicode_spaces[0], 0, CHAR_SPACE},
    };
    size_t used = 0;
    for (uint32_t first = 0; first < CHARACTERS; first += BLOCK_CHARACTERS) {
        uint8_t block[BLOCK_BYTES] = {0};
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
            fill_block(block, first, &lists[i]);
        }
        size_t same = 0;
        while (same < used && memcmp(blocks[same], block, BLOCK_BYTES) != 0) {
            same++;
        }
        if (same == used) {
            PACER_ASSERT(used < MAX_BLOCKS, "more than %d different blocks", MAX_BLOCKS);
            memcpy(blocks[used++], block, BLOCK_BYTES);
        }
        block_of[first >> BLOCK_BITS] = (uint8_t)same;
    }
    atomic_store_explicit(&ready, true, memory_order_release);
}

CharClass unicode_class(uint32_t character)
{
    if (character >= CHARACTERS) {
        return CHAR_OTHER;
    }
    if (!atomic_load_explicit(&ready, memory_order_acquire)) {
        pthread_once(&once, build_blocks);
    }
    const uint8_t *block = blocks[block_of[character >> BLOCK_BITS]];
    uint32_t i = character % BLOCK_CHARACTERS;
    return (CharClass)(block[i / 4] >> (i % 4 * 2) & 3);
}
