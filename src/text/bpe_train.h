#pragma once
/* Merges from word counts: the most frequent pair of neighbours becomes a token, again and again.
 * Deterministic; one thread, and only the words that a merge touches are looked at. */
#include "text/tokenizer.h"
#include "text/word_count.h"

typedef enum {
    TIES_IDS,           /* of equally frequent pairs the one with the smaller ids, left then right:
                           the merges of Hugging Face tokenizers' BpeTrainer */
    TIES_LEXICOGRAPHIC, /* the greater pair of byte strings, left then right */
} BpeTies;

typedef struct {
    uint32_t vocab;             /* entries, special tokens and the 256 bytes included */
    const ByteString *specials; /* get the ids from 0 on, also as results of merges */
    size_t special_count;
    BpeTies ties;
    uint64_t min_frequency;   /* rarer pairs are not merged; at least 1 */
    uint32_t max_token_bytes; /* longer tokens are not made; 0: TOKENIZER_MAX_TOKEN_BYTES */
    const char *pattern;
    void (*progress)(void *context, uint32_t done, uint32_t all); /* now and then; may be NULL */
    void *context;
} BpeTrainOptions;

/* ERR_INPUT when vocab leaves no room for specials and bytes, or a special token is empty, given
 * twice, a single byte or too long: what can be said before any text is read. */
int bpe_train_check(const BpeTrainOptions *options);

/* Fewer merges than asked for when the words run out of pairs: its vocab says how many
 * entries there are. Fails as bpe_train_check does. */
int bpe_train(const WordCount *words, BpeTrainOptions options, Tokenizer **out);
