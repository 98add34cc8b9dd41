#pragma once
/* Added tokens in a text, as Hugging Face finds them: the leftmost and then the longest, each
 * behind the end of the last one found; then what their flags say. */
#include "text/string_finder.h"
#include "text/tokenizer.h"

/* A stretch of text: an added token, or ordinary text. */
typedef struct {
    size_t start, end;
    bool added;
    uint32_t id; /* of the added token */
} Span;

typedef struct {
    const Tokenizer *tokenizer;
    const StringFinder *finder; /* numbers are ids */
    const uint8_t *text;
    size_t size;
    size_t at;       /* what lies before it was handed out */
    size_t searched; /* where the next token is looked for */
    bool found;      /* a token that was not handed out yet: */
    Span token;
} AddedWalk;

AddedWalk added_walk_begin(const Tokenizer *tokenizer, const StringFinder *finder,
                           const uint8_t *text, size_t size);

/* The next span; false when the text is used up. They cover the text; where white space that a
 * token with `rstrip` has taken holds another token, that one is handed out too, unless it takes
 * the white space before it as well. */
bool added_walk_next(AddedWalk *walk, Span *span);
