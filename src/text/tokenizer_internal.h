#pragma once
/* What the files that make, read and write tokenizers share. */
#include "text/tokenizer.h"

/* A token's bytes for a message: as text, with what does not print escaped, and cut when long. */
#define TOKEN_SHOWN_SIZE 80
typedef struct {
    char text[TOKEN_SHOWN_SIZE];
} ShownToken;
ShownToken token_shown(const void *bytes, size_t size);

/* True when tokenizer_add_added made the token, so that it is not part of the model's
 * vocabulary. */
bool tokenizer_is_apart(const Tokenizer *tokenizer, uint32_t id);

/* What tokenizer_hash gives, from all other parts. */
uint64_t tokenizer_compute_hash(const Tokenizer *tokenizer);

/* Text in the byte alphabet to bytes; `out` has room for `length`. False when a character is not of
 * the alphabet. */
bool alphabet_to_bytes(const char *text, size_t length, uint8_t *out, size_t *size);
