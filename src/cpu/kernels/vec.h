#pragma once
/* A register full of floats, as wide as the instruction set this file is compiled for: 16, 8 or 4.
 * Arithmetic is the compiler's own (a + b, a * b, a / b, -a, also with a scalar on one side); this
 * header adds what operators cannot say. Loads and stores need no alignment. Sums over lanes run in
 * a fixed order, so results do not depend on where the data lies. NaN passes through everything. */
#include "tensor/tensor.h"

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define VEC_LANES 16
#elif defined(__AVX__)
#define VEC_LANES 8
#else
#define VEC_LANES 4
#endif

static inline int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

static inline int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#define VEC_INLINE static inline __attribute__((always_inline, unused))

typedef float Vec __attribute__((vector_size(VEC_LANES * 4)));
typedef int32_t VecInt __attribute__((vector_size(VEC_LANES * 4)));
typedef uint32_t VecWord __attribute__((vector_size(VEC_LANES * 4)));
typedef uint16_t VecHalf __attribute__((vector_size(VEC_LANES * 2)));

VEC_INLINE Vec vec_load(const float *from)
{
    Vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

VEC_INLINE void vec_store(float *to, Vec v)
{
    memcpy(to, &v, sizeof v);
}

VEC_INLINE Vec vec_set(float x)
{
    return x - (Vec){0}; /* x - 0 keeps the sign of a zero */
}

/* The first count lanes, 0 <= count <= VEC_LANES; the others are 0, their memory is not touched. */
VEC_INLINE Vec vec_load_part(const float *from, int64_t count)
{
#if defined(__AVX512F__)
    return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#else
    Vec v = {0};
    memcpy(&v, from, (size_t)count * sizeof(float));
    return v;
#endif
}

/* bf16 is the upper half of f32. */
VEC_INLINE Vec vec_from_halves(VecHalf halves)
{
    return (Vec)(__builtin_convertvector(halves, VecInt) << 16);
}

VEC_INLINE Vec vec_load_bf16(const uint16_t *from)
{
    VecHalf halves;
    memcpy(&halves, from, sizeof halves);
    return vec_from_halves(halves);
}

VEC_INLINE Vec vec_load_bf16_part(const uint16_t *from, int64_t count)
{
#if defined(__AVX512VL__) && defined(__AVX512BW__)
    return vec_from_halves((VecHalf)_mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), from));
#else
    uint16_t halves[VEC_LANES] = {0};
    memcpy(halves, from, (size_t)count * sizeof *from);
    return vec_load_bf16(halves);
#endif
}

/* To nearest, ties to even; a NaN stays one: the bits of bf16_from_f32. */
VEC_INLINE VecHalf vec_to_halves(Vec v)
{
    VecWord bits = (VecWord)v, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    VecWord nan = (VecWord)(v != v);
    return __builtin_convertvector((nan & (bits >> 16 | 0x40)) | (~nan & rounded), VecHalf);
}

VEC_INLINE void vec_store_bf16(uint16_t *to, Vec v)
{
    VecHalf halves = vec_to_halves(v);
    memcpy(to, &halves, sizeof halves);
}

VEC_INLINE void vec_store_bf16_part(uint16_t *to, Vec v, int64_t count)
{
    VecHalf halves = vec_to_halves(v);
#if defined(__AVX512VL__) && defined(__AVX512BW__)
    _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), (__m256i)halves);
#else
    memcpy(to, &halves, (size_t)count * sizeof *to);
#endif
}

VEC_INLINE void vec_store_part(float *to, Vec v, int64_t count)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), v);
#else
    memcpy(to, &v, (size_t)count * sizeof(float));
#endif
}

/* The vector at row[i] of a row that ends at width; lanes past it are 0. */
VEC_INLINE Vec load_within(const float *row, int64_t i, int64_t width)
{
    return i + VEC_LANES <= width ? vec_load(row + i) : vec_load_part(row + i, width - i);
}

VEC_INLINE void store_within(float *row, int64_t i, int64_t width, Vec v)
{
    if (i + VEC_LANES <= width) {
        vec_store(row + i, v);
    } else {
        vec_store_part(row + i, v, width - i);
    }
}

/* Elements of activations and of the weights they meet, in memory: f32, or bf16 where a file is
 * compiled for that (isa.h). Arithmetic is f32 either way, and a result is rounded once, when it is
 * stored. */
#ifdef PACER_ELEM_BF16
typedef uint16_t Elem;
#define ELEM(name) name##_bf16
#define ELEM_PART(name) name##_bf16_part
#else
typedef float Elem;
#define ELEM(name) name
#define ELEM_PART(name) name##_part
#endif

VEC_INLINE Vec elem_load(const Elem *from)
{
    return ELEM(vec_load)(from);
}

VEC_INLINE void elem_store(Elem *to, Vec v)
{
    ELEM(vec_store)(to, v);
}

VEC_INLINE Vec elem_load_part(const Elem *from, int64_t count)
{
    return ELEM_PART(vec_load)(from, count);
}

VEC_INLINE void elem_store_part(Elem *to, Vec v, int64_t count)
{
    ELEM_PART(vec_store)(to, v, count);
}

VEC_INLINE float elem_get(Elem x)
{
#ifdef PACER_ELEM_BF16
    return f32_from_bf16(x);
#else
    return x;
#endif
}

VEC_INLINE Elem elem_from(float x)
{
#ifdef PACER_ELEM_BF16
    return bf16_from_f32(x);
#else
    return x;
#endif
}

VEC_INLINE Vec elem_load_within(const Elem *row, int64_t i, int64_t width)
{
    return i + VEC_LANES <= width ? elem_load(row + i) : elem_load_part(row + i, width - i);
}

VEC_INLINE void elem_store_within(Elem *row, int64_t i, int64_t width, Vec v)
{
    if (i + VEC_LANES <= width) {
        elem_store(row + i, v);
    } else {
        elem_store_part(row + i, v, width - i);
    }
}

/* a * b + c; rounded once where the machine can. */
VEC_INLINE Vec vec_fma(Vec a, Vec b, Vec c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

/* v itself, out of the compiler's sight: keeps it from merging the product v is into a sum that
 * v is part of, where v must be the same number wherever it is used. */
VEC_INLINE Vec vec_rounded(Vec v)
{
#if defined(__SSE2__)
    __asm__("" : "+x"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}

/* mask ? a : b, mask from a comparison such as a < b (all bits of a lane set, or none). */
VEC_INLINE Vec vec_select(VecInt mask, Vec a, Vec b)
{
    return (Vec)((mask & (VecInt)a) | (~mask & (VecInt)b));
}

/* The greater; b where either is NaN. */
VEC_INLINE Vec vec_max(Vec a, Vec b)
{
#if defined(__AVX512F__)
    return _mm512_max_ps(a, b);
#elif defined(__AVX__)
    return _mm256_max_ps(a, b);
#elif defined(__SSE2__)
    return _mm_max_ps(a, b);
#else
    return vec_select(a > b, a, b);
#endif
}

/* The lesser; b where either is NaN. */
VEC_INLINE Vec vec_min(Vec a, Vec b)
{
#if defined(__AVX512F__)
    return _mm512_min_ps(a, b);
#elif defined(__AVX__)
    return _mm256_min_ps(a, b);
#elif defined(__SSE2__)
    return _mm_min_ps(a, b);
#else
    return vec_select(a < b, a, b);
#endif
}

VEC_INLINE Vec vec_sqrt(Vec a)
{
#if defined(__AVX512F__)
    return _mm512_sqrt_ps(a);
#elif defined(__AVX__)
    return _mm256_sqrt_ps(a);
#elif defined(__SSE2__)
    return _mm_sqrt_ps(a);
#elif defined(__aarch64__)
    return vsqrtq_f32(a);
#else
    for (int i = 0; i < VEC_LANES; i++) {
        a[i] = __builtin_sqrtf(a[i]);
    }
    return a;
#endif
}

/* Which lane, counted as __builtin_shufflevector does, comes to lane l when two vectors exchange
 * blocks of h lanes: every second block of the first for every other one of the second. */
#define TO_FIRST(l, h) ((l) & (h) ? VEC_LANES + (l) - (h) : (l))
#define TO_SECOND(l, h) ((l) & (h) ? VEC_LANES + (l) : (l) + (h))
#define TO_OTHER(l, h) ((l) ^ (h))
#define LANES_4(f, l, h) f(l, h), f(l + 1, h), f(l + 2, h), f(l + 3, h)
#define LANES_8(f, l, h) LANES_4(f, l, h), LANES_4(f, l + 4, h)
#if VEC_LANES == 16
#define LANES(f, h) LANES_8(f, 0, h), LANES_8(f, 8, h)
#elif VEC_LANES == 8
#define LANES(f, h) LANES_8(f, 0, h)
#else
#define LANES(f, h) LANES_4(f, 0, h)
#endif

#define SHUFFLE(a, b, f, h) __builtin_shufflevector(a, b, LANES(f, h))

#define EXCHANGE(rows, h)                                           \
    _Pragma("GCC unroll 16") for (int r = 0; r < VEC_LANES; r++)    \
    {                                                               \
        if ((r & (h)) == 0) {                                       \
            Vec first = (rows)[r], second = (rows)[r + (h)];        \
            (rows)[r] = SHUFFLE(first, second, TO_FIRST, h);        \
            (rows)[r + (h)] = SHUFFLE(first, second, TO_SECOND, h); \
        }                                                           \
    }

/* Row r, lane l becomes row l, lane r. */
VEC_INLINE void transpose(Vec rows[VEC_LANES])
{
#if VEC_LANES >= 16
    EXCHANGE(rows, 8)
#endif
#if VEC_LANES >= 8
    EXCHANGE(rows, 4)
#endif
    EXCHANGE(rows, 2)
    EXCHANGE(rows, 1)
}

/* The lanes of the greater half are added to those of the lesser, and so on down to one. */
VEC_INLINE float vec_sum(Vec v)
{
#if VEC_LANES >= 16
    v += SHUFFLE(v, v, TO_OTHER, 8);
#endif
#if VEC_LANES >= 8
    v += SHUFFLE(v, v, TO_OTHER, 4);
#endif
    v += SHUFFLE(v, v, TO_OTHER, 2);
    v += SHUFFLE(v, v, TO_OTHER, 1);
    return v[0];
}

VEC_INLINE float vec_greatest(Vec v)
{
#if VEC_LANES >= 16
    v = vec_max(v, SHUFFLE(v, v, TO_OTHER, 8));
#endif
#if VEC_LANES >= 8
    v = vec_max(v, SHUFFLE(v, v, TO_OTHER, 4));
#endif
    v = vec_max(v, SHUFFLE(v, v, TO_OTHER, 2));
    v = vec_max(v, SHUFFLE(v, v, TO_OTHER, 1));
    return v[0];
}

/* e^x. About 1 ulp off at most from -87.3 to 88.3; 0 below -87.7, infinity above 88.4.
 * e^x = 2^n e^r with n the integer nearest x / ln 2. Adding 1.5 * 2^23 + 127 leaves n + 127 in the
 * low bits of the sum: shifted up they are the exponent of 2^n, giving 0 for n = -127 and infinity
 * for n = 128. */
VEC_INLINE Vec vec_exp(Vec x)
{
    const Vec shift = vec_set(12583039.0f);
    x = vec_min(vec_set(88.7f), vec_max(vec_set(-88.0f), x));
    Vec biased = vec_fma(x, vec_set(1.44269504f), shift);
    Vec n = biased - shift;
    Vec r = vec_fma(n, vec_set(-0.693359375f), x); /* exact: ln 2 in two parts */
    r = vec_fma(n, vec_set(2.12194440e-4f), r);
    Vec q = vec_fma(vec_set(1.38145402e-3f), r, vec_set(8.36874511e-3f));
    q = vec_fma(q, r, vec_set(4.16683908e-2f));
    q = vec_fma(q, r, vec_set(1.66665204e-1f));
    q = vec_fma(q, r, vec_set(4.99999934e-1f));
    q = vec_fma(q, r * r, r) + 1.0f;
    return q * (Vec)((VecInt)biased << 23);
}

/* 1 / (1 + e^-x). */
VEC_INLINE Vec vec_sigmoid(Vec x)
{
    return 1.0f / (1.0f + vec_exp(-x));
}

/* Near 0, where 1 - 2 / (e^2|x| + 1) cancels, a polynomial that is 2e-8 off at most. */
VEC_INLINE Vec vec_tanh(Vec x)
{
    Vec z = x * x, size = vec_max(x, -x);
    Vec q = vec_fma(z, vec_set(-6.0537e-3f), vec_set(2.096819e-2f));
    q = vec_fma(z, q, vec_set(-5.384499e-2f));
    q = vec_fma(z, q, vec_set(0.13332733f));
    q = vec_fma(z, q, vec_set(-0.33333329f));
    Vec far = 1.0f - 2.0f / (1.0f + vec_exp(size + size));
    return vec_select(z < 0.4f, vec_fma(z * x, q, x), vec_select(x < 0, -far, far));
}

VEC_INLINE Vec vec_capped(Vec x, float cap)
{
    return vec_tanh(x * (1 / cap)) * cap;
}

/* The tanh form of gelu is x s for s the logistic function of x (GELU_LINEAR + GELU_CUBIC x^2). */
#define GELU_LINEAR 1.59576912f
#define GELU_CUBIC 0.0713548162726f

/* to (count) = a + b; to may be a or b. */
VEC_INLINE void elem_add_rows(const Elem *a, const Elem *b, Elem *to, int64_t count)
{
    int64_t i = 0;
    for (; i + VEC_LANES <= count; i += VEC_LANES) {
        elem_store(to + i, elem_load(a + i) + elem_load(b + i));
    }
    if (i < count) {
        Vec sum = elem_load_part(a + i, count - i) + elem_load_part(b + i, count - i);
        elem_store_part(to + i, sum, count - i);
    }
}

/* to (count) += from. */
VEC_INLINE void elem_add_into(const Elem *from, float *to, int64_t count)
{
    int64_t i = 0;
    for (; i + VEC_LANES <= count; i += VEC_LANES) {
        vec_store(to + i, elem_load(from + i) + vec_load(to + i));
    }
    if (i < count) {
        Vec sum = elem_load_part(from + i, count - i) + vec_load_part(to + i, count - i);
        vec_store_part(to + i, sum, count - i);
    }
}
