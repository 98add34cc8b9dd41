#pragma once
/* The option `data` as two streams of tokens, train and validation. It may name
 *   a folder made by `pacer data prepare` (manifest.json);
 *   a folder with nanoGPT's train.bin and val.bin;
 *   a folder of llm.c files (NAME_train.bin, NAME_train_000001.bin, NAME_val...), the path up to
 *   "_train" of such files, or a pattern with * or ? (split by whether the name has "_val");
 *   one shard file (all train);
 *   builtin:stories, builtin:bytes (the same, a token per byte), builtin:random.
 * Shards follow each other in the order of the manifest, or of their names. */
#include "data/shard.h"
#include "text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

#define BUILTIN_PREFIX "builtin:"

typedef struct {
    const char *name; /* "train" or "validation" */
    Shard *shards;
    int shard_count;
    uint64_t tokens;     /* 0: the dataset has no such split */
    uint64_t left_out;   /* tokens that do not count in a loss */
    uint64_t documents;  /* 0 unknown */
    uint64_t text_bytes; /* 0 unknown; nats per token x tokens / text_bytes gives nats per byte */
    bool separate;       /* documents are kept apart (dataset_separate) */
    int32_t end;         /* token between them */
} Split;

typedef struct {
    char *source; /* as given */
    Split train, validation;
    char *tokenizer;         /* name; "" unknown */
    char *tokenizer_path;    /* the file with it that the folder has; NULL: none */
    uint64_t tokenizer_hash; /* 0 unknown */
    uint64_t vocab;          /* of the tokenizer; 0 unknown */
} Dataset;

typedef struct {
    uint64_t vocab; /* of builtin:random; not used by others */
    uint64_t seed;  /* of builtin:random */
    bool verify; /* read all tokens now, checking hashes (files without a header are always read) */
} DatasetOptions;

int dataset_open(Dataset *dataset, const char *data, DatasetOptions options);
void dataset_close(Dataset *dataset); /* no-op on a zeroed dataset */

/* builtin.c: fills the splits of a dataset whose source is "builtin:NAME", which pacer makes itself
 * in memory. */
int builtin_open(Dataset *dataset, DatasetOptions options);
int builtin_tokenizer(const char *source, Tokenizer **out); /* caller frees it */

/* The tokenizer that made the tokens; caller frees it. ERR_INPUT when the dataset comes without
 * one, or when the file is another one than that of the shards. */
int dataset_tokenizer(const Dataset *dataset, Tokenizer **out);

/* From here on loaders keep the documents of both splits apart. Between them stands the added token
 * `end` (NULL: see tokenizer_end) of the dataset's tokenizer, or of `other` (may be NULL) when it
 * comes without one. ERR_INPUT when that token is not known or not in the tokens. */
int dataset_separate(Dataset *dataset, const char *end, const Tokenizer *other);

/* starts (rows), of whole sequences of `seq` tokens: where in its sequence each token's document
 * begins. A document that is kept apart begins with the `end` before it, as in generation and
 * evaluation, and ends with its last token, which predicts the `end` behind it. The first token of
 * a sequence begins one too. */
void document_starts(const int32_t *tokens, int64_t rows, int64_t seq, int32_t end,
                     int32_t *starts);

/* ERR_INPUT naming shard, position and token when some token is not below `vocab`. */
int dataset_check_vocab(const Dataset *dataset, uint64_t vocab);

/* One more than the largest token that can occur: the tokenizer's vocabulary where it is known,
 * else by the tokens themselves. */
uint64_t dataset_least_vocab(const Dataset *dataset);

/* Of the tokens: XXH3 over the number of tokens and the hash of every shard, split by split.
 * Other tokens, or the same cut into other files, give another. 0: unknown, since nobody has
 * read a file whose header has no hash. */
uint64_t dataset_digest(const Dataset *dataset);

/* Appends a shard, which the split then owns. */
void split_add(Split *split, Shard shard);

/* Tokens [first, first + count) of the stream as int32; returns the largest (shard_read). */
int32_t split_read(const Split *split, uint64_t first, uint64_t count, int32_t *out);

/* targets (count), which are tokens [first, first + count): -1 in place of those that do not
 * count. */
void split_mask(const Split *split, uint64_t first, uint64_t count, int32_t *targets);

/* shard_check of the shards that hold these tokens, at least one. */
int split_check(const Split *split, uint64_t first, uint64_t count);

/* The shard that holds the token at `position` of the stream, and where in it. */
const Shard *split_locate(const Split *split, uint64_t position, uint64_t *inside);
