#pragma once
/* What one element adds to the checksum of a tensor (op_checksum), for hosts and GPUs alike. */
#include <stdint.h>

#ifdef __CUDACC__
#define CHECKSUM_INLINE static inline __host__ __device__
#else
#define CHECKSUM_INLINE static inline
#endif

/* Number index (from 0) of the sequence that SplitMix64 makes from the seed `bits`: the
 * element's bits, zero-extended, plus index + 1 steps of the golden ratio, then two rounds of
 * multiplying and folding (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators"). For a given index this is one to one, so that two different elements never add
 * the same. */
CHECKSUM_INLINE uint64_t checksum_term(uint64_t bits, uint64_t index)
{
    uint64_t z = bits + (index + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
