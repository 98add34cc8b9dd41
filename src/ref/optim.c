#include "ref/ref.h"
#include "tensor/rounding.h"

/* out (1) = or += sum of squares of x (n) */
static void sum_squares(Ctx *c, Tensor x, Tensor out, Mode mode, void *ws)
{
    (void)c;
    (void)ws;
    double total = 0;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        total += ref_get(x, i) * ref_get(x, i);
    }
    ref_store(out, 0, total, mode);
}

static double left_out_of(UpdateArgs args)
{
    return tensor_given(args.left_out) ? ref_get(args.left_out, 0) : 0;
}

static bool any_counts(UpdateArgs args)
{
    double left_out = left_out_of(args);
    return left_out == 0 || left_out < args.tokens;
}

/* What every gradient is multiplied with: from a sum over `tokens` to a mean over those that
 * count, and so that the norm of all of them is at most `clip`. */
static double gradient_factor(UpdateArgs args)
{
    double left_out = left_out_of(args), clip = ref_get(args.hyper, HYPER_CLIP);
    double mean = left_out == 0 || args.as_is ? 1 : args.tokens / (args.tokens - left_out);
    double norm = mean * sqrt(ref_get(args.norm_sq, 0));
    return mean * (clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1);
}

static uint32_t bits_of(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}

static double get_param(const UpdateArgs *args, int64_t i)
{
    if (args->param.dtype != DT_REST) {
        return ref_get(args->param, i);
    }
    uint32_t bits =
        master_join(((const uint16_t *)args->low.data)[i], ((const uint16_t *)args->param.data)[i]);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void put_param(const UpdateArgs *args, int64_t i, double value)
{
    if (args->param.dtype == DT_REST) {
        SplitMaster split = master_split(bits_of(value));
        ((uint16_t *)args->low.data)[i] = split.low;
        ((uint16_t *)args->param.data)[i] = split.rest;
        return;
    }
    ref_put(args->param, i, value);
    if (tensor_given(args->low)) {
        ref_put(args->low, i, ref_get(args->param, i));
    }
}

static void put_state(const UpdateArgs *args, int which, int64_t i, double value)
{
    Tensor state = args->state[which];
    if (state.dtype != DT_BF16) {
        ref_put(state, i, value);
        return;
    }
    uint32_t key1 = (uint32_t)ref_get(args->hyper, HYPER_KEY1);
    uint32_t key2 = (uint32_t)ref_get(args->hyper, HYPER_KEY2);
    uint32_t noise = rounding_bits(key1, key2, (uint64_t)(args->index + i)) >> 16 * which & 0xFFFF;
    ((uint16_t *)state.data)[i] = bf16_by_chance(bits_of(value), noise);
}

/* One AdamW step on a flat range, decay decoupled from the gradient (see op_adamw). */
static void adamw(Ctx *c, UpdateArgs args)
{
    (void)c;
    double lr = ref_get(args.hyper, HYPER_LR);
    double beta1 = ref_get(args.hyper, HYPER_BETA1), beta2 = ref_get(args.hyper, HYPER_BETA2);
    double rest1 = ref_get(args.hyper, HYPER_REST1), rest2 = ref_get(args.hyper, HYPER_REST2);
    double eps = ref_get(args.hyper, HYPER_EPS);
    double decay = args.decay ? ref_get(args.hyper, HYPER_DECAY) : 0;
    double correction1 = ref_get(args.hyper, HYPER_CORRECTION1);
    double correction2 = ref_get(args.hyper, HYPER_CORRECTION2);
    double factor = gradient_factor(args);
    for (int64_t i = 0; any_counts(args) && i < tensor_count(args.param); i++) {
        double g = ref_get(args.grad, i) * factor;
        double p = get_param(&args, i);
        double m = beta1 * ref_get(args.state[0], i) + rest1 * g;
        double v = beta2 * ref_get(args.state[1], i) + rest2 * g * g;
        p -= lr * decay * p;
        p -= lr * (m / correction1) / (sqrt(v / correction2) + eps);
        put_state(&args, 0, i, m);
        put_state(&args, 1, i, v);
        put_param(&args, i, p);
    }
}

static void sgd(Ctx *c, UpdateArgs args)
{
    (void)c;
    double lr = ref_get(args.hyper, HYPER_LR), momentum = ref_get(args.hyper, HYPER_BETA1);
    double decay = args.decay ? ref_get(args.hyper, HYPER_DECAY) : 0;
    double factor = gradient_factor(args);
    for (int64_t i = 0; any_counts(args) && i < tensor_count(args.param); i++) {
        double p = get_param(&args, i);
        double m = momentum * ref_get(args.state[0], i) + ref_get(args.grad, i) * factor;
        put_state(&args, 0, i, m);
        put_param(&args, i, p - lr * (m + decay * p));
    }
}

void ref_fill_optim(Ops *ops)
{
    ops->sum_squares = sum_squares;
    ops->adamw = adamw;
    ops->sgd = sgd;
}
