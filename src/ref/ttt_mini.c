/* A mini-batch of n tokens in matrix form. The weights of each token need not exist: with X the
 * rows that the tokens' keys bring to an inner layer (w, b), Xq those of the queries, G the inner
 * gradients of the layer's output, U = diag(lambda) G,
 *   P = tril(1 + Xq X^T),   Zq = Xq w + b - diag(tau) (P U),
 *   w' = w - tau_{n-1} X^T U,   b' = b - tau_{n-1} 1^T U,
 * where a prime marks the state behind the mini-batch. Gradients of that state arrive, those of
 * the one at the start leave. */
#include "ref/ttt_mini.h"

#include "ref/gelu.h"

/* A matrix by its strides, so that a transpose costs nothing. */
typedef struct {
    const double *at;
    int64_t row, col;
} View;

static View plain(const double *a, int64_t width)
{
    return (View){a, width, 1};
}

static View turned(const double *a, int64_t width)
{
    return (View){a, 1, width};
}

/* out (rows,cols) += factor * a (rows,inner) b (inner,cols) */
static void add_product(double *out, int64_t rows, int64_t cols, int64_t inner, double factor,
                        View a, View b)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            double sum = 0;
            for (int64_t i = 0; i < inner; i++) {
                sum += a.at[r * a.row + i * a.col] * b.at[i * b.row + c * b.col];
            }
            out[r * cols + c] += factor * sum;
        }
    }
}

/* out (cols) += column sums of a (rows,cols) */
static void add_column_sums(double *out, int64_t rows, int64_t cols, const double *a)
{
    for (int64_t e = 0; e < rows * cols; e++) {
        out[e % cols] += a[e];
    }
}

static void zero(double *a, int64_t count)
{
    memset(a, 0, (size_t)count * sizeof *a);
}

/* z (n,out) = x (n,in) w + b */
static void layer_forward(const TttMini *mb, const TttSide *l, const double *x, double *z)
{
    for (int64_t e = 0; e < mb->n * l->start.out; e++) {
        z[e] = l->start.b[e % l->start.out];
    }
    add_product(z, mb->n, l->start.out, l->start.in, 1, plain(x, l->start.in),
                plain(l->start.w, l->start.out));
}

/* Adds what dz of z = x w + b gives to dx, and to the gradient of the state at the start. */
static void layer_backward(const TttMini *mb, TttSide *l, const double *dz, const double *x,
                           double *dx)
{
    int64_t n = mb->n, in = l->start.in, out = l->start.out;
    add_product(dx, n, in, out, 1, plain(dz, out), turned(l->start.w, out));
    add_product(l->dstart.w, in, out, n, 1, turned(x, in), plain(dz, out));
    add_column_sums(l->dstart.b, n, out, dz);
}

/* dx (n,out) of the layer behind times gelu'(z) onto out */
static void add_through_gelu(int64_t count, const double *dx, const double *z, double *out)
{
    for (int64_t e = 0; e < count; e++) {
        out[e] += dx[e] * ref_gelu_slope(z[e]);
    }
}

static double gamma_of(const TttMini *mb, int64_t e)
{
    return ref_get(mb->w->gamma, mb->h * mb->s->head_dim + e);
}

/* gamma zhat + beta - (v - k), element e of row i */
static double error_of(const TttMini *mb, int64_t i, int64_t e)
{
    int64_t d = mb->s->head_dim, at = i * d + e;
    return gamma_of(mb, e) * mb->zhat[at] + ref_get(mb->w->beta, mb->h * d + e) -
           (mb->v[at] - mb->side[0].x[at]);
}

/* g and u of every layer, from the keys. */
static void inner_gradients(TttMini *mb)
{
    int64_t n = mb->n, d = mb->s->head_dim;
    TttSide *last = &mb->side[mb->layers - 1];
    for (int l = 0; l < mb->layers; l++) {
        TttSide *side = &mb->side[l];
        layer_forward(mb, side, side->x, side->z);
        for (int64_t e = 0; l + 1 < mb->layers && e < n * side->start.out; e++) {
            mb->side[l + 1].x[e] = ref_gelu(side->z[e]);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double *zhat = mb->zhat + i * d, *g = last->g + i * d;
        mb->sigma[i] = ref_ttt_standardise(mb->s, last->z + i * d, zhat);
        for (int64_t e = 0; e < d; e++) {
            g[e] = gamma_of(mb, e) * error_of(mb, i, e);
        }
        ref_ttt_pull(mb->s, g, zhat, mb->sigma[i], g);
    }
    for (int l = mb->layers - 2; l >= 0; l--) {
        TttSide *side = &mb->side[l], *next = side + 1;
        zero(side->c, n * next->start.in);
        add_product(side->c, n, next->start.in, next->start.out, 1, plain(next->g, next->start.out),
                    turned(next->start.w, next->start.out));
        zero(side->g, n * side->start.out);
        add_through_gelu(n * side->start.out, side->c, side->z, side->g);
    }
    for (int l = 0; l < mb->layers; l++) {
        int64_t out = mb->side[l].start.out;
        for (int64_t e = 0; e < n * out; e++) {
            mb->side[l].u[e] = mb->rate[e / out] * mb->side[l].g[e];
        }
    }
}

/* p and zq of every layer, and the norm of the last. */
static void outputs(TttMini *mb)
{
    int64_t n = mb->n, d = mb->s->head_dim;
    for (int l = 0; l < mb->layers; l++) {
        TttSide *side = &mb->side[l];
        int64_t in = side->start.in, out = side->start.out;
        for (int64_t e = 0; e < n * n; e++) {
            side->p[e] = 1;
        }
        add_product(side->p, n, n, in, 1, plain(side->xq, in), turned(side->x, in));
        for (int64_t e = 0; e < n * n; e++) {
            side->p[e] = e % n <= e / n ? side->p[e] : 0;
        }
        layer_forward(mb, side, side->xq, side->zq);
        for (int64_t i = 0; i < n; i++) {
            add_product(side->zq + i * out, 1, out, n, -ref_ttt_tau(mb->w, i),
                        plain(side->p + i * n, n), plain(side->u, out));
        }
        for (int64_t e = 0; l + 1 < mb->layers && e < n * out; e++) {
            mb->side[l + 1].xq[e] = ref_gelu(side->zq[e]);
        }
    }
    for (int64_t i = 0; i < n; i++) {
        mb->sigma_q[i] =
            ref_ttt_standardise(mb->s, mb->side[mb->layers - 1].zq + i * d, mb->zhat_q + i * d);
    }
}

/* From dzq of a layer: dxq, dx and the gradient of u (in dg), all assigned, and dtau and dstart. */
static void layer_output_backward(TttMini *mb, TttSide *l)
{
    int64_t n = mb->n, in = l->start.in, out = l->start.out;
    double last_tau = ref_ttt_tau(mb->w, n - 1), *dp = l->c;
    zero(l->dxq, n * in);
    zero(l->dx, n * in);
    zero(l->dg, n * out);
    layer_backward(mb, l, l->dzq, l->xq, l->dxq);

    zero(dp, n * n);
    add_product(dp, n, n, out, 1, plain(l->dzq, out), turned(l->u, out));
    for (int64_t e = 0; e < n * n; e++) {
        int64_t i = e / n;
        double c = e % n <= i ? dp[e] : 0;
        mb->dtau[i] -= c * l->p[e];
        dp[e] = -ref_ttt_tau(mb->w, i) * c;
    }
    add_product(l->dxq, n, in, n, 1, plain(dp, n), plain(l->x, in));
    add_product(l->dx, n, in, n, 1, turned(dp, n), plain(l->xq, in));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            for (int64_t o = 0; o < out; o++) {
                l->dg[j * out + o] -= l->p[i * n + j] * ref_ttt_tau(mb->w, i) * l->dzq[i * out + o];
            }
        }
    }

    /* The state behind the mini-batch: j = x w'-gradient + b'-gradient pairs with u. */
    double *j = l->c;
    for (int64_t e = 0; e < n * out; e++) {
        j[e] = l->dafter.b[e % out];
    }
    add_product(j, n, out, in, 1, plain(l->x, in), plain(l->dafter.w, out));
    for (int64_t e = 0; e < n * out; e++) {
        l->dg[e] -= last_tau * j[e];
        mb->dtau[n - 1] -= j[e] * l->u[e];
    }
    add_product(l->dx, n, in, out, -last_tau, plain(l->u, out), turned(l->dafter.w, out));
}

/* Row i of the last layer: from dg, the gradient of the inner gradient, to dz (assigned), dv,
 * and dk (the target is v - k), and to gamma and beta. With y = gamma * error and g = pull(y). */
static void inner_gradient_backward(TttMini *mb, int64_t i)
{
    const TttSide *last = &mb->side[mb->layers - 1];
    int64_t d = mb->s->head_dim, row = i * d;
    const double *dg = last->dg + row, *g = last->g + row, *zhat = mb->zhat + row;
    double *dz = last->dz + row, sigma = mb->sigma[i];
    double mean_r = 0, mean_r_zhat = 0, mean_y_zhat = 0, mean_dg_g = 0;
    for (int64_t e = 0; e < d; e++) {
        double y = gamma_of(mb, e) * error_of(mb, i, e);
        mean_r += dg[e] / sigma / (double)d;
        mean_r_zhat += dg[e] / sigma * zhat[e] / (double)d;
        mean_y_zhat += y * zhat[e] / (double)d;
        mean_dg_g += dg[e] * g[e] / (double)d;
    }
    for (int64_t e = 0; e < d; e++) {
        double gamma = gamma_of(mb, e), error = error_of(mb, i, e), r = dg[e] / sigma;
        double dy = r - mean_r - mean_r_zhat * zhat[e], derror = gamma * dy;
        mb->dgamma[e] += dy * error + derror * zhat[e];
        mb->dbeta[e] += derror;
        mb->dv[row + e] = -derror;
        mb->dk[row + e] = derror;
        dz[e] = -mean_y_zhat * r - mean_r_zhat * gamma * error + gamma * derror;
    }
    ref_ttt_pull(mb->s, dz, zhat, sigma, dz);
    for (int64_t e = 0; e < d; e++) {
        dz[e] -= zhat[e] * mean_dg_g / sigma; /* the 1/sigma inside g */
    }
}

void ref_ttt_mini_forward(TttMini *mb)
{
    inner_gradients(mb);
    outputs(mb);
}

void ref_ttt_mini_backward(TttMini *mb)
{
    int64_t n = mb->n, d = mb->s->head_dim;
    TttSide *last = &mb->side[mb->layers - 1];
    for (int64_t e = 0; e < n * d; e++) {
        mb->dgamma[e % d] += mb->dq[e] * mb->zhat_q[e];
        mb->dbeta[e % d] += mb->dq[e];
        last->dzq[e] = gamma_of(mb, e % d) * mb->dq[e];
    }
    for (int64_t i = 0; i < n; i++) {
        double *row = last->dzq + i * d;
        ref_ttt_pull(mb->s, row, mb->zhat_q + i * d, mb->sigma_q[i], row);
    }
    for (int l = mb->layers - 1; l >= 0; l--) {
        TttSide *side = &mb->side[l];
        layer_output_backward(mb, side);
        if (l > 0) {
            zero(side[-1].dzq, n * side->start.in);
            add_through_gelu(n * side->start.in, side->dxq, side[-1].zq, side[-1].dzq);
        }
    }
    zero(mb->drate, n);
    for (int l = 0; l < mb->layers; l++) {
        TttSide *side = &mb->side[l];
        int64_t out = side->start.out;
        for (int64_t e = 0; e < n * out; e++) {
            mb->drate[e / out] += side->dg[e] * side->g[e];
            side->dg[e] *= mb->rate[e / out];
        }
        zero(side->dz, n * out);
    }
    for (int l = 0; l + 1 < mb->layers; l++) { /* g = (g of the next times its w^T) * gelu'(z) */
        TttSide *side = &mb->side[l], *next = side + 1;
        int64_t f = side->start.out, out = next->start.out;
        double *back = side->c;
        zero(back, n * f);
        add_product(back, n, f, out, 1, plain(next->g, out), turned(next->start.w, out));
        for (int64_t e = 0; e < n * f; e++) {
            side->dz[e] = side->dg[e] * back[e] * ref_gelu_curvature(side->z[e]);
            back[e] = side->dg[e] * ref_gelu_slope(side->z[e]); /* now its gradient */
        }
        add_product(next->dg, n, out, f, 1, plain(back, f), plain(next->start.w, out));
        add_product(next->dstart.w, f, out, n, 1, turned(back, f), plain(next->g, out));
    }
    for (int64_t i = 0; i < n; i++) {
        inner_gradient_backward(mb, i);
    }
    for (int l = mb->layers - 1; l >= 0; l--) {
        TttSide *side = &mb->side[l];
        layer_backward(mb, side, side->dz, side->x, side->dx);
        if (l > 0) {
            add_through_gelu(n * side->start.in, side->dx, side[-1].z, side[-1].dz);
        }
    }
    for (int64_t e = 0; e < n * d; e++) {
        mb->dq[e] += mb->side[0].dxq[e];
        mb->dk[e] += mb->side[0].dx[e];
    }
}
