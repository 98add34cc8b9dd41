#include "support/emulated_tiles.h"

#include "base/assert.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* Palette 1: eight tiles of at most 16 rows of at most 64 bytes. */
typedef struct {
    int rows, row_bytes; /* 0: not configured */
    char at[16][64];
} Tile;

static _Thread_local Tile tiles[8];

static void load_config(const void *config)
{
    const unsigned char *byte = config;
    PACER_ASSERT(byte[0] == 1, "tiles of palette %d", byte[0]);
    for (int i = 1; i < 64; i++) {
        bool reserved = i < 16 || (i >= 32 && i < 48) || i >= 56;
        PACER_ASSERT(!reserved || byte[i] == 0, "byte %d of a tile configuration", i);
    }
    for (int i = 0; i < 8; i++) {
        int row_bytes = byte[16 + 2 * i] | byte[17 + 2 * i] << 8, rows = byte[48 + i];
        PACER_ASSERT(rows <= 16 && row_bytes <= 64 && (rows == 0) == (row_bytes == 0),
                     "tile %d of %d rows of %d bytes", i, rows, row_bytes);
        tiles[i] = (Tile){.rows = rows, .row_bytes = row_bytes};
    }
}

static Tile *configured(int tile)
{
    PACER_ASSERT(tiles[tile].rows > 0, "tile %d is not configured", tile);
    return &tiles[tile];
}

static void zero(int tile)
{
    memset(configured(tile)->at, 0, sizeof tiles[tile].at);
}

static void load(int tile, const void *from, int64_t stride)
{
    zero(tile);
    for (int r = 0; r < tiles[tile].rows; r++) {
        memcpy(tiles[tile].at[r], (const char *)from + r * stride, (size_t)tiles[tile].row_bytes);
    }
}

static void store(int tile, void *to, int64_t stride)
{
    const Tile *t = configured(tile);
    for (int r = 0; r < t->rows; r++) {
        memcpy((char *)to + r * stride, t->at[r], (size_t)t->row_bytes);
    }
}

static float product(const char *a, const char *b)
{
    uint16_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return f32_from_bf16(x) * f32_from_bf16(y);
}

/* sums (rows, columns) += a (rows, pairs) b (pairs, columns), elements of a and b pairs. */
static void add_products(int sums, int of_a, int of_b)
{
    Tile *to = configured(sums), *a = configured(of_a), *b = configured(of_b);
    PACER_ASSERT(to != a && to != b && a != b, "tiles %d, %d and %d", sums, of_a, of_b);
    PACER_ASSERT(to->rows == a->rows && to->row_bytes == b->row_bytes &&
                     a->row_bytes == 4 * b->rows && b->row_bytes % 4 == 0,
                 "(%d, %d bytes) += (%d, %d) times (%d, %d)", to->rows, to->row_bytes, a->rows,
                 a->row_bytes, b->rows, b->row_bytes);
    for (int r = 0; r < to->rows; r++) {
        for (int c = 0; c < to->row_bytes; c += 4) {
            float sum;
            memcpy(&sum, to->at[r] + c, sizeof sum);
            for (int p = 0; p < b->rows; p++) {
                sum += product(a->at[r] + 4 * p, b->at[p] + c) +
                       product(a->at[r] + 4 * p + 2, b->at[p] + c + 2);
            }
            memcpy(to->at[r] + c, &sum, sizeof sum);
        }
    }
}

static void release(void)
{
    memset(tiles, 0, sizeof tiles);
}

#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_release
#define _tile_loadconfig load_config
#define _tile_loadd load
#define _tile_stored store
#define _tile_zero zero
#define _tile_dpbf16ps add_products
#define _tile_release release
#define product_tiles emulated_tiles
#include "cpu/bf16/tiles.c"
