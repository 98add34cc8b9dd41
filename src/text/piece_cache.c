/* Open addressing over the 64-bit hash; ids and bytes of a piece lie together in one arena: the
 * ids, then the bytes. */
#include "text/piece_cache.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define LONGEST_PIECE 128
#define FIRST_SLOTS ((size_t)1 << 12)
#define MOST_SLOTS ((size_t)1 << 17)
#define MOST_WORDS ((size_t)1 << 20) /* of the arena, 4 bytes each */

typedef struct {
    uint64_t key;
    uint32_t at; /* in the arena */
    uint8_t size, count;
    uint16_t used;
} Slot;

struct PieceCache {
    Slot *slots;
    size_t slot_count, used;
    uint32_t *arena;
    size_t arena_used, arena_capacity;
};

PieceCache *piece_cache_open(void)
{
    PieceCache *cache = mem_zalloc(1, sizeof *cache);
    cache->slot_count = FIRST_SLOTS;
    cache->slots = mem_zalloc(cache->slot_count, sizeof *cache->slots);
    return cache;
}

void piece_cache_close(PieceCache *cache)
{
    if (cache != NULL) {
        free(cache->slots);
        free(cache->arena);
        free(cache);
    }
}

uint64_t piece_cache_key(const uint8_t *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

const uint32_t *piece_cache_find(const PieceCache *cache, uint64_t key, const uint8_t *bytes,
                                 size_t size, size_t *count)
{
    size_t mask = cache->slot_count - 1;
    for (size_t i = key & mask; cache->slots[i].used; i = (i + 1) & mask) {
        const Slot *slot = &cache->slots[i];
        const uint32_t *ids = cache->arena + slot->at;
        if (slot->key == key && slot->size == size && memcmp(ids + slot->count, bytes, size) == 0) {
            *count = slot->count;
            return ids;
        }
    }
    return NULL;
}

static void put(PieceCache *cache, Slot slot)
{
    size_t mask = cache->slot_count - 1, i = slot.key & mask;
    while (cache->slots[i].used) {
        i = (i + 1) & mask;
    }
    cache->slots[i] = slot;
    cache->used++;
}

/* Twice the slots, or at the limit none of the pieces. */
static void make_room(PieceCache *cache)
{
    if (cache->slot_count == MOST_SLOTS || cache->arena_used > MOST_WORDS) {
        memset(cache->slots, 0, cache->slot_count * sizeof *cache->slots);
        cache->used = cache->arena_used = 0;
        return;
    }
    Slot *old = cache->slots;
    size_t count = cache->slot_count;
    cache->slot_count *= 2;
    cache->slots = mem_zalloc(cache->slot_count, sizeof *cache->slots);
    cache->used = 0;
    for (size_t i = 0; i < count; i++) {
        if (old[i].used) {
            put(cache, old[i]);
        }
    }
    free(old);
}

void piece_cache_add(PieceCache *cache, uint64_t key, const uint8_t *bytes, size_t size,
                     const uint32_t *ids, size_t count)
{
    if (size > LONGEST_PIECE) {
        return;
    }
    if (2 * cache->used >= cache->slot_count || cache->arena_used > MOST_WORDS) {
        make_room(cache);
    }
    size_t words = count + (size + 3) / 4;
    if (cache->arena_used + words > cache->arena_capacity) {
        cache->arena_capacity = (cache->arena_used + words) * 3 / 2 + 1024;
        cache->arena = mem_realloc(cache->arena, cache->arena_capacity, sizeof *cache->arena);
    }
    uint32_t *at = cache->arena + cache->arena_used;
    memcpy(at, ids, count * sizeof *ids);
    memcpy(at + count, bytes, size);
    put(cache, (Slot){key, (uint32_t)cache->arena_used, (uint8_t)size, (uint8_t)count, 1});
    cache->arena_used += words;
}
