#include "ref/gelu.h"
#include "ref/ref.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* y (N,F) = silu(gate) * up, silu(g) = g sigmoid(g); gate_up (N,2F) */
static void swiglu_forward(Ctx *c, Tensor gate_up, Tensor y)
{
    (void)c;
    int64_t rows = y.dim[0], width = y.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < width; i++) {
            double gate = ref_get(gate_up, n * 2 * width + i);
            double up = ref_get(gate_up, n * 2 * width + width + i);
            ref_put(y, n * width + i, gate * sigmoid(gate) * up);
        }
    }
}

/* silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g). dgate_up may be gate_up. */
static void swiglu_backward(Ctx *c, Tensor dy, Tensor gate_up, Tensor dgate_up)
{
    (void)c;
    int64_t rows = dy.dim[0], width = dy.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < width; i++) {
            int64_t gate_at = n * 2 * width + i, up_at = gate_at + width;
            double gate = ref_get(gate_up, gate_at), up = ref_get(gate_up, up_at);
            double g = ref_get(dy, n * width + i), s = sigmoid(gate);
            ref_put(dgate_up, gate_at, g * up * s * (1 + gate * (1 - s)));
            ref_put(dgate_up, up_at, g * gate * s);
        }
    }
}

static void gelu_forward(Ctx *c, Tensor x, Tensor y)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        ref_put(y, i, ref_gelu(ref_get(x, i)));
    }
}

/* dx may be dy or x. */
static void gelu_backward(Ctx *c, Tensor dy, Tensor x, Tensor dx)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        ref_put(dx, i, ref_get(dy, i) * ref_gelu_slope(ref_get(x, i)));
    }
}

void ref_fill_mlp(Ops *ops)
{
    ops->swiglu_forward = swiglu_forward;
    ops->swiglu_backward = swiglu_backward;
    ops->gelu_forward = gelu_forward;
    ops->gelu_backward = gelu_backward;
}
