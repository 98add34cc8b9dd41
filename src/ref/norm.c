/* The residual stream: addition, scaling and normalisation. With xhat = (x - mean) * rstd over a
 * row of C, y = xhat * weight + bias, where RMS norm takes mean = 0 and has no bias. */
#include "ref/ref.h"

/* out = a + b; out may be a or b. */
static void add(Ctx *c, Tensor a, Tensor b, Tensor out)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(out); i++) {
        ref_put(out, i, ref_get(a, i) + ref_get(b, i));
    }
}

static void scale(Ctx *c, Tensor x, double factor, double cap, Tensor out)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(out); i++) {
        double value = factor * ref_get(x, i);
        ref_put(out, i, cap > 0 ? cap * tanh(value / cap) : value);
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

static void norm_pieces(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights)
{
    (void)c;
    int64_t rows = x.dim[0] / dweights.dim[0];
    for (int64_t piece = 0; piece < dweights.dim[0]; piece++) {
        int64_t first = piece * rows;
        parameter_backward(
            tensor_rows(dy, first, rows), tensor_rows(x, first, rows),
            tensor_rows(stats, first, rows),
            tensor_1d(tensor_rows(dweights, piece, 1).data, dweights.dtype, x.dim[1]), TENSOR_NONE,
            MODE_SET);
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

/* 1 / sqrt(mean square + eps) of the head at `at`. */
static double head_rstd(Tensor qkv, int64_t at, int64_t width, double eps)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++) {
        sum += ref_get(qkv, at + i) * ref_get(qkv, at + i);
    }
    return 1 / sqrt(sum / (double)width + eps);
}

static void head_norm_forward(Ctx *c, Tensor qkv, HeadShape s, HeadNorm norm, Tensor out)
{
    (void)c;
    int64_t rows = qkv.dim[0], heads = s.heads + 2 * s.kv_heads, width = s.head_dim;
    for (int64_t n = 0; n < rows * heads; n++) {
        int64_t head = n % heads, at = n * width;
        bool normed = head < s.heads + s.kv_heads;
        double rstd = normed ? head_rstd(qkv, at, width, norm.eps) : 1;
        for (int64_t i = 0; i < width; i++) {
            double weight = normed ? ref_get(head < s.heads ? norm.q : norm.k, i) : 1;
            ref_put(out, at + i, ref_get(qkv, at + i) * rstd * weight);
        }
    }
}

/* dweight (D) = or += sum over rows and heads [first, last) of dout * xhat. */
static void head_weight_backward(Tensor dout, Tensor qkv, HeadShape s, double eps, int64_t first,
                                 int64_t last, Tensor dweight, Mode mode)
{
    int64_t rows = qkv.dim[0], width = s.head_dim;
    for (int64_t i = 0; i < width; i++) {
        double sum = 0;
        for (int64_t n = 0; n < rows; n++) {
            for (int64_t head = first; head < last; head++) {
                int64_t at = n * packed_width(s) + head * width;
                sum +=
                    ref_get(dout, at + i) * ref_get(qkv, at + i) * head_rstd(qkv, at, width, eps);
            }
        }
        ref_store(dweight, i, sum, mode);
    }
}

/* dx = rstd * (g - xhat * mean(g * xhat)) with g = dout * weight. dqkv may be dout, so the weights
 * come first. */
static void head_norm_backward(Ctx *c, Tensor dout, Tensor qkv, HeadShape s, HeadNorm norm,
                               Tensor dqkv, Tensor dq, Tensor dk, Mode mode, void *ws)
{
    (void)c;
    (void)ws;
    int64_t rows = qkv.dim[0], heads = s.heads + 2 * s.kv_heads, width = s.head_dim;
    head_weight_backward(dout, qkv, s, norm.eps, 0, s.heads, dq, mode);
    head_weight_backward(dout, qkv, s, norm.eps, s.heads, s.heads + s.kv_heads, dk, mode);
    for (int64_t n = 0; n < rows * heads; n++) {
        int64_t head = n % heads, at = n * width;
        bool normed = head < s.heads + s.kv_heads;
        Tensor weight = head < s.heads ? norm.q : norm.k;
        double rstd = normed ? head_rstd(qkv, at, width, norm.eps) : 1, mean = 0;
        for (int64_t i = 0; normed && i < width; i++) {
            double xhat = ref_get(qkv, at + i) * rstd;
            mean += ref_get(dout, at + i) * ref_get(weight, i) * xhat / (double)width;
        }
        for (int64_t i = 0; i < width; i++) {
            double g = ref_get(dout, at + i) * (normed ? ref_get(weight, i) : 1);
            ref_put(dqkv, at + i, rstd * (g - ref_get(qkv, at + i) * rstd * mean));
        }
    }
}

void ref_fill_norm(Ops *ops)
{
    ops->add = add;
    ops->scale = scale;
    ops->norm_forward = norm_forward;
    ops->norm_backward = norm_backward;
    ops->norm_pieces = norm_pieces;
    ops->head_norm_forward = head_norm_forward;
    ops->head_norm_backward = head_norm_backward;
}
