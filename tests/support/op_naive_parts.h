#pragma once
/* What the files of the naive backend share: elements as f32, scores of attention, and gelu with
 * its derivatives. */
#include "ref/ref.h"

static inline float get(Tensor t, int64_t i)
{
    return (float)ref_get(t, i);
}

static inline void put(Tensor t, int64_t i, float value, Mode mode)
{
    ref_put(t, i, mode == MODE_ADD ? get(t, i) + value : value);
}

static inline float scale_of(HeadShape s)
{
    return s.scale > 0 ? (float)s.scale : 1 / sqrtf((float)s.head_dim);
}

/* From q.k. */
static inline float score_of(HeadShape s, float product)
{
    float score = product * scale_of(s), cap = (float)s.cap;
    return cap > 0 ? cap * tanhf(score / cap) : score;
}

static inline float tanh_of(float x)
{
    return tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
}

static inline float gelu(float x)
{
    return 0.5f * x * (1 + tanh_of(x));
}

static inline float gelu_1(float x)
{
    float t = tanh_of(x), u = 0.7978845608f * (1 + 3 * 0.044715f * x * x);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * u;
}

static inline float gelu_2(float x)
{
    float t = tanh_of(x), u = 0.7978845608f * (1 + 3 * 0.044715f * x * x);
    return (1 - t * t) * (u + 3 * 0.7978845608f * 0.044715f * x * x - x * t * u * u);
}
