/* Text goes into a buffer of one round. What is known to be whole (a document that ended, or a long
 * one up to a cut) becomes spans: stretches between special tokens, cut again so that threads have
 * something to share. Threads take spans as they come and count into tables of their own, which are
 * added to the main one; one thread alone counts into the main one. A cut never changes the pieces,
 * so neither the number of threads nor the size of a round shows in the counts. */
#include "text/word_count.h"

#include "base/assert.h"
#include "base/mem.h"
#include "text/string_finder.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    ROUND_BYTES = 4 << 20,
    LEAST_ROUND = 64,
    ROUNDS_TOGETHER = 16, /* text without a cut lets the buffer grow to this many rounds */
    SPANS_PER_ROUND = 128,
    SPAN_CAPACITY = 4096, /* spans that are counted at a time */
    SPANS_AT_ONCE = 4,    /* taken by a thread */
};
#define MOST_TABLE ((size_t)8 << 30)

typedef struct {
    size_t begin, size; /* in the buffer */
} Span;

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

    uint8_t *buffer; /* NULL between a flush and the next text */
    size_t capacity, size;
    size_t begin; /* text before it is in spans or counted */
    Span *spans;
    size_t span_count;

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

/* Memory that is only needed while text comes in. */
static void open_round(WordCount *count)
{
    if (count->buffer == NULL) {
        count->capacity = count->round_bytes;
        count->buffer = mem_alloc(count->capacity + WORD_TABLE_AHEAD);
        count->spans = mem_alloc(SPAN_CAPACITY * sizeof *count->spans);
        for (int i = 0; i < count->threads; i++) {
            count->workers[i].table =
                count->threads == 1 ? count->table : word_table_open(count->seed);
        }
    }
    free(count->order);
    count->order = NULL;
}

static void close_round(WordCount *count)
{
    free(count->buffer);
    free(count->spans);
    count->buffer = NULL;
    count->spans = NULL;
    for (int i = 0; i < count->threads; i++) {
        if (count->threads > 1) {
            word_table_close(count->workers[i].table);
        }
        count->workers[i].table = NULL;
    }
}

void word_count_close(WordCount *count)
{
    if (count == NULL) {
        return;
    }
    close_round(count);
    for (int i = 0; i < count->threads; i++) {
        pretok_walk_close(count->workers[i].walk);
    }
    free(count->workers);
    string_finder_close(count->specials);
    free(count->order);
    word_table_close(count->table);
    free(count);
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

static void count_lines(Worker *worker, const uint8_t *text, size_t size)
{
    while (size > 0) {
        const uint8_t *line_end = memchr(text, '\n', size);
        size_t line = line_end != NULL ? (size_t)(line_end - text) + 1 : size;
        count_text(worker, text, line);
        text += line;
        size -= line;
    }
}

static void count_span(const WordCount *count, Worker *worker, Span span)
{
    (count->by_line ? count_lines : count_text)(worker, count->buffer + span.begin, span.size);
}

static void count_spans(WordCount *count)
{
    if (count->threads == 1) {
        for (size_t i = 0; i < count->span_count; i++) {
            count_span(count, &count->workers[0], count->spans[i]);
        }
    } else {
#pragma omp parallel for num_threads(count->threads) schedule(dynamic, SPANS_AT_ONCE)
        for (size_t i = 0; i < count->span_count; i++) {
            count_span(count, &count->workers[omp_get_thread_num()], count->spans[i]);
        }
    }
    count->span_count = 0;
}

static void end_round(WordCount *count)
{
    count_spans(count);
    for (int i = 0; count->threads > 1 && i < count->threads; i++) {
        word_table_add(count->table, count->workers[i].table);
        word_table_clear(count->workers[i].table);
    }
    if (word_table_memory(count->table) > count->table_limit) {
        count->dropped += word_table_drop(count->table, count->table_limit / 2);
    }
}

static void add_span(WordCount *count, size_t begin, size_t end)
{
    if (begin < end) {
        if (count->span_count == SPAN_CAPACITY) {
            count_spans(count);
        }
        count->spans[count->span_count++] = (Span){begin, end - begin};
    }
}

/* Where [begin, end) can be cut whatever follows; `begin` when no place is found. */
static size_t find_cut(const WordCount *count, size_t begin, size_t end)
{
    const uint8_t *text = count->buffer + begin;
    if (count->by_line && end > begin) {
        const uint8_t *line_end = memrchr(text, '\n', end - begin);
        if (line_end != NULL) {
            return begin + (size_t)(line_end - text) + 1;
        }
    }
    return end > begin ? begin + pretok_walk_cut(count->workers[0].walk, text, end - begin) : begin;
}

/* Spans for text without special tokens. When it is not whole, what follows its last cut is left.
 * Returns where the spans end. */
static size_t split_text(WordCount *count, size_t begin, size_t end, bool whole)
{
    size_t stride = count->round_bytes / SPANS_PER_ROUND + 1, window = stride;
    while (end - begin > window) {
        size_t cut = find_cut(count, begin, begin + window);
        add_span(count, begin, cut);
        window = cut > begin ? stride : 2 * window;
        begin = cut;
    }
    size_t cut = whole ? end : find_cut(count, begin, end);
    add_span(count, begin, cut);
    return cut;
}

/* Spans for the text of the current document, as far as it is known. */
static void split_document(WordCount *count, bool whole)
{
    size_t begin = count->begin, end = count->size, limit = end, size;
    if (!whole && count->longest_special > 0) {
        /* What comes may complete a special token, or a longer one, that starts behind this. */
        size_t kept = count->longest_special - 1;
        limit = end - begin > kept ? end - kept : begin;
    }
    for (;;) {
        uint64_t unused;
        size_t special =
            string_finder_find(count->specials, count->buffer, begin, limit, end, &size, &unused);
        if (size == 0) {
            break;
        }
        split_text(count, begin, special, true);
        begin = special + size;
    }
    count->begin = begin < limit ? split_text(count, begin, limit, whole) : begin;
}

/* The end of the last whole character in text[begin, end); `end` when that is far off. */
static size_t character_end(const uint8_t *text, size_t begin, size_t end)
{
    size_t at = end;
    while (at > begin && end - at < 3 && (text[at] & 0xc0) == 0x80) {
        at--;
    }
    return at > begin && (text[at] & 0xc0) != 0x80 ? at : end;
}

/* Counts what can be counted of a full buffer and makes room in it. */
static void run_round(WordCount *count)
{
    split_document(count, false);
    size_t left = count->size - count->begin;
    bool grow = left > count->capacity / 2;
    if (grow && count->capacity >= ROUNDS_TOGETHER * count->round_bytes) {
        size_t kept = count->longest_special + 1;
        size_t cut = character_end(count->buffer, count->begin, count->size - kept);
        add_span(count, count->begin, cut);
        count->begin = cut;
        left = count->size - cut;
        grow = false;
    }
    end_round(count);
    memmove(count->buffer, count->buffer + count->begin, left);
    count->size = left;
    count->begin = 0;
    if (grow) {
        count->capacity *= 2;
        count->buffer = mem_realloc(count->buffer, count->capacity + WORD_TABLE_AHEAD, 1);
    }
}

void word_count_put(WordCount *count, const void *bytes, size_t size)
{
    const uint8_t *text = bytes;
    open_round(count);
    while (size > 0) {
        size_t part = count->capacity - count->size;
        part = size < part ? size : part;
        memcpy(count->buffer + count->size, text, part);
        count->size += part;
        text += part;
        size -= part;
        if (count->size == count->capacity) {
            run_round(count);
        }
    }
}

void word_count_end(WordCount *count)
{
    if (count->buffer != NULL) {
        split_document(count, true);
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
    if (count->buffer != NULL) {
        split_document(count, true);
        end_round(count);
        count->size = 0;
        count->begin = 0;
        close_round(count);
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

uint64_t word_count_invalid(const WordCount *count)
{
    uint64_t invalid = 0;
    for (int i = 0; i < count->threads; i++) {
        invalid += pretok_walk_invalid(count->workers[i].walk);
    }
    return invalid;
}
