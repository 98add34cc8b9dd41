#pragma once
/* What the ops of a test-time-training layer take (ops.h: op_ttt_*). Such a layer has a small inner
 * model per head, f(x) = x + norm(inner(x)), which is trained from k to v along the sequence and
 * applied to q. The sequence is cut into mini-batches of m tokens; inner gradients are taken at the
 * state of a mini-batch's start, and every sequence starts from the layer's own parameters. The
 * last mini-batch may be short. With F = D for TTT_LINEAR and 4 D for TTT_MLP, the inner map is
 *   linear: x W1 + b1        mlp: gelu(x W1 + b1) W2 + b2      (gelu in the tanh form)
 * The step size of source token j seen by output token i of a mini-batch is tau_i * lambda_j, j <=
 * i:
 *   lambda_j = base_rate / D * sigmoid(s_j + rate_bias[h]),  tau_i = max(0, 1 / (i + 1) +
 *   index[i]),
 * and the state behind a mini-batch of n tokens uses tau_{n-1}. q and k are turned by rotary
 * positions i = 0 .. m-1 in pairs of neighbouring channels (2c, 2c + 1). */
#include "tensor/tensor.h"

typedef enum { TTT_LINEAR, TTT_MLP } TttKind;

/* A row of the layer's packed input x (N, width), N = batch * seq, ordered (sequence, token):
 * H*D of q, H*D of k, H*D of v, H of s, then padding that is not read. */
typedef struct {
    TttKind kind;
    int64_t batch, seq, heads, head_dim;
    int64_t mini;  /* m */
    int64_t width; /* elements of a row, >= 3 H D + H */
    double base_rate;
    double eps; /* of the inner norm */
} TttShape;

/* The layer's parameters (act), or their gradients (acc). */
typedef struct {
    Tensor index;       /* (m) */
    Tensor rate_bias;   /* (H) */
    Tensor gamma, beta; /* (H,D) of the inner norm */
    Tensor w1, b1;      /* (H,D,F), (H,F); w1[h] maps a row x to x w1[h] */
    Tensor w2, b2;      /* (H,F,D), (H,D); none for TTT_LINEAR */
} TttWeights;

/* F */
static inline int64_t ttt_inner(const TttShape *s)
{
    return s->kind == TTT_MLP ? 4 * s->head_dim : s->head_dim;
}

/* Mini-batches of a sequence, a short last one included. */
static inline int64_t ttt_steps(const TttShape *s)
{
    return (s->seq + s->mini - 1) / s->mini;
}

/* Elements of one head's inner parameters: w1, b1, and for TTT_MLP w2, b2. */
static inline int64_t ttt_state(const TttShape *s)
{
    int64_t f = ttt_inner(s), d = s->head_dim;
    return d * f + f + (s->kind == TTT_MLP ? f * d + d : 0);
}
