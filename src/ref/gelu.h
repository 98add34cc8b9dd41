#pragma once
/* gelu(x) = x/2 (1 + tanh(a (x + b x^3))) with a = sqrt(2/pi), b = 0.044715, and its
 * derivatives. */
#include <math.h>

#define REF_GELU_A 0.79788456080286535588
#define REF_GELU_B 0.044715

static inline double ref_gelu_tanh(double x)
{
    return tanh(REF_GELU_A * (x + REF_GELU_B * x * x * x));
}

static inline double ref_gelu(double x)
{
    return 0.5 * x * (1 + ref_gelu_tanh(x));
}

static inline double ref_gelu_slope(double x)
{
    double t = ref_gelu_tanh(x), u1 = REF_GELU_A * (1 + 3 * REF_GELU_B * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * u1;
}

static inline double ref_gelu_curvature(double x)
{
    double t = ref_gelu_tanh(x), u1 = REF_GELU_A * (1 + 3 * REF_GELU_B * x * x);
    double u2 = 6 * REF_GELU_A * REF_GELU_B * x;
    return (1 - t * t) * (u1 + 0.5 * x * u2 - x * t * u1 * u1);
}
