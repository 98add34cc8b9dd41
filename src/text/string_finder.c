/* A candidate position is one whose byte begins some string (memchr when all begin with the same
 * one, as "<|...|>" do). There the text is looked up in a table, once per length that strings have,
 * longest first. */
#include "text/string_finder.h"

#include "base/mem.h"
#include "text/word_table.h"

#include <stdlib.h>
#include <string.h>

struct StringFinder {
    WordTable *table; /* NULL: there are no strings */
    size_t *lengths;  /* descending, each once */
    size_t length_count;
    bool begins[256];
    int only_begin; /* the byte that all begin with; -1 when there are several */
};

StringFinder *string_finder_open(void)
{
    return mem_zalloc(1, sizeof(StringFinder));
}

void string_finder_close(StringFinder *finder)
{
    if (finder != NULL) {
        word_table_close(finder->table);
        free(finder->lengths);
        free(finder);
    }
}

static void add_length(StringFinder *finder, size_t length)
{
    size_t at = 0;
    while (at < finder->length_count && finder->lengths[at] > length) {
        at++;
    }
    if (at < finder->length_count && finder->lengths[at] == length) {
        return;
    }
    finder->lengths =
        mem_realloc(finder->lengths, finder->length_count + 1, sizeof *finder->lengths);
    memmove(finder->lengths + at + 1, finder->lengths + at,
            (finder->length_count - at) * sizeof *finder->lengths);
    finder->lengths[at] = length;
    finder->length_count++;
}

void string_finder_add(StringFinder *finder, const uint8_t *bytes, size_t size, uint64_t number)
{
    if (size == 0) {
        return;
    }
    bool first = finder->table == NULL;
    finder->table = first ? word_table_open(0) : finder->table;
    finder->only_begin = first || finder->only_begin == bytes[0] ? bytes[0] : -1;
    finder->begins[bytes[0]] = true;
    *word_table_at(finder->table, bytes, size) = number;
    add_length(finder, size);
}

size_t string_finder_longest(const StringFinder *finder)
{
    return finder->length_count > 0 ? finder->lengths[0] : 0;
}

size_t string_finder_find(const StringFinder *finder, const uint8_t *text, size_t from,
                          size_t limit, size_t end, size_t *size, uint64_t *number)
{
    *size = 0;
    for (size_t at = from; finder->table != NULL && at < limit; at++) {
        if (finder->only_begin >= 0) {
            const uint8_t *next = memchr(text + at, finder->only_begin, limit - at);
            if (next == NULL) {
                break;
            }
            at = (size_t)(next - text);
        } else if (!finder->begins[text[at]]) {
            continue;
        }
        for (size_t i = 0; i < finder->length_count; i++) {
            size_t length = finder->lengths[i];
            if (length <= end - at &&
                word_table_find(finder->table, text + at, length, end - at, number)) {
                *size = length;
                return at;
            }
        }
    }
    return limit;
}
