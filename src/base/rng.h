#pragma once
/* Random numbers without state: Philox 4x32-10. A number is a function of (seed, stream, index),
 * so any part of a sequence can be made anywhere, in any order, with the same result. Streams
 * keep uses apart: one per parameter for initialisation, one per epoch for shuffling. */
#include <stdint.h>

typedef struct {
    uint32_t word[4];
} RngBlock;

RngBlock rng_block(uint64_t seed, uint64_t stream, uint64_t index);

/* Standard normal numbers first .. first + n - 1 of the stream. */
void rng_normals(uint64_t seed, uint64_t stream, uint64_t first, uint64_t n, float *out);

/* Uniform in [0, n), n > 0, without modulo bias worth mentioning (64-bit multiply-shift). */
uint64_t rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n);

/* Uniform in [0, 1). */
double rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);
