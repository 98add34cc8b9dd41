#pragma once
/* Matrix products in bf16, by the instructions for it that the processor has. */
#include "tensor/ops.h"

/* What multiplies (engine.h): the tiles of AMX, and AVX-512's product of pairs. They exist only
 * where the build made them (PACER_HAVE_TILES, PACER_HAVE_PAIRS). */
typedef struct BfEngine BfEngine;
extern const BfEngine product_tiles, product_pairs;

/* out (m,n) = a b, or += with MODE_ADD, row-major; a is (m,k), or (k,m) when transposed, b is
 * (k,n), or (n,k) when transposed. Sums are f32, in one order whatever the threads; bias (n), or
 * NULL, is added before they are rounded to the type of out. */
typedef struct {
    const BfEngine *engine;
    bool a_transposed, b_transposed; /* a transposed a: wide and without bias */
    int64_t m, n, k;
    const uint16_t *a, *b, *bias;
    void *out;
    bool wide; /* out is f32, else bf16 */
    Mode mode;
} BfProduct;

/* space: of product_bf16_space bytes, on a cache line. Not to be called from inside a parallel
 * region. */
void product_bf16(int threads, void *space, BfProduct product);
size_t product_bf16_space(int threads);
