#include "text/unicode.h"

#include "text/unicode_ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The kind of every character in four bits. The ranges that tools/unicode_ranges.py wrote are
 * expanded into this form when the first character is asked for. */
static uint8_t kinds[UTF8_LAST / 2 + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool
    ready; /* asked before pthread_once, which is slow to say that nothing is to do */

#define FILL(ranges, kind) fill(ranges, sizeof(ranges) / sizeof(ranges)[0], kind)
static void fill(const UnicodeRange *ranges, size_t count, CharKind kind)
{
    for (size_t i = 0; i < count; i++) {
        for (uint32_t c = ranges[i].first; c <= ranges[i].last; c += ranges[i].step) {
            kinds[c / 2] |= (uint8_t)(kind << (c % 2 * 4));
        }
    }
}

static void fill_all(void)
{
    FILL(unicode_upper, CHAR_UPPER);
    FILL(unicode_lower, CHAR_LOWER);
    FILL(unicode_letters, CHAR_LETTER);
    FILL(unicode_marks, CHAR_MARK);
    FILL(unicode_numbers, CHAR_NUMBER);
    FILL(unicode_spaces, CHAR_SPACE);
    atomic_store_explicit(&ready, true, memory_order_release);
}

CharKind unicode_kind(uint32_t character)
{
    if (character > UTF8_LAST) {
        return CHAR_OTHER;
    }
    if (!atomic_load_explicit(&ready, memory_order_acquire)) {
        pthread_once(&once, fill_all);
    }
    return (CharKind)(kinds[character / 2] >> (character % 2 * 4) & 15);
}
