#pragma once
/* What the instructions for products in bf16 have in common: blocks of 32 x 32 sums, made of packed
 * b and of a where it lies (product.c). */
#include "cpu/bf16/product.h"
#include "cpu/kernels/vec.h"

#define BLOCK 32                        /* rows and columns of sums, and k of a step */
#define MOST_ROWS 1024                  /* of an engine */
#define TILES_BYTES (BLOCK * BLOCK * 2) /* two tiles of a or b: 32 x 32 elements */

/* Where 32 rows of a lie: `row` bytes between rows, `half` to the lower 16 rows, `step` to the next
 * 32 of k. tail, unless NULL: (32, 32) for the last step. */
typedef struct {
    const char *at, *tail;
    int64_t row, half, step;
} Rows;

VEC_INLINE Rows rows_of_tail(Rows a)
{
    return (Rows){a.tail, NULL, 2 * BLOCK, 16 * 2 * BLOCK, 0};
}

/* A step of b is two tiles of 16 columns: (16 pairs of k, 16 columns, 2). sums (32, 32) = or += a
 * times b; of rows, 1 to 32, no more are read, and sums past them mean nothing. start and stop:
 * each thread before its first block and after its last. */
struct BfEngine {
    const char *name;
    int depth;            /* steps of b at a time, of which L1 has room for 32 columns */
    int64_t rows, across; /* rows of a at a time, for so many blocks of columns one by one */
    void (*start)(void), (*stop)(void);
    void (*multiply)(int64_t rows, Rows a, const char *b, int64_t steps, float *sums, bool add);
};
