#pragma once
/* What pretok.c puts together: scanners for the patterns that are known, PCRE2 for the rest. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pretok_scan.c. End of the piece that starts at `at` < size; always > at. */
size_t scan_gpt2(const uint8_t *text, size_t size, size_t at);
size_t scan_llama3(const uint8_t *text, size_t size, size_t at, int most_digits);
/* pretok_walk_cut, right for all patterns that are scanned. */
size_t scan_cut(const uint8_t *text, size_t size);
/* Bytes that are not UTF-8. */
uint64_t scan_invalid(const uint8_t *text, size_t size);

/* pretok_regex.c. A compiled pattern, and what one thread needs to walk a text with it. */
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
