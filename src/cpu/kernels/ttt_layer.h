#pragma once
/* One linear map of a test-time-trained inner model in the dual form, for one mini-batch of n
 * tokens. With x the rows the map is trained on, xq those it is applied to, u = lambda * inner
 * gradient:
 *   z  = x w + b
 *   zq = xq w + b + pt u,  pt = -tau_i p,  p = lower triangle of 1 + xq x^T
 *   state behind it: w - tau_{n-1} x^T u,  b - tau_{n-1} 1^T u
 * All products are those of attention_tile.h: vectors run over the columns of the result. Tiles
 * have a multiple of MR rows and rows of whole vectors; columns past the true width are 0, rows
 * past the true number hold anything and reach only rows of that kind. Where the right
 * factor is the transpose of something large, its product is made transposed: only tiles are
 * turned over, never a state. */
#include "cpu/kernels/attention_tile.h"

/* A token-by-token matrix has rows of `row` floats: m in whole vectors. */
typedef struct {
    int64_t n, row;
    const float *tau; /* (n) */
} MiniSize;

typedef struct {
    int64_t in, out;             /* sizes */
    int64_t in_width, out_width; /* the same in whole vectors: rows of x and of z */
    float *w, *b;                /* (in, out), (out): rows of out_width, in rounded up to MR */
} Layer;

/* The gradient of a layer's next state on entry, of its state on return; shaped like it. */
typedef Layer LayerGradient;

/* One vector wide, MR rows do not have enough sums to keep the multipliers busy. */
#define TALL (2 * MR)

/* out (TALL, VEC_LANES) += a (TALL, inner) times b (inner, VEC_LANES) */
static inline void product_tall(int64_t inner, const float *a, int64_t a_row, const float *b,
                                float *out)
{
    Vec sums[TALL];
#pragma GCC unroll 16
    for (int r = 0; r < TALL; r++) {
        sums[r] = vec_load(out + r * VEC_LANES);
    }
    for (int64_t p = 0; p < inner; p++) {
        Vec line = vec_load(b + p * VEC_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < TALL; r++) {
            sums[r] = vec_fma(vec_set(a[r * a_row + p]), line, sums[r]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < TALL; r++) {
        vec_store(out + r * VEC_LANES, sums[r]);
    }
}

/* out (rows, width) += a (rows, inner) times b (inner, width) */
static inline void multiply(int64_t rows, int64_t width, int64_t inner, const float *a,
                            int64_t a_row, const float *b, float *out)
{
    int64_t row = 0;
    for (; width == VEC_LANES && row + TALL <= rows; row += TALL) {
        product_tall(inner, a + row * a_row, a_row, b, out + row * width);
    }
    for (; row < rows; row += MR) {
        product_rows(width, inner, a + row * a_row, a_row, b, out + row * width);
    }
}

/* out (rows, width) += a^T times b for a (inner, rows), b (inner, width) */
static inline void multiply_columns(int64_t rows, int64_t width, int64_t inner, const float *a,
                                    int64_t a_row, const float *b, float *out)
{
    for (int64_t row = 0; row < rows; row += MR) {
        product_columns(width, inner, a + row, a_row, b, out + row * width);
    }
}

/* out (n, width) += a b for a lower triangular (n, n) */
static inline void multiply_lower(MiniSize size, int64_t width, const float *a, const float *b,
                                  float *out)
{
    for (int64_t row = 0; row < size.n; row += MR) {
        product_rows(width, lesser(row + MR, size.n), a + row * size.row, size.row, b,
                     out + row * width);
    }
}

/* out (n, width) += a^T b for a lower triangular (n, n) */
static inline void multiply_lower_turned(MiniSize size, int64_t width, const float *a,
                                         const float *b, float *out)
{
    for (int64_t row = 0; row < size.n; row += MR) {
        product_columns(width, size.n - row, a + row * size.row + row, size.row, b + row * width,
                        out + row * width);
    }
}

/* to (columns, rows in whole vectors) = or += the transpose of from (rows, columns); what lies
 * past rows is 0. Rows of from are whole vectors. */
VEC_INLINE void turn(bool add, const float *from, int64_t from_row, int64_t rows, int64_t columns,
                     float *to, int64_t to_row)
{
    for (int64_t row = 0; row < rows; row += VEC_LANES) {
        int64_t given = lesser(VEC_LANES, rows - row);
        for (int64_t c = 0; c < columns; c += VEC_LANES) {
            Vec block[VEC_LANES];
            const float *at = from + row * from_row + c;
            if (given == VEC_LANES) {
#pragma GCC unroll 16
                for (int r = 0; r < VEC_LANES; r++) {
                    block[r] = vec_load(at + r * from_row);
                }
            } else {
                for (int r = 0; r < VEC_LANES; r++) {
                    block[r] = r < given ? vec_load(at + r * from_row) : (Vec){0};
                }
            }
            transpose(block);
            for (int64_t r = 0; r < lesser(VEC_LANES, columns - c); r++) {
                float *place = to + (c + r) * to_row + row;
                vec_store(place, add ? vec_load(place) + block[r] : block[r]);
            }
        }
    }
}

static inline void turn_set(const float *from, int64_t from_row, int64_t rows, int64_t columns,
                            float *to, int64_t to_row)
{
    turn(false, from, from_row, rows, columns, to, to_row);
}

static inline void turn_add(const float *from, int64_t from_row, int64_t rows, int64_t columns,
                            float *to, int64_t to_row)
{
    turn(true, from, from_row, rows, columns, to, to_row);
}

static inline void clear(float *to, int64_t count)
{
    memset(to, 0, (size_t)count * sizeof *to);
}

/* to (rows in MR, width): each row is `row` */
static inline void repeat_row(const float *row, int64_t rows, int64_t width, float *to)
{
    for (int64_t r = 0; r < round_up(rows, MR); r++) {
        memcpy(to + r * width, row, (size_t)width * sizeof *to);
    }
}

/* to (width) += factor * the sum of n rows */
static inline void add_row_sums(float factor, const float *rows, int64_t n, int64_t width,
                                float *to)
{
    for (int64_t c = 0; c < width; c += VEC_LANES) {
        Vec sum = {0};
        for (int64_t i = 0; i < n; i++) {
            sum += vec_load(rows + i * width + c);
        }
        vec_store(to + c, vec_fma(vec_set(factor), sum, vec_load(to + c)));
    }
}

static inline VecInt lanes_from(int64_t first)
{
    VecInt lane;
    for (int i = 0; i < VEC_LANES; i++) {
        lane[i] = i + (int32_t)first;
    }
    return lane;
}

/* z (n, out) = x w + b */
static inline void layer_rows(const Layer *l, int64_t n, const float *x, float *z)
{
    repeat_row(l->b, n, l->out_width, z);
    multiply(n, l->out_width, l->in, x, l->in_width, l->w, z);
}

/* The part of a mini-batch that a layer and its backward share. */
typedef struct {
    const float *x, *xq; /* (n, in) */
    const float *u;      /* (n, out) */
    float *p, *pt;       /* (n, n) */
} LayerTiles;

/* zq (n, out); p and pt are filled. turned: in * row floats. */
static inline void layer_apply(const Layer *l, MiniSize size, const LayerTiles *t, float *zq,
                               float *turned)
{
    turn_set(t->x, l->in_width, size.n, l->in, turned, size.row);
    clear(t->p, round_up(size.n, MR) * size.row);
    multiply(size.n, size.row, l->in, t->xq, l->in_width, turned, t->p);
    for (int64_t i = 0; i < size.n; i++) {
        for (int64_t j = 0; j < size.row; j += VEC_LANES) {
            float *p = t->p + i * size.row + j;
            VecInt seen = lanes_from(j) <= (int32_t)i;
            Vec product = vec_select(seen, 1.0f + vec_load(p), (Vec){0});
            vec_store(p, product);
            vec_store(t->pt + i * size.row + j, product * -size.tau[i]);
        }
    }
    layer_rows(l, size.n, t->xq, zq);
    multiply_lower(size, l->out_width, t->pt, t->u, zq);
}

/* The state becomes the next one. scaled: a tile of u's shape. */
static inline void layer_update(const Layer *l, MiniSize size, const float *x, const float *u,
                                float *scaled)
{
    float factor = -size.tau[size.n - 1];
    for (int64_t i = 0; i < size.n * l->out_width; i += VEC_LANES) {
        vec_store(scaled + i, factor * vec_load(u + i));
    }
    multiply_columns(l->in, l->out_width, size.n, x, l->in_width, scaled, l->w);
    add_row_sums(1.0f, scaled, size.n, l->out_width, l->b);
}

/* What the backward of a layer needs besides; floats: */
typedef struct {
    float *c;      /* (n, n) in tiles */
    float *j;      /* (n, out) */
    float *turned; /* max(in, out) * row */
    float *back;   /* (in in MR) * row */
} LayerSpace;

/* Backward of zq and of the state's update, before anything is known of z: from dzq (n, out) and
 * the gradient g of the next state
 *   dxq (n, in) += dzq w^T + dp x,   dx (n, in) += dp^T xq,   dxt (in, n) = the transpose of
 *   -tau_{n-1} u dw'^T, which is dx's too,   du (n, out) = pt^T dzq - tau_{n-1} (x dw' + db'),
 *   dw = dw' + xq^T dzq,   db = db' + 1^T dzq, and dtau (n) grows. */
static inline void layer_backward(const Layer *l, const LayerGradient *g, MiniSize size,
                                  const LayerTiles *t, const float *dzq, float *dxq, float *dx,
                                  float *dxt, float *du, float *dtau, const LayerSpace *s)
{
    int64_t n = size.n, row = size.row, tile = round_up(n, MR) * row;
    float last = -size.tau[n - 1];
    turn_set(t->u, l->out_width, n, l->out, s->turned, row);
    clear(s->c, tile);
    multiply(n, row, l->out, dzq, l->out_width, s->turned, s->c);
    for (int64_t i = 0; i < n; i++) {
        Vec sum = {0};
        for (int64_t j = 0; j < row; j += VEC_LANES) {
            float *c = s->c + i * row + j;
            VecInt seen = lanes_from(j) <= (int32_t)i;
            Vec product = vec_select(seen, vec_load(c), (Vec){0});
            sum = vec_fma(product, vec_load(t->p + i * row + j), sum);
            vec_store(c, product * -size.tau[i]);
        }
        dtau[i] -= vec_sum(sum);
    }
    multiply_lower(size, l->in_width, s->c, t->x, dxq);
    multiply_lower_turned(size, l->in_width, s->c, t->xq, dx);

    clear(dxt, round_up(l->in, MR) * row);
    multiply(l->in, row, l->out, g->w, l->out_width, s->turned, dxt);
    for (int64_t i = 0; i < l->in * row; i += VEC_LANES) {
        vec_store(dxt + i, last * vec_load(dxt + i));
    }

    clear(du, round_up(n, MR) * l->out_width);
    multiply_lower_turned(size, l->out_width, t->pt, dzq, du);
    layer_rows(g, n, t->x, s->j);
    Vec sum = {0};
    for (int64_t i = 0; i < n * l->out_width; i += VEC_LANES) {
        Vec j = vec_load(s->j + i);
        sum = vec_fma(j, vec_load(t->u + i), sum);
        vec_store(du + i, vec_fma(vec_set(last), j, vec_load(du + i)));
    }
    dtau[n - 1] -= vec_sum(sum);

    turn_set(dzq, l->out_width, n, l->out, s->turned, row);
    clear(s->back, round_up(l->in, MR) * row);
    multiply(l->in, row, l->out, l->w, l->out_width, s->turned, s->back);
    turn_add(s->back, row, l->in, n, dxq, l->in_width);
    multiply_columns(l->in, l->out_width, n, t->xq, l->in_width, dzq, g->w);
    add_row_sums(1.0f, dzq, n, l->out_width, g->b);
}

/* Backward of z: dx += dxt^T + dz w^T, dw += x^T dz, db += 1^T dz. dxt is used up. */
static inline void layer_backward_rows(const Layer *l, const LayerGradient *g, MiniSize size,
                                       const float *x, const float *dz, float *dx, float *dxt,
                                       float *turned)
{
    turn_set(dz, l->out_width, size.n, l->out, turned, size.row);
    multiply(l->in, size.row, l->out, l->w, l->out_width, turned, dxt);
    turn_add(dxt, size.row, l->in, size.n, dx, l->in_width);
    multiply_columns(l->in, l->out_width, size.n, x, l->in_width, dz, g->w);
    add_row_sums(1.0f, dz, size.n, l->out_width, g->b);
}
