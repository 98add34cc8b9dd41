#pragma once
/* One mini-batch of one head in the backward pass of a test-time-training layer. */
#include "ref/ttt_inner.h"

/* Of one inner layer: values of a mini-batch and their gradients. (n,in) or (n,out), p (n,n). */
typedef struct {
    TttLayer start;  /* the parameters at the mini-batch's start */
    TttLayer dafter; /* gradient of those behind it */
    TttLayer dstart; /* gradient of those at its start; begins as a copy of dafter */
    double *x, *xq, *dx, *dxq;
    double *z, *zq, *dz, *dzq; /* z = x w + b; zq: of the queries, updated */
    double *g, *u, *dg;        /* dg holds the gradient of u first */
    double *p, *c;             /* c: scratch */
} TttSide;

/* What one mini-batch of one head needs. */
typedef struct {
    const TttShape *s;
    const TttWeights *w;
    int64_t h, n;
    int layers;
    TttSide side[TTT_LAYERS_MAX];
    double *v, *rate, *sigmoid; /* (n,D), (n), (n) */
    double *zhat, *zhat_q;      /* (n,D) */
    double *sigma, *sigma_q;    /* (n) */
    double *dq, *dk, *dv;       /* (n,D) */
    double *drate;              /* (n) */
    double *dtau;               /* (m), summed over everything */
    double *dgamma, *dbeta;     /* (D), summed over the head's sequences */
} TttMini;

/* Fills z, g, u, p, zq and the norms from x and xq of the first layer, v, rate and start. */
void ref_ttt_mini_forward(TttMini *mb);

/* From the gradient of the output, in dq, and dafter, which dstart has a copy of: dq, dk, dv,
 * drate and dstart; adds to dtau, dgamma and dbeta. After ref_ttt_mini_forward. */
void ref_ttt_mini_backward(TttMini *mb);
