#pragma once
/* Byte strings with a number each: how often a word occurs, or which id a token has. Open
 * addressing over slots of 16 bytes; the strings lie in blocks that never move. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A string of the table and its number. The bytes stay where they are until the table is cleared,
 * dropped from or closed. */
typedef struct {
    const uint8_t *bytes;
    uint32_t size;
    uint64_t count;
} Word;

typedef struct WordTable WordTable;

/* `seed` decides where words lie, never what the table holds; a secret one keeps prepared texts
 * from filling one place. Tables that are added to each other share it. */
WordTable *word_table_open(uint64_t seed);
void word_table_close(WordTable *table); /* NULL is fine */
void word_table_clear(WordTable *table);

/* The number of these bytes, to read or to write until the next call; a new string comes in with 0.
 * size is under 4 GiB. */
uint64_t *word_table_at(WordTable *table, const uint8_t *bytes, size_t size);

/* The number of a string that is there already; false when it is not. From `bytes` on `readable`
 * bytes can be read, at least size: WORD_TABLE_AHEAD or more are faster. Threads may share a table
 * that is only asked. */
bool word_table_find(const WordTable *table, const uint8_t *bytes, size_t size, size_t readable,
                     uint64_t *number);

/* As word_table_at, and in *stored where the table keeps the bytes. */
uint64_t *word_table_keep(WordTable *table, const uint8_t *bytes, size_t size,
                          const uint8_t **stored);

/* Adds 1 to each of the pieces that text is made of: the first `pieces` ends, the first piece
 * starting at `begin`. The same as one word_table_at after the other, but faster: the memory
 * that the pieces need is asked for ahead, and WORD_TABLE_AHEAD bytes behind the last piece may
 * be read. */
enum { WORD_TABLE_PIECES = 32 /* at most */, WORD_TABLE_AHEAD = 16 };
void word_table_count(WordTable *table, const uint8_t *text, size_t begin, const size_t *ends,
                      int pieces);

/* Adds every number of `other` to that of the same string here. */
void word_table_add(WordTable *table, const WordTable *other);

size_t word_table_words(const WordTable *table);

/* Bytes of memory: depends on the strings that were put in, not on their order. */
size_t word_table_memory(const WordTable *table);

/* Words lie in slots 0 <= slot < word_table_slots, in no order; false: the slot is empty. */
size_t word_table_slots(const WordTable *table);
bool word_table_slot(const WordTable *table, size_t slot, Word *word);

/* Drops the words with the smallest numbers, all of one number at a time, until
 * word_table_memory is at most `limit`. Returns the sum of the numbers dropped. */
uint64_t word_table_drop(WordTable *table, size_t limit);
