#pragma once
/* The activation functions of the feed-forward part and their slopes, at the accuracy of results in
 * T. */
#include "cuda/device.cuh"

/* gelu(x) = x s(x) with s = 1/(1 + exp(-2 a (x + b x^3))), which is the tanh form, a =
 * sqrt(2/pi). */
#define GELU_A 0.79788456080286535588f
#define GELU_B 0.044715f

template <typename T> __device__ inline float gelu_gate(float x)
{
    return sigmoid_for<T>(2 * GELU_A * (x + GELU_B * x * x * x));
}

template <typename T, Activation A> __device__ inline float act_value(float x)
{
    if constexpr (A == ACT_GELU) {
        return x * gelu_gate<T>(x);
    } else if constexpr (A == ACT_SILU) {
        return x * sigmoid_for<T>(x);
    }
    return x <= 0 ? 0 : x * x;
}

/* silu' = s (1 + x (1 - s)); gelu' = s + x s' with s' = 2 a (1 + 3 b x^2) s (1 - s). */
template <typename T, Activation A> __device__ inline float act_slope(float x)
{
    if constexpr (A == ACT_GELU) {
        float s = gelu_gate<T>(x);
        return s + x * (2 * GELU_A * (1 + 3 * GELU_B * x * x)) * (s * (1 - s));
    } else if constexpr (A == ACT_SILU) {
        float s = sigmoid_for<T>(x);
        return s * (1 + x * (1 - s));
    }
    return x <= 0 ? 0 : 2 * x;
}

/* From the slope by act(gate) up: gate becomes that by the gate, up that by the value. */
template <typename T, Activation A>
__device__ inline void gated_slope(float slope, float *gate, float *up)
{
    float g = *gate;
    if constexpr (A == ACT_SILU) {
        float s = sigmoid_for<T>(g);
        *gate = slope * *up * s * (1 + g * (1 - s));
        *up = slope * g * s;
    } else {
        *gate = slope * *up * act_slope<T, A>(g);
        *up = slope * act_value<T, A>(g);
    }
}

/* call<T, ACT_...>(...) for the activation act. */
#define FOR_ACT(act, T, call, ...)       \
    switch (act) {                       \
    case ACT_SILU:                       \
        call<T, ACT_SILU>(__VA_ARGS__);  \
        break;                           \
    case ACT_GELU:                       \
        call<T, ACT_GELU>(__VA_ARGS__);  \
        break;                           \
    case ACT_RELU2:                      \
        call<T, ACT_RELU2>(__VA_ARGS__); \
        break;                           \
    }
