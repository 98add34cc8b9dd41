#pragma once
/* The kind of attention for a model: one that does all of its layers, those with a window and those
 * without. */
#include "model/spec.h"
#include "tensor/backend.h"

/* What it is for. */
typedef struct {
    const ModelSpec *spec;
    int64_t batch, seq;
    bool separate; /* documents of a sequence do not see each other */
    DType act;
} AttentionUse;

/* Why the kind does not do one of the layers, as backend_attention_refusal says it; NULL when it
 * does them all. */
const char *model_attention_refusal(const Backend *backend, AttentionKind kind,
                                    const AttentionUse *use);

/* The wanted kind, or flash, or naive, which does any: the first that does all layers. */
AttentionKind model_attention(const Backend *backend, AttentionKind wanted,
                              const AttentionUse *use);

/* The fastest for the first layer, or one that does all of them where that does not. */
AttentionKind model_attention_choose(Backend *backend, const AttentionUse *use);
