#include "ref/ref.h"

/* y (N,O) = x (N,I) w^T + bias (O) */
static void linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y)
{
    (void)c;
    int64_t rows = x.dim[0], inputs = x.dim[1], outputs = w.dim[0];
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t o = 0; o < outputs; o++) {
            double sum = tensor_given(bias) ? ref_get(bias, o) : 0;
            for (int64_t i = 0; i < inputs; i++) {
                sum += ref_get(x, n * inputs + i) * ref_get(w, o * inputs + i);
            }
            ref_put(y, n * outputs + o, sum);
        }
    }
}

/* dx (N,I) = or += dy (N,O) w (O,I) */
static void linear_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode)
{
    (void)c;
    int64_t rows = dx.dim[0], inputs = dx.dim[1], outputs = w.dim[0];
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (int64_t o = 0; o < outputs; o++) {
                sum += ref_get(dy, n * outputs + o) * ref_get(w, o * inputs + i);
            }
            ref_store(dx, n * inputs + i, sum, mode);
        }
    }
}

/* dw (O,I) = or += dy^T (O,N) x (N,I), dbias (O) = or += column sums of dy */
static void linear_backward_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode,
                                   void *ws)
{
    (void)c;
    (void)ws;
    int64_t rows = x.dim[0], inputs = x.dim[1], outputs = dy.dim[1];
    for (int64_t o = 0; o < outputs; o++) {
        for (int64_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (int64_t n = 0; n < rows; n++) {
                sum += ref_get(dy, n * outputs + o) * ref_get(x, n * inputs + i);
            }
            ref_store(dw, o * inputs + i, sum, mode);
        }
        if (tensor_given(dbias)) {
            double sum = 0;
            for (int64_t n = 0; n < rows; n++) {
                sum += ref_get(dy, n * outputs + o);
            }
            ref_store(dbias, o, sum, mode);
        }
    }
}

void ref_fill_matmul(Ops *ops)
{
    ops->linear_forward = linear_forward;
    ops->linear_backward_input = linear_backward_input;
    ops->linear_backward_weight = linear_backward_weight;
}
