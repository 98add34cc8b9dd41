#pragma once
/* What attention is made of: products that keep their result in registers, and the packing that
 * feeds them.
 *
 * A product holds MR rows by a few vectors of its result. Per step of the inner dimension it loads
 * one line of b and broadcasts one element of a per row. Where the vectors run over keys, b is a
 * panel: PANEL keys side by side, transposed once per key/value head. Where they run over the width
 * of a head, b is plain rows, padded to whole vectors. */
#include "cpu/kernels/vec.h"
#include "tensor/ops.h"

#include <math.h>

/* Sums of a product: MR x NR, or MR/2 x WIDE, so that they and a line of b fit in the registers. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define MR 8
#define NR 3
#define WIDE 4
#else
#define MR 6
#define NR 2
#define WIDE 2
#endif
#define PANEL (NR * VEC_LANES)
#define MOST_VECTORS (WIDE > NR ? WIDE : NR)

/* The next `count` floats of a workspace, on a cache line; only counts when base is NULL. */
static inline float *take(float *base, int64_t *used, int64_t count)
{
    float *at = base != NULL ? base + *used : NULL;
    *used += round_up(count, 16);
    return at;
}

/* sums (rows, vectors) += a (rows, inner) times b (inner, vectors); a(r, p) is
 * a[r * a_row + p * a_step]. rows, vectors and one stride of a are constants at each use, and the
 * loops over them must go: only then do the sums live in registers. */
VEC_INLINE void accumulate(int rows, int vectors, int64_t inner, const float *a, int64_t a_row,
                           int64_t a_step, const float *b, int64_t b_row,
                           Vec sums[MR][MOST_VECTORS])
{
    for (int64_t p = 0; p < inner; p++) {
        Vec line[MOST_VECTORS];
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            line[v] = vec_load(b + p * b_row + v * VEC_LANES);
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            Vec factor = vec_set(a[r * a_row + p * a_step]);
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++) {
                sums[r][v] = vec_fma(factor, line[v], sums[r][v]);
            }
        }
    }
}

/* out (rows, vectors) += a times b as above; rows of out lie as far apart as those of b. */
VEC_INLINE void add_product(int rows, int vectors, int64_t inner, const float *a, int64_t a_row,
                            int64_t a_step, const float *b, int64_t b_row, float *out)
{
    Vec sums[MR][MOST_VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            sums[r][v] = vec_load(out + r * b_row + v * VEC_LANES);
        }
    }
    accumulate(rows, vectors, inner, a, a_row, a_step, b, b_row, sums);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            vec_store(out + r * b_row + v * VEC_LANES, sums[r][v]);
        }
    }
}

/* out (MR, vectors) = factor * (a (MR, depth) times the first vectors of a panel). */
VEC_INLINE void set_product(int vectors, int64_t depth, float factor, const float *a, int64_t a_row,
                            const float *panel, float *out, int64_t out_row)
{
    Vec sums[MR][MOST_VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < MR; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            sums[r][v] = (Vec){0};
        }
    }
    accumulate(MR, vectors, depth, a, a_row, 1, panel, PANEL, sums);
#pragma GCC unroll 16
    for (int r = 0; r < MR; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            vec_store(out + r * out_row + v * VEC_LANES, factor * sums[r][v]);
        }
    }
}

/* out (MR, keys in whole vectors) = factor * (a (MR, depth) times the first `keys` of a panel). */
static inline void product_panel(int64_t keys, int64_t depth, float factor, const float *a,
                                 int64_t a_row, const float *panel, float *out, int64_t out_row)
{
    if (keys > (NR - 1) * VEC_LANES) {
        set_product(NR, depth, factor, a, a_row, panel, out, out_row);
    } else if (keys > VEC_LANES) {
        set_product(2, depth, factor, a, a_row, panel, out, out_row);
    } else if (keys > 0) {
        set_product(1, depth, factor, a, a_row, panel, out, out_row);
    }
}

/* out (MR, width) += a (MR, inner) times b (inner, width); width is a multiple of VEC_LANES. */
VEC_INLINE void product_width(int64_t width, int64_t inner, const float *a, int64_t a_row,
                              int64_t a_step, const float *b, float *out)
{
    int64_t vectors = 0;
    for (int64_t left = width / VEC_LANES; left > 0; left -= vectors) {
        if (WIDE > NR && left % WIDE == 0) {
            vectors = WIDE;
            add_product(MR / 2, WIDE, inner, a, a_row, a_step, b, width, out);
            add_product(MR / 2, WIDE, inner, a + MR / 2 * a_row, a_row, a_step, b, width,
                        out + MR / 2 * width);
        } else if (left >= NR) {
            vectors = NR;
            add_product(MR, NR, inner, a, a_row, a_step, b, width, out);
        } else if (left == 2) {
            vectors = 2;
            add_product(MR, 2, inner, a, a_row, a_step, b, width, out);
        } else {
            vectors = 1;
            add_product(MR, 1, inner, a, a_row, a_step, b, width, out);
        }
        b += vectors * VEC_LANES;
        out += vectors * VEC_LANES;
    }
}

/* product_width with a(r, p) = a[r * a_row + p]: probabilities times values, say. */
static inline void product_rows(int64_t width, int64_t inner, const float *a, int64_t a_row,
                                const float *b, float *out)
{
    product_width(width, inner, a, a_row, 1, b, out);
}

/* product_width with a(r, p) = a[p * a_row + r]: transposed probabilities times gradients, say. */
static inline void product_columns(int64_t width, int64_t inner, const float *a, int64_t a_row,
                                   const float *b, float *out)
{
    product_width(width, inner, a, 1, a_row, b, out);
}

/* Rows of a head lie a whole row of the tensor apart, where no hardware prefetcher finds them. */
#define ROWS_AHEAD 8

static inline void prefetch_row(const Elem *row, int64_t depth)
{
    for (int64_t d = 0; d < depth; d += (int64_t)(64 / sizeof *row)) {
        __builtin_prefetch(row + d);
    }
}

/* VEC_LANES by VEC_LANES elements from rows[d] on; rows past count are 0. */
VEC_INLINE void load_block(const Elem *rows, int64_t row_stride, int64_t count, int64_t d,
                           int64_t depth, Vec block[VEC_LANES])
{
#pragma GCC unroll 16
    for (int r = 0; r < VEC_LANES; r++) {
        block[r] = r < count ? elem_load_within(rows + r * row_stride, d, depth) : (Vec){0};
    }
}

/* panels (count / PANEL rounded up, depth, PANEL) from rows (count, depth), row_stride apart; keys
 * past count are 0. */
static inline void pack_panels(const Elem *rows, int64_t row_stride, int64_t count, int64_t depth,
                               float *panels)
{
    for (int64_t key = 0; key < round_up(count, PANEL); key += VEC_LANES) {
        const Elem *from = rows + key * row_stride;
        float *to = panels + key / PANEL * PANEL * depth + key % PANEL;
        int64_t given = lesser(VEC_LANES, count - key);
        for (int64_t r = 0; r < given && key + r + VEC_LANES < count; r++) {
            prefetch_row(from + (r + VEC_LANES) * row_stride, depth);
        }
        for (int64_t d = 0; d < depth; d += VEC_LANES) {
            Vec block[VEC_LANES];
            load_block(from, row_stride, given, d, depth, block);
            transpose(block);
            for (int64_t r = 0; r < lesser(VEC_LANES, depth - d); r++) {
                vec_store(to + (d + r) * PANEL, block[r]);
            }
        }
    }
}

/* to (total, width) from rows (count, depth), row_stride apart; the rest of to is 0. */
static inline void pack_rows(const Elem *rows, int64_t row_stride, int64_t count, int64_t depth,
                             int64_t total, int64_t width, float *to)
{
    for (int64_t r = 0; r < count; r++) {
        prefetch_row(rows + lesser(r + ROWS_AHEAD, count - 1) * row_stride, depth);
        for (int64_t d = 0; d < width; d += VEC_LANES) {
            vec_store(to + r * width + d, elem_load_within(rows + r * row_stride, d, depth));
        }
    }
    memset(to + count * width, 0, (size_t)((total - count) * width) * sizeof *to);
}

/* to (count, depth), to_stride apart, = factor * rows (count, width). */
static inline void unpack_rows(const float *rows, int64_t count, int64_t width, float factor,
                               int64_t depth, Elem *to, int64_t to_stride)
{
    for (int64_t r = 0; r < count; r++) {
        prefetch_row(to + lesser(r + ROWS_AHEAD, count - 1) * to_stride, depth);
        for (int64_t d = 0; d < depth; d += VEC_LANES) {
            elem_store_within(to + r * to_stride, d, depth,
                              factor * vec_load(rows + r * width + d));
        }
    }
}
