#pragma once
/* The maximal update parametrization (Yang et al. 2022, Tensor Programs V, for Adam): a learning
 * rate that is right for a narrow model, the base, is right for wider ones. With m the growth of a
 * map's inputs over the base's:
 *
 *   matrices in blocks           initial deviation / sqrt(m), rate / m
 *   embeddings, positions, norms, biases, head    as they are
 *   logits                       x 1 / m, also of a tied head
 *   scores of attention          sqrt(base head width) / head width in place of 1 / sqrt
 *
 * The logits' factor is in the weights of the final norm, which the head reads: they begin at 1 / m
 * and have rate / m. Adam's steps do not depend on a gradient's size, so this is the same training
 * as with a factor behind the norm, eps and clipping aside, and the model stays one that
 * generation, exports and products in e4m3 know. Weight decay per step stays what it is at the
 * base: the decay of a parameter with rate / m is m times as large. */
#include "model/model.h"

typedef struct {
    int64_t width;    /* of the base; 0: standard, all growths are 1 */
    int64_t ffn;      /* 0: in proportion to the width */
    int64_t head_dim; /* 0: as the model's, so that there are more heads in a wider model */
} MupBase;

/* The scale of attention's scores into the spec, where it states none. */
void mup_scale_scores(ModelSpec *spec, const MupBase *base);

/* Deviations, values and growths of the table's rows; after model_init, before any value is made.
 * For models whose mixer is attention. */
void mup_scale_params(Model *model, const MupBase *base);
