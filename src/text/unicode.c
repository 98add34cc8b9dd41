#include "text/unicode.h"

#include "text/unicode_ranges.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* The class of every character in two bits. The ranges that tools/unicode_ranges.py wrote are
 * expanded into this form when the first character is asked for. */
static uint8_t classes[UTF8_LAST / 4 + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_bool
    ready; /* asked before pthread_once, which is slow to say that nothing is to do */

static void fill(const UnicodeRange *ranges, size_t count, CharClass class)
{
    for (size_t i = 0; i < count; i++) {
        for (uint32_t character = ranges[i].first; character <= ranges[i].last; character++) {
            classes[character / 4] |= (uint8_t)(class << (character % 4 * 2));
        }
    }
}

static void fill_all(void)
{
    fill(unicode_letters, sizeof unicode_letters / sizeof unicode_letters[0], CHAR_LETTER);
    fill(unicode_numbers, sizeof unicode_numbers / sizeof unicode_numbers[0], CHAR_NUMBER);
    fill(unicode_spaces, sizeof unicode_spaces / sizeof unicode_spaces[0], CHAR_SPACE);
    atomic_store_explicit(&ready, true, memory_order_release);
}

CharClass unicode_class(uint32_t character)
{
    if (character > UTF8_LAST) {
        return CHAR_OTHER;
    }
    if (!atomic_load_explicit(&ready, memory_order_acquire)) {
        pthread_once(&once, fill_all);
    }
    return (CharClass)(classes[character / 4] >> (character % 4 * 2) & 3);
}
