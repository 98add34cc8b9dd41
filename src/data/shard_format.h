#pragma once
/* The bytes of pacer's shard header, shared by reader (shard.c) and writer (shard_writer.c). */
#include <stddef.h>
#include <stdint.h>

#define SHARD_HEADER_BYTES 256
#define SHARD_MAGIC "PACERSHD"
#define SHARD_VERSION 1u

/* Offsets in the header. Everything between the last field and the hash is zero. */
enum {
    SHARD_AT_MAGIC = 0,         /* 8 bytes */
    SHARD_AT_VERSION = 8,       /* u32 */
    SHARD_AT_TOKEN_BYTES = 12,  /* u32: 2 or 4 */
    SHARD_AT_TOKENS = 16,       /* u64 */
    SHARD_AT_VOCAB = 24,        /* u64 */
    SHARD_AT_DOCUMENTS = 32,    /* u64 */
    SHARD_AT_TEXT_BYTES = 40,   /* u64 */
    SHARD_AT_TOKENIZER = 48,    /* u64 */
    SHARD_AT_PAYLOAD_HASH = 56, /* u64: XXH3 of the tokens */
    SHARD_AT_HEADER_HASH = 248, /* u64: XXH3 of the 248 bytes before it */
};

static inline uint64_t load_little(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) {
        value = value << 8 | at[i];
    }
    return value;
}

static inline void store_little(uint8_t *at, int bytes, uint64_t value)
{
    for (int i = 0; i < bytes; i++, value >>= 8) {
        at[i] = (uint8_t)value;
    }
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tokens are read in place from little-endian files");
