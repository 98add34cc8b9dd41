#pragma once
/* A model as one GGUF file, which llama.cpp and programs made of it read: dimensions and tokenizer
 * as typed fields, then the tensors. */
#include "base/choices.h"
#include "exchange/hf_export.h"

#include <stdio.h>

/* Of the matrices. Norms, biases and learned positions are f32 always, and in a q8_0 file a matrix
 * whose rows are no multiple of 32 is f16. */
typedef enum { GGUF_CHOICES(CHOICE_VALUE) } GgufType;

/* The file `out`, streamed: one parameter at a time is in memory. ERR_INPUT when `out` exists, when
 * llama.cpp has no such model (it names what it lacks), or the model has no tokenizer. */
int gguf_export(const HfModel *model, GgufType type, const char *out);

/* --- fields of the file's head, of which the writer counts how many there are --- */

typedef struct {
    FILE *to;
    uint64_t count;
} GgufFields;

/* Element types of arrays, as the format numbers them. */
enum { GGUF_I32 = 5, GGUF_F32_ELEMENT = 6, GGUF_TEXT = 8 };

void gguf_put_whole(FILE *to, uint64_t value, int bytes); /* little-endian */
void gguf_put_real(FILE *to, double value);               /* f32 */
void gguf_put_text(FILE *to, const void *text, size_t size);
void gguf_field_whole(GgufFields *fields, const char *name, int64_t value); /* u32 */
void gguf_field_real(GgufFields *fields, const char *name, double value);   /* f32 */
void gguf_field_bool(GgufFields *fields, const char *name, bool value);
void gguf_field_text(GgufFields *fields, const char *name, const char *value);
void gguf_field_array(GgufFields *fields, const char *name, int type, uint64_t count);

/* What a token is. */
enum {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN,
    TOKEN_CONTROL,
    TOKEN_USER, /* an added one that is not special */
    TOKEN_UNUSED,
    TOKEN_BYTE
};

#define GGUF_SIGN "\xE2\x96\x81" /* what vocabularies over characters write a space as */

int gguf_token_type(const Tokenizer *tokenizer, uint32_t id);
bool gguf_is_found_first(const Tokenizer *tokenizer, uint32_t id); /* as added tokens are */

/* ERR_INPUT naming an added token that llama.cpp would find otherwise in a text; gguf_tokens.c */
int gguf_check_added(const Tokenizer *tokenizer);

int gguf_refuse_normalizer(NormalizeKind kind); /* ERR_INPUT */

/* Fields of the tokenizer, for a model with that many rows of the embedding. gguf_vocab.c */
int gguf_put_vocab(GgufFields *fields, const HfModel *model);

/* Those of one whose merges start from characters: for llama.cpp a "llama" vocabulary. ERR_INPUT
 * naming what llama.cpp would do otherwise. gguf_characters.c */
int gguf_put_characters(GgufFields *fields, const Tokenizer *tokenizer, int64_t rows);
