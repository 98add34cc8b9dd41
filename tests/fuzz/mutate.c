#include "fuzz/mutate.h"

#include "base/mem.h"
#include "base/rng.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORDS 4096
#define MAX_WORD 48
#define MOST_CHANGES 6 /* to one input */

/* One input on its way: random numbers are drawn one after the other from the round's stream. */
typedef struct {
    const Mutator *mutator;
    uint64_t seed, round, drawn;
    uint8_t *data;
    size_t size, limit;
} Work;

static const char *const edges[] = {
    "0",          "-1",         "1",          "255",
    "65535",      "65536",      "2147483647", "2147483648",
    "4294967295", "4294967296", "1e308",      "9007199254740993",
    "1e-320",     "0.1",        "-0",         "18446744073709551615",
    "1e999",      "NaN",        "\\u0000",    "\\ud800",
    "null",       "{}",         "[]",         "\"\"",
};

static bool is_word_byte(uint8_t byte)
{
    return isalnum(byte) || byte == '_' || byte == '-' || byte >= 0x80;
}

/* Runs of letters, digits, - and _, each once. */
static void find_words(Mutator *mutator, Input seed)
{
    for (size_t at = 0; at < seed.size && mutator->word_count < MAX_WORDS;) {
        size_t end = at;
        while (end < seed.size && end - at < MAX_WORD && is_word_byte(seed.data[end])) {
            end++;
        }
        bool known = end - at < 2;
        for (size_t i = 0; i < mutator->word_count && !known; i++) {
            known = mutator->words[i].size == end - at &&
                    memcmp(mutator->words[i].data, seed.data + at, end - at) == 0;
        }
        if (!known) {
            mutator->words[mutator->word_count++] = (Input){seed.data + at, end - at};
        }
        at = end > at ? end : at + 1;
    }
}

void mutator_init(Mutator *mutator, Input *seeds, size_t seed_count)
{
    *mutator = (Mutator){.seeds = seeds, .seed_count = seed_count};
    mutator->words = mem_zalloc(MAX_WORDS, sizeof *mutator->words);
    for (size_t i = 0; i < seed_count; i++) {
        find_words(mutator, seeds[i]);
    }
}

void mutator_free(Mutator *mutator)
{
    for (size_t i = 0; i < mutator->seed_count; i++) {
        free(mutator->seeds[i].data);
    }
    free(mutator->seeds);
    free(mutator->words);
    *mutator = (Mutator){0};
}

/* In [0, n); 0 when n is 0. */
static size_t below(Work *work, size_t n)
{
    return n > 0 ? (size_t)rng_below(work->seed, work->round, work->drawn++, n) : 0;
}

/* Replaces `cut` bytes at `at` by these, as far as there is room. The bytes are not the work's
 * own. */
static void replace(Work *work, size_t at, size_t cut, const uint8_t *bytes, size_t size)
{
    size_t tail = work->size - at - cut;
    if (at + size + tail > work->limit) {
        return;
    }
    memmove(work->data + at + size, work->data + at + cut, tail);
    if (size > 0) {
        memcpy(work->data + at, bytes, size);
    }
    work->size = at + size + tail;
}

/* A block of the work's own bytes: mostly short. */
static size_t block(Work *work, size_t *at)
{
    *at = below(work, work->size);
    size_t most = below(work, 4) == 0 ? work->size : 32;
    size_t size = 1 + below(work, most);
    return size < work->size - *at ? size : work->size - *at;
}

static void flip_bit(Work *work)
{
    if (work->size > 0) {
        work->data[below(work, work->size)] ^= (uint8_t)(1u << below(work, 8));
    }
}

static void set_byte(Work *work)
{
    static const uint8_t likely[] = {0,   0xff, 0x80, 0x7f, '"', '\\', '{', '}', '[',
                                     ']', ',',  ':',  '\n', ' ', '-',  '0', '9', '#'};
    if (work->size > 0) {
        work->data[below(work, work->size)] =
            below(work, 2) == 0 ? likely[below(work, sizeof likely)] : (uint8_t)below(work, 256);
    }
}

static void change_digit(Work *work)
{
    size_t start = below(work, work->size);
    for (size_t i = 0; i < work->size; i++) {
        uint8_t *byte = &work->data[(start + i) % work->size];
        if (isdigit(*byte)) {
            *byte = (uint8_t)('0' + below(work, 10));
            return;
        }
    }
}

/* The number that starts at a random digit becomes one at an edge. */
static void change_number(Work *work)
{
    size_t start = below(work, work->size), at = start;
    while (at < work->size && !isdigit(work->data[at])) {
        at++;
    }
    size_t end = at;
    while (end < work->size && isdigit(work->data[end])) {
        end++;
    }
    const char *edge = edges[below(work, sizeof edges / sizeof *edges)];
    replace(work, at, end - at, (const uint8_t *)edge, strlen(edge));
}

/* 2, 4 or 8 bytes of a binary number. */
static void set_binary(Work *work)
{
    static const uint64_t values[] = {0,
                                      1,
                                      0x7f,
                                      0x80,
                                      0xff,
                                      0x100,
                                      0x7fff,
                                      0x8000,
                                      0xffff,
                                      0x10000,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      INT64_MAX,
                                      UINT64_MAX,
                                      1u << 20,
                                      1u << 30,
                                      INT64_MIN,
                                      UINT64_MAX / 2 + 2};
    size_t bytes = (size_t)2 << below(work, 3);
    if (work->size < bytes) {
        return;
    }
    uint64_t value = values[below(work, sizeof values / sizeof *values)];
    size_t at = below(work, work->size - bytes + 1);
    for (size_t i = 0; i < bytes; i++, value >>= 8) {
        work->data[at + i] = (uint8_t)value;
    }
}

static void put_word(Work *work)
{
    size_t at = below(work, work->size + 1), cut = 0;
    Input word = {(uint8_t *)edges[0], 1};
    if (work->mutator->word_count > 0) {
        word = work->mutator->words[below(work, work->mutator->word_count)];
    }
    if (below(work, 2) == 0) { /* in place of the word there */
        while (at + cut < work->size && is_word_byte(work->data[at + cut])) {
            cut++;
        }
    }
    replace(work, at, cut, word.data, word.size);
}

static void erase_block(Work *work)
{
    size_t at, size = block(work, &at);
    replace(work, at, size, NULL, 0);
}

static void truncate_at(Work *work)
{
    work->size = below(work, work->size + 1);
}

static void insert_copy(Work *work, const uint8_t *from, size_t size)
{
    uint8_t *copy = mem_alloc(size);
    memcpy(copy, from, size);
    size_t times = below(work, 8) == 0 ? 1 + below(work, 64) : 1;
    for (size_t at = below(work, work->size + 1); times > 0; times--) {
        replace(work, at, 0, copy, size);
    }
    free(copy);
}

static void repeat_block(Work *work)
{
    size_t at, size = block(work, &at);
    if (size > 0) {
        insert_copy(work, work->data + at, size);
    }
}

/* A block of some seed, put in or written over. */
static void splice(Work *work)
{
    Input other = work->mutator->seeds[below(work, work->mutator->seed_count)];
    Work source = *work;
    source.data = other.data;
    source.size = other.size;
    size_t at, size = block(&source, &at);
    work->drawn = source.drawn;
    if (size > 0 && below(work, 2) == 0) {
        insert_copy(work, other.data + at, size);
    } else if (size > 0) {
        size_t to = below(work, work->size + 1);
        size_t cut = size < work->size - to ? size : work->size - to;
        replace(work, to, cut, other.data + at, size);
    }
}

/* The input goes on as the rest of another seed. */
static void cross(Work *work)
{
    Input other = work->mutator->seeds[below(work, work->mutator->seed_count)];
    size_t at = below(work, other.size), to = below(work, work->size + 1);
    replace(work, to, work->size - to, other.data + at, other.size - at);
}

static void insert_random(Work *work)
{
    uint8_t bytes[8];
    size_t size = 1 + below(work, sizeof bytes);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)below(work, 256);
    }
    replace(work, below(work, work->size + 1), 0, bytes, size);
}

size_t mutator_make(const Mutator *mutator, uint64_t seed, uint64_t round, uint8_t *out,
                    size_t limit)
{
    static void (*const changes[])(Work *) = {
        flip_bit,    set_byte,    change_digit, change_number, set_binary, put_word,
        erase_block, truncate_at, repeat_block, splice,        cross,      insert_random,
    };
    Work work = {.mutator = mutator, .seed = seed, .round = round, .data = out, .limit = limit};
    if (mutator->seed_count > 0) {
        Input first = mutator->seeds[below(&work, mutator->seed_count)];
        replace(&work, 0, 0, first.data, first.size);
        for (size_t left = 1 + below(&work, MOST_CHANGES); left > 0; left--) {
            changes[below(&work, sizeof changes / sizeof *changes)](&work);
        }
    }
    return work.size;
}
