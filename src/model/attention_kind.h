#pragma once
/* The kind of attention for a model: one that does all of its layers, those with a window and those
 * without. Arguments as of the functions of backend.h. */
#include "model/spec.h"
#include "tensor/backend.h"

/* Why the kind does not do one of the layers; NULL when it does them all. */
const char *model_attention_refusal(const Backend *backend, AttentionKind kind,
                                    const ModelSpec *spec, int64_t batch, int64_t seq, DType dtype);

/* The wanted kind, or flash, or naive, which does any: the first that does all layers. */
AttentionKind model_attention(const Backend *backend, AttentionKind wanted, const ModelSpec *spec,
                              int64_t batch, int64_t seq, DType dtype);

/* The fastest for the first layer, or the one that does all of them. */
AttentionKind model_attention_choose(Backend *backend, const ModelSpec *spec, int64_t batch,
                                     int64_t seq, DType dtype);
