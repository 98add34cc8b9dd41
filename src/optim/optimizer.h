#pragma once
/* How gradients change weights. An optimizer is a table of functions and the names of what it
 * remembers about every weight; trainer, checkpoints, verification and sharding know this
 * interface only. It works on ranges of the flat parameter buffer, each of whole parameters or,
 * where ranks share the state, of this rank's part of them: gradient norm, clipping and update are
 * two passes over memory. Everything that changes from step to step is read from backend memory. */
#include "base/choices.h"
#include "tensor/ctx.h"

typedef struct {
    OptimizerId id;
    double beta1, beta2, eps; /* AdamW */
    double momentum;          /* SGD */
    double weight_decay, clip;
} OptimizerSettings;

#define OPTIMIZER_STATES 2 /* the most that one keeps */

typedef struct {
    const char *name;
    int states;
    const char *state_names[OPTIMIZER_STATES]; /* before a parameter's name in a checkpoint */

    /* Hyperparameters of update `step`, counted from 0, with this rate. */
    void (*fill_hyper)(const OptimizerSettings *settings, double rate, int64_t step,
                       float hyper[HYPER_COUNT]);

    /* One range. */
    void (*update)(Ctx *c, UpdateArgs args);
} OptimizerKind;

const OptimizerKind *optimizer_kind(OptimizerId id);

/* A stretch of the flat buffer that decays, or does not. State may be kept in buffers that hold a
 * part of the whole only. */
typedef struct {
    int64_t offset; /* in grad */
    int64_t low;    /* in low; -1: it has no part in it */
    int64_t own;    /* in state */
    int64_t master; /* in param */
    int64_t count;
    bool decay;
    bool counted; /* its gradients are in this process's norm_sq */
} OptimizerRange;

typedef struct {
    const OptimizerKind *kind;
    OptimizerSettings settings;
    OptimizerRange *ranges;
    int range_count;
    Tensor param, low, grad; /* (flat); low is none when the model runs in the type of param, and
                              * may lack ranges */
    Tensor state[OPTIMIZER_STATES];
    Tensor hyper;                  /* (HYPER_COUNT) f32 */
    Tensor norm_sq;                /* (1) acc */
    Tensor left_out;               /* (1) acc, see UpdateArgs */
    double tokens;                 /* of an update, on all ranks */
    float host_hyper[HYPER_COUNT]; /* source of the upload, so that it stays valid */
} Optimizer;

void optimizer_free(Optimizer *optimizer); /* the ranges only; a no-op when zeroed */

/* Appends a range, joining it to the one before when both touch and agree. */
void optimizer_add_range(Optimizer *optimizer, OptimizerRange range);

/* Sends the hyperparameters of update `step` (from 0) to the backend. */
void optimizer_prepare(Ctx *c, Optimizer *optimizer, double rate, int64_t step);

/* norm_sq of the gradients of all ranges that are counted; then the update of every range by
 * norm_sq. */
void optimizer_norm(Ctx *c, Optimizer *optimizer);
void optimizer_step(Ctx *c, Optimizer *optimizer);
