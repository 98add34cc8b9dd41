#include "ref/ref.h"

#include "base/assert.h"

/* Element number i of the logits, capped. */
static double logit(Tensor logits, int64_t i, double cap)
{
    double raw = ref_get(logits, i);
    return cap > 0 ? cap * tanh(raw / cap) : raw;
}

/* Log of the sum of exponentials of the first classes of one row of logits (n,V). */
static double row_log_sum_exp(Tensor logits, int64_t classes, double cap, int64_t row)
{
    int64_t vocab = logits.dim[1];
    double largest = -INFINITY, sum = 0;
    for (int64_t v = 0; v < classes; v++) {
        largest = fmax(largest, logit(logits, row * vocab + v, cap));
    }
    for (int64_t v = 0; v < classes; v++) {
        sum += exp(logit(logits, row * vocab + v, cap) - largest);
    }
    return largest + log(sum);
}

/* losses (n) = lse - logit of the target; with gradient, logits = (softmax - onehot) * scale. A
 * row without a target (negative) has loss and gradient 0, and so have columns from classes on. */
static void xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
                 double scale, bool gradient)
{
    (void)c;
    int64_t rows = logits.dim[0], vocab = logits.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        int64_t target = ref_index(targets, n);
        PACER_ASSERT(target < classes, "target %lld of row %lld, vocabulary %lld",
                     (long long)target, (long long)n, (long long)classes);
        double lse = row_log_sum_exp(logits, classes, cap, n);
        ref_put(losses, n, target >= 0 ? lse - logit(logits, n * vocab + target, cap) : 0);
        for (int64_t v = 0; gradient && v < vocab; v++) {
            double z = logit(logits, n * vocab + v, cap);
            double slope = target >= 0 && v < classes ? exp(z - lse) - (v == target) : 0;
            double bent = cap > 0 ? 1 - z / cap * (z / cap) : 1;
            ref_put(logits, n * vocab + v, slope * scale * bent);
        }
    }
}

/* out (1) = or += scale * sum of x (n) */
static void sum(Ctx *c, Tensor x, double scale, Tensor out, Mode mode)
{
    (void)c;
    double total = 0;
    for (int64_t i = 0; i < tensor_count(x); i++) {
        total += ref_get(x, i);
    }
    ref_store(out, 0, scale * total, mode);
}

void ref_fill_loss(Ops *ops)
{
    ops->xent = xent;
    ops->sum = sum;
}
