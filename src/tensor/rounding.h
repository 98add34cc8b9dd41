#pragma once
/* Numbers of f32 kept in 16 bits, for hosts and GPUs alike, bit by bit: f32 rounded to bf16 up or
 * down by chance, and a master weight as a bf16 weight and the 16 bits that complete it. */
#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define ROUNDING_INLINE static inline __host__ __device__
#else
#define ROUNDING_INLINE static inline
#endif

/* Keys have so many bits, so that f32 holds them. */
#define ROUNDING_KEY_BITS 24

/* 32 bits for element `index` under a key of two numbers, which an update has for itself: the lower
 * 16 for its first state, the upper for its second. A finaliser of hashes, keyed twice; one to one
 * in the lower half of the index. The constants are those of lowbias32 (C. Wellons, 2018). */
#define ROUNDING_STEP 0x9E3779B9u
#define ROUNDING_FIRST 0x7FEB352Du
#define ROUNDING_SECOND 0x846CA68Bu
ROUNDING_INLINE uint32_t rounding_bits(uint32_t key1, uint32_t key2, uint64_t index)
{
    uint32_t x = ((uint32_t)index ^ key1 * ROUNDING_STEP) + (uint32_t)(index >> 32) * ROUNDING_STEP;
    x = (x ^ x >> 16) * ROUNDING_FIRST + key2 * ROUNDING_STEP;
    x = (x ^ x >> 15) * ROUNDING_SECOND;
    return x ^ x >> 16;
}

ROUNDING_INLINE bool f32_bits_are_nan(uint32_t bits)
{
    return (bits & 0x7FFFFFFFu) > 0x7F800000u;
}

/* bf16 of f32 by their bits: the number away from 0 with the probability of how near it is, when
 * `noise`, 0 to 65535, is uniform. A NaN stays one. */
ROUNDING_INLINE uint16_t bf16_by_chance(uint32_t bits, uint32_t noise)
{
    return (uint16_t)((f32_bits_are_nan(bits) ? bits | 0x400000u : bits + noise) >> 16);
}

/* A master weight: `low` is it in bf16, to nearest, ties away from 0, which unlike ties to even
 * lets it be put together again: rest at or above half was rounded up. A NaN stays one. */
typedef struct {
    uint16_t low, rest;
} SplitMaster;

ROUNDING_INLINE SplitMaster master_split(uint32_t bits)
{
    SplitMaster split;
    bool nan = f32_bits_are_nan(bits);
    split.low = (uint16_t)((nan ? bits | 0x400000u : bits + 0x8000u) >> 16);
    split.rest = (uint16_t)(nan ? 0 : bits);
    return split;
}

ROUNDING_INLINE uint32_t master_join(uint16_t low, uint16_t rest)
{
    return ((uint32_t)(low - (rest >> 15)) << 16) | rest;
}
