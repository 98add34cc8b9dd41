#include "data/dataset.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/stories.h"
#include "text/tokenizer.h"

#include <inttypes.h>
#include <string.h>

#define RANDOM_TRAIN_TOKENS ((uint64_t)1 << 22)
#define RANDOM_VALIDATION_TOKENS ((uint64_t)1 << 18)
#define RANDOM_STREAM UINT64_C(0x52616e646f6d0000) /* plus the split */

#define STORIES_TRAIN_TOKENS 4000000
#define STORIES_VALIDATION_TOKENS 200000
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

/* Whole stories, as many as fit into `capacity` tokens, as bytes. */
static void add_stories(Split *split, const Tokenizer *bytes, uint64_t index, uint64_t capacity)
{
    uint32_t end;
    int code = tokenizer_end(bytes, NULL, &end);
    PACER_ASSERT(code == 0 && end <= UINT16_MAX, "%s", err_message());
    uint16_t *tokens = mem_alloc((size_t)capacity * sizeof *tokens);
    uint64_t used = 0, documents = 0;
    char story[STORY_MAX_BYTES];
    for (;; documents++) {
        size_t length = story_write(STORIES_SEED, index + documents, story, sizeof story);
        if (length + 1 > capacity - used) {
            break;
        }
        for (size_t i = 0; i < length; i++) {
            tokens[used++] = (uint8_t)story[i];
        }
        tokens[used++] = (uint16_t)end;
    }
    Shard shard;
    shard_from_memory(&shard, "builtin:stories", tokens, used, 2, bytes->vocab);
    shard.documents = documents;
    shard.text_bytes = used - documents;
    shard.tokenizer = bytes->hash;
    split_add(split, shard);
}

static int open_stories(Dataset *dataset)
{
    Tokenizer *bytes;
    int code = tokenizer_open(TOKENIZER_BYTES, &bytes);
    if (code == 0) {
        add_stories(&dataset->train, bytes, 0, STORIES_TRAIN_TOKENS);
        add_stories(&dataset->validation, bytes, STORIES_VALIDATION_INDEX,
                    STORIES_VALIDATION_TOKENS);
        tokenizer_free(bytes);
    }
    return code;
}

int builtin_open(Dataset *dataset, DatasetOptions options)
{
    const char *name = dataset->source + strlen(BUILTIN_PREFIX);
    if (strcmp(name, "random") == 0) {
        return open_random(dataset, options);
    }
    if (strcmp(name, "stories") == 0) {
        return open_stories(dataset);
    }
    return err_set(ERR_INPUT, "data %s: there is builtin:stories and builtin:random",
                   dataset->source);
}
