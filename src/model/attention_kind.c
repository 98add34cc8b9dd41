#include "model/attention_kind.h"

static HeadShape shape_of(const AttentionUse *use, int64_t layer)
{
    return with_documents(spec_head_shape(use->spec, (int)layer, use->batch, use->seq),
                          use->separate);
}

const char *model_attention_refusal(const Backend *backend, AttentionKind kind,
                                    const AttentionUse *use)
{
    /* The first layer, and the first without a window where that is another. */
    int64_t other = use->spec->full_every > 0 ? use->spec->full_every - 1 : 0;
    const char *why = backend_attention_refusal(backend, kind, shape_of(use, 0), use->act);
    if (why == NULL && other < use->spec->layers) {
        why = backend_attention_refusal(backend, kind, shape_of(use, other), use->act);
    }
    return why;
}

AttentionKind model_attention(const Backend *backend, AttentionKind wanted, const AttentionUse *use)
{
    const AttentionKind kinds[] = {wanted, ATTENTION_FLASH};
    for (int i = 0; i < 2; i++) {
        if (model_attention_refusal(backend, kinds[i], use) == NULL) {
            return kinds[i];
        }
    }
    return ATTENTION_NAIVE;
}

AttentionKind model_attention_choose(Backend *backend, const AttentionUse *use)
{
    AttentionKind fastest = backend_attention_choose(backend, shape_of(use, 0), use->act);
    return model_attention(backend, fastest, use);
}
