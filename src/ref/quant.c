/* e4m3 in plain C: codes, scales, and products over codes with sums in double. */
#include "ref/ref.h"

static float factor_of(Quant q)
{
    return ((const float *)q.scale.data)[SCALE_FACTOR];
}

static double inverse_of(Quant q)
{
    return ((const float *)q.scale.data)[SCALE_INVERSE];
}

/* q (N,C) = x (N,C); dbias (C) = or += column sums of x */
static void quantise(Ctx *c, Tensor x, Quant q, Tensor dbias, Mode mode, void *ws)
{
    (void)ws;
    int64_t rows = x.dim[0], width = x.dim[1];
    float factor = factor_of(q), largest = 0;
    for (int64_t i = 0; i < width; i++) {
        double sum = 0;
        for (int64_t n = 0; n < rows; n++) {
            float value = f32_from_bf16(bf16_from_f32((float)ref_get(x, n * width + i)));
            float size = fabsf(value);
            uint8_t code = e4m3_from_f32(value * factor);
            if (tensor_given(q.rows)) {
                ((uint8_t *)q.rows.data)[n * width + i] = code;
            }
            if (tensor_given(q.columns)) {
                ((uint8_t *)q.columns.data)[i * q.stride + n] = code;
            }
            largest = size <= largest || isnan(largest) ? largest : size;
            sum += value;
        }
        if (tensor_given(dbias)) {
            ref_store(dbias, i, sum, mode);
        }
    }
    float *seen = q.largest.data;
    if (c->watching && seen != NULL && !(largest <= *seen) && !isnan(*seen)) {
        *seen = largest;
    }
}

static void quant_turn(Ctx *c, Quant q)
{
    (void)c;
    int64_t rows = q.rows.dim[0], width = q.rows.dim[1];
    const uint8_t *from = q.rows.data;
    uint8_t *to = q.columns.data;
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < width; i++) {
            to[i * q.stride + n] = from[n * width + i];
        }
    }
}

static void rescale(Ctx *c, Tensor scales, Tensor largest)
{
    (void)c;
    int64_t parts = largest.dim[1];
    for (int64_t i = 0; i < scales.dim[0]; i++) {
        float *scale = (float *)scales.data + i * SCALE_COUNT;
        float *seen = (float *)largest.data + i * parts, now = 0, held = scale[SCALE_HELD];
        for (int64_t part = 0; part < parts; part++) {
            now = seen[part] <= now || isnan(now) ? now : seen[part];
            seen[part] = 0;
        }
        if (now != 0) {
            held = now > held * SCALE_DECAY ? now : held * SCALE_DECAY;
        }
        if (!isfinite(now) || !isfinite(held)) {
            held = scale[SCALE_FACTOR] = scale[SCALE_INVERSE] = NAN;
        } else if (held > 0) {
            int power = SCALE_MOST;
            while (power > -SCALE_MOST && ldexp(held, power + SCALE_ROOM) > E4M3_MOST) {
                power--;
            }
            scale[SCALE_FACTOR] = ldexpf(1, power);
            scale[SCALE_INVERSE] = ldexpf(1, -power);
        }
        scale[SCALE_HELD] = held;
    }
}

/* One operand as a product reads it: codes whose rows, `stride` apart, hold the inner dimension. */
typedef struct {
    const uint8_t *codes;
    int64_t stride;
    double unit;
} Side;

static Side by_rows(Quant q)
{
    return (Side){q.rows.data, q.rows.dim[1], inverse_of(q)};
}

static Side by_columns(Quant q)
{
    return (Side){q.columns.data, q.stride, inverse_of(q)};
}

/* out (m,n) = or += a (m,inner) b (n,inner)^T + bias (n) */
static void multiply(Side a, Side b, int64_t inner, Tensor bias, Tensor out, Mode mode)
{
    for (int64_t i = 0; i < out.dim[0]; i++) {
        for (int64_t j = 0; j < out.dim[1]; j++) {
            const uint8_t *left = a.codes + i * a.stride, *right = b.codes + j * b.stride;
            double sum = 0;
            for (int64_t k = 0; k < inner; k++) {
                sum += (double)f32_from_e4m3(left[k]) * f32_from_e4m3(right[k]);
            }
            sum = sum * a.unit * b.unit + (tensor_given(bias) ? ref_get(bias, j) : 0);
            ref_store(out, i * out.dim[1] + j, sum, mode);
        }
    }
}

static void quant_forward(Ctx *c, Quant x, Quant w, Tensor bias, Tensor y)
{
    (void)c;
    multiply(by_rows(x), by_rows(w), x.rows.dim[1], bias, y, MODE_SET);
}

static void quant_backward_input(Ctx *c, Quant dy, Quant w, Tensor dx, Mode mode)
{
    (void)c;
    multiply(by_rows(dy), by_columns(w), dy.rows.dim[1], TENSOR_NONE, dx, mode);
}

static void quant_backward_weight(Ctx *c, Quant x, Quant dy, Tensor dw, Mode mode)
{
    (void)c;
    multiply(by_columns(dy), by_columns(x), x.columns.dim[1], TENSOR_NONE, dw, mode);
}

void ref_fill_quant(Ops *ops)
{
    ops->quantise = quantise;
    ops->quant_turn = quant_turn;
    ops->rescale = rescale;
    ops->quant_forward = quant_forward;
    ops->quant_backward_input = quant_backward_input;
    ops->quant_backward_weight = quant_backward_weight;
}
