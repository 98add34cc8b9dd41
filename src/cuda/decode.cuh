#pragma once
/* How keys and values are kept (ops.h: op_attention_step). */
#include "cuda/device.cuh"

struct CacheShape {
    int heads, kv_heads, dim;
    int64_t context, width; /* rows of a head in the cache; (H+2G)D of packed rows */
};

static inline CacheShape cache_shape(HeadShape s, int64_t context)
{
    CacheShape shape;
    shape.heads = (int)s.heads;
    shape.kv_heads = (int)s.kv_heads;
    shape.dim = (int)s.head_dim;
    shape.context = context;
    shape.width = (s.heads + 2 * s.kv_heads) * s.head_dim;
    return shape;
}

static inline int64_t context_of(HeadShape s, Tensor cache)
{
    return cache.dim[1] / (2 * s.kv_heads);
}

/* Offset of row `row` of head `head` of a sequence: heads 0 .. G-1 are keys, G .. 2G-1 values. */
__device__ static inline int64_t cache_at(const CacheShape &s, int64_t sequence, int head,
                                          int64_t row)
{
    return ((sequence * 2 * s.kv_heads + head) * s.context + row) * s.dim;
}
