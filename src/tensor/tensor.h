#pragma once
/* A tensor is a view: pointer, element type, up to four dimensions, rows contiguous. It owns
 * nothing; memory belongs to an arena (arena.h). A tensor of rank 0 means "not given".
 *
 * Letters used for dimensions everywhere: B sequences, T tokens of a sequence, N = B*T rows,
 * C model width, H query heads, G key/value heads, D width of a head, F feed-forward width,
 * V vocabulary, O and I outputs and inputs of a linear map. */
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* DT_REST: the lower halves of f32 numbers whose upper ones are elsewhere (rounding.h). */
typedef enum { DT_F32, DT_BF16, DT_F64, DT_I32, DT_E4M3, DT_REST } DType;

#define TENSOR_MAX_RANK 4

typedef struct {
    void *data; /* may be NULL in a dry run: only shape and type are then meaningful */
    DType dtype;
    int rank;
    int64_t dim[TENSOR_MAX_RANK];
} Tensor;

size_t dtype_size(DType dtype);
const char *dtype_name(DType dtype);

/* The type in which sums over `dtype` are kept and stored: f64 for f64, f32 for the others.
 * Gradients of parameters, norm statistics, losses and attention statistics have this type. */
DType dtype_accumulate(DType dtype);

/* The type of activations in a model of that type: bf16 beside products in e4m3. */
static inline DType dtype_act(DType dtype)
{
    return dtype == DT_E4M3 ? DT_BF16 : dtype;
}

/* bf16 is the upper half of f32; rounding is to nearest, ties to even, and a NaN stays one. */
static inline uint16_t bf16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (isnan(value)) {
        return (uint16_t)(bits >> 16 | 0x40);
    }
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline float f32_from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* e4m3: sign, 4 bits of exponent (bias 7), 3 of fraction. 2^-9 to 448; no infinity. Rounding is
 * to nearest, ties to even; what is too large becomes the largest. */
#define E4M3_MOST 448.0f
uint8_t e4m3_from_f32(float value);
float f32_from_e4m3(uint8_t code);

#define TENSOR_NONE ((Tensor){0})

static inline bool tensor_given(Tensor t)
{
    return t.rank > 0;
}

/* a x b and a + b of sizes, or the largest number when that is beyond it: more than any memory
 * has. */
static inline int64_t size_product(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static inline size_t size_sum(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static inline int64_t tensor_count(Tensor t)
{
    int64_t count = t.rank > 0 ? 1 : 0;
    for (int i = 0; i < t.rank; i++) {
        count = size_product(count, t.dim[i]);
    }
    return count;
}

/* SIZE_MAX less what arenas round up by: there is no such tensor. */
#define TENSOR_TOO_LARGE (SIZE_MAX / 2)

static inline size_t tensor_bytes(Tensor t)
{
    size_t bytes;
    bool fits = !__builtin_mul_overflow((size_t)tensor_count(t), dtype_size(t.dtype), &bytes);
    return fits && bytes < TENSOR_TOO_LARGE ? bytes : TENSOR_TOO_LARGE;
}

/* Views of memory that the caller has. */
Tensor tensor_1d(void *data, DType dtype, int64_t a);
Tensor tensor_2d(void *data, DType dtype, int64_t a, int64_t b);

/* Rows [first, first + count) of the outermost dimension. */
Tensor tensor_rows(Tensor t, int64_t first, int64_t count);

bool tensor_same_shape(Tensor a, Tensor b);

/* "(128, 64) f32" into text, for messages. */
#define TENSOR_TEXT_SIZE 96
const char *tensor_describe(Tensor t, char text[TENSOR_TEXT_SIZE]);
