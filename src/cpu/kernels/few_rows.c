/* Linear maps of a few rows, as in generation: every weight is read from memory once and used for
 * all rows, so that the product takes as long as reading the weights does. That is where a
 * library's product loses: it copies the weights into an order that pays only for many rows.
 *
 * A tile of the result, OUTPUTS outputs of up to TILE_ROWS rows, is kept in registers; a sum runs
 * over the inputs in VEC_LANES interleaved parts that are joined at the end. So each element of the
 * result is a sum in one order, which depends on the number of inputs alone: not on threads, nor on
 * how many rows there are, nor on whether the weights are f32 or the same numbers in bf16. */
#include "cpu/cpu.h"

#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

/* So that the sums, a line of weights and one of x fit in the registers. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define OUTPUTS 4
#else
#define OUTPUTS 2
#endif
#define TILE_ROWS 4

/* Rows of bf16 weights with more inputs than this are made f32 in registers alone. */
#define WIDE_INPUTS 1536

/* Fewer weights than this are not worth waking the other threads for. */
#define THREADS_WORTH_WEIGHTS 65536

/* v stays in a register: read again from memory at each use it would cost as much as it saves. */
#if defined(__SSE2__)
#define KEEP(v) __asm__("" : "+v"(v))
#elif defined(__aarch64__)
#define KEEP(v) __asm__("" : "+w"(v))
#else
#define KEEP(v)
#endif

typedef struct {
    const Elem *x;    /* (rows, inputs) */
    const char *w;    /* (outputs, inputs), f32 or bf16 */
    const Elem *bias; /* (outputs); NULL: none */
    Elem *y;          /* (rows, outputs) */
    int64_t rows, outputs, inputs;
    bool low; /* w is bf16 */
} Map;

static inline int64_t row_tiles(const Map *map)
{
    return (map->rows + TILE_ROWS - 1) / TILE_ROWS;
}

/* The weights of one vector, elements [at, at + count) of a matrix of f32 or, low, of bf16. */
VEC_INLINE Vec load_weights(const char *w, int64_t at, int64_t count, bool low)
{
    if (low) {
        const uint16_t *from = (const uint16_t *)w + at;
        return count == VEC_LANES ? vec_load_bf16(from) : vec_load_bf16_part(from, count);
    }
    const float *from = (const float *)w + at;
    return count == VEC_LANES ? vec_load(from) : vec_load_part(from, count);
}

/* sums += products of inputs [at, at + count). */
VEC_INLINE void add_products(int outputs, int rows, bool low, const char *w, const Elem *x,
                             int64_t inputs, int64_t at, int64_t count,
                             Vec sums[OUTPUTS][TILE_ROWS])
{
    Vec line[OUTPUTS];
#pragma GCC unroll 16
    for (int o = 0; o < outputs; o++) {
        line[o] = load_weights(w, o * inputs + at, count, low);
        KEEP(line[o]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        const Elem *from = x + r * inputs + at;
        Vec values = count == VEC_LANES ? elem_load(from) : elem_load_part(from, count);
#pragma GCC unroll 16
        for (int o = 0; o < outputs; o++) {
            sums[o][r] = vec_fma(line[o], values, sums[o][r]);
        }
    }
}

/* The rows of weights that are needed next, asked for while tiles are made: the processor fetches
 * ahead by itself, but only to the end of a page, and not while a second tile uses weights that are
 * there already. Behind the matrix there is nothing to fetch, and asking does no harm. */
typedef struct {
    uintptr_t rows; /* address of OUTPUTS of them, perhaps behind the matrix; 0: none */
    size_t row_bytes;
    size_t step; /* bytes of each row to ask for per vector of inputs */
} Ahead;

/* y of `outputs` outputs from `output` on, whose weights begin at w, and `rows` rows from `row`
 * on. outputs, rows and low are constants at each use, and the loops over them must go: only
 * then do the sums live in registers. */
VEC_INLINE void make_tile(int outputs, int rows, bool low, const Map *map, const char *w,
                          int64_t output, int64_t row, Ahead ahead)
{
    int64_t inputs = map->inputs, at = 0;
    const Elem *x = map->x + row * inputs;
    Vec sums[OUTPUTS][TILE_ROWS];
#pragma GCC unroll 16
    for (int o = 0; o < outputs; o++) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            sums[o][r] = (Vec){0};
        }
    }
    for (; at + VEC_LANES <= inputs; at += VEC_LANES) {
#pragma GCC unroll 16
        for (int o = 0; o < outputs; o++) {
            __builtin_prefetch((const void *)(ahead.rows + (size_t)o * ahead.row_bytes));
        }
        ahead.rows += ahead.step;
        add_products(outputs, rows, low, w, x, inputs, at, VEC_LANES, sums);
    }
    if (at < inputs) {
        add_products(outputs, rows, low, w, x, inputs, at, inputs - at, sums);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        Elem *to = map->y + (row + r) * map->outputs + output;
#pragma GCC unroll 16
        for (int o = 0; o < outputs; o++) {
            float sum = vec_sum(sums[o][r]);
            to[o] = elem_from(map->bias != NULL ? sum + elem_get(map->bias[output + o]) : sum);
        }
    }
}

/* OUTPUTS outputs from `output` on for all rows, in tiles of about equal size, each of which asks
 * for its share of what is ahead. */
VEC_INLINE void make_tiles(bool low, const Map *map, const char *w, int64_t output, Ahead ahead)
{
    int64_t tiles = row_tiles(map);
    size_t share = ahead.row_bytes / (size_t)tiles;
    for (int64_t t = 0; t < tiles; t++) {
        Span rows = span_of(map->rows, tiles, t);
        switch (rows.last - rows.first) {
        case 1:
            make_tile(OUTPUTS, 1, low, map, w, output, rows.first, ahead);
            break;
        case 2:
            make_tile(OUTPUTS, 2, low, map, w, output, rows.first, ahead);
            break;
        case 3:
            make_tile(OUTPUTS, 3, low, map, w, output, rows.first, ahead);
            break;
        default:
            make_tile(OUTPUTS, TILE_ROWS, low, map, w, output, rows.first, ahead);
            break;
        }
        ahead.rows += share;
    }
}

static void make_tiles_f32(const Map *map, const char *w, int64_t output, Ahead ahead)
{
    make_tiles(false, map, w, output, ahead);
}

static void make_tiles_bf16(const Map *map, const char *w, int64_t output, Ahead ahead)
{
    make_tiles(true, map, w, output, ahead);
}

static void widen(const char *from, int64_t count, float *to)
{
    const uint16_t *halves = (const uint16_t *)from;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) {
        to[i] = f32_from_bf16(halves[i]);
    }
}

/* OUTPUTS outputs, or at the end of the matrix what is left of them. Weights in bf16 that several
 * tiles use are made f32 once for all, unless they are too long to stay in the cache beside x. */
static void make_outputs(const Map *map, int64_t output)
{
    float wide[OUTPUTS * WIDE_INPUTS];
    size_t row_bytes = (size_t)map->inputs * (map->low ? sizeof(uint16_t) : sizeof(float));
    const char *w = map->w + (size_t)output * row_bytes;
    size_t tiles = (size_t)row_tiles(map);
    Ahead ahead = {(uintptr_t)w + OUTPUTS * row_bytes, row_bytes,
                   VEC_LANES * row_bytes / (size_t)map->inputs / tiles};
    if (output + OUTPUTS > map->outputs) {
        for (; output < map->outputs; output++, w += row_bytes) {
            for (int64_t row = 0; row < map->rows; row++) {
                make_tile(1, 1, map->low, map, w, output, row, (Ahead){0});
            }
        }
    } else if (!map->low) {
        make_tiles_f32(map, w, output, ahead);
    } else if (tiles > 1 && map->inputs <= WIDE_INPUTS) {
        widen(w, OUTPUTS * map->inputs, wide);
        make_tiles_f32(map, (const char *)wide, output, ahead);
    } else {
        make_tiles_bf16(map, w, output, ahead);
    }
}

static void linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y)
{
    if (x.dim[0] > CPU_FEW_ROWS) {
        matmul_linear_forward(c, x, w, bias, y);
        return;
    }
    Map map = {.x = x.data,
               .w = w.data,
               .bias = tensor_given(bias) ? bias.data : NULL,
               .y = y.data,
               .rows = x.dim[0],
               .outputs = w.dim[0],
               .inputs = w.dim[1],
               .low = w.dtype == DT_BF16};
    int64_t groups = (map.outputs + OUTPUTS - 1) / OUTPUTS;
    int parts = map.outputs * map.inputs < THREADS_WORTH_WEIGHTS ? 1 : c->backend->threads;
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span span = span_of(groups, parts, part);
        for (int64_t group = span.first; group < span.last; group++) {
            make_outputs(&map, group * OUTPUTS);
        }
    }
}

void PACER_ISA_NAME(few_rows_fill)(Ops *ops)
{
    ops->linear_forward = linear_forward;
}
