#include "text/word_lists.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

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
