#include "model/attention_kind.h"

const char *model_attention_refusal(const Backend *backend, AttentionKind kind,
                                    const ModelSpec *spec, int64_t batch, int64_t seq, DType dtype)
{
    /* The first layer, and the first without a window where that is another. */
    int64_t other = spec->full_every > 0 ? spec->full_every - 1 : 0;
    HeadShape shape = spec_head_shape(spec, 0, batch, seq);
    const char *why = backend_attention_refusal(backend, kind, shape, dtype);
    if (why == NULL && other < spec->layers) {
        shape = spec_head_shape(spec, (int)other, batch, seq);
        why = backend_attention_refusal(backend, kind, shape, dtype);
    }
    return why;
}

AttentionKind model_attention(const Backend *backend, AttentionKind wanted, const ModelSpec *spec,
                              int64_t batch, int64_t seq, DType dtype)
{
    const AttentionKind kinds[] = {wanted, ATTENTION_FLASH};
    for (int i = 0; i < 2; i++) {
        if (model_attention_refusal(backend, kinds[i], spec, batch, seq, dtype) == NULL) {
            return kinds[i];
        }
    }
    return ATTENTION_NAIVE;
}

AttentionKind model_attention_choose(Backend *backend, const ModelSpec *spec, int64_t batch,
                                     int64_t seq, DType dtype)
{
    HeadShape first = spec_head_shape(spec, 0, batch, seq);
    AttentionKind fastest = backend_attention_choose(backend, first, dtype);
    return model_attention(backend, fastest, spec, batch, seq, dtype);
}
