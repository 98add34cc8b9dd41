/* A test-time-training layer, token by token: the definition. Per sequence and head, with the
 * parameters W at the start of a mini-batch and sums A = 0, for every token i of it
 *   g = gradient of 1/2 |norm(inner(k; W)) - (v - k)|^2 in W,   A += lambda g,
 *   out = q + norm(inner(q; W - tau_i A)),
 * and behind the mini-batch's last token W -= tau_i A. A sequence is its tokens one after
 * another, so the forward pass is op_ttt_start and op_ttt_step without rounding between the
 * tokens. */
#include "ref/ttt_inner.h"

#include "base/mem.h"
#include "ref/gelu.h"

#include <stdlib.h>

TttLayer ref_ttt_layer(const TttShape *s, int layer, double *block)
{
    int64_t d = s->head_dim, f = ttt_inner(s);
    TttLayer l = {.in = layer == 0 ? d : f, .out = layer == 0 ? f : d};
    l.w = layer == 0 ? block : block + d * f + f;
    l.b = l.w + l.in * l.out;
    return l;
}

void ref_ttt_turn(Tensor rope, const TttShape *s, int64_t i, bool back, double *row)
{
    int64_t d = s->head_dim;
    for (int64_t pair = 0; pair < d / 2; pair++) {
        double cosine = ref_get(rope, i * d + pair), sine = ref_get(rope, i * d + d / 2 + pair);
        double a = row[2 * pair], b = row[2 * pair + 1];
        sine = back ? -sine : sine;
        row[2 * pair] = a * cosine - b * sine;
        row[2 * pair + 1] = b * cosine + a * sine;
    }
}

void ref_ttt_read(Tensor x, const TttShape *s, const TttWeights *w, Tensor rope, int64_t row,
                  int64_t h, int64_t i, TttToken *token)
{
    int64_t d = s->head_dim, all = s->heads * d, at = row * s->width + h * d;
    for (int64_t e = 0; e < d; e++) {
        token->q[e] = ref_get(x, at + e);
        token->k[e] = ref_get(x, at + all + e);
        token->v[e] = ref_get(x, at + 2 * all + e);
    }
    ref_ttt_turn(rope, s, i, false, token->q);
    ref_ttt_turn(rope, s, i, false, token->k);
    double gate = ref_get(x, row * s->width + 3 * all + h) + ref_get(w->rate_bias, h);
    token->sigmoid = 1 / (1 + exp(-gate));
    token->rate = s->base_rate / (double)d * token->sigmoid;
}

double ref_ttt_tau_before_clamp(const TttWeights *w, int64_t i)
{
    return 1 / (double)(i + 1) + ref_get(w->index, i);
}

void ref_ttt_begin(const TttShape *s, const TttWeights *w, int64_t h, double *state)
{
    memset(state, 0, (size_t)(2 * ttt_state(s)) * sizeof *state);
    for (int layer = 0; layer < ttt_layers(s); layer++) {
        TttLayer l = ref_ttt_layer(s, layer, state);
        Tensor weight = layer == 0 ? w->w1 : w->w2, bias = layer == 0 ? w->b1 : w->b2;
        for (int64_t e = 0; e < l.in * l.out; e++) {
            l.w[e] = ref_get(weight, h * l.in * l.out + e);
        }
        for (int64_t e = 0; e < l.out; e++) {
            l.b[e] = ref_get(bias, h * l.out + e);
        }
    }
}

double ref_ttt_standardise(const TttShape *s, const double *z, double *zhat)
{
    int64_t d = s->head_dim;
    double mean = 0, variance = 0;
    for (int64_t e = 0; e < d; e++) {
        mean += z[e] / (double)d;
    }
    for (int64_t e = 0; e < d; e++) {
        variance += (z[e] - mean) * (z[e] - mean) / (double)d;
    }
    double sigma = sqrt(variance + s->eps);
    for (int64_t e = 0; e < d; e++) {
        zhat[e] = (z[e] - mean) / sigma;
    }
    return sigma;
}

void ref_ttt_pull(const TttShape *s, const double *dzhat, const double *zhat, double sigma,
                  double *out)
{
    int64_t d = s->head_dim;
    double mean = 0, along = 0;
    for (int64_t e = 0; e < d; e++) {
        mean += dzhat[e] / (double)d;
        along += dzhat[e] * zhat[e] / (double)d;
    }
    for (int64_t e = 0; e < d; e++) {
        out[e] = (dzhat[e] - mean - zhat[e] * along) / sigma;
    }
}

/* y (out) = x (in) times the parameters of l less tau times those of sum. */
static void apply(TttLayer l, TttLayer sum, double tau, const double *x, double *y)
{
    for (int64_t o = 0; o < l.out; o++) {
        y[o] = l.b[o] - tau * sum.b[o];
    }
    for (int64_t at = 0; at < l.in * l.out; at++) {
        y[at % l.out] += x[at / l.out] * (l.w[at] - tau * sum.w[at]);
    }
}

/* sum += rate * (x^T g, g) */
static void accumulate(TttLayer sum, double rate, const double *x, const double *g)
{
    for (int64_t at = 0; at < sum.in * sum.out; at++) {
        sum.w[at] += rate * x[at / sum.out] * g[at % sum.out];
    }
    for (int64_t o = 0; o < sum.out; o++) {
        sum.b[o] += rate * g[o];
    }
}

/* Gradient of 1/2 |gamma zhat + beta - (v - k)|^2 in z, whose standardised form is zhat (D). */
static void inner_gradient(const TttShape *s, const TttWeights *w, int64_t h, const TttToken *token,
                           const double *zhat, double sigma, double *g)
{
    for (int64_t e = 0; e < s->head_dim; e++) {
        double gamma = ref_get(w->gamma, h * s->head_dim + e);
        double target = token->v[e] - token->k[e];
        g[e] = gamma * (gamma * zhat[e] + ref_get(w->beta, h * s->head_dim + e) - target);
    }
    ref_ttt_pull(s, g, zhat, sigma, g);
}

/* Vectors of up to F elements that a token needs. */
enum { ROOM_Z1, ROOM_X2, ROOM_Z2, ROOM_ZHAT, ROOM_G1, ROOM_G2, ROOM_VECTORS };

int64_t ref_ttt_room(const TttShape *s)
{
    return ROOM_VECTORS * ttt_inner(s);
}

void ref_ttt_token(const TttShape *s, const TttWeights *w, int64_t h, int64_t i,
                   const TttToken *token, double *state, double *out, double *room)
{
    int64_t d = s->head_dim, f = ttt_inner(s), count = ttt_state(s);
    bool mlp = s->kind == TTT_MLP;
    double tau = ref_ttt_tau(w, i);
    double *z1 = room + ROOM_Z1 * f, *x2 = room + ROOM_X2 * f, *z2 = room + ROOM_Z2 * f;
    double *zhat = room + ROOM_ZHAT * f, *g1 = room + ROOM_G1 * f, *g2 = room + ROOM_G2 * f;
    TttLayer first = ref_ttt_layer(s, 0, state), first_sum = ref_ttt_layer(s, 0, state + count);
    TttLayer second = {0}, second_sum = {0};
    if (mlp) {
        second = ref_ttt_layer(s, 1, state);
        second_sum = ref_ttt_layer(s, 1, state + count);
    }

    apply(first, first_sum, 0, token->k, z1);
    if (mlp) {
        for (int64_t e = 0; e < f; e++) {
            x2[e] = ref_gelu(z1[e]);
        }
        apply(second, second_sum, 0, x2, z2);
    }
    double sigma = ref_ttt_standardise(s, mlp ? z2 : z1, zhat);
    inner_gradient(s, w, h, token, zhat, sigma, mlp ? g2 : g1);
    if (mlp) {
        for (int64_t e = 0; e < f; e++) {
            double back = 0;
            for (int64_t o = 0; o < d; o++) {
                back += second.w[e * d + o] * g2[o];
            }
            g1[e] = back * ref_gelu_slope(z1[e]);
        }
        accumulate(second_sum, token->rate, x2, g2);
    }
    accumulate(first_sum, token->rate, token->k, g1);

    apply(first, first_sum, tau, token->q, z1);
    if (mlp) {
        for (int64_t e = 0; e < f; e++) {
            x2[e] = ref_gelu(z1[e]);
        }
        apply(second, second_sum, tau, x2, z2);
    }
    ref_ttt_standardise(s, mlp ? z2 : z1, zhat);
    for (int64_t e = 0; e < d; e++) {
        out[e] = token->q[e] + ref_get(w->gamma, h * d + e) * zhat[e] + ref_get(w->beta, h * d + e);
    }

    for (int64_t e = 0; i == s->mini - 1 && e < count; e++) {
        state[e] -= tau * state[count + e];
        state[count + e] = 0;
    }
}

/* ws: q, k, v and out of a token, its room, and the state of one head. */
static size_t ttt_forward_ws(const Ctx *c, const TttShape *s, DType dtype)
{
    (void)c;
    (void)dtype;
    return (size_t)(4 * s->head_dim + ref_ttt_room(s) + 2 * ttt_state(s)) * sizeof(double);
}

static TttToken token_in(const TttShape *s, double *ws)
{
    return (TttToken){.q = ws, .k = ws + s->head_dim, .v = ws + 2 * s->head_dim};
}

static void put_row(Tensor out, const TttShape *s, int64_t row, int64_t h, const double *values)
{
    for (int64_t e = 0; e < s->head_dim; e++) {
        ref_put(out, (row * s->heads + h) * s->head_dim + e, values[e]);
    }
}

static void ttt_forward(Ctx *c, Tensor x, const TttShape *s, const TttWeights *w, Tensor rope,
                        Tensor out, Tensor states, void *ws)
{
    (void)c;
    (void)states; /* backward makes the states again */
    TttToken token = token_in(s, ws);
    double *o = token.v + s->head_dim, *room = o + s->head_dim, *state = room + ref_ttt_room(s);
    for (int64_t bh = 0; bh < s->batch * s->heads; bh++) {
        int64_t first = bh / s->heads * s->seq, h = bh % s->heads;
        ref_ttt_begin(s, w, h, state);
        for (int64_t t = 0; t < s->seq; t++) {
            ref_ttt_read(x, s, w, rope, first + t, h, t % s->mini, &token);
            ref_ttt_token(s, w, h, t % s->mini, &token, state, o, room);
            put_row(out, s, first + t, h, o);
        }
    }
}

static void ttt_start(Ctx *c, const TttShape *s, const TttWeights *w, Tensor state)
{
    (void)c;
    int64_t count = 2 * ttt_state(s);
    double *values = mem_alloc((size_t)count * sizeof *values);
    for (int64_t bh = 0; bh < s->batch * s->heads; bh++) {
        ref_ttt_begin(s, w, bh % s->heads, values);
        for (int64_t e = 0; e < count; e++) {
            ref_put(state, bh * count + e, values[e]);
        }
    }
    free(values);
}

static void ttt_step(Ctx *c, Tensor x, const TttShape *s, const TttWeights *w, Tensor rope,
                     Tensor position, Tensor state, Tensor out)
{
    int64_t count = 2 * ttt_state(s), i = ref_index(position, 0) % s->mini;
    double *ws = mem_alloc(ttt_forward_ws(c, s, x.dtype));
    TttToken token = token_in(s, ws);
    double *o = token.v + s->head_dim, *room = o + s->head_dim, *values = room + ref_ttt_room(s);
    for (int64_t bh = 0; bh < s->batch * s->heads; bh++) {
        int64_t row = bh / s->heads, h = bh % s->heads;
        for (int64_t e = 0; e < count; e++) {
            values[e] = ref_get(state, bh * count + e);
        }
        ref_ttt_read(x, s, w, rope, row, h, i, &token);
        ref_ttt_token(s, w, h, i, &token, values, o, room);
        put_row(out, s, row, h, o);
        for (int64_t e = 0; e < count; e++) {
            ref_put(state, bh * count + e, values[e]);
        }
    }
    free(ws);
}

void ref_fill_ttt(Ops *ops)
{
    ops->ttt_forward = ttt_forward;
    ops->ttt_forward_ws = ttt_forward_ws;
    ops->ttt_backward = ref_ttt_backward;
    ops->ttt_backward_ws = ref_ttt_backward_ws;
    ops->ttt_start = ttt_start;
    ops->ttt_step = ttt_step;
}
