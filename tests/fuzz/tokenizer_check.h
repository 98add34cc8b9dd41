#pragma once
#include "text/tokenizer.h"

/* A tokenizer that was accepted: ids of texts decode to the texts, and its tokenizer.json is
 * accepted and gives the same ids. Frees it. */
void fuzz_tokenizer(Tokenizer *tokenizer, const uint8_t *text, size_t size);
