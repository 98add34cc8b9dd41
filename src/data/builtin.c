#include "data/dataset.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/stories.h"
#include "text/bpe_train.h"
#include "text/encode.h"

#include <inttypes.h>
#include <string.h>

#define RANDOM_TRAIN_TOKENS ((uint64_t)1 << 22)
#define RANDOM_VALIDATION_TOKENS ((uint64_t)1 << 18)
#define RANDOM_STREAM UINT64_C(0x52616e646f6d0000) /* plus the split */

#define STORIES_VOCAB 2048
#define STORIES_LEARNT_FROM 2000                     /* stories */
#define STORIES_VALIDATION_INDEX ((uint64_t)1 << 40) /* far behind the stories of train */

/* Uniform tokens, 32 random bits each: the bias is below vocab / 2^32. */
static void add_random(Split *split, uint64_t stream, uint64_t count, DatasetOptions options)
{
    bool narrow = options.vocab <= UINT16_MAX + 1u;
    void *tokens = mem_alloc((size_t)count * (narrow ? 2 : 4));
    for (uint64_t i = 0; i < count; i += 4) {
        RngBlock block = rng_block(options.seed, RANDOM_STREAM + stream, i / 4);
        for (uint64_t j = 0; j < 4; j++) {
            uint32_t token = (uint32_t)((block.word[j] * options.vocab) >> 32);
            if (narrow) {
                ((uint16_t *)tokens)[i + j] = (uint16_t)token;
            } else {
                ((uint32_t *)tokens)[i + j] = token;
            }
        }
    }
    Shard shard;
    shard_from_memory(&shard, "builtin:random", tokens, count, narrow ? 2 : 4, options.vocab);
    split_add(split, shard);
}

static int open_random(Dataset *dataset, DatasetOptions options)
{
    if (options.vocab == 0 || options.vocab > SHARD_MAX_VOCAB) {
        return err_set(ERR_INPUT,
                       "data builtin:random needs a vocabulary from 1 to %" PRIu64 ", not %" PRIu64
                       "; give --vocab or a model that has one",
                       SHARD_MAX_VOCAB, options.vocab);
    }
    add_random(&dataset->train, 0, RANDOM_TRAIN_TOKENS, options);
    add_random(&dataset->validation, 1, RANDOM_VALIDATION_TOKENS, options);
    return 0;
}

/* --- stories --- */

/* Whole stories, as many as fit into `bytes` with their ends, as tokens. */
static void add_stories(Split *split, const char *source, const Tokenizer *tokenizer,
                        uint64_t index, uint64_t bytes)
{
    uint32_t end;
    int code = tokenizer_end(tokenizer, NULL, &end);
    PACER_ASSERT(code == 0 && tokenizer->vocab <= UINT16_MAX + 1u, "%s", err_message());
    uint16_t *tokens = mem_alloc((size_t)bytes * sizeof *tokens); /* no story has more than bytes */
    uint64_t used = 0, documents = 0, taken = 0;
    char story[STORY_MAX_BYTES];
    Encoder *encoder = encoder_open(tokenizer);
    TokenList list = {0};
    for (;; documents++) {
        size_t length = story_write(STORIES_SEED, index + documents, story, sizeof story);
        if (length + 1 > bytes - taken) {
            break;
        }
        taken += length + 1;
        list.count = 0;
        encoder_run(encoder, (const uint8_t *)story, length, &list);
        for (size_t i = 0; i < list.count; i++) {
            tokens[used++] = (uint16_t)list.ids[i];
        }
        tokens[used++] = (uint16_t)end;
    }
    token_list_free(&list);
    encoder_close(encoder);
    Shard shard;
    shard_from_memory(&shard, source, mem_realloc(tokens, used, sizeof *tokens), used, 2,
                      tokenizer->vocab);
    shard.documents = documents;
    shard.text_bytes = taken - documents;
    shard.tokenizer = tokenizer->hash;
    split_add(split, shard);
}

/* Learnt from the first stories, in the same way on every machine. */
static int learn_tokenizer(Tokenizer **out)
{
    const ByteString end = {(const uint8_t *)TOKENIZER_END, strlen(TOKENIZER_END)};
    Pretok *pretok;
    *out = NULL;
    int code = pretok_open(PRETOK_GPT2, &pretok);
    if (code != 0) {
        return code;
    }
    WordCount *words = word_count_open((WordCountOptions){.pretok = pretok, .threads = 1});
    char story[STORY_MAX_BYTES];
    for (uint64_t i = 0; i < STORIES_LEARNT_FROM; i++) {
        word_count_put(words, story, story_write(STORIES_SEED, i, story, sizeof story));
        word_count_end(words);
    }
    word_count_flush(words);
    code = bpe_train(words,
                     (BpeTrainOptions){.vocab = STORIES_VOCAB,
                                       .specials = &end,
                                       .special_count = 1,
                                       .min_frequency = 1,
                                       .pattern = PRETOK_GPT2},
                     out);
    word_count_close(words);
    pretok_close(pretok);
    return code;
}

/* --- by name --- */

static const struct {
    const char *name;
    bool bytes; /* a token is a byte */
    uint64_t train, validation;
} story_kinds[] = {
    {"stories", false, 8000000, 400000},
    {"bytes", true, 4000000, 200000},
};

int builtin_tokenizer(const char *source, Tokenizer **out)
{
    for (size_t i = 0; i < sizeof story_kinds / sizeof story_kinds[0]; i++) {
        if (strcmp(source + strlen(BUILTIN_PREFIX), story_kinds[i].name) == 0) {
            return story_kinds[i].bytes ? tokenizer_open(TOKENIZER_BYTES, out)
                                        : learn_tokenizer(out);
        }
    }
    *out = NULL;
    return err_set(ERR_INPUT, "data %s: its tokens are no text", source);
}

int builtin_open(Dataset *dataset, DatasetOptions options)
{
    const char *name = dataset->source + strlen(BUILTIN_PREFIX);
    if (strcmp(name, "random") == 0) {
        return open_random(dataset, options);
    }
    for (size_t i = 0; i < sizeof story_kinds / sizeof story_kinds[0]; i++) {
        Tokenizer *tokenizer;
        if (strcmp(name, story_kinds[i].name) != 0) {
            continue;
        }
        int code = builtin_tokenizer(dataset->source, &tokenizer);
        if (code == 0) {
            add_stories(&dataset->train, dataset->source, tokenizer, 0, story_kinds[i].train);
            add_stories(&dataset->validation, dataset->source, tokenizer, STORIES_VALIDATION_INDEX,
                        story_kinds[i].validation);
            tokenizer_free(tokenizer);
        }
        return code;
    }
    return err_set(ERR_INPUT,
                   "data %s: there is builtin:stories, builtin:bytes (the same, a token per byte) "
                   "and builtin:random",
                   dataset->source);
}
