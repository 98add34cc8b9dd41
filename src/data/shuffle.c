/* A Feistel network permutes the smallest power of two that holds n; a result of n or more goes
 * through it again until it falls below n (cycle walking). That stays a permutation of [0, n), and
 * takes two passes on average at most, since more than half of the power of two is below n.
 *
 * The bits are split in a low and a high part, differing by at most one bit. Each round changes one
 * part by a random function of the other, which is undone by doing it again: a bijection whatever
 * the function is. */
#include "data/shuffle.h"

#include "base/assert.h"
#include "base/rng.h"

#include <inttypes.h>

#define ROUNDS 8
#define SHUFFLE_STREAM UINT64_C(0x53687566000000) /* in the upper bits; the epoch counts below */

/* Bits needed to write n - 1. */
static int bit_length(uint64_t n)
{
    int bits = 0;
    while (bits < 63 && (UINT64_C(1) << bits) < n) {
        bits++;
    }
    return bits;
}

uint64_t shuffle_at(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t k)
{
    PACER_ASSERT(k < n && n <= UINT64_C(1) << 62, "k %" PRIu64 " n %" PRIu64, k, n);
    int bits = bit_length(n), low_bits = bits / 2, high_bits = bits - low_bits;
    uint64_t low_mask = (UINT64_C(1) << low_bits) - 1, high_mask = (UINT64_C(1) << high_bits) - 1;
    uint64_t stream = SHUFFLE_STREAM + epoch;
    do {
        uint64_t low = k & low_mask, high = k >> low_bits;
        for (uint64_t round = 0; round < ROUNDS; round += 2) {
            RngBlock a = rng_block(seed, stream, round << 32 | low);
            high ^= a.word[0] & high_mask;
            RngBlock b = rng_block(seed, stream, (round + 1) << 32 | high);
            low ^= b.word[0] & low_mask;
        }
        k = high << low_bits | low;
    } while (k >= n);
    return k;
}
