#pragma once
/* Scanners for patterns that many tokenizers share. Those of one family differ in numbers. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCAN_ALL_DIGITS SIZE_MAX

typedef struct ScanRule {
    /* End of the piece at `at` < size. */
    size_t (*scan)(const struct ScanRule *rule, const uint8_t *text, size_t size, size_t at);
    size_t most_digits; /* in a piece */
    bool keeps_end;     /* scan_llama3: white space up to the end of the text is one piece, with
                           line breaks in it or not */
    bool suffixes;      /* scan_cased: 's and the like belong to the word before them */
    bool gaps;          /* scan_numbers: what lies between matches is a piece too */
} ScanRule;

size_t scan_gpt2(const ScanRule *rule, const uint8_t *text, size_t size, size_t at);
size_t scan_llama3(const ScanRule *rule, const uint8_t *text, size_t size, size_t at);
size_t scan_cased(const ScanRule *rule, const uint8_t *text, size_t size, size_t at);
size_t scan_numbers(const ScanRule *rule, const uint8_t *text, size_t size, size_t at);

/* pretok_walk_cut for these patterns. */
size_t scan_cut(const uint8_t *text, size_t size);
size_t scan_numbers_cut(const uint8_t *text, size_t size); /* for scan_numbers */

/* Whether a letter and this character behind it are in two pieces in every pattern without gaps. */
bool scan_parts(uint32_t letter, uint32_t next);

bool scan_is_number(const uint8_t *text, size_t size); /* the character that text begins with */

uint64_t scan_invalid(const uint8_t *text, size_t size); /* bytes that are not UTF-8 */
