/* Test-time training for f32: the forward, whose threads own a sequence and head each and keep
 * nothing for the backward, which scans again; and the steps of generation. */
#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/ttt_head.h"
#include "cpu/threads.h"

#include <omp.h>

static size_t ttt_forward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    (void)dtype;
    HeadLayout l = head_layout(shape);
    int64_t used;
    take_tokens(&l, NULL, &used);
    return (size_t)used * sizeof(float) * (size_t)c->backend->threads;
}

/* One sequence of one head: out (seq, D), out_row apart, from its rows x; the first state is
 * there. */
static void forward_head(const HeadLayout *l, const TokenSpace *s, const float *x, int64_t head,
                         float *out)
{
    for (int64_t step = 0; step < l->steps; step++) {
        MiniSize size = mini_size(l, &s->head, step);
        int64_t token = step * l->mini;
        const float *rows = x + token * l->x_row;
        int64_t ahead = tokens_behind(l, step);
        inner_forward(l, &s->head, rows, head, size.n, ahead, false, &s->mini, &s->space);
        for (int64_t i = 0; i < size.n; i++) {
            prefetch_row(out + (token + i) * l->out_row, l->depth);
        }
        apply_state(l, &s->head, rows, head, size, &s->mini, &s->space);
        for (int64_t i = 0; i < size.n; i++) {
            if (i < ahead) {
                prefetch_row(rows + (size.n + i) * l->x_row + head * l->depth, l->depth);
            }
            output_row(&s->head.norm, s->space.q + i * l->width, s->space.zq + i * l->width,
                       l->depth, out + (token + i) * l->out_row);
        }
        if (step + 1 < l->steps) {
            update_state(l, size, &s->mini, s->mini.state, &s->space);
        }
    }
}

static void ttt_forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                        Tensor out, Tensor states, void *ws)
{
    (void)states;
    HeadLayout l = head_layout(shape);
    int threads = threads_for(c, tensor_count(out) * l.inner);
#pragma omp parallel num_threads(threads)
    {
        int thread = omp_get_thread_num();
        int64_t size;
        take_tokens(&l, NULL, &size);
        TokenSpace s = take_tokens(&l, (float *)ws + thread * size, &size);
        Span units = span_of(shape->batch * l.heads, omp_get_num_threads(), thread);
        if (units.first < units.last) {
            fill_positions(&l, w, rope, &s.head);
        }
        for (int64_t unit = units.first; unit < units.last; unit++) {
            int64_t b = unit / l.heads, head = unit % l.heads;
            fill_head(&l, w, head, &s.head);
            start_state(&l, w, head, s.mini.state);
            forward_head(&l, &s, (const float *)x.data + b * l.seq * l.x_row, head,
                         (float *)out.data + b * l.seq * l.out_row + head * l.depth);
        }
    }
}

/* --- token by token: a step reads the inner parameters of a head and the sums of its gradients,
 * writes the sums, and does little with each number, so it goes through them as few times as it
 * can: once for the key, and once to add to the sums and apply the result to the query --- */

/* A linear map of the state, and the sums of its gradients: w (in, out), b (out), without
 * padding. */
typedef struct {
    int64_t in, out;
    float *w, *b;
    float *w_sum, *b_sum;
} StepLayer;

static StepLayer step_layer(int64_t in, int64_t out, float *state, int64_t count)
{
    float *b = state + in * out;
    return (StepLayer){in, out, state, b, state + count, b + count};
}

/* z = x w + b */
static void apply_layer(const StepLayer *l, const float *x, float *z)
{
    for (int64_t o = 0; o < l->out; o += VEC_LANES) {
        Vec even = load_within(l->b, o, l->out), odd = {0};
        int64_t e = 0;
        for (; e + 2 <= l->in; e += 2) {
            const float *row = l->w + e * l->out;
            even = vec_fma(vec_set(x[e]), load_within(row, o, l->out), even);
            odd = vec_fma(vec_set(x[e + 1]), load_within(row + l->out, o, l->out), odd);
        }
        vec_store(z + o, even + odd);
    }
}

/* The sums grow by x^T u and u; then z = xq (w - tau w_sum) + b - tau b_sum. */
static void advance_layer(const StepLayer *l, const float *x, const float *u, float tau,
                          const float *xq, float *z)
{
    for (int64_t o = 0; o < l->out; o += VEC_LANES) {
        Vec step = vec_load(u + o), less = vec_set(-tau);
        Vec b_sum = load_within(l->b_sum, o, l->out) + step;
        store_within(l->b_sum, o, l->out, b_sum);
        Vec sum = vec_fma(less, b_sum, load_within(l->b, o, l->out));
        for (int64_t e = 0; e < l->in; e++) {
            float *row = l->w_sum + e * l->out;
            Vec grown = vec_fma(vec_set(x[e]), step, load_within(row, o, l->out));
            store_within(row, o, l->out, grown);
            Vec weight = vec_fma(less, grown, load_within(l->w + e * l->out, o, l->out));
            sum = vec_fma(vec_set(xq[e]), weight, sum);
        }
        vec_store(z + o, sum);
    }
}

/* r (in) = w g */
static void turned_layer(const StepLayer *l, const float *g, float *r)
{
    for (int64_t e = 0; e < l->in; e++) {
        Vec sum = {0};
        for (int64_t o = 0; o < l->out; o += VEC_LANES) {
            sum = vec_fma(load_within(l->w + e * l->out, o, l->out), vec_load(g + o), sum);
        }
        r[e] = vec_sum(sum);
    }
}

/* One token of one head: out (D) from its row x, and state (2, count) with the token's gradient
 * added. */
static void step_head(const HeadLayout *l, const TokenSpace *s, const float *x, int64_t head,
                      float *state, int64_t count, float *out)
{
    const Mini *t = &s->mini;
    const HeadSpace *h = &s->space;
    const float *q = x + head * l->depth, *k = q + l->out_row, *v = k + l->out_row;
    StepLayer first = step_layer(l->depth, l->inner, state, count);
    StepLayer second =
        step_layer(l->inner, l->depth, state + (l->depth + 1) * l->inner, l->mlp ? count : 0);
    load_rotated(l, &s->head, q, 1, h->q);
    load_rotated(l, &s->head, k, 1, t->k);
    pack_rows(v, l->x_row, 1, l->depth, 1, l->width, h->v);
    load_rates(l, &s->head, x + 3 * l->out_row + head, 1, t);
    apply_layer(&first, t->k, h->z);
    if (l->mlp) {
        gelu_with_slopes(h->z, l->inner_width, t->x, t->slope, NULL);
        apply_layer(&second, t->x, h->z);
    }
    inner_gradient_row(&s->head.norm, h->z, t->k, h->v, inner_row(l, t, 0));
    for (int64_t c = 0; c < l->width; c += VEC_LANES) {
        vec_store(t->u + c, vec_load(t->g + c) * t->rate[0]);
    }
    if (!l->mlp) {
        advance_layer(&first, t->k, t->u, s->head.tau[0], h->q, h->zq);
    } else {
        clear(t->r, l->inner_width);
        turned_layer(&second, t->u, t->r);
        for (int64_t c = 0; c < l->inner_width; c += VEC_LANES) {
            vec_store(t->u1 + c, vec_load(t->r + c) * vec_load(t->slope + c));
        }
        advance_layer(&first, t->k, t->u1, s->head.tau[0], h->q, h->zq1);
        gelu_with_slopes(h->zq1, l->inner_width, h->xq, h->slope, NULL);
        advance_layer(&second, t->x, t->u, s->head.tau[0], h->xq, h->zq);
    }
    output_row(&s->head.norm, h->q, h->zq, l->depth, out);
}

/* Behind a mini-batch: the parameters less tau times the sums, and no sums. */
static void commit(float *state, int64_t count, float tau)
{
    for (int64_t i = 0; i < count; i += VEC_LANES) {
        Vec sum = load_within(state + count, i, count);
        store_within(state, i, count, vec_fma(vec_set(-tau), sum, load_within(state, i, count)));
    }
    clear(state + count, count);
}

static void ttt_step(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                     Tensor position, Tensor state, Tensor out)
{
    TttShape token = *shape;
    token.seq = 1;
    HeadLayout l = head_layout(&token);
    int64_t own, count = ttt_state(shape);
    take_tokens(&l, NULL, &own);
    bool fits = (size_t)own * sizeof(float) * (size_t)c->backend->threads <= CPU_BLOCK_BYTES;
    if (!fits) {
        c->backend->other_ops->ttt_step(c, x, shape, w, rope, position, state, out);
        return;
    }
    int64_t i = ((const int32_t *)position.data)[0] % shape->mini;
    double tau = raw_tau(w, i);
    Tensor angles = tensor_rows(rope, i, 1);
    float *block = cpu_backend(c)->block;
    int threads = threads_for(c, tensor_count(state));
#pragma omp parallel num_threads(threads)
    {
        int thread = omp_get_thread_num();
        int64_t used;
        TokenSpace s = take_tokens(&l, block + thread * own, &used);
        fill_positions(&l, w, angles, &s.head);
        s.head.tau[0] = tau < 0 ? 0 : (float)tau;
        Span units = span_of(shape->batch * l.heads, omp_get_num_threads(), thread);
        for (int64_t unit = units.first; unit < units.last; unit++) {
            int64_t b = unit / l.heads, head = unit % l.heads;
            float *own_state = (float *)state.data + unit * 2 * count;
            fill_head(&l, w, head, &s.head);
            step_head(&l, &s, (const float *)x.data + b * l.x_row, head, own_state, count,
                      (float *)out.data + unit * l.depth);
            if (i == shape->mini - 1) {
                commit(own_state, count, s.head.tau[0]);
            }
        }
    }
}

/* to (count) = part `head` of t, which may be none; returns what follows. */
static float *copy_part(Tensor t, int64_t head, int64_t heads, float *to)
{
    int64_t count = tensor_given(t) ? tensor_count(t) / heads : 0;
    if (count > 0) {
        memcpy(to, (const float *)t.data + head * count, (size_t)count * sizeof *to);
    }
    return to + count;
}

static void ttt_start(Ctx *c, const TttShape *shape, const TttWeights *w, Tensor state)
{
    int64_t count = ttt_state(shape);
    int threads = threads_for(c, tensor_count(state));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t unit = 0; unit < shape->batch * shape->heads; unit++) {
        int64_t head = unit % shape->heads;
        float *to = (float *)state.data + unit * 2 * count;
        const Tensor parts[] = {w->w1, w->b1, w->w2, w->b2};
        for (int part = 0; part < 4; part++) {
            to = copy_part(parts[part], head, shape->heads, to);
        }
        clear(to, count);
    }
}

void PACER_ISA_NAME(ttt_fill)(Ops *ops)
{
    ops->ttt_forward = ttt_forward;
    ops->ttt_forward_ws = ttt_forward_ws;
    ops->ttt_start = ttt_start;
    ops->ttt_step = ttt_step;
}
