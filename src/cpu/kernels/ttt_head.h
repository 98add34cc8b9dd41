#pragma once
/* One head of test-time training over one sequence, mini-batch by mini-batch (tensor/ttt.h has
 * the layer, ttt_layer.h the dual form). A mini-batch goes through
 *   inner_forward   keys and values at the state of its start: inner gradients and u
 *   apply_state     queries: what the output norm is taken of
 *   update_state    the state behind it
 * The state and all tiles of a head stay in a thread's workspace, small enough for the
 * second-level cache. */
#include "cpu/kernels/ttt_layer.h"
#include "cpu/kernels/ttt_rows.h"
#include "tensor/ops.h"

/* Sizes and strides of one call, in floats. */
typedef struct {
    bool mlp;
    int64_t seq, steps, heads, x_row, out_row;
    int64_t mini;               /* tokens of a mini-batch, no more than a sequence has */
    int64_t rows, row;          /* the same in MR, and in whole vectors */
    int64_t depth, width;       /* D, in whole vectors */
    int64_t inner, inner_width; /* F */
    int64_t second, state;      /* where w2 begins in a state, and floats of a state */
    float rate;                 /* base_rate / D */
    double eps;
} HeadLayout;

static inline HeadLayout head_layout(const TttShape *s)
{
    HeadLayout l = {
        .mlp = s->kind == TTT_MLP,
        .seq = s->seq,
        .steps = ttt_steps(s),
        .heads = s->heads,
        .x_row = s->width,
        .out_row = s->heads * s->head_dim,
        .mini = lesser(s->mini, s->seq),
        .depth = s->head_dim,
        .width = round_up(s->head_dim, VEC_LANES),
        .inner = ttt_inner(s),
        .inner_width = round_up(ttt_inner(s), VEC_LANES),
        .rate = (float)(s->base_rate / (double)s->head_dim),
        .eps = s->eps,
    };
    l.rows = round_up(l.mini, MR);
    l.row = round_up(l.mini, VEC_LANES);
    l.second = (round_up(l.depth, MR) + 1) * l.inner_width;
    l.state = l.second + (l.mlp ? (round_up(l.inner, MR) + 1) * l.width : 0);
    return l;
}

/* The maps D -> F and, of an MLP, F -> D of a state, or of the gradient of one. */
static inline Layer first_layer(const HeadLayout *l, float *state)
{
    return (Layer){l->depth,       l->inner, l->width,
                   l->inner_width, state,    state + round_up(l->depth, MR) * l->inner_width};
}

static inline Layer second_layer(const HeadLayout *l, float *state)
{
    float *w = state + l->second;
    return (Layer){l->inner, l->depth, l->inner_width,
                   l->width, w,        w + round_up(l->inner, MR) * l->width};
}

/* A tile of `rows` rows. Products over its columns in groups of MR read past its end. */
static inline float *take_tile(float *base, int64_t *used, int64_t rows, int64_t row)
{
    return take(base, used, rows * row + MR);
}

/* What all sequences of a head share. */
typedef struct {
    RowNorm norm;
    float rate_bias;
    float *gamma, *beta, *mask; /* (width): what norm points to */
    float *tau;                 /* (mini) */
    float *cosine, *sine;       /* (mini, width), for rotate_pairs */
} Head;

static inline Head take_head(const HeadLayout *l, float *base, int64_t *used)
{
    Head h = {.norm = {.width = l->width, .share = 1.0f / (float)l->depth, .eps = l->eps}};
    h.gamma = take(base, used, l->width);
    h.beta = take(base, used, l->width);
    h.mask = take(base, used, l->width);
    h.tau = take(base, used, l->mini);
    h.cosine = take(base, used, l->mini * l->width);
    h.sine = take(base, used, l->mini * l->width);
    h.norm.gamma = h.gamma;
    h.norm.beta = h.beta;
    h.norm.mask = h.mask;
    return h;
}

/* 1 / (i + 1) + index[i]: tau before it is kept from falling below 0. */
static inline double raw_tau(const TttWeights *w, int64_t i)
{
    return 1.0 / (double)(i + 1) + (double)((const float *)w->index.data)[i];
}

/* The part of a Head that is the same for all heads. */
static inline void fill_positions(const HeadLayout *l, const TttWeights *w, Tensor rope,
                                  const Head *h)
{
    int64_t half = l->depth / 2;
    for (int64_t i = 0; i < l->mini; i++) {
        const float *angles = (const float *)rope.data + i * l->depth;
        float *cosine = h->cosine + i * l->width, *sine = h->sine + i * l->width;
        double tau = raw_tau(w, i);
        h->tau[i] = tau < 0 ? 0 : (float)tau;
        clear(cosine, l->width);
        clear(sine, l->width);
        for (int64_t c = 0; c < half; c++) {
            cosine[2 * c] = cosine[2 * c + 1] = angles[c];
            sine[2 * c] = -angles[half + c];
            sine[2 * c + 1] = angles[half + c];
        }
    }
    for (int64_t c = 0; c < l->width; c++) {
        h->mask[c] = c < l->depth ? 1.0f : 0.0f;
    }
}

static inline void fill_head(const HeadLayout *l, const TttWeights *w, int64_t head, Head *h)
{
    const float *gamma = w->gamma.data, *beta = w->beta.data, *bias = w->rate_bias.data;
    pack_rows(gamma + head * l->depth, l->depth, 1, l->depth, 1, l->width, h->gamma);
    pack_rows(beta + head * l->depth, l->depth, 1, l->depth, 1, l->width, h->beta);
    h->rate_bias = bias[head];
}

static inline void pack_layer(const Layer *to, Tensor w, Tensor b, int64_t head)
{
    pack_rows((const float *)w.data + head * to->in * to->out, to->out, to->in, to->out,
              round_up(to->in, MR), to->out_width, to->w);
    pack_rows((const float *)b.data + head * to->out, to->out, 1, to->out, 1, to->out_width, to->b);
}

/* The state every sequence starts from. */
static inline void start_state(const HeadLayout *l, const TttWeights *w, int64_t head, float *state)
{
    Layer first = first_layer(l, state), second = second_layer(l, state);
    pack_layer(&first, w->w1, w->b1, head);
    if (l->mlp) {
        pack_layer(&second, w->w2, w->b2, head);
    }
}

/* One mini-batch: its state, and what the inner model makes of keys and values. */
typedef struct {
    float *state;
    float *k;              /* (rows, width), rotated */
    float *zh, *e, *g, *u; /* (rows, width): InnerRow, and rate * g */
    float *rstd, *tilt;    /* (rows) */
    float *gate, *rate;    /* (row): sigmoid, lambda */
    float *x, *slope, *curve,
        *r;    /* (rows, inner_width), MLP: gelu, gelu', gelu'' of k w1 + b1; g w2^T */
    float *u1; /* (rows, inner_width), MLP: rate * r * slope */
} Mini;

static inline Mini take_mini(const HeadLayout *l, float *base, int64_t *used)
{
    Mini t = {0};
    t.state = take(base, used, l->state);
    t.k = take_tile(base, used, l->rows, l->width);
    t.zh = take_tile(base, used, l->rows, l->width);
    t.e = take_tile(base, used, l->rows, l->width);
    t.g = take_tile(base, used, l->rows, l->width);
    t.u = take_tile(base, used, l->rows, l->width);
    t.rstd = take(base, used, l->rows);
    t.tilt = take(base, used, l->rows);
    t.gate = take(base, used, l->row);
    t.rate = take(base, used, l->row);
    if (l->mlp) {
        t.x = take_tile(base, used, l->rows, l->inner_width);
        t.slope = take_tile(base, used, l->rows, l->inner_width);
        t.curve = take_tile(base, used, l->rows, l->inner_width);
        t.r = take_tile(base, used, l->rows, l->inner_width);
        t.u1 = take_tile(base, used, l->rows, l->inner_width);
    }
    return t;
}

static inline InnerRow inner_row(const HeadLayout *l, const Mini *t, int64_t i)
{
    int64_t at = i * l->width;
    return (InnerRow){t->zh + at, t->e + at, t->g + at, t->rstd + i, t->tilt + i};
}

/* A thread's tiles that do not outlive a mini-batch. */
typedef struct {
    float *q, *v;            /* (rows, width) */
    float *z;                /* (rows, inner_width): inner maps of keys; scaled u */
    float *zq;               /* (rows, width): what the output norm is taken of */
    float *p1, *pt1;         /* (rows, row): LayerTiles of the first layer */
    float *p2, *pt2;         /* MLP: of the second */
    float *zq1, *xq, *slope; /* (rows, inner_width), MLP: q w1 + .., its gelu and gelu' */
    float *turned, *back;    /* (F in MR, row) */
} HeadSpace;

static inline HeadSpace take_space(const HeadLayout *l, float *base, int64_t *used)
{
    HeadSpace s = {0};
    s.q = take_tile(base, used, l->rows, l->width);
    s.v = take_tile(base, used, l->rows, l->width);
    s.z = take_tile(base, used, l->rows, l->inner_width);
    s.zq = take_tile(base, used, l->rows, l->width);
    s.p1 = take_tile(base, used, l->rows, l->row);
    s.pt1 = take_tile(base, used, l->rows, l->row);
    if (l->mlp) {
        s.p2 = take_tile(base, used, l->rows, l->row);
        s.pt2 = take_tile(base, used, l->rows, l->row);
        s.zq1 = take_tile(base, used, l->rows, l->inner_width);
        s.xq = take_tile(base, used, l->rows, l->inner_width);
        s.slope = take_tile(base, used, l->rows, l->inner_width);
    }
    s.turned = take_tile(base, used, round_up(l->inner, MR), l->row);
    s.back = take_tile(base, used, round_up(l->inner, MR), l->row);
    return s;
}

/* A thread's workspace for the tokens of one head, a mini-batch or a single one. */
typedef struct {
    Head head;
    Mini mini;
    HeadSpace space;
} TokenSpace;

static inline TokenSpace take_tokens(const HeadLayout *l, float *base, int64_t *used)
{
    *used = 0;
    TokenSpace s;
    s.head = take_head(l, base, used);
    s.mini = take_mini(l, base, used);
    s.space = take_space(l, base, used);
    return s;
}

static inline MiniSize mini_size(const HeadLayout *l, const Head *h, int64_t step)
{
    return (MiniSize){lesser(l->mini, l->seq - step * l->mini), l->row, h->tau};
}

/* to (n, width) = n tokens' rows, x_row apart, rotated. */
static inline void load_rotated(const HeadLayout *l, const Head *h, const float *from, int64_t n,
                                float *to)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < l->width; c += VEC_LANES) {
            int64_t at = i * l->width + c;
            Vec x = load_within(from + i * l->x_row, c, l->depth);
            vec_store(to + at, rotate_pairs(x, vec_load(h->cosine + at), vec_load(h->sine + at)));
        }
    }
}

/* The mini-batch's gate and rate from s, x_row apart. */
static inline void load_rates(const HeadLayout *l, const Head *h, const float *s, int64_t n,
                              const Mini *t)
{
    for (int64_t i = 0; i < l->row; i++) {
        t->gate[i] = i < n ? s[i * l->x_row] + h->rate_bias : 0;
    }
    for (int64_t i = 0; i < l->row; i += VEC_LANES) {
        Vec gate = vec_sigmoid(vec_load(t->gate + i));
        vec_store(t->gate + i, gate);
        vec_store(t->rate + i, gate * l->rate);
    }
}

/* Fills t but for its state, which is there. x is the mini-batch's first row of the packed
 * input, `ahead` how many rows are wanted next: they are asked for in small portions, which do
 * not hold up the work. slopes: gelu'' is wanted too. */
static inline void inner_forward(const HeadLayout *l, const Head *h, const float *x, int64_t head,
                                 int64_t n, int64_t ahead, bool slopes, const Mini *t,
                                 const HeadSpace *s)
{
    const float *k = x + (l->heads + head) * l->depth, *v = k + l->heads * l->depth;
    Layer first = first_layer(l, t->state), second = second_layer(l, t->state);
    load_rotated(l, h, k, n, t->k);
    pack_rows(v, l->x_row, n, l->depth, n, l->width, s->v);
    load_rates(l, h, x + 3 * l->heads * l->depth + head, n, t);
    layer_rows(&first, n, t->k, s->z);
    if (l->mlp) {
        gelu_with_slopes(s->z, n * l->inner_width, t->x, t->slope, slopes ? t->curve : NULL);
        layer_rows(&second, n, t->x, s->z);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at = i * l->width;
        if (i < ahead) {
            prefetch_row(k + (n + i) * l->x_row, l->depth);
            prefetch_row(v + (n + i) * l->x_row, l->depth);
        }
        inner_gradient_row(&h->norm, s->z + at, t->k + at, s->v + at, inner_row(l, t, i));
        for (int64_t c = at; c < at + l->width; c += VEC_LANES) {
            vec_store(t->u + c, vec_load(t->g + c) * t->rate[i]);
        }
    }
    if (l->mlp) {
        turn_set(t->g, l->width, n, l->depth, s->turned, l->row);
        clear(s->back, round_up(l->inner, MR) * l->row);
        multiply(l->inner, l->row, l->depth, second.w, l->width, s->turned, s->back);
        turn_set(s->back, l->row, l->inner, n, t->r, l->inner_width);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t c = i * l->inner_width; c < (i + 1) * l->inner_width; c += VEC_LANES) {
                vec_store(t->u1 + c, vec_load(t->r + c) * vec_load(t->slope + c) * t->rate[i]);
            }
        }
    }
}

static inline LayerTiles first_tiles(const HeadLayout *l, const Mini *t, const HeadSpace *s)
{
    return (LayerTiles){t->k, s->q, l->mlp ? t->u1 : t->u, s->p1, s->pt1};
}

static inline LayerTiles second_tiles(const Mini *t, const HeadSpace *s)
{
    return (LayerTiles){t->x, s->xq, t->u, s->p2, s->pt2};
}

/* s->zq from the queries, which are loaded to s->q; with it the tiles of the layers are filled. */
static inline void apply_state(const HeadLayout *l, const Head *h, const float *x, int64_t head,
                               MiniSize size, const Mini *t, const HeadSpace *s)
{
    Layer first = first_layer(l, t->state), second = second_layer(l, t->state);
    LayerTiles tiles = first_tiles(l, t, s);
    load_rotated(l, h, x + head * l->depth, size.n, s->q);
    layer_apply(&first, size, &tiles, l->mlp ? s->zq1 : s->zq, s->turned);
    if (l->mlp) {
        gelu_with_slopes(s->zq1, size.n * l->inner_width, s->xq, s->slope, NULL);
        tiles = second_tiles(t, s);
        layer_apply(&second, size, &tiles, s->zq, s->turned);
    }
}

/* Tokens of the mini-batch behind `step`. */
static inline int64_t tokens_behind(const HeadLayout *l, int64_t step)
{
    int64_t left = l->seq - (step + 1) * l->mini;
    return left > 0 ? lesser(l->mini, left) : 0;
}

/* state, the mini-batch's own or a copy, becomes the one behind it. */
static inline void update_state(const HeadLayout *l, MiniSize size, const Mini *t, float *state,
                                const HeadSpace *s)
{
    Layer first = first_layer(l, state), second = second_layer(l, state);
    layer_update(&first, size, t->k, l->mlp ? t->u1 : t->u, s->z);
    if (l->mlp) {
        layer_update(&second, size, t->x, t->u, s->z);
    }
}
