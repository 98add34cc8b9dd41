/* Threads take parts of a round (rounds.h) as they come and count what lies between special tokens
 * into tables of their own, which are added to the main one; one thread alone counts into the main
 * one. A cut never changes the pieces, so neither the number of threads nor the size of a round
 * shows in the counts. */
#include "text/word_count.h"

#include "base/assert.h"
#include "base/mem.h"
#include "text/rounds.h"
#include "text/string_finder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    ROUND_BYTES = 4 << 20,
    LEAST_ROUND = 64,
    ROUNDS_TOGETHER = 16, /* of text without a cut */
    PARTS_PER_ROUND = 64,
};
#define MOST_TABLE ((size_t)8 << 30)

_Static_assert(ROUNDS_AHEAD >= WORD_TABLE_AHEAD, "words are counted in the text of a round");

typedef struct {
    PretokWalk *walk;
    WordTable *table; /* of a round; the main one when there is one thread */
    uint64_t total;
} Worker;

struct WordCount {
    StringFinder *specials;
    size_t longest_special; /* 0: there are none */
    bool by_line;
    size_t table_limit, round_bytes;
    TextRounds *rounds; /* NULL between a flush and the next text */
    bool open;          /* a document has begun */
    Worker *workers;
    int threads;
    uint64_t seed;
    WordTable *table;
    uint64_t dropped;
    uint32_t *order; /* slots of the table, by word; NULL until flushed */
};

WordCount *word_count_open(WordCountOptions options)
{
    PACER_ASSERT(options.threads >= 1, "%d threads", options.threads);
    WordCount *count = mem_zalloc(1, sizeof *count);
    count->specials = string_finder_open();
    for (size_t i = 0; i < options.special_count; i++) {
        string_finder_add(count->specials, options.specials[i].bytes, options.specials[i].size, 0);
    }
    count->longest_special = string_finder_longest(count->specials);
    count->by_line = options.by_line;
    count->round_bytes = options.round_bytes > 0 ? options.round_bytes : ROUND_BYTES;
    if (count->round_bytes < LEAST_ROUND + 2 * count->longest_special) {
        count->round_bytes = LEAST_ROUND + 2 * count->longest_special;
    }
    size_t limit = options.table_limit;
    count->table_limit = limit > 0 && limit < MOST_TABLE ? limit : MOST_TABLE;
    if (getrandom(&count->seed, sizeof count->seed, 0) != sizeof count->seed) {
        count->seed = (uintptr_t)count;
    }
    count->table = word_table_open(count->seed);
    count->threads = options.threads;
    count->workers = mem_zalloc((size_t)count->threads, sizeof *count->workers);
    for (int i = 0; i < count->threads; i++) {
        count->workers[i].walk = pretok_walk_open(options.pretok);
    }
    return count;
}

/* Where text can be cut whatever follows; 0 when no place is found. */
static size_t find_cut(void *context, const uint8_t *text, size_t size)
{
    const WordCount *count = context;
    /* What comes may complete a special token, or a longer one, that starts behind `limit`. */
    size_t kept = count->longest_special > 0 ? count->longest_special - 1 : 0;
    size_t limit = size > kept ? size - kept : 0, start = 0, length;
    do {
        uint64_t unused;
        size_t at = string_finder_find(count->specials, text, start, limit, size, &length, &unused);
        start = length > 0 ? at + length : start;
    } while (length > 0);
    if (start >= limit) {
        return start;
    }
    const uint8_t *line_end = count->by_line ? memrchr(text + start, '\n', limit - start) : NULL;
    return line_end != NULL
               ? (size_t)(line_end - text) + 1
               : start + pretok_walk_cut(count->workers[0].walk, text + start, limit - start);
}

static void count_text(Worker *worker, const uint8_t *text, size_t size)
{
    size_t begin = 0, ends[WORD_TABLE_PIECES];
    int pieces;
    pretok_walk_begin(worker->walk, text, size);
    do {
        pieces = 0;
        while (pieces < WORD_TABLE_PIECES && pretok_walk_next(worker->walk, &ends[pieces])) {
            pieces++;
        }
        word_table_count(worker->table, text, begin, ends, pieces);
        worker->total += (uint64_t)pieces;
        begin = pieces > 0 ? ends[pieces - 1] : begin;
    } while (pieces > 0);
}

/* Text without special tokens. */
static void count_lines(Worker *worker, const uint8_t *text, size_t size, bool by_line)
{
    while (size > 0) {
        const uint8_t *line_end = by_line ? memchr(text, '\n', size) : NULL;
        size_t line = line_end != NULL ? (size_t)(line_end - text) + 1 : size;
        count_text(worker, text, line);
        text += line;
        size -= line;
    }
}

static void count_part(void *context, int thread, const uint8_t *text, TextPart *part)
{
    const WordCount *count = context;
    size_t size = part->end - part->start;
    for (size_t start = 0, length = 0; start < size; start += length) {
        uint64_t unused;
        size_t special =
            string_finder_find(count->specials, text, start, size, size, &length, &unused);
        count_lines(&count->workers[thread], text + start, special - start, count->by_line);
        start = special;
    }
}

static int end_round(void *context, const TextPart *parts, size_t part_count)
{
    (void)parts;
    (void)part_count;
    WordCount *count = context;
    for (int i = 0; count->threads > 1 && i < count->threads; i++) {
        word_table_add(count->table, count->workers[i].table);
        word_table_clear(count->workers[i].table);
    }
    if (word_table_memory(count->table) > count->table_limit) {
        count->dropped += word_table_drop(count->table, count->table_limit / 2);
    }
    return 0;
}

/* Memory that is only needed while text comes in. */
static void open_rounds(WordCount *count)
{
    for (int i = 0; i < count->threads; i++) {
        count->workers[i].table = count->threads == 1 ? count->table : word_table_open(count->seed);
    }
    count->rounds =
        rounds_open((RoundOptions){.threads = count->threads,
                                   .round_bytes = count->round_bytes,
                                   .part_bytes = count->round_bytes / PARTS_PER_ROUND + 1,
                                   .most_bytes = ROUNDS_TOGETHER * count->round_bytes,
                                   .margin = count->longest_special + 1,
                                   .cut = find_cut,
                                   .work = count_part,
                                   .finish = end_round,
                                   .context = count});
}

static void close_rounds(WordCount *count)
{
    for (int i = 0; i < count->threads; i++) {
        if (count->threads > 1) {
            word_table_close(count->workers[i].table);
        }
        count->workers[i].table = NULL;
    }
    rounds_close(count->rounds);
    count->rounds = NULL;
}

void word_count_close(WordCount *count)
{
    if (count == NULL) {
        return;
    }
    close_rounds(count);
    for (int i = 0; i < count->threads; i++) {
        pretok_walk_close(count->workers[i].walk);
    }
    free(count->workers);
    string_finder_close(count->specials);
    free(count->order);
    word_table_close(count->table);
    free(count);
}

void word_count_put(WordCount *count, const void *bytes, size_t size)
{
    if (count->rounds == NULL) {
        open_rounds(count);
        free(count->order);
        count->order = NULL;
    }
    if (!count->open) {
        rounds_begin(count->rounds, 0);
        count->open = true;
    }
    rounds_put(count->rounds, bytes, size);
}

void word_count_end(WordCount *count)
{
    if (count->open) {
        rounds_end(count->rounds);
        count->open = false;
    }
}

typedef struct {
    uint8_t start[8]; /* of the word, then zeros: most comparisons look no further */
    uint32_t slot;
} OrderKey;

static int compare_words(const void *left, const void *right, void *context)
{
    const OrderKey *a = left, *b = right;
    int order = memcmp(a->start, b->start, sizeof a->start);
    if (order != 0) {
        return order;
    }
    Word word_a, word_b;
    word_table_slot(context, a->slot, &word_a);
    word_table_slot(context, b->slot, &word_b);
    uint32_t shorter = word_a.size < word_b.size ? word_a.size : word_b.size;
    order = memcmp(word_a.bytes, word_b.bytes, shorter);
    return order != 0 ? order : (word_a.size > word_b.size) - (word_a.size < word_b.size);
}

static void sort_words(WordCount *count)
{
    size_t words = word_table_words(count->table), slots = word_table_slots(count->table), at = 0;
    OrderKey *keys = mem_zalloc(words, sizeof *keys);
    Word word;
    for (size_t slot = 0; slot < slots; slot++) {
        if (word_table_slot(count->table, slot, &word)) {
            size_t start = word.size < sizeof keys->start ? word.size : sizeof keys->start;
            memcpy(keys[at].start, word.bytes, start);
            keys[at++].slot = (uint32_t)slot;
        }
    }
    qsort_r(keys, words, sizeof *keys, compare_words, count->table);
    count->order = mem_alloc(words * sizeof *count->order);
    for (size_t i = 0; i < words; i++) {
        count->order[i] = keys[i].slot;
    }
    free(keys);
}

void word_count_flush(WordCount *count)
{
    word_count_end(count);
    if (count->rounds != NULL) {
        rounds_flush(count->rounds);
        close_rounds(count);
    }
    if (count->order == NULL) {
        sort_words(count);
    }
}

size_t word_count_words(const WordCount *count)
{
    PACER_ASSERT(count->order != NULL, "words before word_count_flush");
    return word_table_words(count->table);
}

Word word_count_word(const WordCount *count, size_t index)
{
    Word word;
    PACER_ASSERT(index < word_count_words(count), "word %zu", index);
    word_table_slot(count->table, count->order[index], &word);
    return word;
}

uint64_t word_count_total(const WordCount *count)
{
    uint64_t total = 0;
    for (int i = 0; i < count->threads; i++) {
        total += count->workers[i].total;
    }
    return total;
}

uint64_t word_count_dropped(const WordCount *count)
{
    return count->dropped;
}
