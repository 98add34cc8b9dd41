/* e4m3: every code and what rounds to it, codes in both layouts, scales, and products over
 * codes, against numbers written out here; then every fused op against its parts, bit for bit,
 * and every op of a GPU against ref, where there is one. */
#include "base/err.h"
#include "base/mem.h"
#include "cuda/cuda.h"
#include "tensor/workspace.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ARENA ((size_t)64 << 20)
#define MOST_BACKENDS 2

static Backend *backends[MOST_BACKENDS]; /* ref, then a GPU */
static int backend_count;

/* From -1 to 1, repeatable. */
static float draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)((double)(*state >> 8) / (1 << 23) - 1.0);
}

/* --- the format --- */

/* By the definition: 4 bits of exponent with bias 7, 3 of fraction, no infinity. */
static double meaning(int code)
{
    int exponent = code / 8 % 16, fraction = code % 8;
    double size =
        exponent == 0 ? fraction / 8.0 * pow(2, -6) : (1 + fraction / 8.0) * pow(2, exponent - 7);
    return code >= 128 ? -size : size;
}

static void test_quant__codes_are_what_they_stand_for(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        float value = f32_from_e4m3((uint8_t)code);
        if (code % 128 == 127) {
            assert_true(isnan(value));
            continue;
        }
        assert_true(value == (float)meaning(code) && (signbit(value) != 0) == (code >= 128));
        assert_int_equal(e4m3_from_f32(value), code);
    }
}

/* Between two codes: the nearer one, and of two equally near the even one. */
static void test_quant__rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int code = 0; code < 126; code++) {
        double low = meaning(code), high = meaning(code + 1), middle = (low + high) / 2;
        int even = code % 2 == 0 ? code : code + 1;
        assert_int_equal(e4m3_from_f32((float)middle), even);
        assert_int_equal(e4m3_from_f32(nextafterf((float)middle, 0)), code);
        assert_int_equal(e4m3_from_f32(nextafterf((float)middle, 1e9f)), code + 1);
        assert_int_equal(e4m3_from_f32(-(float)middle), 128 + even);
    }
    const float beyond[] = {448.0f, 449.0f, 464.0f, 480.0f, 1e30f, INFINITY};
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        assert_int_equal(e4m3_from_f32(beyond[i]), 126);
        assert_int_equal(e4m3_from_f32(-beyond[i]), 254);
    }
    assert_int_equal(e4m3_from_f32(0x1p-149f), 0);
    assert_int_equal(e4m3_from_f32(NAN) % 128, 127);
}

/* --- ops --- */

/* A context of one backend with room, and what is needed of tensors in its memory. */
typedef struct {
    Ctx c;
    Workspace work;
    uint32_t seed;
} Lab;

static void lab_open(Lab *lab, Backend *backend, uint32_t seed)
{
    *lab = (Lab){.seed = seed};
    ctx_init(&lab->c, backend);
    workspace_count(&lab->work, &lab->c);
    assert_int_equal(workspace_reserve(&lab->work, &lab->c,
                                       (size_t[WORK_BLOCKS]){ARENA, ARENA, ARENA}, "for a test"),
                     0);
}

static void lab_close(Lab *lab)
{
    workspace_free(&lab->work, lab->c.backend);
}

static Tensor room(Lab *lab, DType dtype, int rank, int64_t a, int64_t b)
{
    return arena_push(&lab->work.state, MEM_SCRATCH, dtype, rank, (int64_t[]){a, b});
}

/* Values that bf16 holds, of that size, some of them 64 times larger. */
static Tensor random_tensor(Lab *lab, DType dtype, int rank, int64_t a, int64_t b, float size)
{
    Tensor t = room(lab, dtype, rank, a, b);
    int64_t count = tensor_count(t);
    char *host = mem_zalloc((size_t)count, 4);
    for (int64_t i = 0; i < count; i++) {
        float value = draw(&lab->seed) * size;
        value *= draw(&lab->seed) > 0.98f ? 64 : 1;
        uint16_t low = bf16_from_f32(value);
        if (dtype == DT_BF16) {
            memcpy(host + 2 * i, &low, sizeof low);
        } else {
            value = f32_from_bf16(low);
            memcpy(host + 4 * i, &value, sizeof value);
        }
    }
    lab->c.backend->upload(lab->c.backend, t.data, host, tensor_bytes(t));
    lab->c.backend->sync(lab->c.backend);
    free(host);
    return t;
}

static void *fetch(Lab *lab, Tensor t)
{
    void *host = mem_alloc(tensor_bytes(t) + 1);
    lab->c.backend->download(lab->c.backend, host, t.data, tensor_bytes(t));
    return host;
}

static double number(const void *host, DType dtype, int64_t i)
{
    return dtype == DT_BF16 ? f32_from_bf16(((const uint16_t *)host)[i]) : ((const float *)host)[i];
}

/* Room for codes of (rows, width), the columns `spare` wider than they need. */
static Quant quant_room(Lab *lab, int64_t rows, int64_t width, int64_t spare, float factor)
{
    Backend *backend = lab->c.backend;
    Quant q = {.rows = room(lab, DT_E4M3, 2, rows, width),
               .columns = room(lab, DT_E4M3, 2, width, rows + spare),
               .stride = rows + spare,
               .scale = room(lab, DT_F32, 1, SCALE_COUNT, 1),
               .largest = room(lab, DT_F32, 1, 1, 1)};
    q.columns.dim[1] = rows;
    const float scale[SCALE_COUNT] = {1 / factor, factor}, none = 0;
    backend->upload(backend, q.scale.data, scale, sizeof scale);
    backend->upload(backend, q.largest.data, &none, sizeof none);
    backend->sync(backend);
    return q;
}

static uint8_t *fetch_columns(Lab *lab, Quant q)
{
    Tensor whole = q.columns;
    whole.dim[1] = q.stride;
    return fetch(lab, whole);
}

static float fetch_largest(Lab *lab, Quant q)
{
    float *host = fetch(lab, q.largest), value = *host;
    free(host);
    return value;
}

/* Rows and columns hold the code of each value. */
static void assert_codes(Lab *lab, Quant q, Tensor x, float factor)
{
    int64_t rows = x.dim[0], width = x.dim[1];
    void *values = fetch(lab, x);
    uint8_t *by_rows = fetch(lab, q.rows), *by_columns = fetch_columns(lab, q);
    float largest = 0;
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < width; i++) {
            float value = (float)number(values, x.dtype, n * width + i);
            uint8_t code = e4m3_from_f32(value * factor);
            assert_int_equal(by_rows[n * width + i], code);
            assert_int_equal(by_columns[i * q.stride + n], code);
            largest = fmaxf(largest, fabsf(value));
        }
    }
    assert_true(fetch_largest(lab, q) == largest);
    free(values);
    free(by_rows);
    free(by_columns);
}

static const int64_t shapes[][2] = {{16, 16}, {128, 64}, {144, 80}, {400, 208}, {1024, 48}};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static void test_quant__codes_by_rows_and_columns(void **state)
{
    (void)state;
    for (int b = 0; b < backend_count; b++) {
        for (size_t s = 0; s < SHAPES; s++) {
            Lab lab;
            lab_open(&lab, backends[b], (uint32_t)s);
            int64_t rows = shapes[s][0], width = shapes[s][1];
            Tensor x = random_tensor(&lab, DT_BF16, 2, rows, width, 3);
            Tensor sums = random_tensor(&lab, DT_F32, 1, width, 1, 1);
            float *before = fetch(&lab, sums);
            Quant q = quant_room(&lab, rows, width, 32, 2);
            op_quantise(&lab.c, x, q, sums, MODE_ADD);
            assert_codes(&lab, q, x, 2);
            if (backends[b]->ops.quant_turn != NULL) { /* the columns again, from rows alone */
                Quant turned = quant_room(&lab, rows, width, 48, 2);
                turned.rows = q.rows, turned.largest = q.largest;
                op_quant_turn(&lab.c, turned);
                assert_codes(&lab, turned, x, 2);
            }
            void *values = fetch(&lab, x);
            float *after = fetch(&lab, sums);
            for (int64_t i = 0; i < width; i++) {
                double sum = before[i], size = fabs(sum);
                for (int64_t n = 0; n < rows; n++) {
                    double value = number(values, x.dtype, n * width + i);
                    sum += value;
                    size += fabs(value);
                }
                assert_true(fabs(after[i] - sum) <= 1e-6 * size);
            }
            free(before);
            free(values);
            free(after);
            lab_close(&lab);
        }
    }
}

/* Rows without columns, of any number, and the largest value without either. */
static void test_quant__rows_alone_may_be_any(void **state)
{
    (void)state;
    static const int64_t heights[] = {1, 7, 130};
    for (int i = 0; i < 3 * backend_count; i++) {
        Lab lab;
        lab_open(&lab, backends[i / 3], (uint32_t)i);
        int64_t rows = heights[i % 3], width = 64;
        Tensor x = random_tensor(&lab, i % 2 == 0 ? DT_BF16 : DT_F32, 2, rows, width, 3);
        Quant q = quant_room(&lab, rows, width, 0, 4), none = quant_room(&lab, 16, 16, 0, 4);
        q.columns = none.columns = none.rows = TENSOR_NONE;
        op_quantise(&lab.c, x, q, TENSOR_NONE, MODE_SET);
        op_quantise(&lab.c, x, none, TENSOR_NONE, MODE_SET);
        void *values = fetch(&lab, x), *codes = fetch(&lab, q.rows);
        float largest = 0;
        for (int64_t k = 0; k < rows * width; k++) {
            float value = f32_from_bf16(bf16_from_f32((float)number(values, x.dtype, k)));
            assert_int_equal(((uint8_t *)codes)[k], e4m3_from_f32(value * 4));
            largest = fmaxf(largest, fabsf(value));
        }
        assert_true(fetch_largest(&lab, q) == largest && fetch_largest(&lab, none) == largest);
        free(values);
        free(codes);
        lab_close(&lab);
    }
}

/* A pass that is not watched leaves the largest value alone; a NaN is never lost. */
static void test_quant__watches(void **state)
{
    (void)state;
    for (int b = 0; b < backend_count; b++) {
        Lab lab;
        lab_open(&lab, backends[b], 5);
        Tensor x = random_tensor(&lab, DT_BF16, 2, 16, 32, 1);
        Quant q = quant_room(&lab, 16, 32, 0, 1);
        lab.c.watching = false;
        op_quantise(&lab.c, x, q, TENSOR_NONE, MODE_SET);
        assert_true(fetch_largest(&lab, q) == 0);
        lab.c.watching = true;
        const uint16_t odd[2] = {bf16_from_f32(NAN), bf16_from_f32(3e30f)};
        Backend *backend = lab.c.backend;
        backend->upload(backend, (uint16_t *)x.data + 77, odd, sizeof odd);
        op_quantise(&lab.c, x, q, TENSOR_NONE, MODE_SET);
        op_quantise(&lab.c, random_tensor(&lab, DT_BF16, 2, 16, 32, 1), q, TENSOR_NONE, MODE_SET);
        assert_true(isnan(fetch_largest(&lab, q)));
        lab_close(&lab);
    }
}

static void test_quant__scales_follow_the_largest(void **state)
{
    (void)state;
    /* largest of an update, held before, held after, factor after (0: as it was, NaN: none) */
    const double cases[][4] = {{1, 0, 1, 128},
                               {2, 1, 2, 64},
                               {0.875, 0, 0.875, 256},
                               {0.876, 0, 0.876, 128},
                               {0.5, 1, 0.9375, 128},
                               {0, 1, 1, 128},
                               {0, 0, 0, 0},
                               {224, 0, 224, 1},
                               {448, 0, 448, 0.5},
                               {1e-20, 0, 1e-20, 0x1p74},
                               {INFINITY, 1, NAN, NAN},
                               {NAN, 1, NAN, NAN},
                               {1, NAN, NAN, NAN}};
    enum { COUNT = sizeof cases / sizeof cases[0] };
    for (int b = 0; b < backend_count; b++) {
        Lab lab;
        lab_open(&lab, backends[b], 1);
        Backend *backend = lab.c.backend;
        Tensor scales = room(&lab, DT_F32, 2, COUNT, SCALE_COUNT);
        Tensor largest = room(&lab, DT_F32, 2, COUNT, 3);
        float host[COUNT][SCALE_COUNT] = {{0}}, seen[COUNT][3] = {{0}};
        for (int i = 0; i < COUNT; i++) {
            host[i][SCALE_HELD] = (float)cases[i][1];
            seen[i][i % 3] = (float)cases[i][0];
            seen[i][(i + 1) % 3] = isfinite(cases[i][0]) ? (float)cases[i][0] / 2 : 1;
        }
        backend->upload(backend, scales.data, host, sizeof host);
        backend->upload(backend, largest.data, seen, sizeof seen);
        op_rescale(&lab.c, scales, largest);
        float *after = fetch(&lab, scales), *rest = fetch(&lab, largest);
        for (int i = 0; i < COUNT; i++) {
            const float *scale = after + i * SCALE_COUNT;
            float held = (float)cases[i][2], factor = (float)cases[i][3];
            assert_true(rest[3 * i] == 0 && rest[3 * i + 1] == 0 && rest[3 * i + 2] == 0);
            assert_true(isnan(held) ? isnan(scale[SCALE_HELD]) : scale[SCALE_HELD] == held);
            assert_true(isnan(factor) ? isnan(scale[SCALE_FACTOR]) : scale[SCALE_FACTOR] == factor);
            assert_true(isnan(factor) || factor == 0 || scale[SCALE_INVERSE] == 1 / factor);
        }
        free(after);
        free(rest);
        lab_close(&lab);
    }
}

/* Of a code by rows, by columns. */
static double by_row(const uint8_t *codes, int64_t width, int64_t n, int64_t i, double factor)
{
    return meaning(codes[n * width + i]) / factor;
}

/* sum over k of a(i,k) b(j,k), against what was computed. */
static void assert_product(Lab *lab, Tensor got, const double *before, int64_t inner,
                           const double *a, const double *b, const double *bias)
{
    void *values = fetch(lab, got);
    double rounding = got.dtype == DT_BF16 ? 0x1p-8 : 1e-6;
    for (int64_t i = 0; i < got.dim[0]; i++) {
        for (int64_t j = 0; j < got.dim[1]; j++) {
            double sum = bias != NULL ? bias[j] : 0, size = fabs(sum);
            sum += before != NULL ? before[i * got.dim[1] + j] : 0;
            for (int64_t k = 0; k < inner; k++) {
                double part = a[i * inner + k] * b[j * inner + k];
                sum += part;
                size += fabs(part);
            }
            double found = number(values, got.dtype, i * got.dim[1] + j);
            /* tensor cores cut products off behind 13 bits of the largest of a group */
            double bound = rounding * fabs(sum) + 2e-3 * size;
            if (!(fabs(found - sum) <= bound)) {
                print_error("(%lld, %lld) inner %lld: %g instead of %g, size %g\n", (long long)i,
                            (long long)j, (long long)inner, found, sum, size);
            }
            assert_true(fabs(found - sum) <= bound);
        }
    }
    free(values);
}

/* What the codes of q stand for: (rows, width), or turned. */
static double *numbers_of(Lab *lab, Quant q, int64_t rows, int64_t width, double factor,
                          bool turned)
{
    uint8_t *codes = fetch(lab, q.rows);
    double *out = mem_alloc((size_t)(rows * width) * sizeof *out);
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < width; i++) {
            out[turned ? i * rows + n : n * width + i] = by_row(codes, width, n, i, factor);
        }
    }
    free(codes);
    return out;
}

static double *wide(Lab *lab, Tensor t)
{
    void *host = fetch(lab, t);
    double *out = mem_alloc((size_t)tensor_count(t) * sizeof *out);
    for (int64_t i = 0; i < tensor_count(t); i++) {
        out[i] = number(host, t.dtype, i);
    }
    free(host);
    return out;
}

static void test_quant__products(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{16, 16, 16}, {48, 32, 64}, {128, 256, 80}}; /* rows, in, out */
    for (int b = 0; b < backend_count; b++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            Lab lab;
            lab_open(&lab, backends[b], (uint32_t)(100 + s));
            Ctx *c = &lab.c;
            int64_t rows = sizes[s][0], in = sizes[s][1], out = sizes[s][2];
            Quant x = quant_room(&lab, rows, in, 0, 4), w = quant_room(&lab, out, in, 0, 64),
                  dy = quant_room(&lab, rows, out, 16, 1024);
            op_quantise(c, random_tensor(&lab, DT_BF16, 2, rows, in, 1), x, TENSOR_NONE, MODE_SET);
            op_quantise(c, random_tensor(&lab, DT_BF16, 2, out, in, 0.02f), w, TENSOR_NONE,
                        MODE_SET);
            op_quantise(c, random_tensor(&lab, DT_BF16, 2, rows, out, 1e-3f), dy, TENSOR_NONE,
                        MODE_SET);
            double *xs = numbers_of(&lab, x, rows, in, 4, false),
                   *ws = numbers_of(&lab, w, out, in, 64, false),
                   *slopes = numbers_of(&lab, dy, rows, out, 1024, false),
                   *xt = numbers_of(&lab, x, rows, in, 4, true),
                   *wt = numbers_of(&lab, w, out, in, 64, true),
                   *slopes_t = numbers_of(&lab, dy, rows, out, 1024, true);
            Tensor bias = random_tensor(&lab, DT_BF16, 1, out, 1, 1);
            Tensor y = room(&lab, DT_BF16, 2, rows, out), dx = room(&lab, DT_BF16, 2, rows, in);
            Tensor dw = random_tensor(&lab, DT_F32, 2, out, in, 1);
            double *biases = wide(&lab, bias), *before = wide(&lab, dw);
            op_quant_forward(c, x, w, bias, y);
            assert_product(&lab, y, NULL, in, xs, ws, biases);
            op_quant_backward_input(c, dy, w, dx, MODE_SET);
            assert_product(&lab, dx, NULL, out, slopes, wt, NULL);
            op_quant_backward_weight(c, x, dy, dw, MODE_ADD);
            assert_product(&lab, dw, before, rows, slopes_t, xt, NULL);
            double *all[] = {xs, ws, slopes, xt, wt, slopes_t, biases, before};
            for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
                free(all[i]);
            }
            lab_close(&lab);
        }
    }
}

/* --- fused ops --- */

typedef struct {
    Tensor x, h, r, stats, weight, bias, dy, sums, logits, targets, losses;
    Quant q;
} Fused;

static const int64_t fused_shapes[][2] = {{16, 32}, {144, 96}, {256, 208}};

enum {
    FUSED_NORM,
    FUSED_ADD_NORM,
    FUSED_ACT,
    FUSED_GATED,
    FUSED_ACT_BACK,
    FUSED_GATED_BACK,
    FUSED_XENT,
    FUSED_CAPPED_XENT,
    FUSED_KINDS
};

static void call_fused(Lab *lab, int kind, int64_t rows, int64_t width, Activation act, Fused *f)
{
    Ctx *c = &lab->c;
    bool gated = kind == FUSED_GATED || kind == FUSED_GATED_BACK;
    int64_t whole = gated ? 2 * width : width;
    *f = (Fused){.x = random_tensor(lab, DT_BF16, 2, rows, whole, 1),
                 .h = random_tensor(lab, DT_BF16, 2, rows, width, 1),
                 .r = room(lab, DT_BF16, 2, rows, width),
                 .stats = room(lab, DT_F32, 2, rows, 2),
                 .weight = random_tensor(lab, DT_BF16, 1, width, 1, 1),
                 .bias = random_tensor(lab, DT_BF16, 1, width, 1, 1),
                 .dy = random_tensor(lab, DT_BF16, 2, rows, width, 0.01f),
                 .sums = random_tensor(lab, DT_F32, 1, whole, 1, 1),
                 .targets = room(lab, DT_I32, 1, rows, 1),
                 .losses = room(lab, DT_F32, 1, rows, 1)};
    Norm norm = {kind == FUSED_NORM ? NORM_RMS : NORM_LAYER, 1e-5, f->weight,
                 kind == FUSED_NORM ? TENSOR_NONE : f->bias};
    switch (kind) {
    case FUSED_NORM:
    case FUSED_ADD_NORM:
        f->q = quant_room(lab, rows, width, 16, 8);
        op_quant_norm(c, f->x, kind == FUSED_NORM ? TENSOR_NONE : f->h, norm, f->r, f->q, f->stats);
        break;
    case FUSED_ACT:
    case FUSED_GATED:
        f->q = quant_room(lab, rows, width, 0, 8);
        op_quant_act(c, act, gated, f->x, f->q);
        break;
    case FUSED_ACT_BACK:
    case FUSED_GATED_BACK:
        f->q = quant_room(lab, rows, whole, 0, 1024);
        op_quant_act_backward(c, act, gated, f->dy, f->x, f->q, f->sums, MODE_ADD);
        break;
    default: {
        int32_t *ids = mem_zalloc((size_t)rows, sizeof *ids);
        for (int64_t i = 0; i < rows; i++) {
            ids[i] = i % 5 == 0 ? -1 : (int32_t)(i * 7 % (width - 3));
        }
        c->backend->upload(c->backend, f->targets.data, ids, tensor_bytes(f->targets));
        c->backend->sync(c->backend);
        free(ids);
        f->q = quant_room(lab, rows, width, 0, 4096);
        op_quant_xent(c, f->x, width - 3, kind == FUSED_CAPPED_XENT ? 0.7 : 0, f->targets,
                      f->losses, 1e-2, f->q);
    }
    }
}

/* Codes in the order of their numbers; both zeros are 0. */
static int place_of(uint8_t code)
{
    return code < 128 ? code : 128 - code;
}

/* How many codes differ, and by more than one place. */
static void count_different(const uint8_t *a, const uint8_t *b, int64_t count, int *different,
                            int *far)
{
    for (int64_t i = 0; i < count; i++) {
        int apart = abs(place_of(a[i]) - place_of(b[i]));
        *different += apart > 0;
        *far += apart > 1;
    }
}

/* Against the composed form on the same backend every bit is the same. Against ref, whose sums and
 * exponentials are rounded differently, few values fall on the other side of a rounding. */
static void test_quant__fused_is_composed(void **state)
{
    (void)state;
    const Activation acts[] = {ACT_SILU, ACT_GELU, ACT_RELU2};
    for (int b = 0; b < backend_count; b++) {
        for (int kind = 0; kind < FUSED_KINDS; kind++) {
            for (size_t s = 0; s < 9; s++) {
                int64_t rows = fused_shapes[s / 3][0], width = fused_shapes[s / 3][1];
                Lab labs[3];
                Fused made[3];
                for (int i = 0; i < 3; i++) {
                    lab_open(&labs[i], backends[i == 2 ? 0 : b], (uint32_t)(kind * 10 + (int)s));
                    labs[i].c.composed = i > 0;
                    call_fused(&labs[i], kind, rows, width, acts[s % 3], &made[i]);
                }
                uint8_t *codes[3], *columns[3];
                int64_t count = tensor_count(made[0].q.rows);
                for (int i = 0; i < 3; i++) {
                    codes[i] = fetch(&labs[i], made[i].q.rows);
                    columns[i] = fetch_columns(&labs[i], made[i].q);
                    for (int64_t at = 0; at < count; at++) {
                        int64_t w = made[i].q.rows.dim[1], n = at / w, k = at % w;
                        assert_int_equal(codes[i][at], columns[i][k * made[i].q.stride + n]);
                    }
                }
                int different = 0, far = 0;
                count_different(codes[0], codes[1], count, &different, &far);
                assert_int_equal(different, 0);
                count_different(codes[0], codes[2], count, &different, &far);
                if (different > 2 + count / 50 || far > 0) {
                    print_error("kind %d, (%lld, %lld): %d of %lld codes differ, %d by far\n", kind,
                                (long long)rows, (long long)width, different, (long long)count,
                                far);
                }
                assert_true(different <= 2 + count / 50 && far == 0);
                assert_true(fetch_largest(&labs[0], made[0].q) ==
                            fetch_largest(&labs[1], made[1].q));
                float *sums[2] = {fetch(&labs[0], made[0].sums), fetch(&labs[1], made[1].sums)};
                assert_memory_equal(sums[0], sums[1], tensor_bytes(made[0].sums));
                for (int i = 0; i < 3; i++) {
                    free(codes[i]);
                    free(columns[i]);
                    free(i < 2 ? sums[i] : NULL);
                    lab_close(&labs[i]);
                }
            }
        }
    }
}

int main(void)
{
    setenv("PACER_TUNE", "off", 1); /* shapes are tiny */
    backends[backend_count++] = ref_backend_open();
    if (cuda_backend_open(0, &backends[backend_count]) != 0 ||
        backends[backend_count]->quant_refusal(backends[backend_count]) != NULL) {
        printf("without a GPU: %s\n", err_message());
    } else {
        backend_count++;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quant__codes_are_what_they_stand_for),
        cmocka_unit_test(test_quant__rounds_to_nearest_even),
        cmocka_unit_test(test_quant__codes_by_rows_and_columns),
        cmocka_unit_test(test_quant__rows_alone_may_be_any),
        cmocka_unit_test(test_quant__watches),
        cmocka_unit_test(test_quant__scales_follow_the_largest),
        cmocka_unit_test(test_quant__products),
        cmocka_unit_test(test_quant__fused_is_composed),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < backend_count; i++) {
        backends[i]->close(backends[i]);
    }
    return failed;
}
