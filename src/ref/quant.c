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

static double code_at(Tensor codes, int64_t i)
{
    return f32_from_e4m3(((const uint8_t *)codes.data)[i]);
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
    if (c->watching && !(largest <= *seen) && !isnan(*seen)) {
        *seen = largest;
    }
}

static void rescale(Ctx *c, Tensor scales, Tensor largest, double share)
{
    (void)c;
    for (int64_t i = 0; i < scales.dim[0]; i++) {
        float *scale = (float *)scales.data + i * SCALE_COUNT, *seen = (float *)largest.data + i;
        float now = (float)(*seen * share), held = scale[SCALE_HELD];
        if (now != 0) {
            held = now > held * SCALE_DECAY ? now : held * SCALE_DECAY;
        }
        if (!isfinite(now) || !isfinite(held)) {
            held = scale[SCALE_FACTOR] = scale[SCALE_INVERSE] = NAN;
        } else if (held > 0) {
            int power = SCALE_MOST;
            while (power > -SCALE_MOST && ldexp(held, power) > E4M3_MOST / 2) {
                power--;
            }
            scale[SCALE_FACTOR] = ldexpf(1, power);
            scale[SCALE_INVERSE] = ldexpf(1, -power);
        }
        scale[SCALE_HELD] = held;
        *seen = 0;
    }
}

/* y (N,O) = x (N,I) w^T + bias (O) */
static void quant_forward(Ctx *c, Quant x, Quant w, Tensor bias, Tensor y)
{
    (void)c;
    int64_t rows = y.dim[0], outputs = y.dim[1], inputs = x.rows.dim[1];
    double unit = inverse_of(x) * inverse_of(w);
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t o = 0; o < outputs; o++) {
            double sum = 0;
            for (int64_t i = 0; i < inputs; i++) {
                sum += code_at(x.rows, n * inputs + i) * code_at(w.rows, o * inputs + i);
            }
            ref_put(y, n * outputs + o, sum * unit + (tensor_given(bias) ? ref_get(bias, o) : 0));
        }
    }
}

/* dx (N,I) = or += dy (N,O) w (O,I) */
static void quant_backward_input(Ctx *c, Quant dy, Quant w, Tensor dx, Mode mode)
{
    (void)c;
    int64_t rows = dx.dim[0], inputs = dx.dim[1], outputs = dy.rows.dim[1];
    double unit = inverse_of(dy) * inverse_of(w);
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (int64_t o = 0; o < outputs; o++) {
                sum += code_at(dy.rows, n * outputs + o) * code_at(w.columns, i * w.stride + o);
            }
            ref_store(dx, n * inputs + i, sum * unit, mode);
        }
    }
}

/* dw (O,I) = or += dy^T (O,N) x (N,I) */
static void quant_backward_weight(Ctx *c, Quant x, Quant dy, Tensor dw, Mode mode)
{
    (void)c;
    int64_t outputs = dw.dim[0], inputs = dw.dim[1], rows = x.columns.dim[1];
    double unit = inverse_of(x) * inverse_of(dy);
    for (int64_t o = 0; o < outputs; o++) {
        for (int64_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (int64_t n = 0; n < rows; n++) {
                sum +=
                    code_at(dy.columns, o * dy.stride + n) * code_at(x.columns, i * x.stride + n);
            }
            ref_store(dw, o * inputs + i, sum * unit, mode);
        }
    }
}

void ref_fill_quant(Ops *ops)
{
    ops->quantise = quantise;
    ops->rescale = rescale;
    ops->quant_forward = quant_forward;
    ops->quant_backward_input = quant_backward_input;
    ops->quant_backward_weight = quant_backward_weight;
}
