#pragma once
/* How often each pre-token occurs in a corpus of any size. Text is pushed in; rounds of a fixed
 * size are counted by several threads, each into a table of its own, and added up, so the counts
 * do not depend on the number of threads. When the table passes its limit, the rarest words are
 * dropped (at the end of a round, so that is deterministic too) and counted as dropped. */
#include "text/pretok.h"
#include "text/word_table.h"

typedef struct WordCount WordCount;

/* Strings in the text that are not counted and split it: special tokens. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
} ByteString;

typedef struct {
    const Pretok *pretok; /* stays open as long as the count */
    const ByteString *specials;
    size_t special_count;
    bool by_line;       /* no pre-token crosses the end of a line */
    int threads;        /* at least 1 */
    size_t table_limit; /* bytes that the table of words may take; 0: 8 GiB, which is the most */
    size_t round_bytes; /* text that is counted at a time; 0: 4 MiB */
} WordCountOptions;

WordCount *word_count_open(WordCountOptions options);
void word_count_close(WordCount *count); /* NULL is fine */

/* A document: put any number of times, then end. A stretch of text that no cut is found in is kept
 * together up to 16 rounds, then cut between two characters. */
void word_count_put(WordCount *count, const void *bytes, size_t size);
void word_count_end(WordCount *count);
void word_count_flush(WordCount *count); /* ends the document; everything that was put is counted */

/* After word_count_flush: the words in ascending order of their bytes (memcmp, shorter first). */
size_t word_count_words(const WordCount *count);
Word word_count_word(const WordCount *count, size_t index);
uint64_t word_count_total(const WordCount *count);   /* pre-tokens counted, dropped ones included */
uint64_t word_count_dropped(const WordCount *count); /* occurrences of words that were dropped */
