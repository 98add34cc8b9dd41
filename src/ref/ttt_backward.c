/* Backward pass of a test-time-training layer. Per head and sequence, the states at the start of
 * every mini-batch are made again by the forward's own steps; then the mini-batches follow, last
 * one first (ttt_mini.c), each handing the gradient of its start to the one before. */
#include "ref/ttt_mini.h"

/* Workspace in the order it is handed out; with a NULL base only counted. */
typedef struct {
    double *base;
    int64_t used;
} Room;

static double *take(Room *room, int64_t count)
{
    double *at = room->base != NULL ? room->base + room->used : NULL;
    room->used += count;
    return at;
}

typedef struct {
    TttMini mini;
    double *states;      /* (steps, ttt_state): at the start of each mini-batch */
    double *state, *out; /* of the forward's steps */
    double *token_room;
    double *dafter, *dstart; /* (ttt_state) */
    double *sum, *sum_rate;  /* (ttt_state), (1): of one head over sequences */
} Work;

static Work lay_out(const TttShape *s, Room *room)
{
    int64_t d = s->head_dim, m = s->mini, rows = m * ttt_inner(s), count = ttt_state(s);
    int64_t scratch = rows > m * m ? rows : m * m;
    Work k = {.mini = {.s = s, .layers = ttt_layers(s)}};
    TttMini *mb = &k.mini;
    for (int l = 0; l < mb->layers; l++) {
        TttSide *side = &mb->side[l];
        double **matrices[] = {&side->x,  &side->xq,  &side->dx, &side->dxq, &side->z, &side->zq,
                               &side->dz, &side->dzq, &side->g,  &side->u,   &side->dg};
        for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++) {
            *matrices[i] = take(room, rows);
        }
        side->p = take(room, m * m);
        side->c = take(room, scratch);
    }
    double **rows_of_d[] = {&mb->v, &mb->zhat, &mb->zhat_q, &mb->dq, &mb->dk, &mb->dv};
    for (size_t i = 0; i < sizeof rows_of_d / sizeof rows_of_d[0]; i++) {
        *rows_of_d[i] = take(room, m * d);
    }
    double **scalars[] = {&mb->rate, &mb->sigmoid, &mb->sigma, &mb->sigma_q, &mb->drate, &mb->dtau};
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++) {
        *scalars[i] = take(room, m);
    }
    mb->dgamma = take(room, d);
    mb->dbeta = take(room, d);
    k.out = take(room, d);
    k.token_room = take(room, ref_ttt_room(s));
    k.states = take(room, ttt_steps(s) * count);
    k.state = take(room, 2 * count);
    k.dafter = take(room, count);
    k.dstart = take(room, count);
    k.sum = take(room, count);
    k.sum_rate = take(room, 1);
    return k;
}

static void zero(double *a, int64_t count)
{
    memset(a, 0, (size_t)count * sizeof *a);
}

size_t ref_ttt_backward_ws(const Ctx *c, const TttShape *s, DType dtype)
{
    (void)c;
    (void)dtype;
    Room room = {0};
    lay_out(s, &room);
    return (size_t)room.used * sizeof(double);
}

/* Row i of the mini-batch that starts at row `first` of x. */
static void read_token(Work *k, Tensor x, Tensor rope, int64_t first, int64_t i, TttToken *token)
{
    TttMini *mb = &k->mini;
    int64_t d = mb->s->head_dim;
    *token =
        (TttToken){.q = mb->side[0].xq + i * d, .k = mb->side[0].x + i * d, .v = mb->v + i * d};
    ref_ttt_read(x, mb->s, mb->w, rope, first + i, mb->h, i, token);
    mb->rate[i] = token->rate;
    mb->sigmoid[i] = token->sigmoid;
}

/* The states at the start of every mini-batch of the sequence at row `first`. */
static void make_states(Work *k, Tensor x, Tensor rope, int64_t first)
{
    const TttShape *s = k->mini.s;
    int64_t count = ttt_state(s);
    TttToken token;
    ref_ttt_begin(s, k->mini.w, k->mini.h, k->state);
    for (int64_t t = 0; t < s->seq; t++) {
        int64_t i = t % s->mini;
        if (i == 0) {
            memcpy(k->states + t / s->mini * count, k->state, (size_t)count * sizeof *k->state);
        }
        read_token(k, x, rope, first + t - i, i, &token);
        ref_ttt_token(s, k->mini.w, k->mini.h, i, &token, k->state, k->out, k->token_room);
    }
}

/* One mini-batch from row `first` of x on; dafter becomes the gradient of the state at its
 * start. */
static void mini_pass(Work *k, Tensor dout, Tensor x, Tensor rope, int64_t first, double *start,
                      Tensor dx)
{
    TttMini *mb = &k->mini;
    const TttShape *s = mb->s;
    int64_t d = s->head_dim, all = s->heads * d;
    TttToken token;
    for (int64_t i = 0; i < mb->n; i++) {
        read_token(k, x, rope, first, i, &token);
        for (int64_t e = 0; e < d; e++) {
            mb->dq[i * d + e] = ref_get(dout, (first + i) * all + mb->h * d + e);
        }
    }
    memcpy(k->dstart, k->dafter, (size_t)ttt_state(s) * sizeof *k->dstart);
    for (int l = 0; l < mb->layers; l++) {
        mb->side[l].start = ref_ttt_layer(s, l, start);
        mb->side[l].dafter = ref_ttt_layer(s, l, k->dafter);
        mb->side[l].dstart = ref_ttt_layer(s, l, k->dstart);
    }
    ref_ttt_mini_forward(mb);
    ref_ttt_mini_backward(mb);
    for (int64_t i = 0; i < mb->n; i++) {
        int64_t at = (first + i) * s->width + mb->h * d;
        ref_ttt_turn(rope, s, i, true, mb->dq + i * d);
        ref_ttt_turn(rope, s, i, true, mb->dk + i * d);
        for (int64_t e = 0; e < d; e++) {
            ref_put(dx, at + e, mb->dq[i * d + e]);
            ref_put(dx, at + all + e, mb->dk[i * d + e]);
            ref_put(dx, at + 2 * all + e, mb->dv[i * d + e]);
        }
        double ds = mb->drate[i] * mb->rate[i] * (1 - mb->sigmoid[i]);
        ref_put(dx, (first + i) * s->width + 3 * all + mb->h, ds);
        *k->sum_rate += ds;
    }
    memcpy(k->dafter, k->dstart, (size_t)ttt_state(s) * sizeof *k->dstart);
}

/* Stores the gradients of head h. */
static void store_head(const Work *k, const TttWeights *grads, Mode mode)
{
    const TttMini *mb = &k->mini;
    int64_t d = mb->s->head_dim, h = mb->h;
    for (int64_t e = 0; e < d; e++) {
        ref_store(grads->gamma, h * d + e, mb->dgamma[e], mode);
        ref_store(grads->beta, h * d + e, mb->dbeta[e], mode);
    }
    ref_store(grads->rate_bias, h, *k->sum_rate, mode);
    for (int layer = 0; layer < mb->layers; layer++) {
        TttLayer l = ref_ttt_layer(mb->s, layer, k->sum);
        for (int64_t e = 0; e < l.in * l.out; e++) {
            ref_store(layer == 0 ? grads->w1 : grads->w2, h * l.in * l.out + e, l.w[e], mode);
        }
        for (int64_t e = 0; e < l.out; e++) {
            ref_store(layer == 0 ? grads->b1 : grads->b2, h * l.out + e, l.b[e], mode);
        }
    }
}

void ref_ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *s, const TttWeights *w,
                      Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                      void *ws)
{
    (void)c;
    (void)states;
    int64_t count = ttt_state(s), used = 3 * s->heads * s->head_dim + s->heads;
    Work k = lay_out(s, &(Room){.base = ws});
    TttMini *mb = &k.mini;
    mb->w = w;
    zero(mb->dtau, s->mini);
    for (mb->h = 0; mb->h < s->heads; mb->h++) {
        zero(mb->dgamma, s->head_dim);
        zero(mb->dbeta, s->head_dim);
        zero(k.sum, count);
        *k.sum_rate = 0;
        for (int64_t b = 0; b < s->batch; b++) {
            make_states(&k, x, rope, b * s->seq);
            zero(k.dafter, count); /* nothing reads the last state */
            for (int64_t step = ttt_steps(s) - 1; step >= 0; step--) {
                int64_t t = step * s->mini;
                mb->n = s->seq - t < s->mini ? s->seq - t : s->mini;
                mini_pass(&k, dout, x, rope, b * s->seq + t, k.states + step * count, dx);
            }
            for (int64_t e = 0; e < count; e++) {
                k.sum[e] += k.dafter[e];
            }
        }
        store_head(&k, grads, mode);
    }
    for (int64_t i = 0; i < s->mini; i++) {
        bool open = ref_ttt_tau_before_clamp(w, i) >= 0;
        ref_store(grads->index, i, open ? mb->dtau[i] : 0, mode);
    }
    for (int64_t row = 0; row < s->batch * s->seq; row++) {
        for (int64_t e = used; e < s->width; e++) {
            ref_put(dx, row * s->width + e, 0);
        }
    }
}
