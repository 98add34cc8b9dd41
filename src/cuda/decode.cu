/* Generation from kept keys and values: how a token comes in, and what a prompt leaves behind
 * (decode_attention.cu has the attention of a new token). */
#include "cuda/decode.cuh"

#define STORE_THREADS 256

/* --- embedding --- */

/* out (S,C) = table[ids] + positions[*position]; a block per sequence. */
template <typename T>
__global__ void embed_next(const int32_t *ids, const T *table, const T *positions,
                           const int32_t *position, int64_t width, T *out)
{
    await_previous();
    const T *token = table + ids[blockIdx.x] * width;
    for (int64_t at = threadIdx.x; at < width; at += blockDim.x) {
        float value = to_f32(token[at]);
        if (positions != NULL) {
            value += to_f32(positions[*position * width + at]);
        }
        out[blockIdx.x * width + at] = from_f32<T>(value);
    }
}

template <typename T>
static void launch_embed(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                         Tensor out)
{
    const T *added = tensor_given(positions) ? (const T *)positions.data : NULL;
    cuda_start(embed_next<T>, (unsigned)out.dim[0], STORE_THREADS, 0, cuda_of(c)->stream,
               (const int32_t *)ids.data, (const T *)table.data, added,
               (const int32_t *)position.data, out.dim[1], (T *)out.data);
    CUDA_LAUNCHED("embed_next");
}

void cuda_embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                     Tensor out)
{
    CUDA_FOR_TYPE(out.dtype, launch_embed, c, ids, table, positions, position, out);
}

/* --- the cache --- */

/* Keys and values of row blockIdx.x of the prompt, into sequence blockIdx.y of the cache. */
template <typename T>
__global__ void fill_cache(const T *__restrict__ qkv, CacheShape s, int64_t batch, int64_t seq,
                           T *__restrict__ cache)
{
    int64_t sequence = blockIdx.y, row = blockIdx.x;
    const T *from = qkv + (sequence % batch * seq + row) * s.width + (int64_t)s.heads * s.dim;
    for (int at = threadIdx.x; at < 2 * s.kv_heads * s.dim; at += blockDim.x) {
        cache[cache_at(s, sequence, at / s.dim, row) + at % s.dim] = from[at];
    }
}

template <typename T> static void launch_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache)
{
    dim3 blocks((unsigned)shape.seq, (unsigned)cache.dim[0]);
    fill_cache<T><<<blocks, STORE_THREADS, 0, cuda_of(c)->stream>>>(
        (const T *)qkv.data, cache_shape(shape, context_of(shape, cache)), shape.batch, shape.seq,
        (T *)cache.data);
    CUDA_LAUNCHED("fill_cache");
}

void cuda_attention_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache)
{
    CUDA_FOR_TYPE(qkv.dtype, launch_fill, c, qkv, shape, cache);
}
