#pragma once
/* What test-time training does row by row over the width of a head: the inner norm, the inner
 * gradient, their derivatives, rotary positions and gelu. Rows are whole vectors; lanes past the
 * true width are 0 in every row given and made, which mask (1, then 0) sees to. */
#include "cpu/kernels/attention_tile.h"

typedef struct {
    int64_t width;             /* in whole vectors */
    float share;               /* 1 / D */
    double eps;                /* of the norm */
    const float *gamma, *beta; /* one head's */
    const float *mask;
} RowNorm;

/* centred (width) = z - mean of z; returns 1 / sqrt(variance + eps). centred may be z. */
static inline float centre_row(const RowNorm *n, const float *z, float *centred)
{
    Vec sum = {0}, squares = {0};
    for (int64_t i = 0; i < n->width; i += VEC_LANES) {
        sum += vec_load(z + i);
    }
    Vec mean = vec_set(vec_sum(sum) * n->share);
    for (int64_t i = 0; i < n->width; i += VEC_LANES) {
        Vec distance = (vec_load(z + i) - mean) * vec_load(n->mask + i);
        squares = vec_fma(distance, distance, squares);
        vec_store(centred + i, distance);
    }
    return (float)(1 / sqrt((double)(vec_sum(squares) * n->share) + n->eps));
}

/* x - mean of x - zh * mean of x * zh, all times rstd: a gradient on zh taken back to z. x may
 * be dz. */
static inline void pull_row(const RowNorm *n, const float *x, const float *zh, float rstd,
                            float mean, float tilt, float *dz)
{
    for (int64_t i = 0; i < n->width; i += VEC_LANES) {
        Vec value = vec_fma(vec_load(zh + i), vec_set(-tilt), vec_load(x + i) - mean);
        vec_store(dz + i, value * rstd * vec_load(n->mask + i));
    }
}

/* What is kept of a row's inner gradient. */
typedef struct {
    float *zh, *e, *g;  /* (width) */
    float *rstd, *tilt; /* one number each; tilt is the mean of gamma * e * zh */
} InnerRow;

/* The gradient g of |gamma zh + beta - (v - k)|^2 / 2 with respect to z, zh the normalised z. */
static inline void inner_gradient_row(const RowNorm *n, const float *z, const float *k,
                                      const float *v, InnerRow r)
{
    float rstd = centre_row(n, z, r.zh);
    Vec sum = {0}, tilt = {0};
    for (int64_t i = 0; i < n->width; i += VEC_LANES) {
        Vec gamma = vec_load(n->gamma + i);
        Vec zh = vec_rounded(vec_load(r.zh + i) * rstd);
        Vec target = vec_load(v + i) - vec_load(k + i);
        Vec e = vec_fma(gamma, zh, vec_load(n->beta + i)) - target;
        Vec y = vec_rounded(gamma * e);
        sum += y;
        tilt = vec_fma(y, zh, tilt);
        vec_store(r.zh + i, zh);
        vec_store(r.e + i, e);
        vec_store(r.g + i, y);
    }
    *r.rstd = rstd;
    *r.tilt = vec_sum(tilt) * n->share;
    pull_row(n, r.g, r.zh, rstd, vec_sum(sum) * n->share, *r.tilt, r.g);
}

/* Backward of inner_gradient_row: from dg, which is used up, dz; the target's gradient with its
 * sign turned is de, the gradient of -v and of k. dgamma and dbeta grow. dz may be dg. */
static inline void inner_gradient_row_backward(const RowNorm *n, InnerRow r, float *dg, float *dz,
                                               float *de, float *dgamma, float *dbeta)
{
    Vec sum = {0}, along = {0}, own = {0};
    float rstd = *r.rstd, tilt = *r.tilt;
    for (int64_t i = 0; i < n->width; i += VEC_LANES) {
        Vec grad = vec_load(dg + i), scaled = vec_rounded(grad * rstd);
        sum += scaled;
        along = vec_fma(scaled, vec_load(r.zh + i), along);
        own = vec_fma(grad, vec_load(r.g + i), own);
        vec_store(dg + i, scaled);
    }
    float mean = vec_sum(sum) * n->share, slope = vec_sum(along) * n->share;
    float shrink = vec_sum(own) * n->share;
    sum = along = (Vec){0};
    for (int64_t i = 0; i < n->width; i += VEC_LANES) {
        Vec scaled = vec_load(dg + i), zh = vec_load(r.zh + i), e = vec_load(r.e + i);
        Vec gamma = vec_load(n->gamma + i);
        Vec dy = vec_fma(zh, vec_set(-slope), scaled - mean) * vec_load(n->mask + i);
        Vec target = gamma * dy;
        Vec dzh = vec_fma(gamma, target, -(tilt * scaled)) - slope * (gamma * e);
        dzh = vec_rounded(dzh);
        sum += dzh;
        along = vec_fma(dzh, zh, along);
        vec_store(dz + i, dzh);
        vec_store(de + i, target);
        Vec grown = vec_load(dgamma + i) + vec_fma(dy, e, target * zh);
        vec_store(dgamma + i, grown);
        vec_store(dbeta + i, vec_load(dbeta + i) + target);
    }
    pull_row(n, dz, r.zh, rstd, vec_sum(sum) * n->share, vec_sum(along) * n->share + shrink, dz);
}

/* Backward of q + gamma * zh + beta: from dout, dz in the place of z. */
static inline void output_row_backward(const RowNorm *n, const float *dout, float *z, float *zh,
                                       float *dgamma, float *dbeta)
{
    float rstd = centre_row(n, z, zh);
    Vec sum = {0}, along = {0};
    for (int64_t i = 0; i < n->width; i += VEC_LANES) {
        Vec d = vec_load(dout + i), normal = vec_rounded(vec_load(zh + i) * rstd);
        Vec grad = vec_rounded(d * vec_load(n->gamma + i));
        sum += grad;
        along = vec_fma(grad, normal, along);
        vec_store(zh + i, normal);
        vec_store(z + i, grad);
        vec_store(dgamma + i, vec_fma(d, normal, vec_load(dgamma + i)));
        vec_store(dbeta + i, vec_load(dbeta + i) + d);
    }
    pull_row(n, z, zh, rstd, vec_sum(sum) * n->share, vec_sum(along) * n->share, z);
}

/* out (D) = q + gamma * zh + beta, zh the normalised z, which is used up. */
static inline void output_row(const RowNorm *n, const float *q, float *z, int64_t depth, float *out)
{
    float rstd = centre_row(n, z, z);
    for (int64_t i = 0; i < depth; i += VEC_LANES) {
        Vec normal = vec_fma(vec_load(z + i) * rstd, vec_load(n->gamma + i), vec_load(n->beta + i));
        store_within(out, i, depth, vec_load(q + i) + normal);
    }
}

/* Each channel times its cosine, plus its neighbour in the pair times its sine: negative for the
 * first of a pair, and with the sign turned to rotate back. */
VEC_INLINE Vec rotate_pairs(Vec x, Vec cosine, Vec sine)
{
    return vec_fma(x, cosine, SHUFFLE(x, x, TO_OTHER, 1) * sine);
}

/* s is 0 or 1 past this, and powers of x are still finite. */
#define GELU_FLAT 16.0f

/* y = gelu(x), slope = gelu'(x) and, unless NULL, curve = gelu''(x) of count floats in whole
 * vectors. With h = 2u: gelu' = s + x s (1-s) h',  gelu'' = s (1-s) (2 h' + x ((1 - 2 s) h'^2 +
 * h'')). */
static inline void gelu_with_slopes(const float *x, int64_t count, float *y, float *slope,
                                    float *curve)
{
    for (int64_t i = 0; i < count; i += VEC_LANES) {
        Vec v = vec_load(x + i);
        Vec t = vec_min(vec_set(GELU_FLAT), vec_max(vec_set(-GELU_FLAT), v)), square = t * t;
        Vec s = vec_sigmoid(t * vec_fma(square, vec_set(GELU_CUBIC), vec_set(GELU_LINEAR)));
        Vec first = vec_fma(square, vec_set(3 * GELU_CUBIC), vec_set(GELU_LINEAR));
        Vec bell = s * (1.0f - s);
        vec_store(y + i, v * s);
        vec_store(slope + i, vec_fma(t * bell, first, s));
        if (curve != NULL) {
            Vec bend = vec_fma((1.0f - 2.0f * s) * first, first, t * (6 * GELU_CUBIC));
            vec_store(curve + i, bell * vec_fma(t, bend, 2.0f * first));
        }
    }
}
