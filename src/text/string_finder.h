#pragma once
/* Finds strings of a set in text: the leftmost one, and of those that start at one place the
 * longest. */
#include <stddef.h>
#include <stdint.h>

typedef struct StringFinder StringFinder;
StringFinder *string_finder_open(void);
void string_finder_close(StringFinder *finder); /* NULL is fine */

/* A string and its number. An empty string is never found. */
void string_finder_add(StringFinder *finder, const uint8_t *bytes, size_t size, uint64_t number);

size_t string_finder_longest(const StringFinder *finder); /* bytes; 0: there are no strings */

/* Start of the first string that starts in text[from, limit) and ends by `end`, with its size and
 * number; `limit` and size 0 when there is none. */
size_t string_finder_find(const StringFinder *finder, const uint8_t *text, size_t from,
                          size_t limit, size_t end, size_t *size, uint64_t *number);
