#pragma once
/* Where a text can be cut when a cut has to hold for more than pre-tokens: with a normalizer, with
 * added tokens that take white space or words into account, with something that is put before a
 * text, or with merges over a whole text. The characters on both sides decide alone. */
#include "text/normalize.h"
#include "text/tokenizer.h"

typedef enum {
    CUT_NOWHERE,
    CUT_WORDS,  /* behind a letter that ends a pre-token whatever is around it */
    CUT_JOINTS, /* where no merge joins, or a sign begins a piece */
} CutRule;

typedef struct {
    bool local; /* false: pre-tokens and added tokens say where to cut */
    CutRule rule;
    const Tokenizer *tokenizer;
    bool inside[256], ends[256]; /* bytes that added tokens have, and that they end with */
    bool composes, wide_ends;    /* the normalizer; one of `ends` is not ASCII */
    NormalizeRoom room;
} EncodeCut;

void encode_cut_open(EncodeCut *cut, const Tokenizer *tokenizer);
void encode_cut_close(EncodeCut *cut);
void encode_cut_add(EncodeCut *cut, const uint8_t *bytes, size_t size); /* an added token's text */

/* The last place that can be said; 0: none. */
size_t encode_cut_find(EncodeCut *cut, const uint8_t *text, size_t size);
