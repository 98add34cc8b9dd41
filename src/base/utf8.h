#pragma once
/* UTF-8, as RFC 3629 has it. */
#include <stddef.h>
#include <stdint.h>

#define UTF8_LAST 0x10ffffu /* character */

/* The byte order mark, which some programs put before a text. */
#define UTF8_MARK "\xef\xbb\xbf"
#define UTF8_MARK_SIZE (sizeof UTF8_MARK - 1)

size_t utf8_mark(const void *text,
                 size_t size); /* bytes of one at the start: UTF8_MARK_SIZE or 0 */

/* Length of the UTF-8 character at text (1 to 4), or 0 where it is none (RFC 3629: no overlong
 * forms, no surrogates, nothing cut off by the end). size >= 1. */
int utf8_length(const uint8_t *text, size_t size);

/* The character at text; *length is at least 1. A byte that begins no character counts as one of
 * its own, UTF8_REPLACEMENT, of length 1. */
#define UTF8_REPLACEMENT 0xfffdu
uint32_t utf8_decode(const uint8_t *text, size_t size, int *length);

/* Writes the character's 1 to 4 bytes; returns how many. */
int utf8_encode(uint32_t character, uint8_t out[4]);

/* Bytes at the end of text that begin a character without ending it: 0 to 3. */
size_t utf8_cut_off(const uint8_t *text, size_t size);
