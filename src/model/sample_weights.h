#pragma once
/* What a choice of a token does with many logits at once: loops without branches, in lanes that
 * do not wait for each other. */
#include <stdint.h>

/* The greatest of them, -infinity when there is none; what is no number counts for nothing. */
float logits_greatest(const float *logits, int64_t count);

/* weight = exp((logit - greatest) / temperature), in octaves of 2: one is temperature * ln 2
 * wide. */
typedef struct {
    float greatest;
    float octaves;                 /* per unit of the logits */
    float octave_high, octave_low; /* an octave's width in two parts */
    float lowest;                  /* of logit - greatest; a weight is 0 here */
} WeightScale;

/* temperature > 0; beyond 1e-30 and 1e30 it counts as these. */
WeightScale weight_scale(float greatest, double temperature);

/* weights (count), which may be the logits: 1 for the greatest, also where that is infinite; 0
 * for what is no number and below 2^-126.5; else a few units in the last place off, of exp of
 * the difference in f32. The same logit has the same weight wherever it stands. */
void weights_of(const WeightScale *scale, const float *logits, int64_t count, float *weights);

/* In f32 and in a fixed order: for some hundreds of them. */
float weights_sum(const float *weights, int64_t count);

/* steps (count): how far the logit lies below the greatest, in whole steps of 1 / WEIGHT_STEPS
 * octave, at most WEIGHT_LAST_STEP; 0 for what is no number. A greater logit never has more of
 * them. */
#define WEIGHT_STEPS 16
#define WEIGHT_LAST_STEP (127 * WEIGHT_STEPS)
void weight_steps(const WeightScale *scale, const float *logits, int64_t count, int32_t *steps);
