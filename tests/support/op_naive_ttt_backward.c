/* Gradients of test-time training in f32 sums; see op_naive_ttt.c for what is rounded.
 * Mini-batches run from the last to the first, from states that are made again. */
#include "support/op_naive_ttt.h"

#include "base/mem.h"

#include <stdlib.h>

/* Gradients of one head, summed over sequences, and of tau, over everything. */
typedef struct {
    Mat dw[LAYERS], db[LAYERS];         /* of the state behind the mini-batch */
    Mat new_dw[LAYERS], new_db[LAYERS]; /* of the one at its start */
    float *dtau, *dgamma, *dbeta, drate_bias;
} Sums;

/* dzq of a layer to dxq and dx (both added to), the returned gradient of u, dtau and the state. */
static Mat output_backward(Mini *m, int l, Mat dzq, Mat dx, Mat dxq, Sums *sums)
{
    Layer *y = &m->layer[l];
    DType act = m->act;
    float last = m->tau.at[m->n - 1];
    naive_multiply(act, dxq, 1, dzq, turn(y->w));
    naive_multiply(act, sums->new_dw[l], 1, turn(y->xq), dzq);
    add_rows(sums->new_db[l], dzq);
    Mat dp = make(&m->heap, m->n, m->n), scaled = make(&m->heap, m->n, dzq.cols);
    naive_multiply(act, dp, 1, dzq, turn(y->u));
    lower(dp);
    for (int64_t e = 0; e < m->n * m->n; e++) {
        sums->dtau[e / m->n] -= dp.at[e] * y->p.at[e];
        dp.at[e] *= -m->tau.at[e / m->n];
    }
    for (int64_t e = 0; e < m->n * dzq.cols; e++) {
        scaled.at[e] = m->tau.at[e / dzq.cols] * dzq.at[e];
    }
    Mat du = make(&m->heap, m->n, dzq.cols), j = make(&m->heap, m->n, dzq.cols);
    naive_multiply(act, du, -1, turn(y->p), scaled);
    naive_multiply(act, dxq, 1, dp, y->x);
    naive_multiply(act, dx, 1, turn(dp), y->xq);
    set_rows(j, sums->db[l]);
    naive_multiply(act, j, 1, y->x, sums->dw[l]);
    for (int64_t e = 0; e < m->n * dzq.cols; e++) {
        du.at[e] -= last * j.at[e];
        sums->dtau[m->n - 1] -= j.at[e] * y->u.at[e];
    }
    naive_multiply(act, dx, -last, y->u, turn(sums->dw[l]));
    return du;
}

/* dg of the last layer's inner gradient to its dz (returned), dv, dk, gamma and beta. */
static Mat gradient_backward(Mini *m, Mat dg, Mat dv, Mat dk, Sums *sums)
{
    int64_t d = m->s->head_dim;
    Mat dz = make(&m->heap, m->n, d), g = m->layer[m->layers - 1].g;
    for (int64_t i = 0; i < m->n; i++) {
        const float *zh = m->zh.at + i * d;
        float sigma = m->sigma.at[i], mean_r = 0, p = 0, s = 0, dg_g = 0;
        for (int64_t e = 0; e < d; e++) {
            float r = dg.at[i * d + e] / sigma;
            mean_r += r / (float)d;
            p += r * zh[e] / (float)d;
            s += gamma_at(m, e) * error_at(m, i, e) * zh[e] / (float)d;
            dg_g += dg.at[i * d + e] * g.at[i * d + e] / (float)d;
        }
        for (int64_t e = 0; e < d; e++) {
            int64_t at = i * d + e;
            float r = dg.at[at] / sigma, error = error_at(m, i, e);
            float dy = r - mean_r - p * zh[e], de = gamma_at(m, e) * dy;
            dz.at[at] = -s * r - p * gamma_at(m, e) * error + gamma_at(m, e) * de;
            dv.at[at] = -de;
            dk.at[at] += de;
            sums->dgamma[e] += dy * error + de * zh[e];
            sums->dbeta[e] += de;
        }
        naive_ttt_pull(m, dz.at + i * d, zh, sigma);
        for (int64_t e = 0; e < d; e++) {
            dz.at[i * d + e] -= zh[e] * dg_g / sigma;
        }
    }
    return dz;
}

static void store_rows(const Mini *m, Tensor dx, Tensor rope, int64_t row, Mat dq, Mat dk, Mat dv,
                       const float *ds)
{
    int64_t d = m->s->head_dim, all = m->s->heads * d;
    for (int64_t i = 0; i < m->n; i++) {
        int64_t at = (row + i) * m->s->width + m->h * d;
        for (int64_t e = 0; e < d; e++) {
            float cosine = get(rope, i * d + e / 2);
            float sine = get(rope, i * d + d / 2 + e / 2) * (e % 2 == 0 ? 1 : -1);
            int64_t other = i * d + (e ^ 1);
            put(dx, at + e, dq.at[i * d + e] * cosine + dq.at[other] * sine, MODE_SET);
            put(dx, at + all + e, dk.at[i * d + e] * cosine + dk.at[other] * sine, MODE_SET);
            put(dx, at + 2 * all + e, dv.at[i * d + e], MODE_SET);
        }
        put(dx, (row + i) * m->s->width + 3 * all + m->h, ds[i], MODE_SET);
    }
}

static void mini_backward(Mini *m, Tensor dout, Tensor rope, int64_t row, Tensor dx, Sums *sums)
{
    int64_t n = m->n, d = m->s->head_dim, f = ttt_inner(m->s);
    bool mlp = m->layers == 2;
    Layer *first = &m->layer[0];
    Mat dq = make(&m->heap, n, d), dk = make(&m->heap, n, d), dv = make(&m->heap, n, d);
    Mat dzq = make(&m->heap, n, d), dx2 = make(&m->heap, n, f), dxq2 = make(&m->heap, n, f);
    for (int64_t e = 0; e < n * d; e++) {
        dq.at[e] = get(dout, ((row + e / d) * m->s->heads + m->h) * d + e % d);
        sums->dgamma[e % d] += dq.at[e] * m->zhq.at[e];
        sums->dbeta[e % d] += dq.at[e];
        dzq.at[e] = gamma_at(m, e % d) * dq.at[e];
    }
    for (int64_t i = 0; i < n; i++) {
        naive_ttt_pull(m, dzq.at + i * d, m->zhq.at + i * d, m->sigma_q.at[i]);
    }
    Mat du2 = {0};
    if (mlp) {
        du2 = output_backward(m, 1, dzq, dx2, dxq2, sums);
        dzq = make(&m->heap, n, f);
        for (int64_t e = 0; e < n * f; e++) {
            dzq.at[e] = dxq2.at[e] * gelu_1(first->zq.at[e]);
        }
    }
    Mat du1 = output_backward(m, 0, dzq, dk, dq, sums);

    Mat ds = make(&m->heap, n, 1);
    for (int64_t e = 0; e < n * f; e++) {
        ds.at[e / f] += du1.at[e] * first->g.at[e];
        du1.at[e] *= m->lambda.at[e / f];
    }
    for (int64_t e = 0; mlp && e < n * d; e++) {
        ds.at[e / d] += du2.at[e] * m->layer[1].g.at[e];
        du2.at[e] *= m->lambda.at[e / d];
    }
    for (int64_t i = 0; i < n; i++) {
        ds.at[i] *= m->lambda.at[i] * (1 - m->gate.at[i]);
        sums->drate_bias += ds.at[i];
    }

    Mat dz1;
    if (mlp) {
        Mat r = naive_ttt_back(m), dr = make(&m->heap, n, f);
        dz1 = make(&m->heap, n, f);
        for (int64_t e = 0; e < n * f; e++) {
            dr.at[e] = du1.at[e] * gelu_1(first->z.at[e]);
            dz1.at[e] = du1.at[e] * r.at[e] * gelu_2(first->z.at[e]);
        }
        naive_multiply(m->act, du2, 1, dr, m->layer[1].w);
        naive_multiply(m->act, sums->new_dw[1], 1, turn(dr), m->layer[1].g);
        Mat dz2 = gradient_backward(m, du2, dv, dk, sums);
        naive_multiply(m->act, dx2, 1, dz2, turn(m->layer[1].w));
        naive_multiply(m->act, sums->new_dw[1], 1, turn(m->layer[1].x), dz2);
        add_rows(sums->new_db[1], dz2);
        for (int64_t e = 0; e < n * f; e++) {
            dz1.at[e] += dx2.at[e] * gelu_1(first->z.at[e]);
        }
    } else {
        dz1 = gradient_backward(m, du1, dv, dk, sums);
    }
    naive_multiply(m->act, dk, 1, dz1, turn(first->w));
    naive_multiply(m->act, sums->new_dw[0], 1, turn(first->x), dz1);
    add_rows(sums->new_db[0], dz1);
    store_rows(m, dx, rope, row, dq, dk, dv, ds.at);
}

/* One sequence: states forward, mini-batches back. block: states (steps + 1), then two of
 * gradients, of which the first holds the result. */
static void sequence_backward(Mini *m, Tensor dout, Tensor x, Tensor rope, int64_t first, Tensor dx,
                              Sums *sums, float *block)
{
    const TttShape *s = m->s;
    int64_t count = ttt_state(s), steps = ttt_steps(s);
    size_t bytes = (size_t)count * sizeof *block;
    float *after = block + (steps + 1) * count, *before = after + count;
    naive_ttt_first(s, m->w, m->h, block);
    for (int64_t step = 0; step < steps; step++) {
        float *state = block + step * count;
        memcpy(state + count, state, bytes);
        naive_ttt_use(m, state + count);
        m->n = naive_ttt_length(s, step * s->mini);
        m->heap.used = 0;
        naive_ttt_load(m, x, rope, first + step * s->mini, 0);
        naive_ttt_gradients(m);
        naive_ttt_hand_over(m);
    }
    memset(after, 0, bytes);
    for (int64_t step = steps - 1; step >= 0; step--) {
        int64_t row = first + step * s->mini;
        naive_ttt_use(m, block + step * count);
        m->n = naive_ttt_length(s, step * s->mini);
        m->heap.used = 0;
        naive_ttt_load(m, x, rope, row, 0);
        naive_ttt_gradients(m);
        naive_ttt_outputs(m);
        memcpy(before, after, bytes);
        naive_ttt_view(m, after, sums->dw, sums->db);
        naive_ttt_view(m, before, sums->new_dw, sums->new_db);
        mini_backward(m, dout, rope, row, dx, sums);
        memcpy(after, before, bytes);
    }
}

void naive_ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *s, const TttWeights *w,
                        Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                        void *ws)
{
    (void)c;
    (void)states;
    (void)ws;
    int64_t d = s->head_dim, count = ttt_state(s), steps = ttt_steps(s);
    float *block = mem_alloc((size_t)((steps + 4) * count) * sizeof *block);
    float *total = block + (steps + 3) * count;
    Sums sums = {.dtau = mem_zalloc((size_t)s->mini, sizeof(float)),
                 .dgamma = mem_alloc((size_t)d * sizeof(float)),
                 .dbeta = mem_alloc((size_t)d * sizeof(float))};
    for (int64_t row = 0; row < s->batch * s->seq; row++) {
        for (int64_t e = (3 * d + 1) * s->heads; e < s->width; e++) {
            put(dx, row * s->width + e, 0, MODE_SET);
        }
    }
    for (int64_t h = 0; h < s->heads; h++) {
        Mini m = naive_ttt_open(s, w, x.dtype, h);
        memset(total, 0, (size_t)count * sizeof *total);
        memset(sums.dgamma, 0, (size_t)d * sizeof(float));
        memset(sums.dbeta, 0, (size_t)d * sizeof(float));
        sums.drate_bias = 0;
        for (int64_t b = 0; b < s->batch; b++) {
            sequence_backward(&m, dout, x, rope, b * s->seq, dx, &sums, block);
            for (int64_t e = 0; e < count; e++) {
                total[e] += block[(steps + 1) * count + e];
            }
        }
        for (int64_t e = 0; e < count; e++) {
            int64_t at;
            Tensor t = naive_ttt_parameter(s, grads, h, e, &at);
            put(t, at, total[e], mode);
        }
        for (int64_t e = 0; e < d; e++) {
            put(grads->gamma, h * d + e, sums.dgamma[e], mode);
            put(grads->beta, h * d + e, sums.dbeta[e], mode);
        }
        put(grads->rate_bias, h, sums.drate_bias, mode);
        free(m.heap.base);
    }
    for (int64_t i = 0; i < s->mini; i++) {
        bool open = 1 / (float)(i + 1) + get(w->index, i) >= 0;
        put(grads->index, i, open ? sums.dtau[i] : 0, mode);
    }
    free(sums.dtau);
    free(sums.dgamma);
    free(sums.dbeta);
    free(block);
}
