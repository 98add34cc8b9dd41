#pragma once
/* What tokenizers ask of a character: is it a letter, a number, white space? The tables
 * are those of Unicode 16.0 and part of pacer: a text has the same tokens on every machine. */
#include "base/utf8.h"

typedef enum { CHAR_OTHER, CHAR_LETTER, CHAR_NUMBER, CHAR_SPACE } CharClass;

/* General categories L* and N*, property White_Space; anything else is CHAR_OTHER. */
CharClass unicode_class(uint32_t character);
