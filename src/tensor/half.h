#pragma once
/* IEEE 754 binary16, which only files use: every value is one of f32. */
#include <stdint.h>
#include <string.h>

/* To nearest, ties to even; what is too large becomes an infinity, and a NaN stays one. */
static inline uint16_t f16_from_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7FFFFFFF;
    if (rest >= 0x47800000) { /* 2^16 and above */
        uint32_t quiet = rest > 0x7F800000 ? 0x200 | (rest >> 13 & 0x3FF) : 0;
        return (uint16_t)(sign | 0x7C00 | quiet);
    }
    if (rest < 0x38800000) { /* below 2^-14: adding 1/2 rounds to a multiple of 2^-24 */
        float small;
        memcpy(&small, &rest, sizeof small);
        small += 0.5f;
        memcpy(&rest, &small, sizeof rest);
        return (uint16_t)(sign | (rest - 0x3F000000));
    }
    rest += 0xFFF + (rest >> 13 & 1); /* the carry may reach the exponent, and infinity */
    return (uint16_t)(sign | ((rest - 0x38000000) >> 13));
}

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
