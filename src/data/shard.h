#pragma once
/* A shard is a file of tokens: pacer's own (docs/reference/formats.md, Shards), llm.c's .bin files,
 * or nanoGPT's headerless uint16 files. It stays on disk; tokens are read where they are asked
 * for. */
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
    uint64_t start;      /* of its first token in the stream of a split (dataset.h) */
    int token_bytes;     /* 2 or 4 */
    uint64_t header;     /* bytes before the tokens, which are little endian */
    uint64_t vocab;      /* every token is below it, by the word of the header; 0 unknown */
    uint64_t documents;  /* that end in this shard; 0 unknown */
    uint64_t text_bytes; /* of the text that became these tokens; 0 unknown */
    uint64_t tokenizer;  /* hash of the tokenizer; 0 unknown */
    uint64_t hash; /* XXH3 of tokens and mask, by the word of the header or by a scan; 0 unknown */
    bool masked;   /* it has a mask behind the tokens */
    uint64_t left_out; /* by the mask: tokens that do not count in a loss */
    bool scanned;      /* shard_scan has passed: largest is known */
    uint32_t largest;  /* largest token */
    IoFile *file;      /* NULL: in memory */
    void *memory;      /* tokens x token_bytes; NULL: in a file */
} Shard;

/* Opens the file and checks everything but its tokens: format, version, sizes, fields, hash of the
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

/* targets (count), which are tokens [first, first + count): -1 in place of those that do not
 * count. */
void shard_mask(const Shard *shard, uint64_t first, uint64_t count, int32_t *targets);

/* Position of the first token that is at least `limit`; shard->tokens when there is none. */
uint64_t shard_find_at_least(const Shard *shard, uint64_t limit);

/* ERR_INPUT when tokens that were read need not have been those of the file, which was cut short
 * meanwhile: to be asked behind reading them. */
int shard_check(const Shard *shard);

uint32_t shard_token(const Shard *shard, uint64_t position);

const char *shard_format_name(ShardFormat format);

/* ---- Writing ---- */

/* Writes one shard front to back. Until shard_writer_finish returns, the tokens are in a file
 * with a temporary name and no header, which nothing takes for a shard; then it is whole,
 * durable and under its name. */
typedef struct ShardWriter ShardWriter;

/* What finish leaves behind. */
typedef struct {
    char *file; /* name inside the folder; caller frees */
    uint64_t tokens, documents, text_bytes, left_out, hash;
} ShardInfo;

/* folder/STEM-HASH.shard once finished, HASH being that of tokens and mask: shards of different
 * content have different names, so that a new set can stand beside the old one until it is
 * complete. Tokens take 2 bytes for a vocabulary of up to 65,536, else 4. */
int shard_writer_open(const char *folder, const char *stem, uint64_t vocab, uint64_t tokenizer,
                      ShardWriter **out);

/* Each token is below the vocabulary. A write error sticks and is returned by finish too. */
int shard_writer_put(ShardWriter *writer, const uint32_t *tokens, uint64_t count);

/* The last `count` of the tokens do not count in a loss: the shard gets a mask. */
void shard_writer_leave_out(ShardWriter *writer, uint64_t count);

uint64_t shard_writer_tokens(const ShardWriter *writer);

/* Frees the writer. On error no file is left. There must be at least one token. */
int shard_writer_finish(ShardWriter *writer, uint64_t documents, uint64_t text_bytes,
                        ShardInfo *info);

void shard_writer_abandon(
    ShardWriter *writer); /* frees the writer and removes the file; NULL is fine */

/* ---- pacer's header, for reader, writer and tests ---- */

#define SHARD_HEADER_BYTES 256
#define SHARD_MAGIC "PACERSHD"
#define SHARD_VERSION 1u
#define SHARD_VERSION_MASKED 2u

/* As it lies in the file. */
typedef struct {
    char magic[8];
    uint32_t version, token_bytes;
    uint64_t tokens, vocab, documents, text_bytes, tokenizer;
    uint64_t payload_hash; /* XXH3 of all behind the header */
    uint64_t left_out;     /* version 2; else 0 */
    uint8_t zeros[176];
    uint64_t header_hash; /* XXH3 of all before it */
} ShardHeader;

/* Bytes of a mask: bit i % 8 of byte i / 8 is 1 when token i does not count. */
static inline uint64_t shard_mask_bytes(uint64_t tokens)
{
    return tokens / 8 + (tokens % 8 != 0);
}

_Static_assert(sizeof(ShardHeader) == SHARD_HEADER_BYTES, "no gaps");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "headers and tokens are read in place from little-endian files");
