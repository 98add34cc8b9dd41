#pragma once
/* A few updates of a small model on reproducible tokens, on any backend. */
#include "train/trainer.h"

/* Two layers of 48 with 4 heads, vocabulary 101, context 40, of the preset's family; f32, flash. */
TrainerSetup small_setup(const char *preset, int64_t batch, int64_t accum, int64_t seq);

/* Reproducible tokens for `sequences` sequences, with the sort order of each batch. */
typedef struct {
    int32_t *ids, *targets, *order;
} Tokens;

Tokens make_tokens(int64_t sequences, int64_t seq, int64_t batch, int64_t vocab);
void free_tokens(Tokens tokens);

/* Weights of a model in f64 on the host, far from 0, so that every path has weight. */
void fill_params(Trainer *trainer);

#define SMALL_UPDATES 4

/* Parameters, losses and norms after `updates` (at most SMALL_UPDATES) updates over 8 sequences
 * each. */
typedef struct {
    double *params, losses[SMALL_UPDATES], norms[SMALL_UPDATES];
    int64_t count;
} Outcome;

/* Asserts that the peak of memory is that of the plan. Caller frees params. */
Outcome small_run(TrainerSetup setup, Backend *backend, int updates);
