#pragma once
/* Text to ids. An Encoder belongs to one thread; it remembers the ids of pre-tokens it has met. The
 * concatenated bytes of the ids are the text, whatever its bytes are. */
#include "text/tokenizer.h"

typedef struct {
    uint32_t *ids;
    size_t count, capacity;
} TokenList;

void token_list_add(TokenList *list, const uint32_t *ids, size_t count);
void token_list_free(TokenList *list); /* no-op on a zeroed list */

typedef struct Encoder Encoder;
Encoder *encoder_open(const Tokenizer *tokenizer);
void encoder_close(Encoder *encoder); /* NULL is fine */

/* Appends the ids of a whole text to `out`. */
void encoder_run(Encoder *encoder, const uint8_t *text, size_t size, TokenList *out);

/* As pretok_walk_cut, with regard to added tokens too. */
size_t encoder_cut(Encoder *encoder, const uint8_t *text, size_t size);

/* Bytes met so far that are not UTF-8. */
uint64_t encoder_invalid(const Encoder *encoder);

/* Appends the bytes of the ids. ERR_INPUT naming the position of an id that has no token. */
typedef struct {
    uint8_t *bytes;
    size_t size, capacity;
} ByteList;
int tokenizer_decode(const Tokenizer *tokenizer, const uint32_t *ids, size_t count, ByteList *out);
void byte_list_free(ByteList *list); /* no-op on a zeroed list */
