#pragma once
/* What the files that make, read and write tokenizers share. */
#include "text/tokenizer.h"

#include <cjson/cJSON.h>

/* A token's bytes for a message: as text, with what does not print escaped, and cut when long. */
#define TOKEN_SHOWN_SIZE 80
typedef struct {
    char text[TOKEN_SHOWN_SIZE];
} ShownToken;
ShownToken token_shown(const void *bytes, size_t size);

/* True when tokenizer_add_added made the token, so that it is not part of the model's
 * vocabulary. */
bool tokenizer_is_apart(const Tokenizer *tokenizer, uint32_t id);

/* Text in the byte alphabet to bytes; `out` has room for `length`. False when a character is not of
 * the alphabet. */
bool alphabet_to_bytes(const char *text, size_t length, uint8_t *out, size_t *size);

/* tokenizer_read.c: vocabulary and merges as tokenizer.json and GPT-2's vocab.json and merges.txt
 * write them: token names in the byte alphabet, but for added tokens, which are plain text. */

/* An added token as a file lists it. */
typedef struct {
    const char *content;
    uint32_t id; /* as listed */
    bool special, normalized;
    bool in_vocab;     /* the vocabulary has its content as a name, */
    uint32_t vocab_id; /* with this id */
} WrittenAdded;

/* The JSON document. ERR_INPUT naming path and line when it is none, or has something that cJSON
 * would not hand over whole. cJSON_Delete releases it. */
int written_parse(const char *text, size_t size, const char *path, cJSON **root);

/* A whole number from 0 on, at most UINT32_MAX. */
bool written_number(const cJSON *item, uint32_t *number);

/* Adds the tokens of a vocabulary (an object of names and ids), and sets in_vocab and vocab_id
 * of the added tokens that are part of it; those whose name is no text in the byte alphabet are
 * left for written_add_added. ERR_INPUT naming the entry; *entries: how many there are. */
int written_add_vocab(Tokenizer *tokenizer, const cJSON *vocab, WrittenAdded *added,
                      size_t added_count, uint32_t *entries);

/* The merge of two tokens in the byte alphabet. ERR_INPUT saying which one is no token. */
int written_add_merge(Tokenizer *tokenizer, const char *left, size_t left_length, const char *right,
                      size_t right_length);

/* "left right" as one text. */
int written_add_merge_line(Tokenizer *tokenizer, const char *line, size_t length);

/* Adds the added tokens under the ids that Hugging Face gives them: that of the vocabulary, else
 * those from the number of its entries on in the order of the file, whatever ids the file says. */
int written_add_added(Tokenizer *tokenizer, const WrittenAdded *added, size_t added_count,
                      uint32_t entries, const char *path);
