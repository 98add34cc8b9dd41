#pragma once
/* A shard is a file of tokens, mapped into memory: pacer's own (docs/formats.md, "Shards"), llm.c's
 * .bin files, or nanoGPT's headerless uint16 files. Tokens are read in place. */
#include "base/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_SUFFIX ".shard"
#define SHARD_MAX_VOCAB ((uint64_t)INT32_MAX) /* tokens are handed on as int32 */

typedef enum { SHARD_PACER, SHARD_LLMC, SHARD_RAW, SHARD_MEMORY } ShardFormat;

typedef struct {
    char *path; /* or a name for memory, as messages give it */
    ShardFormat format;
    uint64_t tokens;
    int token_bytes;     /* 2 or 4 */
    const void *data;    /* tokens x token_bytes, little endian */
    uint64_t vocab;      /* every token is below it, by the word of the header; 0 unknown */
    uint64_t documents;  /* that end in this shard; 0 unknown */
    uint64_t text_bytes; /* of the text that became these tokens; 0 unknown */
    uint64_t tokenizer;  /* hash of the tokenizer; 0 unknown */
    uint64_t hash;       /* XXH3 of the tokens, by the word of the header or by a scan; 0 unknown */
    bool scanned;        /* shard_scan has passed: largest is known */
    uint32_t largest;    /* largest token */
    IoMap map;
    void *owned;
} Shard;

/* Maps the file and checks everything but its tokens: format, version, sizes, fields, hash of the
 * header. A file without a known header is taken as raw uint16 only when `raw` allows it. */
int shard_open(Shard *shard, const char *path, bool raw);

/* Reads every token once: finds the hash, which a header must have given, and the largest token,
 * which must be below the header's vocabulary. */
int shard_scan(Shard *shard);

/* A shard over tokens in memory, which it frees (malloc) when closed. Counts as scanned. */
void shard_from_memory(Shard *shard, const char *name, void *tokens, uint64_t count,
                       int token_bytes, uint64_t vocab);

void shard_close(Shard *shard); /* no-op on a zeroed shard */

/* Tokens [first, first + count) as int32. A token of 2^31 or more becomes INT32_MAX, which no
 * vocabulary holds. Returns the largest. */
int32_t shard_read(const Shard *shard, uint64_t first, uint64_t count, int32_t *out);

/* Position of the first token that is at least `limit`; shard->tokens when there is none. */
uint64_t shard_find_at_least(const Shard *shard, uint64_t limit);

/* ERR_INPUT when tokens that were read need not have been those of the file, which was cut short
 * meanwhile: to be asked behind reading them. */
int shard_check(const Shard *shard);

uint32_t shard_token(const Shard *shard, uint64_t position);

const char *shard_format_name(ShardFormat format);
