#pragma once
/* Ids to text, as the decoder of a tokenizer.json says. Bytes that are not UTF-8 stay as they are,
 * where Hugging Face writes U+FFFD. */
#include "text/byte_list.h"
#include "text/tokenizer.h"

/* A text that grows token by token. */
typedef struct {
    const Tokenizer *tokenizer;
    bool skip_special; /* special tokens have no text */
    bool begun;        /* a token has come */
    uint32_t strip;    /* characters that may still be left out at its beginning */
} Decoding;

/* `begun`: the text goes on from tokens that came before. */
Decoding decoding_begin(const Tokenizer *tokenizer, bool skip_special, bool begun);

/* Appends the text of the ids. ERR_INPUT naming the position of an id that has no token. */
int decoding_add(Decoding *decoding, const uint32_t *ids, size_t count, ByteList *out);

/* The same for a whole text with its special tokens. */
int tokenizer_decode(const Tokenizer *tokenizer, const uint32_t *ids, size_t count, ByteList *out);

void tokenizer_make_texts(Tokenizer *tokenizer); /* of each token that is not the first one */
