/* --attention auto on a GPU: pacer's own kernels win for short sequences of narrow heads,
 * cuDNN's elsewhere, and where the border lies depends on the GPU. So both are run on the shape
 * of the run. The kind decides the last bits of a run; the choice is kept with those of the
 * matrix products (matmul_cache.c). */
#include "cuda/cuda.h"
#include "cuda/internal.h"
#include "cuda/matmul_plan.h"

#include "base/log.h"
#include "tensor/workspace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WARM 2
#define ROUNDS 5

typedef struct {
    Ctx ctx;
    HeadShape shape;
    Tensor qkv, dqkv, out, dout, aux;
} Trial;

/* Takes every tensor from the saved arena; in a dry run that counts. */
static void lay_out(Trial *t, DType dtype)
{
    const HeadShape *s = &t->shape;
    int64_t rows = s->batch * s->seq, width = s->heads * s->head_dim;
    int64_t packed = width + 2 * s->kv_heads * s->head_dim;
    t->qkv = ctx_save(&t->ctx, MEM_MIXER, dtype, rows, packed);
    t->dqkv = ctx_save(&t->ctx, MEM_MIXER, dtype, rows, packed);
    t->out = ctx_save(&t->ctx, MEM_MIXER, dtype, rows, width);
    t->dout = ctx_save(&t->ctx, MEM_MIXER, dtype, rows, width);
    t->aux = op_attention_aux(&t->ctx, *s, dtype);
}

static void run_once(Trial *t)
{
    op_attention_forward(&t->ctx, t->qkv, t->shape, t->out, t->aux);
    op_attention_backward(&t->ctx, t->dout, t->qkv, t->out, t->aux, t->shape, t->dqkv);
}

/* Milliseconds of forward and backward; negative when there is no memory to try. */
static float time_kind(Backend *backend, AttentionKind kind, HeadShape shape, DType dtype)
{
    CudaBackend *cuda = (CudaBackend *)backend;
    Trial t = {.shape = shape};
    ctx_init(&t.ctx, backend);
    t.ctx.attention = kind;
    Workspace work = {0};
    size_t sizes[WORK_BLOCKS];
    workspace_count(&work, &t.ctx);
    lay_out(&t, dtype);
    run_once(&t);
    workspace_peaks(&work, &t.ctx, sizes);
    if (workspace_reserve(&work, &t.ctx, sizes, "to time attention") != 0) {
        workspace_free(&work, backend);
        return -1;
    }
    lay_out(&t, dtype);
    cuda_fill_noise(cuda, t.qkv.data, dtype, tensor_count(t.qkv));
    cuda_fill_noise(cuda, t.dout.data, dtype, tensor_count(t.dout));
    cudaEvent_t start, stop;
    float ms;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    for (int i = 0; i < WARM + ROUNDS; i++) {
        if (i == WARM) {
            CUDA_CHECK(cudaEventRecord(start, cuda->stream));
        }
        run_once(&t);
    }
    CUDA_CHECK(cudaEventRecord(stop, cuda->stream));
    CUDA_CHECK(cudaEventSynchronize(stop));
    CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    workspace_free(&work, backend);
    return ms / ROUNDS;
}

static AttentionKind faster(Backend *backend, HeadShape shape, DType dtype)
{
    float own = time_kind(backend, ATTENTION_FLASH, shape, dtype);
    float other = time_kind(backend, ATTENTION_LIBRARY, shape, dtype);
    while ((own < 0 || other < 0) && shape.batch > 1) { /* fewer sequences tell as much */
        shape.batch /= 2;
        own = time_kind(backend, ATTENTION_FLASH, shape, dtype);
        other = time_kind(backend, ATTENTION_LIBRARY, shape, dtype);
    }
    log_debug("attention: flash %.3f ms, cudnn %.3f ms", (double)own, (double)other);
    return other >= 0 && (own < 0 || other < own) ? ATTENTION_LIBRARY : ATTENTION_FLASH;
}

static AttentionKind remembered(TuneCache *cache, Backend *backend, HeadShape shape, DType dtype)
{
    char key[160], value[16];
    snprintf(key, sizeof key,
             "attention batch %" PRId64 " seq %" PRId64 " heads %" PRId64 " %" PRId64
             " dim %" PRId64 " %s",
             shape.batch, shape.seq, shape.heads, shape.kv_heads, shape.head_dim,
             dtype_name(dtype));
    AttentionKind kind;
    tune_cache_lock(cache);
    if (tune_cache_get(cache, key, value, sizeof value)) {
        kind = strcmp(value, " cudnn") == 0 ? ATTENTION_LIBRARY : ATTENTION_FLASH;
    } else {
        kind = faster(backend, shape, dtype);
        tune_cache_put(cache, key, kind == ATTENTION_LIBRARY ? " cudnn" : " flash");
    }
    tune_cache_unlock(cache);
    return kind;
}

AttentionKind cuda_attention_choose(Backend *backend, HeadShape shape, DType dtype)
{
    const CudaBackend *cuda = (const CudaBackend *)backend;
    bool own = cuda_attention_problem(cuda, ATTENTION_FLASH, shape, dtype) == NULL;
    bool other = cuda_attention_problem(cuda, ATTENTION_LIBRARY, shape, dtype) == NULL;
    if (own && other && cuda->matmul->cache != NULL) {
        return remembered(cuda->matmul->cache, backend, shape, dtype);
    }
    return other ? ATTENTION_LIBRARY : own ? ATTENTION_FLASH : ATTENTION_NAIVE;
}
