#include "tensor/tensor.h"

#include "base/assert.h"

#include <stdio.h>

size_t dtype_size(DType dtype)
{
    static const size_t sizes[] = {
        [DT_F32] = 4, [DT_BF16] = 2, [DT_F64] = 8, [DT_I32] = 4, [DT_E4M3] = 1, [DT_REST] = 2};
    return sizes[dtype];
}

const char *dtype_name(DType dtype)
{
    static const char *const names[] = {[DT_F32] = "f32", [DT_BF16] = "bf16", [DT_F64] = "f64",
                                        [DT_I32] = "i32", [DT_E4M3] = "fp8",  [DT_REST] = "rest"};
    return names[dtype];
}

DType dtype_accumulate(DType dtype)
{
    return dtype == DT_F64 ? DT_F64 : DT_F32;
}

uint8_t e4m3_from_f32(float value)
{
    uint8_t sign = signbit(value) ? 0x80 : 0;
    float size = fabsf(value);
    if (isnan(size)) {
        return 0x7F;
    }
    if (size >= E4M3_MOST) {
        return sign | 0x7E;
    }
    int exponent = -8; /* of 0 */
    if (size > 0) {
        frexpf(size, &exponent); /* size = f 2^exponent, f in [0.5, 1) */
    }
    int step = exponent - 1 < -6 ? -9 : exponent - 4; /* exponent of the last bit that is kept */
    int units = (int)rintf(ldexpf(size, -step));      /* up to 16: then the next exponent's first */
    return sign | (uint8_t)(step == -9 ? units : (step + 9) * 8 + units);
}

float f32_from_e4m3(uint8_t code)
{
    int exponent = code >> 3 & 15, fraction = code & 7;
    float size =
        exponent == 0 ? ldexpf((float)fraction, -9) : ldexpf((float)(8 + fraction), exponent - 10);
    size = (code & 0x7F) == 0x7F ? NAN : size;
    return code & 0x80 ? -size : size;
}

Tensor tensor_1d(void *data, DType dtype, int64_t a)
{
    return (Tensor){data, dtype, 1, {a}};
}

Tensor tensor_2d(void *data, DType dtype, int64_t a, int64_t b)
{
    return (Tensor){data, dtype, 2, {a, b}};
}

Tensor tensor_rows(Tensor t, int64_t first, int64_t count)
{
    PACER_ASSERT(t.rank > 0 && first >= 0 && count >= 0 && first + count <= t.dim[0],
                 "rows %lld + %lld of %lld", (long long)first, (long long)count,
                 (long long)t.dim[0]);
    size_t row = t.dim[0] > 0 ? tensor_bytes(t) / (size_t)t.dim[0] : 0;
    if (t.data != NULL) {
        t.data = (char *)t.data + (size_t)first * row;
    }
    t.dim[0] = count;
    return t;
}

bool tensor_same_shape(Tensor a, Tensor b)
{
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; i++) {
        same = a.dim[i] == b.dim[i];
    }
    return same;
}

const char *tensor_describe(Tensor t, char text[TENSOR_TEXT_SIZE])
{
    int used = snprintf(text, TENSOR_TEXT_SIZE, "(");
    for (int i = 0; i < t.rank; i++) {
        used += snprintf(text + used, (size_t)(TENSOR_TEXT_SIZE - used), "%s%lld",
                         i > 0 ? ", " : "", (long long)t.dim[i]);
    }
    snprintf(text + used, (size_t)(TENSOR_TEXT_SIZE - used), ") %s", dtype_name(t.dtype));
    return text;
}
