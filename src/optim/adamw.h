#pragma once
/* AdamW over the flat parameter buffer: gradient norm, clipping and update in two passes over
 * memory. Everything that changes from step to step is read from backend memory. */
#include "tensor/ctx.h"

typedef struct {
    double beta1, beta2, eps, weight_decay, clip;
} AdamwSettings;

/* A stretch of the flat buffer that decays, or does not. State may be kept in buffers that hold
 * a part of the whole only. */
typedef struct {
    int64_t offset; /* in grad and low */
    int64_t own;    /* in m and v */
    int64_t master; /* in param */
    int64_t count;
    bool decay;
    bool counted; /* its gradients are in this process's norm_sq */
} AdamwRange;

typedef struct {
    AdamwSettings settings;
    AdamwRange *ranges;
    int range_count;
    Tensor param, low, grad, m,
        v;          /* (flat); low is none when the model runs in the type of param */
    Tensor hyper;   /* (HYPER_COUNT) f32 */
    Tensor norm_sq; /* (1) acc */
    float host_hyper[HYPER_COUNT]; /* source of the upload, so that it stays valid */
} Adamw;

void adamw_free(Adamw *adamw); /* the ranges only; a no-op when zeroed */

/* Appends a range, joining it to the one before when both touch and agree. */
void adamw_add_range(Adamw *adamw, AdamwRange range);

/* Sets rate and bias corrections of update `step` (from 0) and sends them to the backend. */
void adamw_prepare(Ctx *c, Adamw *adamw, double rate, int64_t step);

/* norm_sq of the gradients of all ranges that are counted; then the update of every range by
 * norm_sq. */
void adamw_norm(Ctx *c, Adamw *adamw);
void adamw_step(Ctx *c, Adamw *adamw);
