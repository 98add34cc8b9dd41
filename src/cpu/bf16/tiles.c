/* Products in the tiles of AMX. A tile is 16 rows of 64 bytes: 16 x 32 elements of a, 32 x 16 of b
 * with pairs of rows interleaved, 16 x 16 sums. Eight tiles hold a block of 32 x 32 sums, 32 x 32
 * of a and 32 x 32 of b: 65,536 FLOP for 4 KiB loaded, 64 bytes a cycle at the tiles' full speed,
 * which L1 gives and L2 does not quite. */
#include "cpu/bf16/engine.h"

typedef struct {
    uint8_t palette, start, zeros[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} TileConfig;

/* Tiles by number, as macros: compilers paste them into the names of registers. */
#define SUM_00 0
#define SUM_01 1
#define SUM_10 2
#define SUM_11 3
#define A_0 4
#define A_1 5
#define B_0 6
#define B_1 7

/* Tiles for a block of so many rows of a, 1 to 32. */
static void configure(int64_t rows)
{
    TileConfig config = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) {
        bool lower = tile == SUM_10 || tile == SUM_11 || tile == A_1, of_b = tile >= B_0;
        int64_t given = lower ? rows - 16 : lesser(rows, 16);
        config.row_bytes[tile] = 64;
        config.rows[tile] = (uint8_t)(of_b || given < 1 ? 16 : given);
    }
    __asm__ volatile("" : : "r"(&config) : "memory"); /* gcc's intrinsic reads 8 bytes, it says */
    _tile_loadconfig(&config);
}

#define LOAD_SUMS(tile, at) _tile_loadd(tile, at, BLOCK * 4)

/* sums (32, 32) = or += a times b of so many steps of 32. two: there are more than 16 rows. */
VEC_INLINE void multiply_block(bool two, Rows a, const char *b, int64_t steps, float *sums,
                               bool add)
{
    if (add) {
        LOAD_SUMS(SUM_00, sums);
        LOAD_SUMS(SUM_01, sums + 16);
        if (two) {
            LOAD_SUMS(SUM_10, sums + 16 * BLOCK);
            LOAD_SUMS(SUM_11, sums + 16 * BLOCK + 16);
        }
    } else {
        _tile_zero(SUM_00);
        _tile_zero(SUM_01);
        if (two) {
            _tile_zero(SUM_10);
            _tile_zero(SUM_11);
        }
    }
    for (int64_t step = 0; step < steps; step++, b += TILES_BYTES, a.at += a.step) {
        if (a.tail != NULL && step == steps - 1) {
            a = rows_of_tail(a);
        }
        _tile_loadd(B_0, b, 64);
        _tile_loadd(A_0, a.at, a.row);
        _tile_loadd(B_1, b + TILES_BYTES / 2, 64);
        _tile_dpbf16ps(SUM_00, A_0, B_0);
        _tile_dpbf16ps(SUM_01, A_0, B_1);
        if (two) {
            _tile_loadd(A_1, a.at + a.half, a.row);
            _tile_dpbf16ps(SUM_10, A_1, B_0);
            _tile_dpbf16ps(SUM_11, A_1, B_1);
        }
    }
    _tile_stored(SUM_00, sums, BLOCK * 4);
    _tile_stored(SUM_01, sums + 16, BLOCK * 4);
    if (two) {
        _tile_stored(SUM_10, sums + 16 * BLOCK, BLOCK * 4);
        _tile_stored(SUM_11, sums + 16 * BLOCK + 16, BLOCK * 4);
    }
}

static void multiply(int64_t rows, Rows a, const char *b, int64_t steps, float *sums, bool add)
{
    if (rows == BLOCK) {
        multiply_block(true, a, b, steps, sums, add);
        return;
    }
    configure(rows);
    if (rows > 16) {
        multiply_block(true, a, b, steps, sums, add);
    } else {
        multiply_block(false, a, b, steps, sums, add);
    }
    configure(BLOCK);
}

static void start(void)
{
    configure(BLOCK);
}

static void stop(void)
{
    _tile_release();
}

const BfEngine product_tiles = {"AMX tiles", 16, 1024, 1, start, stop, multiply};
