#pragma once
/* The ids of pre-tokens met before: text repeats itself, so nine of ten pieces are answered
 * here. It never takes more than a few MiB: when full it starts anew. */
#include <stddef.h>
#include <stdint.h>

typedef struct PieceCache PieceCache;
PieceCache *piece_cache_open(void);
void piece_cache_close(PieceCache *cache); /* NULL is fine */

uint64_t piece_cache_key(const uint8_t *bytes, size_t size);

/* The ids of these bytes, valid until the next add; NULL when they are not known. */
const uint32_t *piece_cache_find(const PieceCache *cache, uint64_t key, const uint8_t *bytes,
                                 size_t size, size_t *count);

/* Remembers them; pieces that are too long to come back often are let go. */
void piece_cache_add(PieceCache *cache, uint64_t key, const uint8_t *bytes, size_t size,
                     const uint32_t *ids, size_t count);
