#pragma once
/* Many lists of word numbers in one block of memory, as chains of small chunks. A list is read
 * once, front to back, and its chunks serve other lists from then on. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
