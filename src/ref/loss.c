#include "ref/ref.h"

#include "base/assert.h"

/* Log of the sum of exponentials of the first classes of one row of logits (n,V). */
static double row_log_sum_exp(Tensor logits, int64_t classes, int64_t row)
{
    int64_t vocab = logits.dim[1];
    double largest = -INFINITY, sum = 0;
    for (int64_t v = 0; v < classes; v++) {
        largest = fmax(largest, ref_get(logits, row * vocab + v));
    }
    for (int64_t v = 0; v < classes; v++) {
        sum += exp(ref_get(logits, row * vocab + v) - largest);
    }
    return largest + log(sum);
}

/* losses (n) = lse - logit of the target; with gradient, logits = (softmax - onehot) * scale. A
 * row without a target (negative) has loss and gradient 0, and so have columns from classes on. */
static void xent(Ctx *c, Tensor logits, int64_t classes, Tensor targets, Tensor losses,
                 double scale, bool gradient)
{
    (void)c;
    int64_t rows = logits.dim[0], vocab = logits.dim[1];
    for (int64_t n = 0; n < rows; n++) {
        int64_t target = ref_index(targets, n);
        PACER_ASSERT(target < classes, "target %lld of row %lld, vocabulary %lld",
                     (long long)target, (long long)n, (long long)classes);
        double lse = row_log_sum_exp(logits, classes, n);
        ref_put(losses, n, target >= 0 ? lse - ref_get(logits, n * vocab + target) : 0);
        for (int64_t v = 0; gradient && v < vocab; v++) {
            double p = exp(ref_get(logits, n * vocab + v) - lse);
            double slope = target >= 0 && v < classes ? p - (v == target) : 0;
            ref_put(logits, n * vocab + v, slope * scale);
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
