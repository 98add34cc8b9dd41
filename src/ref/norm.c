/* The residual stream: addition and normalisation. With xhat = (x - mean) * rstd over a row of C,
 * y = xhat * weight + bias, where RMS norm takes mean = 0 and has no bias. */
#include "ref/ref.h"

/* out = a + b; out may be a or b. */
static void add(Ctx *c, Tensor a, Tensor b, Tensor out)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(out); i++) {
        ref_put(out, i, ref_get(a, i) + ref_get(b, i));
    }
}

static double row_mean(Tensor x, int64_t row)
{
    int64_t width = x.dim[1];
    double sum = 0;
    for (int64_t i = 0; i < width; i++) {
        sum += ref_get(x, row * width + i);
    }
    return sum / (double)width;
}

/* Mean square distance of a row from `mean`. */
static double row_variance(Tensor x, int64_t row, double mean)
{
    int64_t width = x.dim[1];
    double sum = 0;
    for (int64_t i = 0; i < width; i++) {
        double distance = ref_get(x, row * width + i) - mean;
        sum += distance * distance;
    }
    return sum / (double)width;
}

static void norm_forward(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats)
{
    (void)c;
    int64_t rows = x.dim[0], width = x.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        double mean = norm.kind == NORM_LAYER ? row_mean(x, n) : 0;
        double rstd = 1 / sqrt(row_variance(x, n, mean) + norm.eps);
        for (int64_t i = 0; i < width; i++) {
            double xhat = (ref_get(x, n * width + i) - mean) * rstd;
            double bias = tensor_given(norm.bias) ? ref_get(norm.bias, i) : 0;
            ref_put(y, n * width + i, xhat * ref_get(norm.weight, i) + bias);
        }
        ref_put(stats, n * 2, mean);
        ref_put(stats, n * 2 + 1, rstd);
    }
}

/* dweight (C) = or += sum over rows of dy * xhat; dbias (C) = or += sum over rows of dy. */
static void parameter_backward(Tensor dy, Tensor x, Tensor stats, Tensor dweight, Tensor dbias,
                               Mode mode)
{
    int64_t rows = x.dim[0], width = x.dim[1];
    for (int64_t i = 0; i < width; i++) {
        double weight_sum = 0, bias_sum = 0;
        for (int64_t n = 0; n < rows; n++) {
            double xhat =
                (ref_get(x, n * width + i) - ref_get(stats, n * 2)) * ref_get(stats, n * 2 + 1);
            weight_sum += ref_get(dy, n * width + i) * xhat;
            bias_sum += ref_get(dy, n * width + i);
        }
        ref_store(dweight, i, weight_sum, mode);
        if (tensor_given(dbias)) {
            ref_store(dbias, i, bias_sum, mode);
        }
    }
}

/* With g = dy * weight: dx = rstd * (g - mean(g) - xhat * mean(g * xhat)), the means over the row;
 * RMS norm has no mean(g). An element of dx is written after the last read of it in dy. */
static void input_backward(Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx, Mode mode)
{
    int64_t rows = x.dim[0], width = x.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        double mean = ref_get(stats, n * 2), rstd = ref_get(stats, n * 2 + 1);
        double g_mean = 0, g_xhat_mean = 0;
        for (int64_t i = 0; i < width; i++) {
            double xhat = (ref_get(x, n * width + i) - mean) * rstd;
            double g = ref_get(dy, n * width + i) * ref_get(norm.weight, i);
            g_mean += g / (double)width;
            g_xhat_mean += g * xhat / (double)width;
        }
        if (norm.kind == NORM_RMS) {
            g_mean = 0;
        }
        for (int64_t i = 0; i < width; i++) {
            double xhat = (ref_get(x, n * width + i) - mean) * rstd;
            double g = ref_get(dy, n * width + i) * ref_get(norm.weight, i);
            ref_store(dx, n * width + i, rstd * (g - g_mean - xhat * g_xhat_mean), mode);
        }
    }
}

/* dx may be dy, so the parameters come first. */
static void norm_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx,
                          Mode dx_mode, Tensor dweight, Tensor dbias, Mode mode, void *ws)
{
    (void)c;
    (void)ws;
    parameter_backward(dy, x, stats, dweight, dbias, mode);
    input_backward(dy, x, norm, stats, dx, dx_mode);
}

void ref_fill_norm(Ops *ops)
{
    ops->add = add;
    ops->norm_forward = norm_forward;
    ops->norm_backward = norm_backward;
}
