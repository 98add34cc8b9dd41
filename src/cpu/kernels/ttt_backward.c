/* Backward of test-time training for f32. The mini-batches of a sequence are taken in reverse,
 * each needing its state and inner gradients, which a forward scan makes again and leaves in the
 * thread's workspace. Where that would be too much, only the state at the start of every group
 * of mini-batches is kept, and a group is scanned a second time when its turn comes.
 *
 * A unit of work is a head with a fixed run of sequences, taken in order; its sums are added up
 * over units in order at the end. Units depend on the shape alone, and so do results. */
#include "cpu/cpu.h"
#include "cpu/kernels/isa.h"
#include "cpu/kernels/ttt_head.h"
#include "cpu/threads.h"

#include <omp.h>

/* Kept mini-batches of one sequence may take this much per thread, and the sums of all units
 * this much. */
#define KEPT_BYTES ((int64_t)8 << 20)
#define SUMS_BYTES ((int64_t)16 << 20)

/* How a call is cut. */
typedef struct {
    int64_t group, groups; /* mini-batches of a group, groups of a sequence */
    int64_t kept;          /* floats of a kept mini-batch */
    int64_t runs;          /* runs of sequences */
} Cut;

static Cut cut_of(const HeadLayout *l, const TttShape *shape)
{
    Cut cut = {.group = l->steps};
    take_mini(l, NULL, &cut.kept);
    if (l->steps * cut.kept * (int64_t)sizeof(float) > KEPT_BYTES) {
        cut.group = (int64_t)ceil(sqrt((double)l->steps));
    }
    cut.groups = (l->steps + cut.group - 1) / cut.group;
    int64_t head_bytes = ttt_state(shape) * (int64_t)sizeof(float) * shape->heads;
    int64_t most = SUMS_BYTES / head_bytes;
    cut.runs = lesser(shape->batch, most > 1 ? most : 1);
    return cut;
}

/* The sums of a unit. */
typedef struct {
    float *state;        /* as a state: of w1, b1, w2, b2 */
    float *gamma, *beta; /* (width) */
    float *tau;          /* (mini) */
    float *rate_bias;    /* (1) */
} Sums;

static Sums take_sums(const HeadLayout *l, float *base, int64_t *used)
{
    *used = 0;
    Sums s;
    s.state = take(base, used, l->state);
    s.gamma = take(base, used, l->width);
    s.beta = take(base, used, l->width);
    s.tau = take(base, used, l->mini);
    s.rate_bias = take(base, used, 1);
    return s;
}

/* A thread's workspace. */
typedef struct {
    Head head;
    HeadSpace space;
    float *gradient;     /* of the state behind a mini-batch, then at its start */
    float *dout;         /* (rows, width) */
    float *dq, *dk, *de; /* (rows, width); de: minus dv */
    float *du;    /* (rows, width): of u, of the inner gradient, of what the norm is taken of */
    float *row;   /* (width) */
    float *drate; /* (rows) */
    float *dxt1, *dxt2; /* (D in MR, row), (F in MR, row): see layer_backward */
    float *du1, *dz1;   /* (rows, inner_width), MLP */
    float *dxq, *dx;    /* (rows, inner_width), MLP */
    LayerSpace layer;
    float *starts; /* (groups, state), none for a single group */
    float *kept;   /* group mini-batches */
} BackwardSpace;

static BackwardSpace take_backward(const HeadLayout *l, const Cut *cut, float *base, int64_t *used)
{
    *used = 0;
    BackwardSpace s = {0};
    s.head = take_head(l, base, used);
    s.space = take_space(l, base, used);
    s.gradient = take(base, used, l->state);
    s.dout = take_tile(base, used, l->rows, l->width);
    s.dq = take_tile(base, used, l->rows, l->width);
    s.dk = take_tile(base, used, l->rows, l->width);
    s.de = take_tile(base, used, l->rows, l->width);
    s.du = take_tile(base, used, l->rows, l->width);
    s.row = take(base, used, l->width);
    s.drate = take(base, used, l->rows);
    s.dxt1 = take_tile(base, used, round_up(l->depth, MR), l->row);
    if (l->mlp) {
        s.dxt2 = take_tile(base, used, round_up(l->inner, MR), l->row);
        s.du1 = take_tile(base, used, l->rows, l->inner_width);
        s.dz1 = take_tile(base, used, l->rows, l->inner_width);
        s.dxq = take_tile(base, used, l->rows, l->inner_width);
        s.dx = take_tile(base, used, l->rows, l->inner_width);
    }
    s.layer = (LayerSpace){.c = take_tile(base, used, l->rows, l->row),
                           .j = s.space.z,
                           .turned = s.space.turned,
                           .back = s.space.back};
    s.starts = cut->groups > 1 ? take(base, used, cut->groups * l->state) : NULL;
    s.kept = take(base, used, cut->group * cut->kept);
    return s;
}

static Mini kept_mini(const HeadLayout *l, const Cut *cut, const BackwardSpace *s, int64_t place)
{
    int64_t used = 0;
    return take_mini(l, s->kept + place * cut->kept, &used);
}

static void copy_state(const HeadLayout *l, const float *from, float *to)
{
    memcpy(to, from, (size_t)l->state * sizeof *to);
}

/* Scans mini-batches [first, last) of one sequence, x its rows; the first one's state is in
 * place 0. They stay in places 0, 1, .. where keep is true; else all go through place 0, which
 * ends with the state at last. */
static void scan(const HeadLayout *l, const Cut *cut, const BackwardSpace *s, const float *x,
                 int64_t head, int64_t first, int64_t last, bool keep)
{
    for (int64_t step = first; step < last; step++) {
        Mini mini = kept_mini(l, cut, s, keep ? step - first : 0);
        MiniSize size = mini_size(l, &s->head, step);
        inner_forward(l, &s->head, x + step * l->mini * l->x_row, head, size.n,
                      step + 1 < last ? tokens_behind(l, step) : 0, keep, &mini, &s->space);
        float *next = mini.state;
        if (keep && step + 1 < last) {
            next = kept_mini(l, cut, s, step - first + 1).state;
            copy_state(l, mini.state, next);
        }
        if (!keep || step + 1 < last) {
            update_state(l, size, &mini, next, &s->space);
        }
    }
}

/* Row i: drate grows by du . g, and du becomes dg = rate * du. */
static void rate_row(float *du, const float *g, int64_t width, float rate, float *drate)
{
    Vec sum = {0};
    for (int64_t c = 0; c < width; c += VEC_LANES) {
        Vec d = vec_load(du + c);
        sum = vec_fma(d, vec_load(g + c), sum);
        vec_store(du + c, d * rate);
    }
    *drate += vec_sum(sum);
}

/* A mini-batch's first rows in the tensors, at the head: q, dout and dq. What is written soon,
 * and what the mini-batch before it reads, is asked for ahead, in small portions that do not
 * hold up the work. */
typedef struct {
    const float *x, *dout;
    float *dx;
    bool earlier; /* there is a mini-batch before it */
} Rows;

/* Backward of what happens to the queries and to the state, up to du and, of an MLP, du1. dq is
 * dout on entry; s->space.zq and the tiles of the layers are filled. */
static void outer_backward(const HeadLayout *l, MiniSize size, const Mini *t,
                           const BackwardSpace *s, const Rows *rows, const Sums *sums)
{
    const HeadSpace *h = &s->space;
    Layer first = first_layer(l, t->state), first_grad = first_layer(l, s->gradient);
    LayerTiles tiles = first_tiles(l, t, h);
    int64_t n = size.n, inner = round_up(n, MR) * l->inner_width;
    for (int64_t i = 0; i < n; i++) {
        prefetch_row(rows->dx + i * l->x_row, l->depth);
        prefetch_row(rows->dx + i * l->x_row + l->out_row, l->depth);
        output_row_backward(&s->head.norm, s->dout + i * l->width, h->zq + i * l->width, s->row,
                            sums->gamma, sums->beta);
    }
    clear(s->dk, round_up(n, MR) * l->width);
    if (!l->mlp) {
        layer_backward(&first, &first_grad, size, &tiles, h->zq, s->dq, s->dk, s->dxt1, s->du,
                       sums->tau, &s->layer);
        return;
    }
    Layer second = second_layer(l, t->state), second_grad = second_layer(l, s->gradient);
    LayerTiles second_tile = second_tiles(t, h);
    clear(s->dxq, inner);
    clear(s->dx, inner);
    layer_backward(&second, &second_grad, size, &second_tile, h->zq, s->dxq, s->dx, s->dxt2, s->du,
                   sums->tau, &s->layer);
    for (int64_t c = 0; c < n * l->inner_width; c += VEC_LANES) {
        vec_store(s->dxq + c, vec_load(s->dxq + c) * vec_load(h->slope + c));
    }
    layer_backward(&first, &first_grad, size, &tiles, s->dxq, s->dq, s->dk, s->dxt1, s->du1,
                   sums->tau, &s->layer);
}

/* MLP, row i: from du1 = the gradient of rate * r * gelu', drate, dr in its place and what
 * gelu'' brings to dz1. */
static void slope_row(const HeadLayout *l, const Mini *t, const BackwardSpace *s, int64_t i)
{
    Vec sum = {0};
    for (int64_t c = i * l->inner_width; c < (i + 1) * l->inner_width; c += VEC_LANES) {
        Vec du = vec_load(s->du1 + c), r = vec_load(t->r + c), slope = vec_load(t->slope + c);
        Vec dg = du * t->rate[i];
        sum = vec_fma(du, r * slope, sum);
        vec_store(s->du1 + c, dg * slope);
        vec_store(s->dz1 + c, dg * r * vec_load(t->curve + c));
    }
    s->drate[i] += vec_sum(sum);
}

/* Backward of what happens to keys and values: from du and du1, drate, dk and de. */
static void inner_backward(const HeadLayout *l, MiniSize size, const Mini *t,
                           const BackwardSpace *s, const Rows *rows, const Sums *sums)
{
    int64_t n = size.n;
    Layer first = first_layer(l, t->state), first_grad = first_layer(l, s->gradient);
    Layer second = second_layer(l, t->state), second_grad = second_layer(l, s->gradient);
    for (int64_t i = 0; i < n; i++) {
        s->drate[i] = 0;
        rate_row(s->du + i * l->width, t->g + i * l->width, l->width, t->rate[i], s->drate + i);
        if (l->mlp) {
            slope_row(l, t, s, i);
        }
    }
    if (l->mlp) { /* r = g w2^T */
        multiply(n, l->width, l->inner, s->du1, l->inner_width, second.w, s->du);
        multiply_columns(l->inner, l->width, n, s->du1, l->inner_width, t->g, second_grad.w);
    }
    for (int64_t i = 0; i < n; i++) {
        float *du = s->du + i * l->width;
        prefetch_row(rows->dx + i * l->x_row + 2 * l->out_row, l->depth);
        if (rows->earlier) {
            prefetch_row(rows->x + (i - l->mini) * l->x_row, l->depth);
            prefetch_row(rows->dout + (i - l->mini) * l->out_row, l->depth);
        }
        inner_gradient_row_backward(&s->head.norm, inner_row(l, t, i), du, du, s->de + i * l->width,
                                    sums->gamma, sums->beta);
    }
    elem_add_rows(s->dk, s->de, s->dk, n * l->width);
    if (l->mlp) {
        layer_backward_rows(&second, &second_grad, size, t->x, s->du, s->dx, s->dxt2,
                            s->space.turned);
        for (int64_t c = 0; c < n * l->inner_width; c += VEC_LANES) {
            Vec dz = vec_fma(vec_load(s->dx + c), vec_load(t->slope + c), vec_load(s->dz1 + c));
            vec_store(s->dz1 + c, dz);
        }
    }
    layer_backward_rows(&first, &first_grad, size, t->k, l->mlp ? s->dz1 : s->du, s->dk, s->dxt1,
                        s->space.turned);
}

/* to, n tokens' rows x_row apart, = from rotated back. */
static void store_rotated(const HeadLayout *l, const Head *h, const float *from, int64_t n,
                          float *to)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t c = 0; c < l->depth; c += VEC_LANES) {
            int64_t at = i * l->width + c;
            Vec value = rotate_pairs(vec_load(from + at), vec_load(h->cosine + at),
                                     -vec_load(h->sine + at));
            store_within(to + i * l->x_row, c, l->depth, value);
        }
    }
}

/* dx: the mini-batch's first row. Head 0 clears the padding. */
static void store_gradients(const HeadLayout *l, int64_t head, int64_t n, const Mini *t,
                            const BackwardSpace *s, float *dx, const Sums *sums)
{
    int64_t all = l->heads * l->depth, used = 3 * all + l->heads;
    float *dq = dx + head * l->depth;
    store_rotated(l, &s->head, s->dq, n, dq);
    store_rotated(l, &s->head, s->dk, n, dq + all);
    unpack_rows(s->de, n, l->width, -1.0f, l->depth, dq + 2 * all, l->x_row);
    for (int64_t i = 0; i < n; i++) {
        float ds = s->drate[i] * t->rate[i] * (1.0f - t->gate[i]);
        dx[i * l->x_row + 3 * all + head] = ds;
        *sums->rate_bias += ds;
        if (head == 0) {
            clear(dx + i * l->x_row + used, l->x_row - used);
        }
    }
}

/* One sequence of one head. x, dx, dout: its rows, dout at the head. */
static void backward_head(const HeadLayout *l, const Cut *cut, const BackwardSpace *s,
                          const TttWeights *w, const float *x, int64_t head, const float *dout,
                          float *dx, const Sums *sums)
{
    Mini front = kept_mini(l, cut, s, 0);
    start_state(l, w, head, front.state);
    for (int64_t g = 0; g + 1 < cut->groups; g++) {
        copy_state(l, front.state, s->starts + g * l->state);
        scan(l, cut, s, x, head, g * cut->group, (g + 1) * cut->group, false);
    }
    clear(s->gradient, l->state);
    for (int64_t g = cut->groups - 1; g >= 0; g--) {
        int64_t begin = g * cut->group, end = lesser(begin + cut->group, l->steps);
        if (g + 1 < cut->groups) {
            copy_state(l, s->starts + g * l->state, front.state);
        }
        scan(l, cut, s, x, head, begin, end, true);
        for (int64_t step = end - 1; step >= begin; step--) {
            Mini mini = kept_mini(l, cut, s, step - begin);
            MiniSize size = mini_size(l, &s->head, step);
            int64_t token = step * l->mini;
            apply_state(l, &s->head, x + token * l->x_row, head, size, &mini, &s->space);
            Rows rows = {x + token * l->x_row + head * l->depth, dout + token * l->out_row,
                         dx + token * l->x_row + head * l->depth, step > 0};
            pack_rows(rows.dout, l->out_row, size.n, l->depth, size.n, l->width, s->dout);
            memcpy(s->dq, s->dout, (size_t)(size.n * l->width) * sizeof *s->dq);
            outer_backward(l, size, &mini, s, &rows, sums);
            inner_backward(l, size, &mini, s, &rows, sums);
            store_gradients(l, head, size.n, &mini, s, dx + token * l->x_row, sums);
        }
    }
    elem_add_rows(sums->state, s->gradient, sums->state, l->state);
}

/* to (rows, columns) = or += from, rows of which lie from_row apart. */
static void join(const float *from, int64_t from_row, int64_t rows, int64_t columns, Mode mode,
                 float *to)
{
    for (int64_t r = 0; r < rows; r++) {
        if (mode == MODE_ADD) {
            elem_add_rows(to + r * columns, from + r * from_row, to + r * columns, columns);
        } else {
            memcpy(to + r * columns, from + r * from_row, (size_t)columns * sizeof *to);
        }
    }
}

static void join_layer(const Layer *from, int64_t head, Mode mode, Tensor w, Tensor b)
{
    join(from->w, from->out_width, from->in, from->out, mode,
         (float *)w.data + head * from->in * from->out);
    join(from->b, from->out_width, 1, from->out, mode, (float *)b.data + head * from->out);
}

/* Adds a head's runs up in its first one and hands the result out, but for index. */
static void join_head(const HeadLayout *l, float *first_run, int64_t runs, int64_t head, Mode mode,
                      const TttWeights *grads)
{
    int64_t size;
    Sums sums = take_sums(l, first_run, &size);
    for (int64_t run = 1; run < runs; run++) {
        elem_add_rows(first_run, first_run + run * size, first_run, size);
    }
    Layer first = first_layer(l, sums.state), second = second_layer(l, sums.state);
    join_layer(&first, head, mode, grads->w1, grads->b1);
    if (l->mlp) {
        join_layer(&second, head, mode, grads->w2, grads->b2);
    }
    join(sums.gamma, l->width, 1, l->depth, mode, (float *)grads->gamma.data + head * l->depth);
    join(sums.beta, l->width, 1, l->depth, mode, (float *)grads->beta.data + head * l->depth);
    join(sums.rate_bias, 1, 1, 1, mode, (float *)grads->rate_bias.data + head);
}

/* index = or += the heads' gradients of tau, where tau follows it. */
static void join_index(const HeadLayout *l, const TttWeights *w, float *heads, int64_t stride,
                       int64_t mini, Mode mode, float *index)
{
    for (int64_t i = 0; i < mini; i++) {
        float sum = 0;
        for (int64_t head = 0; i < l->mini && raw_tau(w, i) >= 0 && head < l->heads; head++) {
            int64_t used;
            sum += take_sums(l, heads + head * stride, &used).tau[i];
        }
        index[i] = mode == MODE_ADD ? index[i] + sum : sum;
    }
}

static size_t ttt_backward_ws(const Ctx *c, const TttShape *shape, DType dtype)
{
    (void)dtype;
    HeadLayout l = head_layout(shape);
    Cut cut = cut_of(&l, shape);
    int64_t own, sums;
    take_backward(&l, &cut, NULL, &own);
    take_sums(&l, NULL, &sums);
    return (size_t)(own * c->backend->threads + sums * l.heads * cut.runs) * sizeof(float);
}

/* ws: sums (heads, runs), then a thread's workspace each. */
static void ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                         Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                         void *ws)
{
    (void)states;
    HeadLayout l = head_layout(shape);
    Cut cut = cut_of(&l, shape);
    int64_t own, unit_floats, units = l.heads * cut.runs;
    take_backward(&l, &cut, NULL, &own);
    take_sums(&l, NULL, &unit_floats);
    float *all_sums = ws;
    int threads = threads_for(c, tensor_count(dout) * l.inner);
#pragma omp parallel num_threads(threads)
    {
        int64_t used;
        float *base = all_sums + units * unit_floats + omp_get_thread_num() * own;
        BackwardSpace s = take_backward(&l, &cut, base, &used);
        fill_positions(&l, w, rope, &s.head);
#pragma omp for schedule(static)
        for (int64_t unit = 0; unit < units; unit++) {
            int64_t head = unit / cut.runs;
            Span run = span_of(shape->batch, cut.runs, unit % cut.runs);
            Sums sums = take_sums(&l, all_sums + unit * unit_floats, &used);
            clear(all_sums + unit * unit_floats, unit_floats);
            fill_head(&l, w, head, &s.head);
            for (int64_t b = run.first; b < run.last; b++) {
                backward_head(&l, &cut, &s, w, (const float *)x.data + b * l.seq * l.x_row, head,
                              (const float *)dout.data + b * l.seq * l.out_row + head * l.depth,
                              (float *)dx.data + b * l.seq * l.x_row, &sums);
            }
        }
#pragma omp for schedule(static)
        for (int64_t head = 0; head < l.heads; head++) {
            join_head(&l, all_sums + head * cut.runs * unit_floats, cut.runs, head, mode, grads);
        }
    }
    join_index(&l, w, all_sums, cut.runs * unit_floats, shape->mini, mode, grads->index.data);
}

void PACER_ISA_NAME(ttt_backward_fill)(Ops *ops)
{
    ops->ttt_backward = ttt_backward;
    ops->ttt_backward_ws = ttt_backward_ws;
}
