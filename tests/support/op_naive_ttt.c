/* Test-time training in f32 sums, a mini-batch at a time in matrix form. Operands of every
 * product of matrices are rounded to the activation type, as they are where a GPU multiplies
 * bf16; states, row statistics, gradients of states and all else stay f32. The step of a single
 * token has no such products and rounds nothing but its output. */
#include "support/op_naive_ttt.h"

#include "base/mem.h"
#include "support/op_naive.h"

#include <stdlib.h>

/* The rows of a, or its columns, one after another and as stored in `act`. */
static float *operand(DType act, Mat a, bool columns)
{
    int64_t count = a.rows * a.cols;
    float *values = mem_alloc((size_t)count * sizeof *values);
    for (int64_t e = 0; e < count; e++) {
        int64_t to = a.turned == columns ? e : e % a.cols * a.rows + e / a.cols;
        values[to] = act == DT_BF16 ? f32_from_bf16(bf16_from_f32(a.at[e])) : a.at[e];
    }
    return values;
}

void naive_multiply(DType act, Mat out, float factor, Mat a, Mat b)
{
    int64_t inner = a.turned ? a.rows : a.cols;
    float *rows = operand(act, a, false), *columns = operand(act, b, true);
    for (int64_t e = 0; e < out.rows * out.cols; e++) {
        const float *row = rows + e / out.cols * inner, *column = columns + e % out.cols * inner;
        float sum = 0;
        for (int64_t i = 0; i < inner; i++) {
            sum += row[i] * column[i];
        }
        out.at[e] += factor * sum;
    }
    free(rows);
    free(columns);
}

static float tau_of(const TttWeights *w, int64_t i)
{
    return fmaxf(0, 1 / (float)(i + 1) + get(w->index, i));
}

static float turned_pair(Tensor x, int64_t at, Tensor rope, int64_t i, int64_t e, int64_t d)
{
    float cosine = get(rope, i * d + e / 2), sine = get(rope, i * d + d / 2 + e / 2);
    return e % 2 == 0 ? get(x, at + e) * cosine - get(x, at + e + 1) * sine
                      : get(x, at + e) * cosine + get(x, at + e - 1) * sine;
}

void naive_ttt_load(Mini *m, Tensor x, Tensor rope, int64_t row, int64_t i0)
{
    int64_t d = m->s->head_dim, all = m->s->heads * d, n = m->n;
    m->layer[0].x = make(&m->heap, n, d);
    m->layer[0].xq = make(&m->heap, n, d);
    m->v = make(&m->heap, n, d);
    Mat *each[] = {&m->lambda, &m->gate, &m->tau, &m->sigma, &m->sigma_q};
    for (int i = 0; i < 5; i++) {
        *each[i] = make(&m->heap, n, 1);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (row + i) * m->s->width;
        for (int64_t e = 0; e < d; e++) {
            m->layer[0].xq.at[i * d + e] = turned_pair(x, at + m->h * d, rope, i0 + i, e, d);
            m->layer[0].x.at[i * d + e] = turned_pair(x, at + all + m->h * d, rope, i0 + i, e, d);
            m->v.at[i * d + e] = get(x, at + 2 * all + m->h * d + e);
        }
        float s = get(x, at + 3 * all + m->h) + get(m->w->rate_bias, m->h);
        m->gate.at[i] = 1 / (1 + expf(-s));
        m->lambda.at[i] = (float)m->s->base_rate / (float)d * m->gate.at[i];
        m->tau.at[i] = tau_of(m->w, i0 + i);
    }
}

static float standardise(const Mini *m, const float *z, float *zh)
{
    int64_t d = m->s->head_dim;
    float mean = 0, variance = 0;
    for (int64_t e = 0; e < d; e++) {
        mean += z[e];
    }
    mean /= (float)d;
    for (int64_t e = 0; e < d; e++) {
        variance += (z[e] - mean) * (z[e] - mean);
    }
    float sigma = sqrtf(variance / (float)d + (float)m->s->eps);
    for (int64_t e = 0; e < d; e++) {
        zh[e] = (z[e] - mean) / sigma;
    }
    return sigma;
}

void naive_ttt_pull(const Mini *m, float *y, const float *zh, float sigma)
{
    int64_t d = m->s->head_dim;
    float mean = 0, along = 0;
    for (int64_t e = 0; e < d; e++) {
        mean += y[e];
        along += y[e] * zh[e];
    }
    for (int64_t e = 0; e < d; e++) {
        y[e] = (y[e] - mean / (float)d - zh[e] * along / (float)d) / sigma;
    }
}

/* (n,in) w + b */
static Mat affine(Mini *m, const Layer *l, Mat x)
{
    Mat z = make(&m->heap, m->n, l->w.cols);
    set_rows(z, l->b);
    naive_multiply(m->act, z, 1, x, l->w);
    return z;
}

static Mat gelu_rows(Mini *m, Mat z)
{
    Mat x = make(&m->heap, z.rows, z.cols);
    for (int64_t e = 0; e < z.rows * z.cols; e++) {
        x.at[e] = gelu(z.at[e]);
    }
    return x;
}

Mat naive_ttt_back(Mini *m)
{
    Mat r = make(&m->heap, m->n, m->layer[1].w.rows);
    naive_multiply(m->act, r, 1, m->layer[1].g, turn(m->layer[1].w));
    return r;
}

void naive_ttt_gradients(Mini *m)
{
    int64_t n = m->n, d = m->s->head_dim;
    Layer *last = &m->layer[m->layers - 1];
    for (int l = 0; l < m->layers; l++) {
        m->layer[l].z = affine(m, &m->layer[l], m->layer[l].x);
        m->layer[l].g = make(&m->heap, n, m->layer[l].w.cols);
        m->layer[l].u = make(&m->heap, n, m->layer[l].w.cols);
        if (l + 1 < m->layers) {
            m->layer[l + 1].x = gelu_rows(m, m->layer[l].z);
        }
    }
    m->zh = make(&m->heap, n, d);
    for (int64_t i = 0; i < n; i++) {
        m->sigma.at[i] = standardise(m, last->z.at + i * d, m->zh.at + i * d);
        for (int64_t e = 0; e < d; e++) {
            last->g.at[i * d + e] = gamma_at(m, e) * error_at(m, i, e);
        }
        naive_ttt_pull(m, last->g.at + i * d, m->zh.at + i * d, m->sigma.at[i]);
    }
    if (m->layers == 2) {
        Mat r = naive_ttt_back(m);
        for (int64_t e = 0; e < r.rows * r.cols; e++) {
            m->layer[0].g.at[e] = r.at[e] * gelu_1(m->layer[0].z.at[e]);
        }
    }
    for (int l = 0; l < m->layers; l++) {
        Layer *y = &m->layer[l];
        for (int64_t e = 0; e < n * y->g.cols; e++) {
            y->u.at[e] = m->lambda.at[e / y->g.cols] * y->g.at[e];
        }
    }
}

static void normed_output(Mini *m)
{
    int64_t d = m->s->head_dim;
    m->zhq = make(&m->heap, m->n, d);
    for (int64_t i = 0; i < m->n; i++) {
        m->sigma_q.at[i] = standardise(m, m->layer[m->layers - 1].zq.at + i * d, m->zhq.at + i * d);
    }
}

void naive_ttt_outputs(Mini *m)
{
    for (int l = 0; l < m->layers; l++) {
        Layer *y = &m->layer[l];
        y->p = make(&m->heap, m->n, m->n);
        naive_multiply(m->act, y->p, 1, y->xq, turn(y->x));
        for (int64_t e = 0; e < m->n * m->n; e++) {
            y->p.at[e] += 1;
        }
        lower(y->p);
        y->zq = affine(m, y, y->xq);
        Mat pu = make(&m->heap, m->n, y->w.cols);
        naive_multiply(m->act, pu, 1, y->p, y->u);
        for (int64_t e = 0; e < m->n * pu.cols; e++) {
            y->zq.at[e] -= m->tau.at[e / pu.cols] * pu.at[e];
        }
        if (l + 1 < m->layers) {
            m->layer[l + 1].xq = gelu_rows(m, y->zq);
        }
    }
    normed_output(m);
}

void naive_ttt_hand_over(Mini *m)
{
    float tau = m->tau.at[m->n - 1];
    for (int l = 0; l < m->layers; l++) {
        Layer *y = &m->layer[l];
        naive_multiply(m->act, y->w, -tau, turn(y->x), y->u);
        Mat sums = make(&m->heap, 1, y->u.cols);
        add_rows(sums, y->u);
        for (int64_t e = 0; e < sums.cols; e++) {
            y->b.at[e] -= tau * sums.at[e];
        }
    }
}

Mini naive_ttt_open(const TttShape *s, const TttWeights *w, DType act, int64_t h)
{
    Mini m = {.s = s, .w = w, .act = act, .h = h, .layers = s->kind == TTT_MLP ? 2 : 1};
    m.heap.base = mem_alloc((size_t)HEAP_FLOATS * sizeof(float));
    return m;
}

void naive_ttt_view(const Mini *m, float *block, Mat w[LAYERS], Mat b[LAYERS])
{
    int64_t d = m->s->head_dim, f = ttt_inner(m->s);
    for (int l = 0; l < m->layers; l++) {
        w[l] = (Mat){.at = block, .rows = l == 0 ? d : f, .cols = l == 0 ? f : d};
        b[l] = (Mat){.at = block + d * f, .rows = 1, .cols = w[l].cols};
        block += d * f + w[l].cols;
    }
}

void naive_ttt_use(Mini *m, float *block)
{
    Mat w[LAYERS], b[LAYERS];
    naive_ttt_view(m, block, w, b);
    for (int l = 0; l < m->layers; l++) {
        m->layer[l].w = w[l];
        m->layer[l].b = b[l];
    }
}

Tensor naive_ttt_parameter(const TttShape *s, const TttWeights *w, int64_t h, int64_t e,
                           int64_t *at)
{
    int64_t d = s->head_dim, f = ttt_inner(s);
    const Tensor all[] = {w->w1, w->b1, w->w2, w->b2};
    const int64_t count[] = {d * f, f, f * d, d};
    int i = 0;
    for (; e >= count[i]; i++) {
        e -= count[i];
    }
    *at = h * count[i] + e;
    return all[i];
}

void naive_ttt_first(const TttShape *s, const TttWeights *w, int64_t h, float *block)
{
    for (int64_t e = 0; e < ttt_state(s); e++) {
        int64_t at;
        Tensor t = naive_ttt_parameter(s, w, h, e, &at);
        block[e] = get(t, at);
    }
}

int64_t naive_ttt_length(const TttShape *s, int64_t t)
{
    return s->seq - t < s->mini ? s->seq - t : s->mini;
}

static void ttt_forward(Ctx *c, Tensor x, const TttShape *s, const TttWeights *w, Tensor rope,
                        Tensor out, Tensor states, void *ws)
{
    (void)c;
    (void)states;
    (void)ws;
    int64_t d = s->head_dim;
    float *state = mem_alloc((size_t)ttt_state(s) * sizeof *state);
    for (int64_t bh = 0; bh < s->batch * s->heads; bh++) {
        Mini m = naive_ttt_open(s, w, x.dtype, bh % s->heads);
        naive_ttt_first(s, w, m.h, state);
        naive_ttt_use(&m, state);
        for (int64_t t = 0; t < s->seq; t += s->mini) {
            int64_t row = bh / s->heads * s->seq + t;
            m.n = naive_ttt_length(s, t);
            m.heap.used = 0;
            naive_ttt_load(&m, x, rope, row, 0);
            naive_ttt_gradients(&m);
            naive_ttt_outputs(&m);
            for (int64_t e = 0; e < m.n * d; e++) {
                float o =
                    m.layer[0].xq.at[e] + gamma_at(&m, e % d) * m.zhq.at[e] + beta_at(&m, e % d);
                put(out, ((row + e / d) * s->heads + m.h) * d + e % d, o, MODE_SET);
            }
            naive_ttt_hand_over(&m);
        }
        free(m.heap.base);
    }
    free(state);
}

static void ttt_start(Ctx *c, const TttShape *s, const TttWeights *w, Tensor state)
{
    (void)c;
    int64_t count = ttt_state(s);
    for (int64_t e = 0; e < s->batch * s->heads * 2 * count; e++) {
        int64_t at, i = e % (2 * count), h = e / (2 * count) % s->heads;
        Tensor t = i < count ? naive_ttt_parameter(s, w, h, i, &at) : TENSOR_NONE;
        put(state, e, i < count ? get(t, at) : 0, MODE_SET);
    }
}

/* A mini-batch of one token, whose inner gradients join the sums. */
static void ttt_step(Ctx *c, Tensor x, const TttShape *s, const TttWeights *w, Tensor rope,
                     Tensor position, Tensor state, Tensor out)
{
    (void)c;
    int64_t d = s->head_dim, count = ttt_state(s), i = ref_index(position, 0) % s->mini;
    for (int64_t bh = 0; bh < s->batch * s->heads; bh++) {
        Mini m = naive_ttt_open(s, w, DT_F32, bh % s->heads);
        m.n = 1;
        naive_ttt_load(&m, x, rope, bh / s->heads, i);
        Mat start = make(&m.heap, 1, count), sum = make(&m.heap, 1, count);
        Mat now = make(&m.heap, 1, count), dw[LAYERS], db[LAYERS];
        for (int64_t e = 0; e < count; e++) {
            start.at[e] = get(state, bh * 2 * count + e);
            sum.at[e] = get(state, bh * 2 * count + count + e);
        }
        naive_ttt_use(&m, start.at);
        naive_ttt_gradients(&m);
        naive_ttt_view(&m, sum.at, dw, db);
        for (int l = 0; l < m.layers; l++) {
            naive_multiply(DT_F32, dw[l], 1, turn(m.layer[l].x), m.layer[l].u);
            add_rows(db[l], m.layer[l].u);
        }
        for (int64_t e = 0; e < count; e++) {
            now.at[e] = start.at[e] - m.tau.at[0] * sum.at[e];
        }
        naive_ttt_use(&m, now.at);
        m.layer[0].zq = affine(&m, &m.layer[0], m.layer[0].xq);
        if (m.layers == 2) {
            m.layer[1].xq = gelu_rows(&m, m.layer[0].zq);
            m.layer[1].zq = affine(&m, &m.layer[1], m.layer[1].xq);
        }
        normed_output(&m);
        for (int64_t e = 0; e < d; e++) {
            float o = m.layer[0].xq.at[e] + gamma_at(&m, e) * m.zhq.at[e] + beta_at(&m, e);
            put(out, bh * d + e, o, MODE_SET);
        }
        bool over = i == s->mini - 1;
        for (int64_t e = 0; e < count; e++) {
            put(state, bh * 2 * count + e, over ? now.at[e] : start.at[e], MODE_SET);
            put(state, bh * 2 * count + count + e, over ? 0 : sum.at[e], MODE_SET);
        }
        free(m.heap.base);
    }
}

void op_naive_fill_ttt(Ops *ops)
{
    ops->ttt_forward = ttt_forward;
    ops->ttt_backward = naive_ttt_backward;
    ops->ttt_start = ttt_start;
    ops->ttt_step = ttt_step;
}
