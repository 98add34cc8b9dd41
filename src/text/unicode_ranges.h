#pragma once
/* The generated data behind unicode_class: ascending ranges of characters, both ends included. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t first, last;
} UnicodeRange;

extern const UnicodeRange unicode_letters[], unicode_numbers[], unicode_spaces[];
extern const size_t unicode_letters_count, unicode_numbers_count, unicode_spaces_count;
