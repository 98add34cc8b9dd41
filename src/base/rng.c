#include "base/rng.h"

#include <math.h>

/* Constants of Philox 4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"). */
#define MULTIPLIER_0 0xD2511F53u
#define MULTIPLIER_1 0xCD9E8D57u
#define WEYL_0 0x9E3779B9u
#define WEYL_1 0xBB67AE85u
#define ROUNDS 10

RngBlock rng_block(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream,
                           (uint32_t)(stream >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t a = (uint64_t)MULTIPLIER_0 * counter[0];
        uint64_t b = (uint64_t)MULTIPLIER_1 * counter[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ counter[1] ^ key[0], (uint32_t)b,
                            (uint32_t)(a >> 32) ^ counter[3] ^ key[1], (uint32_t)a};
        for (int i = 0; i < 4; i++) {
            counter[i] = next[i];
        }
        key[0] += WEYL_0;
        key[1] += WEYL_1;
    }
    return (RngBlock){{counter[0], counter[1], counter[2], counter[3]}};
}

/* Box-Muller: a block of four words gives four normals, so number i comes from block i / 4. */
static void normal_pair(uint32_t a, uint32_t b, float *out)
{
    float radius = sqrtf(-2.0f * logf(((float)(a >> 8) + 1.0f) * 0x1p-24f));
    float angle = 6.283185307f * ((float)(b >> 8) * 0x1p-24f);
    out[0] = radius * cosf(angle);
    out[1] = radius * sinf(angle);
}

void rng_normals(uint64_t seed, uint64_t stream, uint64_t first, uint64_t n, float *out)
{
    for (uint64_t i = first; i < first + n;) {
        RngBlock block = rng_block(seed, stream, i / 4);
        float four[4];
        normal_pair(block.word[0], block.word[1], four);
        normal_pair(block.word[2], block.word[3], four + 2);
        for (uint64_t lane = i % 4; lane < 4 && i < first + n; lane++, i++) {
            out[i - first] = four[lane];
        }
    }
}

uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n)
{
    RngBlock block = rng_block(seed, stream, index);
    uint64_t bits = (uint64_t)block.word[0] << 32 | block.word[1];
    return (uint64_t)(((unsigned __int128)bits * n) >> 64);
}

double rng_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    RngBlock block = rng_block(seed, stream, index);
    uint64_t bits = ((uint64_t)block.word[0] << 32 | block.word[1]) >> 11;
    return (double)bits * 0x1p-53;
}
