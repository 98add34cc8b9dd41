#pragma once
/* Matrix products in bf16, by the tiles of AMX. */
#include "tensor/ops.h"

/* out (m,n) = a b, or += with MODE_ADD, row-major; a is (m,k), or (k,m) when transposed, b is
 * (k,n), or (n,k) when transposed. Sums are f32, in one order whatever the threads; bias (n), or
 * NULL, is added before they are rounded to the type of out. */
typedef struct {
    bool a_transposed, b_transposed; /* a transposed a: wide only */
    int64_t m, n, k;
    const uint16_t *a, *b, *bias;
    void *out;
    bool wide; /* out is f32, else bf16 */
    Mode mode;
} BfProduct;

/* space: of product_space_amx bytes, on a cache line. Not to be called from inside a parallel
 * region. */
void product_amx(int threads, void *space, BfProduct product);
size_t product_space_amx(int threads);
