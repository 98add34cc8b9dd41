#pragma once
/* What must hold of pre-tokens and ids, whatever the text and the tokenizer are. */
#include "text/decode.h"
#include "text/encode.h"
#include "text/pretok.h"

/* Pieces are not empty and cover the text; a cut changes none of them. */
void fuzz_pieces(const Pretok *pretok, const uint8_t *text, size_t size);

/* The bytes of a text's ids are the text; a cut changes no id. The encoder is the tokenizer's. */
void fuzz_ids(const Tokenizer *tokenizer, Encoder *encoder, const uint8_t *text, size_t size);
