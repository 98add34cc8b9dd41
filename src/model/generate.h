#pragma once
/* Sampling from a model: one forward pass over the last `context` tokens for every new one. */
#include "model/model.h"

typedef struct {
    double temperature; /* > 0 */
    int64_t top_k;      /* sample among the k likeliest; 0: all */
    uint64_t seed;
} SampleSettings;

typedef struct {
    Model *model; /* bound to its parameters; must outlive the generator */
    Ctx ctx;
    void *blocks[3]; /* saved, scratch, and ids with logits */
    Tensor ids, logits;
    float *host_logits;
    int32_t *ranked;
    uint64_t drawn; /* tokens sampled so far: the position in the random stream */
} Generator;

/* ERR_MEMORY when there is no room for one pass. */
int generator_open(Generator *generator, Model *model, Backend *backend);
void generator_close(Generator *generator); /* a no-op on a zeroed generator */

/* The token that follows tokens (count >= 1). */
int32_t generator_next(Generator *generator, const int32_t *tokens, int64_t count,
                       const SampleSettings *settings);
