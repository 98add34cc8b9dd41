#pragma once
/* What tests of prepare_dataset share: two tokenizers, texts, options. */
#include "data/prepare.h"
#include "support/plain_documents.h"

/* Opened once, before the tests of a program: "bytes", and one with merges whose end is id 0
 * (small_tokenizer.h). For cmocka_run_group_tests. */
extern Tokenizer *tokenizers[2];
extern const char *const tokenizer_names[2];
extern const uint32_t tokenizer_ends[2];
int open_tokenizers(void **state);
int close_tokenizers(void **state);

#define PREPARATION_SHARD 4000 /* tokens per shard in the options below */

/* 20 % validation, two threads, tokenizer `which`. */
PrepareOptions preparation(const char *out, const char *const *inputs, int count, int which);

/* Documents of 1 to 300 bytes, some words and some bytes of any value but 0; every tenth one is
 * long. Separators stand on lines of their own or inside a line. */
Text random_text(uint64_t seed, int documents);

/* prepare_dataset with what it says on standard error kept away, or given in *said. */
int prepare_quietly(const PrepareOptions *options, char **said);
