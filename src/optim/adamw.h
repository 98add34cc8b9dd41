#pragma once
/* AdamW over the flat parameter buffer: gradient norm, clipping and update in two passes over memory.
 * Everything that changes from step to step is read from backend memory. */
#include "tensor/ctx.h"

typedef struct {
    double beta1, beta2, eps, weight_decay, clip;
} AdamwSettings;

/* A stretch of the flat buffer that decays, or does not. */
typedef struct {
    int64_t offset, count;
    bool decay;
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

/* Appends a range, joining it to the one before when both touch and agree in decay. */
void adamw_add_range(Adamw *adamw, int64_t offset, int64_t count, bool decay);

/* Sets rate and bias corrections of update `step` (from 0) and sends them to the backend. */
void adamw_prepare(Ctx *c, Adamw *adamw, double rate, int64_t step);

/* norm_sq of the whole gradient, then the update of every range. */
void adamw_step(Ctx *c, Adamw *adamw);
