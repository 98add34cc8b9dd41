#pragma once
/* IEEE 754 binary16, which only files use: every value is one of f32. */
#include <stdint.h>
#include <string.h>

static inline float f32_from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 0x3FF, bits;
    if (exponent == 0) { /* zero, or fraction x 2^-24: exact in f32 */
        float value = (float)fraction * 0x1p-24f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    } else if (exponent == 31) { /* infinity or NaN, whose payload stays */
        bits = sign | 0x7F800000 | fraction << 13;
    } else {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
