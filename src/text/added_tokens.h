#pragma once
/* Finds added tokens in text, as Hugging Face does: first all that are not `normalized`,
 * leftmost and of those the longest; then, in what lies between, the others. */
#include "text/tokenizer.h"

typedef struct AddedFinder AddedFinder;
AddedFinder *added_finder_open(const Tokenizer *tokenizer);
void added_finder_close(AddedFinder *finder); /* NULL is fine */

size_t added_finder_longest(
    const AddedFinder *finder); /* bytes of the longest; 0: there are none */

typedef struct {
    size_t start, end; /* in the text */
    bool added;        /* an added token, or ordinary text */
    uint32_t id;       /* of the added token */
} TextSpan;

/* Begins a text, which stays where it is until the walk is over; then the spans that cover it,
 * none of them empty. False when the text is used up. */
void added_finder_begin(AddedFinder *finder, const uint8_t *text, size_t size);
bool added_finder_next(AddedFinder *finder, TextSpan *span);
