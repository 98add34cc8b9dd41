#pragma once
/* One mini-batch of one head in matrix form, for op_naive_ttt.c and op_naive_ttt_backward.c. */
#include "base/assert.h"
#include "support/op_naive_parts.h"

#define LAYERS 2

/* A matrix; `turned` reads it as its transpose. */
typedef struct {
    float *at;
    int64_t rows, cols;
    bool turned;
} Mat;

static inline Mat turn(Mat a)
{
    a.turned = !a.turned;
    return a;
}

/* out += factor * a b, where a and b are read as stored in `act` */
void naive_multiply(DType act, Mat out, float factor, Mat a, Mat b);

static inline void add_rows(Mat out, Mat a) /* out (1,cols) += column sums of a */
{
    for (int64_t e = 0; e < a.rows * a.cols; e++) {
        out.at[e % a.cols] += a.at[e];
    }
}

static inline void set_rows(Mat out, Mat row) /* every row of out = row (1,cols) */
{
    for (int64_t e = 0; e < out.rows * out.cols; e++) {
        out.at[e] = row.at[e % out.cols];
    }
}

static inline void clear(Mat a)
{
    memset(a.at, 0, (size_t)(a.rows * a.cols) * sizeof *a.at);
}

/* Keeps the lower triangle and the diagonal. */
static inline void lower(Mat a)
{
    for (int64_t e = 0; e < a.rows * a.cols; e++) {
        a.at[e] = e % a.cols <= e / a.cols ? a.at[e] : 0;
    }
}

/* Memory that is handed out piece by piece and freed at once. */
typedef struct {
    float *base;
    int64_t used;
} Heap;

#define HEAP_FLOATS ((int64_t)1 << 22)

static inline Mat make(Heap *heap, int64_t rows, int64_t cols)
{
    Mat a = {.at = heap->base + heap->used, .rows = rows, .cols = cols};
    heap->used += rows * cols;
    PACER_ASSERT(heap->used <= HEAP_FLOATS, "%lld floats", (long long)heap->used);
    clear(a);
    return a;
}

/* One inner layer in one mini-batch: parameters at its start, what keys and queries bring and
 * get. */
typedef struct {
    Mat w, b;
    Mat x, xq, z, zq;
    Mat g, u, p;
} Layer;

typedef struct {
    const TttShape *s;
    const TttWeights *w;
    DType act;
    int64_t h, n;
    int layers;
    Heap heap;
    Layer layer[LAYERS];
    Mat v, zh, zhq; /* (n,D) */
    Mat lambda, gate, tau, sigma, sigma_q;
} Mini;

static inline float gamma_at(const Mini *m, int64_t e)
{
    return get(m->w->gamma, m->h * m->s->head_dim + e);
}

static inline float beta_at(const Mini *m, int64_t e)
{
    return get(m->w->beta, m->h * m->s->head_dim + e);
}

static inline float error_at(const Mini *m, int64_t i, int64_t e)
{
    int64_t at = i * m->s->head_dim + e;
    return gamma_at(m, e) * m->zh.at[at] + beta_at(m, e) - (m->v.at[at] - m->layer[0].x.at[at]);
}

/* In place: the gradient of zh (D) to that of z. */
void naive_ttt_pull(const Mini *m, float *y, const float *zh, float sigma);

/* The caller frees heap.base. */
Mini naive_ttt_open(const TttShape *s, const TttWeights *w, DType act, int64_t h);

/* q and k into the first layer, v, and the rates, of m->n tokens from `row` on; i0: position of
 * the first. */
void naive_ttt_load(Mini *m, Tensor x, Tensor rope, int64_t row, int64_t i0);

/* Tokens of the mini-batch that starts at token t. */
int64_t naive_ttt_length(const TttShape *s, int64_t t);

/* Parameters, or their gradients, are blocks in the order of op_ttt_start: element e of head h
 * as an element of a tensor; those at the start of a sequence; views of a block; a block as the
 * state. */
Tensor naive_ttt_parameter(const TttShape *s, const TttWeights *w, int64_t h, int64_t e,
                           int64_t *at);
void naive_ttt_first(const TttShape *s, const TttWeights *w, int64_t h, float *block);
void naive_ttt_view(const Mini *m, float *block, Mat w[LAYERS], Mat b[LAYERS]);
void naive_ttt_use(Mini *m, float *block);

/* z, g and u of every layer; then p, zq and zhq; then the state behind in place of the one
 * before. */
void naive_ttt_gradients(Mini *m);
void naive_ttt_outputs(Mini *m);
void naive_ttt_hand_over(Mini *m);

/* G W2^T of the second layer. */
Mat naive_ttt_back(Mini *m);

void naive_ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *s, const TttWeights *w,
                        Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                        void *ws);
