#pragma once
/* Between pretok.c and pretok_regex.c: a compiled pattern, and what one thread needs to walk a text
 * with it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Regex Regex;
int regex_open(const char *pattern, Regex **out);
void regex_close(Regex *regex); /* NULL is fine */

typedef struct RegexWalk RegexWalk;
RegexWalk *regex_walk_open(const Regex *regex);
void regex_walk_close(RegexWalk *walk); /* NULL is fine */
/* `invalid`: what scan_invalid says of the text. */
void regex_walk_begin(RegexWalk *walk, const uint8_t *text, size_t size, uint64_t invalid);
bool regex_walk_next(RegexWalk *walk, size_t *end);
size_t regex_walk_cut(RegexWalk *walk, const uint8_t *text, size_t size);

/* Bytes that are not UTF-8. */
uint64_t scan_invalid(const uint8_t *text, size_t size);
