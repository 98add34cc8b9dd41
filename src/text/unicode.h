#pragma once
/* UTF-8, and what tokenizers ask of a character: is it a letter, a number, white space? The tables
 * are those of Unicode 16.0 and part of pacer: a text has the same tokens on every machine. */
#include <stddef.h>
#include <stdint.h>

typedef enum { CHAR_OTHER, CHAR_LETTER, CHAR_NUMBER, CHAR_SPACE } CharClass;

/* General categories L* and N*, property White_Space; anything else is CHAR_OTHER. */
CharClass unicode_class(uint32_t character);

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
