/* The product of bf16 matrices, sums in f32. b is packed first, by all threads, into steps of 32 of
 * k by 32 columns, pairs of rows interleaved, zeros past its edges; then each thread makes rows or
 * columns of its own: as many rows of a as L2 has room for, times a group of columns of b, 32 of
 * which, as deep as L1 has room for, stay there while the rows pass by. a is read where it lies, or
 * packed when it is transposed. Sums run over k in one order, whatever the threads: in the engine's
 * registers, then on in f32. */
#include "cpu/bf16/engine.h"

#include "base/assert.h"
#include "cpu/threads.h"

#include <immintrin.h>
#include <omp.h>

#define PACKED_BYTES ((size_t)16 << 20)    /* of b */
#define SUMS_BYTES (512 << 10)             /* blocks of sums, each (32, 32) */
#define TAIL_BYTES (MOST_ROWS * BLOCK * 2) /* the last k of a, where 32 does not divide k */
#define TURNED_BYTES (1 << 20)             /* of a transposed a */
#define THREAD_BYTES (SUMS_BYTES + TAIL_BYTES + TURNED_BYTES)

/* Fewer operations than this are not worth waking the other threads for. */
#define THREADS_WORTH_FLOPS 2e7

size_t product_bf16_space(int threads)
{
    return PACKED_BYTES + (size_t)threads * THREAD_BYTES;
}

/* Two rows of bf16 side by side: lane i has element i of the first in its lower half. */
VEC_INLINE Vec pair_rows(const uint16_t *first, const uint16_t *second, int64_t count)
{
    VecWord low = (VecWord)vec_load_bf16_part(first, count) >> 16;
    VecWord high = second != NULL ? (VecWord)vec_load_bf16_part(second, count) : (VecWord){0};
    return (Vec)(low | high);
}

/* 16 x 16 pairs from rows [k, k + 32) and columns [column, column + 16) of x (k_end, columns): row
 * p of the block has rows k + 2p and k + 2p + 1 of x, zeros past its edges. */
VEC_INLINE void load_pairs(const uint16_t *x, int64_t k, int64_t k_end, int64_t column,
                           int64_t columns, Vec block[VEC_LANES])
{
    int64_t count = lesser(VEC_LANES, columns - column);
    for (int p = 0; p < VEC_LANES; p++) {
        const uint16_t *first = x + (k + 2 * p) * columns + column;
        bool given = k + 2 * p < k_end && count > 0, both = k + 2 * p + 1 < k_end;
        block[p] = given ? pair_rows(first, both ? first + columns : NULL, count) : (Vec){0};
    }
}

VEC_INLINE void store_tile(const Vec block[VEC_LANES], char *to)
{
    for (int r = 0; r < VEC_LANES; r++) {
        memcpy(to + r * 64, &block[r], 64);
    }
}

/* The tiles of 32 columns and 32 of k that lie at b, all within it. */
static void pack_whole(const uint16_t *b, int64_t columns, char *to)
{
    uint16_t order[2][BLOCK]; /* of elements of two rows, for each tile */
    for (uint16_t i = 0; i < BLOCK; i++) {
        order[i / 16][i % 16 * 2] = i;
        order[i / 16][i % 16 * 2 + 1] = (uint16_t)(BLOCK + i);
    }
    __m512i left = _mm512_loadu_si512(order[0]), right = _mm512_loadu_si512(order[1]);
    for (int p = 0; p < BLOCK / 2; p++, b += 2 * columns, to += 64) {
        __m512i first = _mm512_loadu_si512(b), second = _mm512_loadu_si512(b + columns);
        _mm512_storeu_si512(to, _mm512_permutex2var_epi16(first, left, second));
        _mm512_storeu_si512(to + TILES_BYTES / 2, _mm512_permutex2var_epi16(first, right, second));
    }
}

/* Tiles of b for 32 columns and 32 of k. */
static void pack_b(const BfProduct *p, int64_t column, int64_t k, char *to)
{
    if (!p->b_transposed && p->n - column >= BLOCK && p->k - k >= BLOCK) {
        pack_whole(p->b + k * p->n + column, p->n, to);
        return;
    }
    for (int half = 0; half < 2; half++, column += 16, to += TILES_BYTES / 2) {
        Vec block[VEC_LANES];
        if (!p->b_transposed) {
            load_pairs(p->b, k, p->k, column, p->n, block);
            store_tile(block, to);
            continue;
        }
        __mmask32 given = p->k - k >= 32 ? ~0u : (1u << (p->k - k)) - 1;
        for (int r = 0; r < VEC_LANES; r++) {
            block[r] = column + r < p->n
                           ? (Vec)_mm512_maskz_loadu_epi16(given, p->b + (column + r) * p->k + k)
                           : (Vec){0};
        }
        transpose(block);
        store_tile(block, to);
    }
}

/* Tiles of a transposed a for 32 rows and 32 of k. */
static void pack_a(const BfProduct *p, int64_t row, int64_t k, char *to)
{
    for (int half = 0; half < 2; half++, row += 16, to += TILES_BYTES / 2) {
        Vec block[VEC_LANES];
        load_pairs(p->a, k, p->k, row, p->m, block);
        transpose(block);
        store_tile(block, to);
    }
}

/* tail (rows, 32) = the elements of a from k on, zeros past its end. */
static void pack_tail(const BfProduct *p, Span rows, int64_t k, char *tail)
{
    __mmask32 given = (1u << (p->k - k)) - 1;
    for (int64_t row = rows.first; row < rows.last; row++, tail += 64) {
        _mm512_storeu_si512(tail, _mm512_maskz_loadu_epi16(given, p->a + row * p->k + k));
    }
}

/* Rows and columns of out that a block of sums is for. */
typedef struct {
    int64_t row, rows, column, columns;
} Place;

/* out = or += sums + bias, rounded once. */
static void put_sums(const BfProduct *p, Place at, const float *sums, Mode mode)
{
    for (int64_t r = 0; r < at.rows; r++) {
        int64_t to = (at.row + r) * p->n + at.column;
        for (int64_t i = 0; i < at.columns; i += VEC_LANES) {
            int64_t count = lesser(VEC_LANES, at.columns - i);
            Vec sum = vec_load(sums + r * BLOCK + i);
            if (p->bias != NULL) {
                sum += vec_load_bf16_part(p->bias + at.column + i, count);
            }
            if (p->wide) {
                float *out = (float *)p->out + to + i;
                sum += mode == MODE_ADD ? vec_load_part(out, count) : (Vec){0};
                vec_store_part(out, sum, count);
            } else {
                uint16_t *out = (uint16_t *)p->out + to + i;
                sum += mode == MODE_ADD ? vec_load_bf16_part(out, count) : (Vec){0};
                vec_store_bf16_part(out, sum, count);
            }
        }
    }
}

/* A part of b that is packed: columns from `column` on in blocks of 32, k from k.first on. */
typedef struct {
    const char *tiles;
    int64_t column, blocks;
    Span k;
} Packed;

static int64_t steps_of(Span k)
{
    return (k.last - k.first + BLOCK - 1) / BLOCK;
}

typedef struct {
    float *sums;
    char *tail, *turned;
} Space;

/* tail and turned: what of a cannot be read where it lies. */
static void pack_rows(const BfProduct *p, Packed b, Span rows, Space s)
{
    int64_t steps = steps_of(b.k), whole = p->k / BLOCK * BLOCK;
    if (!p->a_transposed && b.k.last > whole) {
        pack_tail(p, rows, whole, s.tail);
    }
    for (int64_t row = rows.first; p->a_transposed && row < rows.last; row += BLOCK) {
        for (int64_t step = 0; step < steps; step++) {
            int64_t at = (row - rows.first) / BLOCK * steps + step;
            pack_a(p, row, b.k.first + step * BLOCK, s.turned + at * TILES_BYTES);
        }
    }
}

/* The rows of a from `row` on, which is `index` blocks behind the first that is packed, from a step
 * of the part on; closes: up to the last of all k. */
static Rows rows_at(const BfProduct *p, Packed b, Space s, int64_t row, int64_t index, int64_t step,
                    bool closes)
{
    if (p->a_transposed) {
        return (Rows){s.turned + (index * steps_of(b.k) + step) * TILES_BYTES, NULL, 64, 16 * 64,
                      TILES_BYTES};
    }
    return (Rows){(const char *)(p->a + row * p->k + b.k.first + step * BLOCK),
                  closes && p->k % BLOCK != 0 ? s.tail + index * TILES_BYTES : NULL, 2 * p->k,
                  32 * p->k, 2 * BLOCK};
}

/* Blocks of columns of a packed part times rows of a, of which the space has room for all, for
 * `now` steps of the part from `step` on. */
static void multiply_steps(const BfProduct *p, Packed b, Span rows, Span blocks, int64_t step,
                           int64_t now, Space s)
{
    int64_t steps = steps_of(b.k), down = (rows.last - rows.first + BLOCK - 1) / BLOCK;
    bool first = b.k.first == 0, turned = p->a_transposed;
    bool closes = step + now == steps && (b.k.last == p->k || turned);
    bool add = step > 0 || (!first && !turned);
    for (int64_t block = blocks.first; block < blocks.last; block++) {
        const char *tiles = b.tiles + (block * steps + step) * TILES_BYTES;
        int64_t column = b.column + block * BLOCK;
        for (int64_t index = 0; index < down; index++) {
            int64_t row = rows.first + index * BLOCK, given = lesser(BLOCK, rows.last - row);
            float *sums = s.sums + ((block - blocks.first) * down + index) * BLOCK * BLOCK;
            p->engine->multiply(turned ? BLOCK : given, rows_at(p, b, s, row, index, step, closes),
                                tiles, now, sums, add);
            if (closes) {
                Place at = {row, given, column, lesser(BLOCK, p->n - column)};
                put_sums(p, at, sums, first || !turned ? p->mode : MODE_ADD);
            }
        }
    }
}

/* Rows of a thread in pieces, and columns in groups, that its space has room for. */
static void multiply_share(const BfProduct *p, Packed b, Span rows, Span blocks, Space s)
{
    const BfEngine *e = p->engine;
    for (int64_t row = rows.first; row < rows.last; row += e->rows) {
        Span some = {row, lesser(row + e->rows, rows.last)};
        pack_rows(p, b, some, s);
        for (int64_t block = blocks.first; block < blocks.last; block += e->across) {
            Span group = {block, lesser(block + e->across, blocks.last)};
            for (int64_t step = 0, steps = steps_of(b.k); step < steps; step += e->depth) {
                multiply_steps(p, b, some, group, step, lesser(e->depth, steps - step), s);
            }
        }
    }
}

static void pack_share(const BfProduct *p, Packed b, char *tiles, int thread, int threads)
{
    int64_t steps = steps_of(b.k);
    Span items = span_of(b.blocks * steps, threads, thread);
    for (int64_t item = items.first; item < items.last; item++) {
        pack_b(p, b.column + item / steps * BLOCK, b.k.first + item % steps * BLOCK,
               tiles + item * TILES_BYTES);
    }
}

/* Rows are cut among threads, and columns too where there are fewer blocks of rows than threads.
 *
 * A transposed a is packed for some k at a time, and out, f32, grows by each. Else all k are
 * taken at once; where that many do not fit, for 32 columns, sums wait in the space from one part
 * of k to the next, and there is room for so many rows of each thread. */
void product_bf16(int threads, void *space, BfProduct p)
{
    PACER_ASSERT(!p.a_transposed || (p.wide && p.bias == NULL),
                 "a transposed product in bf16 or with a bias");
    PACER_ASSERT(p.engine->rows <= MOST_ROWS &&
                     p.engine->rows * p.engine->across * BLOCK * 4 <= SUMS_BYTES,
                 "%s takes too much at a time", p.engine->name);
    double flops = 2.0 * (double)p.m * (double)p.n * (double)p.k;
    int parts = flops < THREADS_WORTH_FLOPS ? 1 : threads;
    int64_t most_k = (int64_t)(PACKED_BYTES / TILES_BYTES) * BLOCK;
    int64_t k_step = p.a_transposed ? TURNED_BYTES / 2 / p.engine->rows : lesser(most_k, p.k);
    int64_t at_once = k_step < p.k && !p.a_transposed ? parts * p.engine->rows : p.m;
    int64_t k_tiles = (k_step + BLOCK - 1) / BLOCK;
    int64_t column_step = (int64_t)(PACKED_BYTES / TILES_BYTES) / k_tiles * BLOCK;
#pragma omp parallel num_threads(parts)
    {
        int thread = omp_get_thread_num();
        char *own = (char *)space + PACKED_BYTES + (size_t)thread * THREAD_BYTES;
        Space s = {(float *)own, own + SUMS_BYTES, own + SUMS_BYTES + TAIL_BYTES};
        p.engine->start();
        for (int64_t row = 0; row < p.m; row += at_once) {
            int64_t row_blocks = (lesser(at_once, p.m - row) + BLOCK - 1) / BLOCK;
            int64_t across = lesser(parts, row_blocks), along = parts / across;
            Span mine = {0, 0}, blocks = {0, 0};
            if (thread < across * along) {
                mine = span_of(row_blocks, across, thread % across);
            }
            Span rows = {row + mine.first * BLOCK, lesser(row + mine.last * BLOCK, p.m)};
            for (int64_t column = 0; column < p.n; column += column_step) {
                for (int64_t k = 0; k < p.k; k += k_step) {
                    int64_t columns = lesser(column_step, p.n - column);
                    Packed b = {
                        space, column, (columns + BLOCK - 1) / BLOCK, {k, lesser(k + k_step, p.k)}};
                    pack_share(&p, b, space, thread, parts);
#pragma omp barrier
                    if (mine.first < mine.last) {
                        blocks = span_of(b.blocks, along, thread / across);
                        multiply_share(&p, b, rows, blocks, s);
                    }
#pragma omp barrier
                }
            }
        }
        p.engine->stop();
    }
}
