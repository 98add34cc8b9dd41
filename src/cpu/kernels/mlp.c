/* Feed-forward activations. With s the logistic function, silu(x) = x s(x), and the tanh form of
 * gelu is x s(2u) for u = sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 = s(2u). */
#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

/* y (F) = silu(gate) * up */
VEC_INLINE void swiglu_step(const float *gate, const float *up, float *y, int64_t i, int64_t count)
{
    Vec g = vec_load_part(gate + i, count);
    vec_store_part(y + i, g * vec_sigmoid(g) * vec_load_part(up + i, count), count);
}

static void swiglu_forward(Ctx *c, Tensor gate_up, Tensor y)
{
    if (y.dtype != DT_F32) {
        cpu_ref(c)->swiglu_forward(c, gate_up, y);
        return;
    }
    int64_t rows = y.dim[0], width = y.dim[1];
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const float *gate = (const float *)gate_up.data + row * 2 * width, *up = gate + width;
        float *to = (float *)y.data + row * width;
        int64_t i = 0;
        for (; i + VEC_LANES <= width; i += VEC_LANES) {
            swiglu_step(gate, up, to, i, VEC_LANES);
        }
        if (i < width) {
            swiglu_step(gate, up, to, i, width - i);
        }
    }
}

/* silu'(g) = s + g s (1 - s). dgate and dup may be gate and up. */
VEC_INLINE void swiglu_backward_step(const float *dy, const float *gate, const float *up,
                                     float *dgate, float *dup, int64_t i, int64_t count)
{
    Vec g = vec_load_part(gate + i, count), u = vec_load_part(up + i, count);
    Vec d = vec_load_part(dy + i, count), s = vec_sigmoid(g);
    Vec silu = g * s;
    vec_store_part(dgate + i, d * u * vec_fma(silu, 1.0f - s, s), count);
    vec_store_part(dup + i, d * silu, count);
}

static void swiglu_backward(Ctx *c, Tensor dy, Tensor gate_up, Tensor dgate_up)
{
    if (dy.dtype != DT_F32) {
        cpu_ref(c)->swiglu_backward(c, dy, gate_up, dgate_up);
        return;
    }
    int64_t rows = dy.dim[0], width = dy.dim[1];
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const float *d = (const float *)dy.data + row * width;
        const float *gate = (const float *)gate_up.data + row * 2 * width, *up = gate + width;
        float *dgate = (float *)dgate_up.data + row * 2 * width, *dup = dgate + width;
        int64_t i = 0;
        for (; i + VEC_LANES <= width; i += VEC_LANES) {
            swiglu_backward_step(d, gate, up, dgate, dup, i, VEC_LANES);
        }
        if (i < width) {
            swiglu_backward_step(d, gate, up, dgate, dup, i, width - i);
        }
    }
}

VEC_INLINE void gelu_step(const float *x, float *y, int64_t i, int64_t count)
{
    Vec v = vec_load_part(x + i, count);
    Vec slope = vec_fma(v * v, vec_set(GELU_CUBIC), vec_set(GELU_LINEAR));
    vec_store_part(y + i, v * vec_sigmoid(v * slope), count);
}

/* gelu'(x) = s + x s (1 - s) d(2u)/dx */
VEC_INLINE void gelu_backward_step(const float *dy, const float *x, float *dx, int64_t i,
                                   int64_t count)
{
    Vec v = vec_load_part(x + i, count), square = v * v;
    Vec s = vec_sigmoid(v * vec_fma(square, vec_set(GELU_CUBIC), vec_set(GELU_LINEAR)));
    Vec inner = vec_fma(square, vec_set(3 * GELU_CUBIC), vec_set(GELU_LINEAR));
    Vec slope = vec_fma(v * s * (1.0f - s), inner, s);
    vec_store_part(dx + i, vec_load_part(dy + i, count) * slope, count);
}

static void gelu_forward(Ctx *c, Tensor x, Tensor y)
{
    if (x.dtype != DT_F32) {
        cpu_ref(c)->gelu_forward(c, x, y);
        return;
    }
    const float *from = x.data;
    float *to = y.data;
    int64_t count = tensor_count(x);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        int64_t i = s.first;
        for (; i + VEC_LANES <= s.last; i += VEC_LANES) {
            gelu_step(from, to, i, VEC_LANES);
        }
        if (i < s.last) {
            gelu_step(from, to, i, s.last - i);
        }
    }
}

static void gelu_backward(Ctx *c, Tensor dy, Tensor x, Tensor dx)
{
    if (x.dtype != DT_F32) {
        cpu_ref(c)->gelu_backward(c, dy, x, dx);
        return;
    }
    const float *d = dy.data, *from = x.data;
    float *to = dx.data;
    int64_t count = tensor_count(x);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        int64_t i = s.first;
        for (; i + VEC_LANES <= s.last; i += VEC_LANES) {
            gelu_backward_step(d, from, to, i, VEC_LANES);
        }
        if (i < s.last) {
            gelu_backward_step(d, from, to, i, s.last - i);
        }
    }
}

void PACER_ISA_NAME(mlp_fill)(Ops *ops)
{
    ops->swiglu_forward = swiglu_forward;
    ops->swiglu_backward = swiglu_backward;
    ops->gelu_forward = gelu_forward;
    ops->gelu_backward = gelu_backward;
}
