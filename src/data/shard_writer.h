#pragma once
/* Writes one shard front to back. Until shard_writer_finish returns, the tokens are in a file
 * with a temporary name and no header, which nothing takes for a shard; then it is whole,
 * durable and under its name. */
#include <stdint.h>

typedef struct ShardWriter ShardWriter;

/* What finish leaves behind. */
typedef struct {
    char *file; /* name inside the folder; caller frees */
    uint64_t tokens, documents, text_bytes, hash;
} ShardInfo;

/* folder/STEM-HASH.shard once finished, HASH being that of its tokens: shards of different content
 * have different names, so that a new set can stand beside the old one until it is complete.
 * Tokens take 2 bytes for a vocabulary of up to 65,536, else 4. */
int shard_writer_open(const char *folder, const char *stem, uint64_t vocab, uint64_t tokenizer,
                      ShardWriter **out);

/* Each token is below the vocabulary. A write error sticks and is returned by finish too. */
int shard_writer_put(ShardWriter *writer, const uint32_t *tokens, uint64_t count);

uint64_t shard_writer_tokens(const ShardWriter *writer);

/* Frees the writer. On error no file is left. There must be at least one token. */
int shard_writer_finish(ShardWriter *writer, uint64_t documents, uint64_t text_bytes,
                        ShardInfo *info);

void shard_writer_abandon(
    ShardWriter *writer); /* frees the writer and removes the file; NULL is fine */
