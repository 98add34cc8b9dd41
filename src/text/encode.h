#pragma once
/* Text to ids. An Encoder belongs to one thread; it remembers the ids of pre-tokens it has met.
 * With byte-level BPE and no normalizer the concatenated bytes of the ids are the text, whatever
 * its bytes are. */
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

/* The same for text that was cut; `begins`: this is the first part. */
void encoder_run_part(Encoder *encoder, const uint8_t *text, size_t size, bool begins,
                      TokenList *out);

/* As pretok_walk_cut, with regard to all that makes ids of a text: the parts before and behind the
 * cut have together the ids of the whole. */
size_t encoder_cut(Encoder *encoder, const uint8_t *text, size_t size);

/* Bytes met so far that are not UTF-8. */
uint64_t encoder_invalid(const Encoder *encoder);
