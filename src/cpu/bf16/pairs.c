/* Products by AVX-512's sums of pairs: an instruction multiplies 16 pairs of b by one pair of a
 * and adds both products to 16 sums. ROWS_AT_ONCE rows of 32 sums stay in registers; of each pair
 * of k they take two loads of b, from L1, and one of each row of a, spread over all lanes. */
#include "cpu/bf16/engine.h"

#define ROWS_AT_ONCE 8

/* The first `rows` rows of sums (.., 32) = or += a times b of so many steps of 32. */
VEC_INLINE void multiply_rows(int rows, Rows a, const char *b, int64_t steps, float *sums, bool add)
{
    __m512 left[ROWS_AT_ONCE], right[ROWS_AT_ONCE];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        left[r] = add ? _mm512_loadu_ps(sums + r * BLOCK) : _mm512_setzero_ps();
        right[r] = add ? _mm512_loadu_ps(sums + r * BLOCK + 16) : _mm512_setzero_ps();
    }
    for (int64_t step = 0; step < steps; step++, b += TILES_BYTES, a.at += a.step) {
        if (a.tail != NULL && step == steps - 1) {
            a = rows_of_tail(a);
        }
        for (int pair = 0; pair < BLOCK / 2; pair++) {
            __m512bh first = (__m512bh)_mm512_loadu_ps(b + pair * 64);
            __m512bh second = (__m512bh)_mm512_loadu_ps(b + TILES_BYTES / 2 + pair * 64);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                int both;
                memcpy(&both, a.at + r * a.row + pair * 4, sizeof both);
                __m512bh spread = (__m512bh)_mm512_set1_epi32(both);
                left[r] = _mm512_dpbf16_ps(left[r], spread, first);
                right[r] = _mm512_dpbf16_ps(right[r], spread, second);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_ps(sums + r * BLOCK, left[r]);
        _mm512_storeu_ps(sums + r * BLOCK + 16, right[r]);
    }
}

#define CASE(n)                                                  \
    case n:                                                      \
        multiply_rows(n, at, b, steps, sums + row * BLOCK, add); \
        break

static void multiply(int64_t rows, Rows a, const char *b, int64_t steps, float *sums, bool add)
{
    for (int64_t row = 0; row < rows; row += ROWS_AT_ONCE) {
        Rows at = a;
        at.at += row / 16 * a.half + row % 16 * a.row;
        at.tail = a.tail != NULL ? a.tail + row * 2 * BLOCK : NULL;
        switch (lesser(ROWS_AT_ONCE, rows - row)) {
            CASE(1);
            CASE(2);
            CASE(3);
            CASE(4);
            CASE(5);
            CASE(6);
            CASE(7);
            CASE(8);
        }
    }
}

static void nothing(void) {}

const BfEngine product_pairs = {"AVX-512 BF16", 8, 256, 8, nothing, nothing, multiply};
