#pragma once
/* A random order of [0, n) without a table: position k of the order is computed directly. */
#include <stdint.h>

/* For fixed (n, seed, epoch) a permutation of [0, n); k < n. */
uint64_t shuffle_at(uint64_t n, uint64_t seed, uint64_t epoch, uint64_t k);
