/* The residual stream: addition, scaling and normalisation. A row is read from memory once; what
 * needs the whole row (mean, variance, the two sums of the backward) makes another pass over it in
 * the cache. xhat = (x - mean) * rstd; RMS norm takes mean = 0. */
#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

#include <math.h>

static void add(Ctx *c, Tensor a, Tensor b, Tensor out)
{
    const Elem *a_data = a.data, *b_data = b.data;
    Elem *to = out.data;
    int64_t count = tensor_count(out);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        elem_add_rows(a_data + s.first, b_data + s.first, to + s.first, s.last - s.first);
    }
}

VEC_INLINE void scale_step(const Elem *x, float factor, float cap, Elem *to, int64_t i,
                           int64_t count)
{
    Vec value = elem_load_part(x + i, count) * factor;
    elem_store_part(to + i, cap > 0 ? vec_capped(value, cap) : value, count);
}

static void scale(Ctx *c, Tensor x, double factor, double cap, Tensor out)
{
    int64_t count = tensor_count(out);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        int64_t i = s.first;
        for (; i + VEC_LANES <= s.last; i += VEC_LANES) {
            scale_step(x.data, (float)factor, (float)cap, out.data, i, VEC_LANES);
        }
        if (i < s.last) {
            scale_step(x.data, (float)factor, (float)cap, out.data, i, s.last - i);
        }
    }
}

static float row_sum(const Elem *x, int64_t width)
{
    Vec sum = {0};
    int64_t i = 0;
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        sum += elem_load(x + i);
    }
    if (i < width) {
        sum += elem_load_part(x + i, width - i);
    }
    return vec_sum(sum);
}

/* Sum of (x - mean)^2; lanes past the end are not of the row and must add nothing. */
static float row_square_sum(const Elem *x, int64_t width, float mean)
{
    Vec sum = {0};
    int64_t i = 0;
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        Vec distance = elem_load(x + i) - mean;
        sum = vec_fma(distance, distance, sum);
    }
    float rest = 0;
    for (; i < width; i++) {
        float distance = elem_get(x[i]) - mean;
        rest += distance * distance;
    }
    return vec_sum(sum) + rest;
}

typedef struct {
    const Elem *weight, *bias; /* bias NULL for RMS */
    float mean, rstd;
} RowNorm;

/* y = xhat * weight + bias */
VEC_INLINE void normalise_step(const Elem *x, RowNorm n, Elem *y, int64_t i, int64_t count)
{
    Vec xhat = (elem_load_part(x + i, count) - n.mean) * n.rstd;
    Vec weight = elem_load_part(n.weight + i, count);
    Vec bias = n.bias != NULL ? elem_load_part(n.bias + i, count) : (Vec){0};
    elem_store_part(y + i, vec_fma(xhat, weight, bias), count);
}

static void normalise_row(const Elem *x, Norm norm, int64_t width, Elem *y, float stats[2])
{
    float mean = norm.kind == NORM_LAYER ? row_sum(x, width) / (float)width : 0;
    double variance = (double)row_square_sum(x, width, mean) / (double)width;
    RowNorm n = {norm.weight.data, tensor_given(norm.bias) ? norm.bias.data : NULL, mean,
                 (float)(1 / sqrt(variance + norm.eps))};
    int64_t i = 0;
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        normalise_step(x, n, y, i, VEC_LANES);
    }
    if (i < width) {
        normalise_step(x, n, y, i, width - i);
    }
    stats[0] = n.mean;
    stats[1] = n.rstd;
}

/* Of x, or of r = x + h where h is given. */
static void add_norm_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y,
                             Tensor stats)
{
    int64_t rows = x.dim[0], width = x.dim[1];
    const Elem *stream = x.data, *branch = tensor_given(h) ? h.data : NULL;
    Elem *sum = r.data, *to = y.data;
    float *row_stats = stats.data;
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = row * width;
        if (branch != NULL) {
            elem_add_rows(stream + at, branch + at, sum + at, width);
        }
        normalise_row(sum + at, norm, width, to + at, row_stats + 2 * row);
    }
}

static void norm_forward(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats)
{
    add_norm_forward(c, x, TENSOR_NONE, norm, x, y, stats);
}

/* One row of the backward, with g = dy * weight, rounded: what is taken off g is a sum of such. */
typedef struct {
    const Elem *dy, *x, *weight;
    float mean, rstd;
    Elem *dx;
    bool dx_add;
    float *dweight, *dbias; /* partial sums over rows; dbias may be NULL */
} RowBackward;

typedef struct {
    Vec g, g_xhat;
} RowSums;

/* Adds to the row's sums of g and g * xhat, and to dweight and dbias. */
VEC_INLINE void sums_step(RowBackward b, RowSums *sums, int64_t i, int64_t count)
{
    Vec dy = elem_load_part(b.dy + i, count); /* 0 past the end, so g is 0 there too */
    Vec xhat = (elem_load_part(b.x + i, count) - b.mean) * b.rstd;
    Vec g = vec_rounded(dy * elem_load_part(b.weight + i, count));
    sums->g += g;
    sums->g_xhat = vec_fma(g, xhat, sums->g_xhat);
    vec_store_part(b.dweight + i, vec_fma(dy, xhat, vec_load_part(b.dweight + i, count)), count);
    if (b.dbias != NULL) {
        vec_store_part(b.dbias + i, dy + vec_load_part(b.dbias + i, count), count);
    }
}

/* dx = or += rstd * (g - mean of g - xhat * mean of g * xhat). */
VEC_INLINE void dx_step(RowBackward b, float g_mean, float g_xhat_mean, int64_t i, int64_t count)
{
    Vec xhat = (elem_load_part(b.x + i, count) - b.mean) * b.rstd;
    Vec g = vec_rounded(elem_load_part(b.dy + i, count) * elem_load_part(b.weight + i, count));
    Vec dx = (g - g_mean - xhat * g_xhat_mean) * b.rstd;
    elem_store_part(b.dx + i, b.dx_add ? dx + elem_load_part(b.dx + i, count) : dx, count);
}

static void row_backward(RowBackward b, int64_t width, bool centred)
{
    RowSums sums = {0};
    int64_t i = 0;
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        sums_step(b, &sums, i, VEC_LANES);
    }
    if (i < width) {
        sums_step(b, &sums, i, width - i);
    }
    float g_mean = centred ? vec_sum(sums.g) / (float)width : 0;
    float g_xhat_mean = vec_sum(sums.g_xhat) / (float)width;
    for (i = 0; i + VEC_LANES <= width; i += VEC_LANES) {
        dx_step(b, g_mean, g_xhat_mean, i, VEC_LANES);
    }
    if (i < width) {
        dx_step(b, g_mean, g_xhat_mean, i, width - i);
    }
}

/* ws: per part a row of dweight and a row of dbias. */
static void norm_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx,
                          Mode dx_mode, Tensor dweight, Tensor dbias, Mode mode, void *ws)
{
    int64_t rows = x.dim[0], width = x.dim[1];
    const float *row_stats = stats.data;
    float *partial = ws;
    bool biased = tensor_given(dbias);
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < THREADS_SUM_PARTS; part++) {
        float *sums = partial + part * 2 * width;
        memset(sums, 0, (size_t)(2 * width) * sizeof *sums);
        Span s = span_of(rows, THREADS_SUM_PARTS, part);
        for (int64_t row = s.first; row < s.last; row++) {
            RowBackward b = {
                .dy = (const Elem *)dy.data + row * width,
                .x = (const Elem *)x.data + row * width,
                .weight = norm.weight.data,
                .mean = row_stats[2 * row],
                .rstd = row_stats[2 * row + 1],
                .dx = (Elem *)dx.data + row * width,
                .dx_add = dx_mode == MODE_ADD,
                .dweight = sums,
                .dbias = biased ? sums + width : NULL,
            };
            row_backward(b, width, norm.kind == NORM_LAYER);
        }
    }
    threads_join_sums(partial, 2 * width, width, dweight.data, mode);
    if (biased) {
        threads_join_sums(partial + width, 2 * width, width, dbias.data, mode);
    }
}

static size_t norm_backward_ws(const Ctx *c, Tensor x)
{
    (void)c;
    return (size_t)x.dim[1] * 2 * THREADS_SUM_PARTS * sizeof(float);
}

/* sums (C) += dy * xhat of one row. */
static void piece_row(const Elem *dy, const Elem *x, float mean, float rstd, int64_t width,
                      float *sums)
{
    for (int64_t i = 0; i < width; i += VEC_LANES) {
        int64_t count = width - i < VEC_LANES ? width - i : VEC_LANES;
        Vec xhat = (elem_load_part(x + i, count) - mean) * rstd;
        Vec slope = elem_load_part(dy + i, count);
        vec_store_part(sums + i, vec_fma(slope, xhat, vec_load_part(sums + i, count)), count);
    }
}

static void norm_pieces(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights)
{
    int64_t width = x.dim[1], pieces = dweights.dim[0], rows = x.dim[0] / pieces;
    const Elem *slopes = dy.data, *inputs = x.data;
    const float *row_stats = stats.data;
    int threads = threads_for(c, x.dim[0] * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t piece = 0; piece < pieces; piece++) {
        float *sums = (float *)dweights.data + piece * width;
        memset(sums, 0, (size_t)width * sizeof *sums);
        for (int64_t row = piece * rows; row < (piece + 1) * rows; row++) {
            piece_row(slopes + row * width, inputs + row * width, row_stats[2 * row],
                      row_stats[2 * row + 1], width, sums);
        }
    }
}

/* The norm of head number `head` of a packed row: q's, then k's. */
static Norm norm_of_head(HeadShape s, HeadNorm norm, int64_t head)
{
    return (Norm){NORM_RMS, norm.eps, head < s.heads ? norm.q : norm.k, TENSOR_NONE};
}

static void head_norm_forward(Ctx *c, Tensor qkv, HeadShape s, HeadNorm norm, Tensor out)
{
    int64_t rows = qkv.dim[0], width = qkv.dim[1], normed = s.heads + s.kv_heads;
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const Elem *from = (const Elem *)qkv.data + row * width;
        Elem *to = (Elem *)out.data + row * width;
        float stats[2];
        for (int64_t head = 0; head < normed; head++) {
            int64_t at = head * s.head_dim;
            normalise_row(from + at, norm_of_head(s, norm, head), s.head_dim, to + at, stats);
        }
        if (to != from) {
            int64_t at = normed * s.head_dim;
            memcpy(to + at, from + at, (size_t)(width - at) * sizeof *to);
        }
    }
}

/* ws: per part a row of dq and a row of dk. */
static void head_norm_backward(Ctx *c, Tensor dout, Tensor qkv, HeadShape s, HeadNorm norm,
                               Tensor dqkv, Tensor dq, Tensor dk, Mode mode, void *ws)
{
    int64_t rows = qkv.dim[0], width = qkv.dim[1], normed = s.heads + s.kv_heads;
    int64_t each = s.head_dim;
    float *partial = ws;
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int part = 0; part < THREADS_SUM_PARTS; part++) {
        float *sums = partial + part * 2 * each;
        memset(sums, 0, (size_t)(2 * each) * sizeof *sums);
        Span span = span_of(rows, THREADS_SUM_PARTS, part);
        for (int64_t row = span.first; row < span.last; row++) {
            const Elem *dy = (const Elem *)dout.data + row * width;
            const Elem *x = (const Elem *)qkv.data + row * width;
            Elem *dx = (Elem *)dqkv.data + row * width;
            for (int64_t head = 0; head < normed; head++) {
                int64_t at = head * each;
                double square = (double)row_square_sum(x + at, each, 0) / (double)each;
                RowBackward b = {
                    .dy = dy + at,
                    .x = x + at,
                    .weight = norm_of_head(s, norm, head).weight.data,
                    .rstd = (float)(1 / sqrt(square + norm.eps)),
                    .dx = dx + at,
                    .dweight = head < s.heads ? sums : sums + each,
                };
                row_backward(b, each, false);
            }
            if (dx != dy) {
                int64_t at = normed * each;
                memcpy(dx + at, dy + at, (size_t)(width - at) * sizeof *dx);
            }
        }
    }
    threads_join_sums(partial, 2 * each, each, dq.data, mode);
    threads_join_sums(partial + each, 2 * each, each, dk.data, mode);
}

static size_t head_norm_backward_ws(const Ctx *c, HeadShape s)
{
    (void)c;
    return (size_t)s.head_dim * 2 * THREADS_SUM_PARTS * sizeof(float);
}

void PACER_ISA_NAME(norm_fill)(Ops *ops)
{
    ops->add = add;
    ops->scale = scale;
    ops->norm_forward = norm_forward;
    ops->add_norm_forward = add_norm_forward;
    ops->norm_backward = norm_backward;
    ops->norm_pieces = norm_pieces;
    ops->norm_backward_ws = norm_backward_ws;
    ops->head_norm_forward = head_norm_forward;
    ops->head_norm_backward = head_norm_backward;
    ops->head_norm_backward_ws = head_norm_backward_ws;
}
