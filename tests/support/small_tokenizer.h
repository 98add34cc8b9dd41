#pragma once
/* A tokenizer for tests: <|endoftext|> is id 0, byte b is id b + 1, then a few merges of common
 * English, " the" the longest. Vocabulary 267. */
#include "text/tokenizer.h"

Tokenizer *small_tokenizer(void); /* caller frees */
