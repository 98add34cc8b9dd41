#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/vec.h"
#include "cpu/threads.h"
#include "tensor/rounding.h"

#include <math.h>

/* Squares are summed in f32 inside a block and in double over blocks. Blocks are cut by position
 * alone, so the result does not depend on the number of threads. */
#define BLOCK 8192

static int64_t block_count(int64_t count)
{
    return (count + BLOCK - 1) / BLOCK;
}

/* Four quarters side by side: memory answers four streams faster than one. */
static float block_squares(const float *x, int64_t count)
{
    Vec a = {0}, b = {0}, d = {0}, e = {0};
    int64_t quarter = count / 4 / VEC_LANES * VEC_LANES;
    for (int64_t i = 0; i < quarter; i += VEC_LANES) {
        Vec p = vec_load(x + i), q = vec_load(x + quarter + i);
        Vec r = vec_load(x + 2 * quarter + i), s = vec_load(x + 3 * quarter + i);
        a = vec_fma(p, p, a);
        b = vec_fma(q, q, b);
        d = vec_fma(r, r, d);
        e = vec_fma(s, s, e);
    }
    for (int64_t i = 4 * quarter; i < count; i += VEC_LANES) {
        Vec p = vec_load_part(x + i, lesser(VEC_LANES, count - i));
        a = vec_fma(p, p, a);
    }
    return vec_sum((a + b) + (d + e));
}

/* ws: one double per block. */
static void sum_squares(Ctx *c, Tensor x, Tensor out, Mode mode, void *ws)
{
    const float *from = x.data;
    double *sums = ws, total = 0;
    int64_t count = tensor_count(x), blocks = block_count(count);
    int threads = threads_for(c, count);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t first = block * BLOCK;
        sums[block] = block_squares(from + first, lesser(BLOCK, count - first));
    }
    for (int64_t block = 0; block < blocks; block++) {
        total += sums[block];
    }
    float *to = out.data;
    *to = (float)(mode == MODE_ADD ? *to + total : total);
}

static size_t sum_squares_ws(const Ctx *c, Tensor x)
{
    (void)c;
    return (size_t)block_count(tensor_count(x)) * sizeof(double);
}

static float left_out_of(UpdateArgs args)
{
    return tensor_given(args.left_out) ? *(const float *)args.left_out.data : 0;
}

/* How many elements are written: none where no token counts. */
static int64_t written_of(UpdateArgs args)
{
    float left_out = left_out_of(args);
    return left_out == 0 || left_out < args.tokens ? tensor_count(args.param) : 0;
}

/* What every gradient is multiplied with, for the mean over tokens that count and for clipping. */
static double gradient_factor(UpdateArgs args)
{
    const float *hyper = args.hyper.data;
    double mean = 1, left_out = left_out_of(args), clip = hyper[HYPER_CLIP];
    if (left_out > 0 && !args.as_is) {
        mean = args.tokens / (args.tokens - left_out);
    }
    double norm = mean * sqrt((double)*(const float *)args.norm_sq.data);
    return mean * (clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1);
}

/* op_adamw with everything that is the same for all elements worked out:
 *   m = beta1 m + grad1 g;  v = beta2 v + (grad2 g) g;
 *   p -= decay p + rate m / (sqrt(v) root + eps). */
typedef struct {
    float beta1, grad1, beta2, grad2; /* grad1, grad2 carry 1 - beta and gradient_factor */
    float decay, rate, root, eps;
} Coefficients;

static Coefficients coefficients(UpdateArgs args)
{
    const float *hyper = args.hyper.data;
    double shrink = gradient_factor(args);
    double lr = hyper[HYPER_LR];
    return (Coefficients){
        .beta1 = hyper[HYPER_BETA1],
        .grad1 = (float)(hyper[HYPER_REST1] * shrink),
        .beta2 = hyper[HYPER_BETA2],
        .grad2 = (float)(hyper[HYPER_REST2] * shrink * shrink),
        .decay = args.decay ? (float)(lr * hyper[HYPER_DECAY]) : 0,
        .rate = (float)(lr / hyper[HYPER_CORRECTION1]),
        .root = (float)(1 / sqrt((double)hyper[HYPER_CORRECTION2])),
        .eps = hyper[HYPER_EPS],
    };
}

/* A state's buffer: f32, or bf16 rounded by chance. `low` is known where this is compiled into. */
typedef struct {
    void *data;
    int which;
    uint32_t key1, key2;
    int64_t index; /* of its first element, for random bits */
} State;

static State state_of(const UpdateArgs *args, int which)
{
    const float *hyper = args->hyper.data;
    return (State){args->state[which].data, which, (uint32_t)hyper[HYPER_KEY1],
                   (uint32_t)hyper[HYPER_KEY2], args->index};
}

typedef uint32_t VecBits __attribute__((vector_size(VEC_LANES * 4)));
typedef uint16_t VecHalves __attribute__((vector_size(VEC_LANES * 2)));

/* rounding_bits of VEC_LANES elements from `index` on. */
VEC_INLINE VecBits vec_rounding_bits(State s, uint64_t index)
{
    uint32_t lanes[VEC_LANES];
    for (uint32_t i = 0; i < VEC_LANES; i++) {
        lanes[i] = i;
    }
    VecBits low;
    memcpy(&low, lanes, sizeof low);
    low += (uint32_t)index;
    VecBits high = (uint32_t)(index >> 32) - (VecBits)(low < (uint32_t)index); /* the carry */
    VecBits x = (low ^ s.key1 * ROUNDING_STEP) + high * ROUNDING_STEP;
    x = (x ^ x >> 16) * ROUNDING_FIRST + s.key2 * ROUNDING_STEP;
    x = (x ^ x >> 15) * ROUNDING_SECOND;
    return x ^ x >> 16;
}

VEC_INLINE Vec load_state(State s, bool low, int64_t i, int64_t count)
{
    return low ? vec_load_bf16_part((const uint16_t *)s.data + i, count)
               : vec_load_part((const float *)s.data + i, count);
}

VEC_INLINE void store_state(State s, bool low, int64_t i, Vec v, VecBits random, int64_t count)
{
    if (!low) {
        vec_store_part((float *)s.data + i, v, count);
        return;
    }
    VecBits bits = (VecBits)v, nan = (VecBits)((bits & 0x7FFFFFFFu) > 0x7F800000u);
    VecBits up = bits + (s.which == 0 ? random & 0xFFFF : random >> 16);
    VecBits made = ((nan & (bits | 0x400000u)) | (~nan & up)) >> 16;
    VecHalves halves = __builtin_convertvector(made, VecHalves);
    memcpy((uint16_t *)s.data + i, &halves, (size_t)count * sizeof(uint16_t));
}

VEC_INLINE VecBits load_halves(const uint16_t *from, int64_t count)
{
    VecHalves halves = {0};
    memcpy(&halves, from, (size_t)count * sizeof *from);
    return __builtin_convertvector(halves, VecBits);
}

VEC_INLINE void store_halves(uint16_t *to, VecBits bits, int64_t count)
{
    VecHalves halves = __builtin_convertvector(bits, VecHalves);
    memcpy(to, &halves, (size_t)count * sizeof *to);
}

/* The masters. split: as two halves, by master_join; known where this is compiled into. */
VEC_INLINE Vec get_weights(const UpdateArgs *args, bool split, int64_t i, int64_t count)
{
    if (!split) {
        return vec_load_part((const float *)args->param.data + i, count);
    }
    VecBits low = load_halves((const uint16_t *)args->low.data + i, count);
    VecBits rest = load_halves((const uint16_t *)args->param.data + i, count);
    return (Vec)(((low - (rest >> 15)) << 16) | rest);
}

/* With their copy in bf16 where there is one, or by master_split. */
VEC_INLINE void put_weights(const UpdateArgs *args, bool split, Vec p, int64_t i, int64_t count)
{
    uint16_t *low = args->low.data;
    if (split) {
        VecBits bits = (VecBits)p, nan = (VecBits)((bits & 0x7FFFFFFFu) > 0x7F800000u);
        VecBits upper = (nan & (bits | 0x400000u)) | (~nan & (bits + 0x8000u));
        store_halves(low + i, upper >> 16, count);
        store_halves((uint16_t *)args->param.data + i, ~nan & bits & 0xFFFF, count);
        return;
    }
    vec_store_part((float *)args->param.data + i, p, count);
    if (low != NULL) {
        vec_store_bf16_part(low + i, p, count);
    }
}

VEC_INLINE void adamw_step(const UpdateArgs *args, Coefficients k, bool low, bool split, State m,
                           State v, int64_t i, int64_t count)
{
    Vec g = vec_load_part((const float *)args->grad.data + i, count);
    Vec p = get_weights(args, split, i, count);
    Vec first = load_state(m, low, i, count) * k.beta1;
    Vec second = load_state(v, low, i, count) * k.beta2;
    VecBits random = low ? vec_rounding_bits(m, (uint64_t)(m.index + i)) : (VecBits){0};
    first = vec_fma(g, vec_set(k.grad1), first);
    second = vec_fma(g * k.grad2, g, second);
    Vec root = vec_fma(vec_sqrt(second), vec_set(k.root), vec_set(k.eps));
    Vec change = vec_fma(p, vec_set(k.decay), first * k.rate / root);
    store_state(m, low, i, first, random, count);
    store_state(v, low, i, second, random, count);
    put_weights(args, split, p - change, i, count);
}

VEC_INLINE void adamw_span(const UpdateArgs *args, Coefficients k, bool low, bool split, Span s)
{
    State m = state_of(args, 0), v = state_of(args, 1);
    int64_t i = s.first;
    for (; i + VEC_LANES <= s.last; i += VEC_LANES) {
        adamw_step(args, k, low, split, m, v, i, VEC_LANES);
    }
    if (i < s.last) {
        adamw_step(args, k, low, split, m, v, i, s.last - i);
    }
}

static void adamw(Ctx *c, UpdateArgs args)
{
    Coefficients k = coefficients(args);
    bool split = args.param.dtype == DT_REST;
    int64_t count = written_of(args);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        if (args.state[0].dtype == DT_BF16) {
            split ? adamw_span(&args, k, true, true, s) : adamw_span(&args, k, true, false, s);
        } else {
            split ? adamw_span(&args, k, false, true, s) : adamw_span(&args, k, false, false, s);
        }
    }
}

/* p -= rate m + decay p, m = momentum m + shrink g */
VEC_INLINE void sgd_step(const UpdateArgs *args, Coefficients k, bool low, bool split, State m,
                         int64_t i, int64_t count)
{
    Vec p = get_weights(args, split, i, count);
    Vec first = load_state(m, low, i, count) * k.beta1;
    VecBits random = low ? vec_rounding_bits(m, (uint64_t)(m.index + i)) : (VecBits){0};
    first =
        vec_fma(vec_load_part((const float *)args->grad.data + i, count), vec_set(k.grad1), first);
    store_state(m, low, i, first, random, count);
    put_weights(args, split, p - vec_fma(p, vec_set(k.decay), first * k.rate), i, count);
}

VEC_INLINE void sgd_span(const UpdateArgs *args, Coefficients k, bool low, bool split, Span s)
{
    State m = state_of(args, 0);
    int64_t i = s.first;
    for (; i + VEC_LANES <= s.last; i += VEC_LANES) {
        sgd_step(args, k, low, split, m, i, VEC_LANES);
    }
    if (i < s.last) {
        sgd_step(args, k, low, split, m, i, s.last - i);
    }
}

static void sgd(Ctx *c, UpdateArgs args)
{
    const float *hyper = args.hyper.data;
    Coefficients k = {.beta1 = hyper[HYPER_BETA1],
                      .grad1 = (float)gradient_factor(args),
                      .rate = hyper[HYPER_LR],
                      .decay = args.decay ? hyper[HYPER_LR] * hyper[HYPER_DECAY] : 0};
    bool split = args.param.dtype == DT_REST;
    int64_t count = written_of(args);
    int parts = threads_for(c, count);
#pragma omp parallel for num_threads(parts) schedule(static)
    for (int part = 0; part < parts; part++) {
        Span s = span_of_floats(count, parts, part);
        if (args.state[0].dtype == DT_BF16) {
            split ? sgd_span(&args, k, true, true, s) : sgd_span(&args, k, true, false, s);
        } else {
            split ? sgd_span(&args, k, false, true, s) : sgd_span(&args, k, false, false, s);
        }
    }
}

void PACER_ISA_NAME(optim_fill)(Ops *ops)
{
    ops->sum_squares = sum_squares;
    ops->sum_squares_ws = sum_squares_ws;
    ops->adamw = adamw;
    ops->sgd = sgd;
}
