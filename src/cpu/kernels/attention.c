/* Causal attention. Tiles are f32 whatever the elements are.
 *
 * Backward takes one tile of keys through the blocks of queries from the diagonal on, as far as
 * they see it, so that the gradients of the keys stay near while those of the queries pass by; with
 * p the probabilities of a block and delta = dout . out per query:
 *   dp = dout v^T,  ds = p * (dp - delta), times the slope of a cap,
 *   dq += ds k,  dk += ds^T q,  dv += p^T dout,
 * and the scale of the scores is applied to dq and dk at the end.
 * What lies above the diagonal is left out, in steps of MR; what lies before a window or a document
 * in whole blocks.
 *
 * One thread owns a query head in forward, and a key/value head with all its query heads in
 * backward: results do not depend on the number of threads. */
#include "cpu/kernels/attention.h"

#include "cpu/cpu.h"
#include "cpu/threads.h"

#include <omp.h>

static Layout layout_of(HeadShape shape)
{
    return (Layout){
        .seq = shape.seq,
        .depth = shape.head_dim,
        .width = round_up(shape.head_dim, VEC_LANES),
        .heads = shape.heads,
        .kv_heads = shape.kv_heads,
        .group = shape.heads / shape.kv_heads,
        .qkv_row = packed_width(shape),
        .out_row = shape.heads * shape.head_dim,
        .scale = (float)score_scale(shape),
        .cap = (float)shape.cap,
        .window = keys_at_most(shape, shape.seq),
    };
}

/* The layout of sequence b. */
static Layout layout_in(const Layout *all, HeadShape shape, int64_t b)
{
    Layout l = *all;
    if (tensor_given(shape.starts)) {
        l.starts = (const int32_t *)shape.starts.data + b * l.seq;
    }
    return l;
}

/* Where head h of q, and head g of k and of v, begin in a row of qkv. */
static int64_t q_at(const Layout *l, int64_t h)
{
    return h * l->depth;
}

static int64_t k_at(const Layout *l, int64_t g)
{
    return (l->heads + g) * l->depth;
}

static int64_t v_at(const Layout *l, int64_t g)
{
    return (l->heads + l->kv_heads + g) * l->depth;
}

static const AttentionMethod *method_of(const Ctx *c)
{
    return c->attention == ATTENTION_NAIVE ? &PACER_ISA_NAME(attention_naive)
                                           : &PACER_ISA_NAME(attention_flash);
}

static int threads_of(const Ctx *c, HeadShape shape)
{
    return threads_for(c, shape.batch * shape.heads * shape.seq * keys_at_most(shape, shape.seq));
}

/* A thread's workspace in forward. */
typedef struct {
    float *k_panels; /* (T in panels, D, PANEL) */
    float *v;        /* (T, width) */
    float *method;   /* forward_floats */
} ForwardSpace;

static ForwardSpace forward_space(const Ctx *c, const Layout *l, float *base, int64_t *used)
{
    *used = 0;
    ForwardSpace s;
    s.k_panels = take(base, used, round_up(l->seq, PANEL) * l->depth);
    s.v = take(base, used, l->seq * l->width);
    s.method = take(base, used, method_of(c)->forward_floats(l));
    return s;
}

static size_t attention_forward_ws(const Ctx *c, HeadShape shape, DType dtype)
{
    (void)dtype;
    Layout l = layout_of(shape);
    int64_t used;
    forward_space(c, &l, NULL, &used);
    return (size_t)used * sizeof(float) * (size_t)c->backend->threads;
}

static void attention_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux, void *ws)
{
    Layout all = layout_of(shape);
    const AttentionMethod *method = method_of(c);
#pragma omp parallel num_threads(threads_of(c, shape))
    {
        int thread = omp_get_thread_num();
        int64_t size, packed = -1;
        forward_space(c, &all, NULL, &size);
        ForwardSpace s = forward_space(c, &all, (float *)ws + thread * size, &size);
        Span units = span_of(shape.batch * all.heads, omp_get_num_threads(), thread);
        for (int64_t unit = units.first; unit < units.last; unit++) {
            int64_t b = unit / all.heads, h = unit % all.heads, g = h / all.group;
            Layout l = layout_in(&all, shape, b);
            const Elem *rows = (const Elem *)qkv.data + b * l.seq * l.qkv_row;
            if (packed != unit / l.group) { /* heads of a group share keys and values */
                packed = unit / l.group;
                pack_panels(rows + k_at(&l, g), l.qkv_row, l.seq, l.depth, s.k_panels);
                pack_rows(rows + v_at(&l, g), l.qkv_row, l.seq, l.depth, l.seq, l.width, s.v);
            }
            method->forward_head(&l, rows + q_at(&l, h), s.k_panels, s.v,
                                 (Elem *)out.data + b * l.seq * l.out_row + h * l.depth,
                                 (char *)aux.data + unit * method->aux_bytes(&l), s.method);
        }
    }
}

/* A thread's workspace in backward. */
typedef struct {
    float *k_panels, *v_panels; /* (T in panels, D, PANEL) */
    float *k;                   /* (T, width) */
    float *q, *dout;            /* (T in MR, width) */
    float *dq, *dk, *dv;        /* (T in MR, width), sums */
    float *delta;               /* (T in MR, and a vector) */
    float *p, *slopes, *ds;     /* (BLOCK_ROWS, BLOCK_KEYS) */
} BackwardSpace;

static BackwardSpace backward_space(const Layout *l, float *base, int64_t *used)
{
    *used = 0;
    int64_t in_panels = round_up(l->seq, PANEL) * l->depth, rows = round_up(l->seq, MR);
    BackwardSpace s;
    s.k_panels = take(base, used, in_panels);
    s.v_panels = take(base, used, in_panels);
    s.k = take(base, used, l->seq * l->width);
    s.q = take(base, used, rows * l->width);
    s.dout = take(base, used, rows * l->width);
    s.dq = take(base, used, rows * l->width);
    s.dk = take(base, used, rows * l->width);
    s.dv = take(base, used, rows * l->width);
    s.delta = take(base, used, rows + VEC_LANES);
    s.p = take(base, used, BLOCK_ROWS * BLOCK_KEYS);
    s.slopes = take(base, used, BLOCK_ROWS * BLOCK_KEYS);
    s.ds = take(base, used, BLOCK_ROWS * BLOCK_KEYS);
    return s;
}

static size_t attention_backward_ws(const Ctx *c, HeadShape shape, DType dtype)
{
    (void)dtype;
    Layout l = layout_of(shape);
    int64_t used;
    backward_space(&l, NULL, &used);
    return (size_t)used * sizeof(float) * (size_t)c->backend->threads;
}

/* Adds to dq, dk and dv what queries [query, query + queries) and keys [key, key + keys)
 * contribute; p of the block is there, and slopes under a cap. */
static void backward_block(const Layout *l, int64_t query, int64_t queries, int64_t key,
                           int64_t keys, const BackwardSpace *s)
{
    int64_t rows = round_up(queries, MR), width = l->width, seeing = 0; /* rows that reach a key */
    multiply_keys(l, 1.0f, s->dout + query * width, query, rows, s->v_panels, key, keys, s->ds,
                  BLOCK_KEYS);
    for (int64_t row = 0; row < rows; row += MR) {
        int64_t reached = keys_reached(l, query + row, key, keys);
        if (reached <= 0) {
            continue;
        }
        seeing = row + MR;
        for (int64_t r = row; r < row + MR; r++) {
            Vec delta = vec_set(s->delta[query + r]);
            for (int64_t j = r * BLOCK_KEYS; j < r * BLOCK_KEYS + reached; j += VEC_LANES) {
                Vec ds = vec_load(s->p + j) * (vec_load(s->ds + j) - delta);
                vec_store(s->ds + j, l->cap > 0 ? ds * vec_load(s->slopes + j) : ds);
            }
        }
        product_rows(width, reached, s->ds + row * BLOCK_KEYS, BLOCK_KEYS, s->k + key * width,
                     s->dq + (query + row) * width);
    }
    for (int64_t j = 0; j < keys; j += MR) {
        int64_t blind = key + j > query ? key + j - query : 0; /* queries before these keys */
        if (blind < seeing) {
            int64_t from = (query + blind) * width, to = (key + j) * width;
            product_columns(width, seeing - blind, s->p + blind * BLOCK_KEYS + j, BLOCK_KEYS,
                            s->dout + from, s->dv + to);
            product_columns(width, seeing - blind, s->ds + blind * BLOCK_KEYS + j, BLOCK_KEYS,
                            s->q + from, s->dk + to);
        }
    }
}

/* delta (T in MR) = dout . out per row of one head, 0 past T. The sums run in the order of those of
 * dp: where one key has all the weight, out is its v, and dp - delta vanishes as it should. */
static void row_products(const Layout *l, const Elem *dout, const Elem *out, float *delta)
{
    memset(delta, 0, (size_t)round_up(l->seq, MR) * sizeof *delta);
    for (int64_t t = 0; t < l->seq; t += VEC_LANES) {
        Vec a[VEC_LANES], b[VEC_LANES], sum = {0};
        int64_t rows = lesser(VEC_LANES, l->seq - t), at = t * l->out_row;
        for (int64_t d = 0; d < l->depth; d += VEC_LANES) {
            load_block(dout + at, l->out_row, rows, d, l->depth, a);
            load_block(out + at, l->out_row, rows, d, l->depth, b);
            transpose(a);
            transpose(b);
            for (int64_t i = 0; i < lesser(VEC_LANES, l->depth - d); i++) {
                sum = vec_fma(a[i], b[i], sum);
            }
        }
        vec_store(delta + t, sum);
    }
}

/* One query head: dq is written to its place, dk and dv grow in the workspace. */
static void backward_head(const Layout *l, const AttentionMethod *method, const Elem *q,
                          const Elem *dout, const Elem *out, const void *aux, Elem *dq,
                          const BackwardSpace *s)
{
    int64_t rows = round_up(l->seq, MR);
    pack_rows(q, l->qkv_row, l->seq, l->depth, rows, l->width, s->q);
    pack_rows(dout, l->out_row, l->seq, l->depth, rows, l->width, s->dout);
    row_products(l, dout, out, s->delta);
    memset(s->dq, 0, (size_t)(rows * l->width) * sizeof *s->dq);
    for (int64_t key = 0; key < l->seq; key += BLOCK_KEYS) {
        int64_t keys = lesser(BLOCK_KEYS, l->seq - key);
        for (int64_t query = key / BLOCK_ROWS * BLOCK_ROWS;
             query < l->seq && first_key(l, query) < key + keys; query += BLOCK_ROWS) {
            int64_t queries = lesser(BLOCK_ROWS, l->seq - query);
            method->probabilities(l, aux, query, queries, key, keys, s->q + query * l->width,
                                  s->k_panels, s->p, s->slopes);
            backward_block(l, query, queries, key, keys, s);
        }
    }
    unpack_rows(s->dq, l->seq, l->width, l->scale, l->depth, dq, l->qkv_row);
}

static void attention_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux,
                               HeadShape shape, Tensor dqkv, void *ws)
{
    Layout all = layout_of(shape);
    const AttentionMethod *method = method_of(c);
#pragma omp parallel num_threads(threads_of(c, shape))
    {
        int thread = omp_get_thread_num();
        int64_t size;
        backward_space(&all, NULL, &size);
        BackwardSpace s = backward_space(&all, (float *)ws + thread * size, &size);
        Span units = span_of(shape.batch * all.kv_heads, omp_get_num_threads(), thread);
        for (int64_t unit = units.first; unit < units.last; unit++) {
            int64_t b = unit / all.kv_heads, g = unit % all.kv_heads;
            Layout l = layout_in(&all, shape, b);
            const Elem *rows = (const Elem *)qkv.data + b * l.seq * l.qkv_row;
            Elem *grads = (Elem *)dqkv.data + b * l.seq * l.qkv_row;
            pack_panels(rows + k_at(&l, g), l.qkv_row, l.seq, l.depth, s.k_panels);
            pack_panels(rows + v_at(&l, g), l.qkv_row, l.seq, l.depth, s.v_panels);
            pack_rows(rows + k_at(&l, g), l.qkv_row, l.seq, l.depth, l.seq, l.width, s.k);
            memset(s.dk, 0, (size_t)(round_up(l.seq, MR) * l.width) * sizeof *s.dk);
            memset(s.dv, 0, (size_t)(round_up(l.seq, MR) * l.width) * sizeof *s.dv);
            for (int64_t h = g * l.group; h < (g + 1) * l.group; h++) {
                int64_t at = b * l.seq * l.out_row + h * l.depth;
                const char *kept = aux.data;
                backward_head(&l, method, rows + q_at(&l, h), (const Elem *)dout.data + at,
                              (const Elem *)out.data + at,
                              kept + (b * l.heads + h) * method->aux_bytes(&l), grads + q_at(&l, h),
                              &s);
            }
            unpack_rows(s.dk, l.seq, l.width, l.scale, l.depth, grads + k_at(&l, g), l.qkv_row);
            unpack_rows(s.dv, l.seq, l.width, 1.0f, l.depth, grads + v_at(&l, g), l.qkv_row);
        }
    }
}

void PACER_ISA_NAME(attention_fill)(Ops *ops)
{
    ops->attention_forward = attention_forward;
    ops->attention_forward_ws = attention_forward_ws;
    ops->attention_backward = attention_backward;
    ops->attention_backward_ws = attention_backward_ws;
}
