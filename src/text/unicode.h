#pragma once
/* What tokenizers ask of a character: is it a letter, a number, white space? The tables
 * are those of Unicode 16.0 and part of pacer: a text has the same tokens on every machine. */
#include "base/utf8.h"

/* The low bits of a kind are its class. */
#define CHAR_CLASS_BITS 3

typedef enum {
    /* Classes: general categories L* and N*, property White_Space, anything else. */
    CHAR_OTHER,
    CHAR_LETTER,
    CHAR_NUMBER,
    CHAR_SPACE,
    /* Kinds of letters (CHAR_LETTER: Lm and Lo, which have no case) and of others. */
    CHAR_UPPER = CHAR_LETTER | 4, /* Lu and Lt */
    CHAR_LOWER = CHAR_LETTER | 8, /* Ll */
    CHAR_MARK = CHAR_OTHER | 4,   /* M* */
} CharKind;

CharKind unicode_kind(uint32_t character);

/* One of the first four. */
static inline CharKind unicode_class(uint32_t character)
{
    return (CharKind)(unicode_kind(character) & CHAR_CLASS_BITS);
}
