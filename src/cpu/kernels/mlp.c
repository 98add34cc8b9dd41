/* Feed-forward activations. With s the logistic function, silu(x) = x s(x), and the tanh form of
 * gelu is x s(2u) for u = sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 = s(2u). Each loop
 * over a stretch is compiled once per activation. */
#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

/* act(x) and act'(x): of silu s + x s (1 - s), of gelu s + x s (1 - s) d(2u)/dx. */
typedef struct {
    Vec value, slope;
} Slopes;

VEC_INLINE Slopes slopes_of(Activation act, Vec x)
{
    if (act == ACT_RELU2) {
        Vec above = vec_max(vec_set(0), x);
        return (Slopes){above * above, above + above};
    }
    Vec square = x * x;
    if (act == ACT_SILU) {
        Vec s = vec_sigmoid(x), value = x * s;
        return (Slopes){value, vec_fma(value, 1.0f - s, s)};
    }
    Vec s = vec_sigmoid(x * vec_fma(square, vec_set(GELU_CUBIC), vec_set(GELU_LINEAR)));
    Vec inner = vec_fma(square, vec_set(3 * GELU_CUBIC), vec_set(GELU_LINEAR));
    return (Slopes){x * s, vec_fma(x * s * (1.0f - s), inner, s)};
}

/* call(ACT_...): the activation as a constant, so that each has a loop of its own. */
#define BY_KIND(act, call) \
    switch (act) {         \
    case ACT_SILU:         \
        call(ACT_SILU);    \
        break;             \
    case ACT_GELU:         \
        call(ACT_GELU);    \
        break;             \
    case ACT_RELU2:        \
        call(ACT_RELU2);   \
        break;             \
    }

/* y = act(x), times up where that is given. */
VEC_INLINE void act_step(Activation act, const Elem *x, const Elem *up, Elem *y, int64_t i,
                         int64_t count)
{
    Vec value = slopes_of(act, elem_load_part(x + i, count)).value;
    elem_store_part(y + i, up != NULL ? value * elem_load_part(up + i, count) : value, count);
}

VEC_INLINE void act_row(Activation act, const Elem *x, const Elem *up, Elem *y, int64_t width)
{
    int64_t i = 0;
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        act_step(act, x, up, y, i, VEC_LANES);
    }
    if (i < width) {
        act_step(act, x, up, y, i, width - i);
    }
}

static void gated_forward(Ctx *c, Activation act, Tensor gate_up, Tensor y)
{
    int64_t rows = y.dim[0], width = y.dim[1];
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const Elem *gate = (const Elem *)gate_up.data + row * 2 * width, *up = gate + width;
        Elem *to = (Elem *)y.data + row * width;
#define ROW(kind) act_row(kind, gate, up, to, width)
        BY_KIND(act, ROW)
#undef ROW
    }
}

static void act_forward(Ctx *c, Activation act, Tensor x, Tensor y)
{
    int64_t count = tensor_count(x);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        const Elem *from = (const Elem *)x.data + s.first;
        Elem *to = (Elem *)y.data + s.first;
#define PART(kind) act_row(kind, from, NULL, to, s.last - s.first)
        BY_KIND(act, PART)
#undef PART
    }
}

/* dx and, where up is given, dup; they may be x and up. */
VEC_INLINE void act_step_backward(Activation act, const Elem *dy, const Elem *x, const Elem *up,
                                  Elem *dx, Elem *dup, int64_t i, int64_t count)
{
    Vec d = elem_load_part(dy + i, count);
    Slopes at = slopes_of(act, elem_load_part(x + i, count));
    if (up == NULL) {
        elem_store_part(dx + i, d * at.slope, count);
        return;
    }
    Vec u = elem_load_part(up + i, count);
    elem_store_part(dx + i, d * u * at.slope, count);
    elem_store_part(dup + i, d * at.value, count);
}

VEC_INLINE void act_row_backward(Activation act, const Elem *dy, const Elem *x, const Elem *up,
                                 Elem *dx, Elem *dup, int64_t width)
{
    int64_t i = 0;
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        act_step_backward(act, dy, x, up, dx, dup, i, VEC_LANES);
    }
    if (i < width) {
        act_step_backward(act, dy, x, up, dx, dup, i, width - i);
    }
}

static void gated_backward(Ctx *c, Activation act, Tensor dy, Tensor gate_up, Tensor dgate_up)
{
    int64_t rows = dy.dim[0], width = dy.dim[1];
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const Elem *d = (const Elem *)dy.data + row * width;
        const Elem *gate = (const Elem *)gate_up.data + row * 2 * width, *up = gate + width;
        Elem *dgate = (Elem *)dgate_up.data + row * 2 * width, *dup = dgate + width;
#define ROW(kind) act_row_backward(kind, d, gate, up, dgate, dup, width)
        BY_KIND(act, ROW)
#undef ROW
    }
}

static void act_backward(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx)
{
    int64_t count = tensor_count(x);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        const Elem *d = (const Elem *)dy.data + s.first, *from = (const Elem *)x.data + s.first;
        Elem *to = (Elem *)dx.data + s.first;
#define PART(kind) act_row_backward(kind, d, from, NULL, to, NULL, s.last - s.first)
        BY_KIND(act, PART)
#undef PART
    }
}

void PACER_ISA_NAME(mlp_fill)(Ops *ops)
{
    ops->gated_forward = gated_forward;
    ops->gated_backward = gated_backward;
    ops->act_forward = act_forward;
    ops->act_backward = act_backward;
}
