/* Activations of the feed-forward part: silu(x) = x s(x) with s the logistic function, gelu in the
 * tanh form, and relu2(x) = max(x, 0)^2. */
#include "ref/gelu.h"
#include "ref/ref.h"

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double value_of(Activation act, double x)
{
    switch (act) {
    case ACT_SILU:
        return x * sigmoid(x);
    case ACT_GELU:
        return ref_gelu(x);
    case ACT_RELU2:
        break;
    }
    return x <= 0 ? 0 : x * x;
}

static double slope_of(Activation act, double x)
{
    double s = sigmoid(x);
    switch (act) {
    case ACT_SILU:
        return s * (1 + x * (1 - s));
    case ACT_GELU:
        return ref_gelu_slope(x);
    case ACT_RELU2:
        break;
    }
    return x <= 0 ? 0 : 2 * x;
}

/* y (N,F) = act(gate) * up; gate_up (N,2F) */
static void gated_forward(Ctx *c, Activation act, Tensor gate_up, Tensor y)
{
    (void)c;
    int64_t rows = y.dim[0], width = y.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < width; i++) {
            double gate = ref_get(gate_up, n * 2 * width + i);
            double up = ref_get(gate_up, n * 2 * width + width + i);
            ref_put(y, n * width + i, value_of(act, gate) * up);
        }
    }
}

/* dgate_up may be gate_up. */
static void gated_backward(Ctx *c, Activation act, Tensor dy, Tensor gate_up, Tensor dgate_up)
{
    (void)c;
    int64_t rows = dy.dim[0], width = dy.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        for (int64_t i = 0; i < width; i++) {
            int64_t gate_at = n * 2 * width + i, up_at = gate_at + width;
            double gate = ref_get(gate_up, gate_at), up = ref_get(gate_up, up_at);
            double d = ref_get(dy, n * width + i);
            ref_put(dgate_up, gate_at, d * up * slope_of(act, gate));
            ref_put(dgate_up, up_at, d * value_of(act, gate));
        }
    }
}

static void act_forward(Ctx *c, Activation act, Tensor x, Tensor y)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        ref_put(y, i, value_of(act, ref_get(x, i)));
    }
}

/* dx may be dy or x. */
static void act_backward(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx)
{
    (void)c;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        ref_put(dx, i, ref_get(dy, i) * slope_of(act, ref_get(x, i)));
    }
}

void ref_fill_mlp(Ops *ops)
{
    ops->gated_forward = gated_forward;
    ops->gated_backward = gated_backward;
    ops->act_forward = act_forward;
    ops->act_backward = act_backward;
}
