#pragma once
/* What bpe_train counts and orders with: pairs of ids and how often each occurs, the candidates for
 * the next merge, and lists of the words that a pair is in. */
#include <stdbool.h>
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

/* Pairs and how often each occurs: open addressing over slots of 16 bytes. */
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

/* Candidates for the next merge, the most frequent first. */
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

/* Many lists of word numbers in one block of memory, as chains of small chunks. A list is read
 * once, front to back, and its chunks serve other lists from then on. */
enum { WORD_LIST_CHUNK = 3 };

typedef struct {
    uint32_t next;                   /* chunk; 0: the last one */
    uint32_t words[WORD_LIST_CHUNK]; /* 0 where there is none */
} WordChunk;

typedef struct {
    WordChunk *chunks; /* chunk 0 is not used */
    size_t count, capacity;
    uint32_t unused; /* first of a chain */
} WordLists;         /* zeroed: empty */

/* A list that is being written; zeroed: empty. */
typedef struct {
    uint32_t head, tail; /* chunks */
    uint32_t last;       /* word */
} WordList;

void word_lists_free(WordLists *lists);

/* Appends a word, which is not 0, unless it is the last one already. */
void word_list_add(WordLists *lists, WordList *list, uint32_t word);

/* The words of chunk *head, which is given back; *head is then the next chunk. False: *head is
 * 0. */
bool word_list_take(WordLists *lists, uint32_t *head, uint32_t words[WORD_LIST_CHUNK]);
