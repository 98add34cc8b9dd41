/* Updates of weights in f32. */
#include "support/op_naive.h"
#include "support/op_naive_parts.h"
#include "tensor/rounding.h"

/* Mean over the tokens that count, then clipping. */
static float clip_of(UpdateArgs a)
{
    float most = get(a.hyper, HYPER_CLIP), mean = 1;
    if (tensor_given(a.left_out)) {
        mean = (float)a.tokens / ((float)a.tokens - get(a.left_out, 0));
    }
    return mean * (most > 0 ? fminf(1, most / (mean * sqrtf(get(a.norm_sq, 0)) + 1e-6f)) : 1);
}

static void put_param(UpdateArgs a, int64_t i, float p)
{
    put(a.param, i, p, MODE_SET);
    if (tensor_given(a.low)) {
        put(a.low, i, p, MODE_SET);
    }
}

/* To bf16 with the probability of how far it is on its way from the number below to the next. */
static void put_state(UpdateArgs a, int which, int64_t i, float value)
{
    if (a.state[which].dtype != DT_BF16) {
        put(a.state[which], i, value, MODE_SET);
        return;
    }
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    float down = f32_from_bf16((uint16_t)(bits >> 16));
    float up = f32_from_bf16((uint16_t)((bits >> 16) + 1));
    uint32_t random = rounding_bits((uint32_t)get(a.hyper, HYPER_KEY1),
                                    (uint32_t)get(a.hyper, HYPER_KEY2), (uint64_t)(a.index + i));
    double chance = (which == 0 ? random & 0xFFFF : random >> 16) / 65536.0;
    double way = ((double)value - down) / ((double)up - down);
    put(a.state[which], i, way + chance >= 1 ? up : down, MODE_SET);
}

static void sgd(Ctx *c, UpdateArgs a)
{
    (void)c;
    float lr = get(a.hyper, HYPER_LR), decay = a.decay ? get(a.hyper, HYPER_DECAY) : 0;
    for (int64_t i = 0; i < tensor_count(a.param); i++) {
        float p = get(a.param, i);
        float m = get(a.hyper, HYPER_BETA1) * get(a.state[0], i) + get(a.grad, i) * clip_of(a);
        put_state(a, 0, i, m);
        put_param(a, i, p - lr * (m + decay * p));
    }
}

static void adamw(Ctx *c, UpdateArgs a)
{
    (void)c;
    float h[HYPER_COUNT], clip = clip_of(a);
    for (int i = 0; i < HYPER_COUNT; i++) {
        h[i] = get(a.hyper, i);
    }
    for (int64_t i = 0; i < tensor_count(a.param); i++) {
        float g = get(a.grad, i) * clip, p = get(a.param, i);
        float m = h[HYPER_BETA1] * get(a.state[0], i) + h[HYPER_REST1] * g;
        float v = h[HYPER_BETA2] * get(a.state[1], i) + h[HYPER_REST2] * g * g;
        if (a.decay) {
            p -= h[HYPER_LR] * h[HYPER_DECAY] * p;
        }
        p -= h[HYPER_LR] * (m / h[HYPER_CORRECTION1]) /
             (sqrtf(v / h[HYPER_CORRECTION2]) + h[HYPER_EPS]);
        put_state(a, 0, i, m);
        put_state(a, 1, i, v);
        put_param(a, i, p);
    }
}

void op_naive_fill_updates(Ops *ops)
{
    ops->adamw = adamw;
    ops->sgd = sgd;
}
