#pragma once
/* Sampling from a model. A model whose layers carry a state along (TTT) takes each token once, in constant
 * time and memory; any other makes a forward pass over the last `context` tokens for every new one. */
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
    Decode decode;  /* states: none unless the model carries them */
    int64_t taken;  /* tokens that the states have seen */
} Generator;

/* ERR_MEMORY when there is no room for one pass. */
int generator_open(Generator *generator, Model *model, Backend *backend);
void generator_close(Generator *generator); /* a no-op on a zeroed generator */

/* Another text begins: the next tokens do not go on from those of the last call. */
void generator_restart(Generator *generator);

/* Logits (vocab) f32 of the token that follows tokens (count >= 1), which begin with those of the last call
 * since generator_restart. They last until the next call. */
const float *generator_logits(Generator *generator, const int32_t *tokens, int64_t count);

/* A token drawn from these logits. */
int32_t generator_next(Generator *generator, const int32_t *tokens, int64_t count,
                       const SampleSettings *settings);
