#pragma once
/* The inner model of a test-time-training layer (tensor/ttt.h) in doubles: what the forward and
 * the backward pass share. The inner map is a chain of one (linear) or two (mlp) layers y = x w
 * + b with gelu between them. */
#include "ref/ref.h"

#define TTT_LAYERS_MAX 2

/* One layer's parameters, or their gradients: w (in,out), b (out), inside a block of ttt_state. */
typedef struct {
    int64_t in, out;
    double *w, *b;
} TttLayer;

static inline int ttt_layers(const TttShape *s)
{
    return s->kind == TTT_MLP ? 2 : 1;
}

TttLayer ref_ttt_layer(const TttShape *s, int layer, double *block);

/* q and k after rotary, v, and the rate of one token and head. */
typedef struct {
    double *q, *k, *v; /* (D) each; the caller's memory */
    double sigmoid;    /* of s + rate_bias */
    double rate;       /* lambda */
} TttToken;

/* Row of x for head h, as position i of a mini-batch. */
void ref_ttt_read(Tensor x, const TttShape *s, const TttWeights *w, Tensor rope, int64_t row,
                  int64_t h, int64_t i, TttToken *token);

/* Turns (D) by the angles of position i, or back. */
void ref_ttt_turn(Tensor rope, const TttShape *s, int64_t i, bool back, double *row);

/* 1/(i+1) + index[i], of which tau is the positive part. */
double ref_ttt_tau_before_clamp(const TttWeights *w, int64_t i);

static inline double ref_ttt_tau(const TttWeights *w, int64_t i)
{
    return fmax(0, ref_ttt_tau_before_clamp(w, i));
}

/* state (2 * ttt_state): the layer's own parameters, and no sums yet. */
void ref_ttt_begin(const TttShape *s, const TttWeights *w, int64_t h, double *state);

/* (D) z to zhat = (z - mean) / sigma. Returns sigma = sqrt(variance + eps). */
double ref_ttt_standardise(const TttShape *s, const double *z, double *zhat);

/* Gradient of a function of zhat (D), pulled back to z; out may be dzhat. */
void ref_ttt_pull(const TttShape *s, const double *dzhat, const double *zhat, double sigma,
                  double *out);

/* Advances the state by one token, position i of its mini-batch, and writes out (D). room has
 * ref_ttt_room doubles. */
void ref_ttt_token(const TttShape *s, const TttWeights *w, int64_t h, int64_t i,
                   const TttToken *token, double *state, double *out, double *room);
int64_t ref_ttt_room(const TttShape *s);

void ref_ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *s, const TttWeights *w,
                      Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                      void *ws);
size_t ref_ttt_backward_ws(const Ctx *c, const TttShape *s, DType dtype);
