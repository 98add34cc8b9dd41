/* Softmax cross-entropy and the mean of losses. A row of logits comes from memory once and its
 * gradient goes back once: the three passes between find it in the cache. */
#include "cpu/cpu.h"

#include "base/assert.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"

#include <math.h>

/* In f32 the exponentials are kept in the place of the logits for the gradient; in bf16 that would
 * round them twice, and they are computed again. */
#define KEEPS (sizeof(Elem) == sizeof(float))

static float row_greatest(const Elem *x, int64_t width)
{
    Vec greatest = vec_set(-INFINITY);
    int64_t i = 0;
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        greatest = vec_max(greatest, elem_load(x + i));
    }
    float result = vec_greatest(greatest);
    for (; i < width; i++) {
        result = elem_get(x[i]) > result ? elem_get(x[i]) : result;
    }
    return result;
}

/* e^(z - greatest) of up to a register, z being x, or with a cap above 0 the capped x; written over
 * x if keep. The row after this one is asked for on the way, so that memory is not idle while
 * exponentials are computed. */
VEC_INLINE Vec exp_step(Elem *x, int64_t width, float cap, float greatest, bool keep, int64_t i,
                        int64_t count)
{
    __builtin_prefetch(x + width + i, 0, 2);
    Vec z = elem_load_part(x + i, count);
    Vec e = vec_exp((cap > 0 ? vec_capped(z, cap) : z) - greatest);
    if (keep) {
        elem_store_part(x + i, e, count);
    }
    return e;
}

/* Sum of e^(z - greatest), in four running sums per lane: shorter sums are more exact. */
VEC_INLINE float row_exp_sum(Elem *x, int64_t width, float cap, float greatest, bool keep)
{
    Vec a = {0}, b = {0}, d = {0}, e = {0};
    int64_t i = 0;
    for (; i + 4 * VEC_LANES <= width; i += 4 * VEC_LANES) {
        a += exp_step(x, width, cap, greatest, keep, i, VEC_LANES);
        b += exp_step(x, width, cap, greatest, keep, i + VEC_LANES, VEC_LANES);
        d += exp_step(x, width, cap, greatest, keep, i + 2 * VEC_LANES, VEC_LANES);
        e += exp_step(x, width, cap, greatest, keep, i + 3 * VEC_LANES, VEC_LANES);
    }
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        a += exp_step(x, width, cap, greatest, keep, i, VEC_LANES);
    }
    float rest = 0;
    if (i < width) {
        Vec tail = exp_step(x, width, cap, greatest, keep, i, width - i);
        for (int64_t k = 0; k < width - i; k++) {
            rest += tail[k];
        }
    }
    return vec_sum((a + b) + (d + e)) + rest;
}

/* A row of exponentials, or of logits where they were not kept, becomes factor times the
 * exponentials. */
VEC_INLINE void softmax_step(Elem *x, float greatest, float factor, int64_t i, int64_t count)
{
    Vec e = elem_load_part(x + i, count);
    elem_store_part(x + i, (KEEPS ? e : vec_exp(e - greatest)) * factor, count);
}

static void softmax_row(Elem *x, int64_t width, float greatest, float factor)
{
    int64_t i = 0;
    for (; i + VEC_LANES <= width; i += VEC_LANES) {
        softmax_step(x, greatest, factor, i, VEC_LANES);
    }
    if (i < width) {
        softmax_step(x, greatest, factor, i, width - i);
    }
}

/* e^(x - greatest) as row_exp_sum has it. */
static float exp_of(float x, float greatest)
{
    return vec_exp(vec_set(x) - greatest)[0];
}

/* The loss of one row; with gradient the row becomes (softmax - onehot) * scale. */
static float row_xent(Elem *x, int64_t width, int64_t target, float scale, bool gradient)
{
    float greatest = row_greatest(x, width), wanted = elem_get(x[target]);
    float sum = gradient && KEEPS ? row_exp_sum(x, width, 0, greatest, true)
                                  : row_exp_sum(x, width, 0, greatest, false);
    if (gradient) {
        softmax_row(x, width, greatest, scale / sum);
        x[target] = elem_from((exp_of(wanted, greatest) / sum - 1) * scale);
    }
    return (float)(log((double)sum) + ((double)greatest - (double)wanted));
}

/* Slopes in the place of x, z = cap t, t = tanh(x / cap): factor e^(z - greatest) (1 - t^2). */
static void slope_row(Elem *x, int64_t width, float cap, float greatest, float factor)
{
    for (int64_t i = 0; i < width; i += VEC_LANES) {
        Vec z = vec_capped(elem_load_within(x, i, width), cap), share = z * (1 / cap);
        elem_store_within(x, i, width, vec_exp(z - greatest) * factor * (1.0f - share * share));
    }
}

/* row_xent with a cap. */
static float row_xent_capped(Elem *x, int64_t width, float cap, int64_t target, float scale,
                             bool gradient)
{
    float greatest = vec_capped(vec_set(row_greatest(x, width)), cap)[0];
    float wanted = vec_capped(vec_set(elem_get(x[target])), cap)[0];
    float sum = row_exp_sum(x, width, cap, greatest, false);
    if (gradient) {
        float share = wanted / cap;
        slope_row(x, width, cap, greatest, scale / sum);
        x[target] = elem_from((exp_of(wanted, greatest) / sum - 1) * scale * (1 - share * share));
    }
    return (float)(log((double)sum) + ((double)greatest - (double)wanted));
}

static void xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
                 double scale, bool gradient)
{
    int64_t rows = logits.dim[0], width = logits.dim[1];
    const int32_t *wanted = targets.data;
    float *to = losses.data;
    int threads = threads_for(c, rows * width);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        Elem *x = (Elem *)logits.data + row * width;
        PACER_ASSERT(wanted[row] < classes, "target %d of row %lld, vocabulary %lld", wanted[row],
                     (long long)row, (long long)classes);
        int64_t live = wanted[row] >= 0 ? classes : 0; /* columns whose gradient is not 0 */
        if (live == 0) {
            to[row] = 0;
        } else if (cap > 0) {
            to[row] = row_xent_capped(x, live, (float)cap, wanted[row], (float)scale, gradient);
        } else {
            to[row] = row_xent(x, live, wanted[row], (float)scale, gradient);
        }
        if (gradient) {
            memset(x + live, 0, (size_t)(width - live) * sizeof *x);
        }
    }
}

/* Of a few thousand losses: one thread, in double, four running sums. */
static void sum(Ctx *c, Tensor x, double scale, Tensor out, Mode mode)
{
    (void)c;
    const float *from = x.data;
    double lane[4] = {0};
    int64_t count = tensor_count(x), i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int k = 0; k < 4; k++) {
            lane[k] += from[i + k];
        }
    }
    for (; i < count; i++) {
        lane[0] += from[i];
    }
    double total = scale * ((lane[0] + lane[1]) + (lane[2] + lane[3]));
    float *to = out.data;
    *to = (float)(mode == MODE_ADD ? *to + total : total);
}

void PACER_ISA_NAME(loss_fill)(Ops *ops)
{
    ops->xent = xent;
    ops->sum = sum;
}
