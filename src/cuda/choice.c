/* Choices by timing both ways on the shapes of the run. Each decides the last bits of a run, so it
 * is kept with those of the matrix products (matmul_cache.c).
 *
 * --attention auto: pacer's own kernels win for short sequences of narrow heads, cuDNN's elsewhere,
 * and where the border lies depends on the GPU.
 *
 * --dtype fp8: a linear map whose three products gain less than codes cost stays in bf16. */
#include "cuda/cuda.h"
#include "cuda/internal.h"
#include "cuda/matmul_plan.h"

#include "base/log.h"
#include "tensor/workspace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS 8 /* of a recording */
#define WARM 2   /* recordings that are not timed, the making of it among them */
#define SERIES 4 /* of which the best counts */

/* One way to be timed. */
typedef struct Trial {
    Ctx ctx;
    void (*lay_out)(struct Trial *t); /* takes every tensor from the saved arena */
    void (*fill)(struct Trial *t);
    void (*run)(struct Trial *t);
    DType dtype; /* of attention, or DT_BF16 and DT_E4M3 for products */
    HeadShape shape;
    Tensor qkv, dqkv, out, dout, aux;
    int64_t rows, inputs, outputs;
    Tensor x, y, w, dx, dy, dw; /* nothing that is computed is computed with */
    Quant codes_x, codes_y, codes_w;
} Trial;

static void run_rounds(void *trial)
{
    Trial *t = trial;
    for (int i = 0; i < ROUNDS; i++) {
        t->run(t);
    }
}

/* Milliseconds of one run, as a part of a recording; negative when there is no memory to try. */
static float time_trial(Backend *backend, Trial *t)
{
    CudaBackend *cuda = (CudaBackend *)backend;
    Workspace work = {0};
    size_t sizes[WORK_BLOCKS];
    workspace_count(&work, &t->ctx);
    t->lay_out(t);
    t->run(t);
    workspace_peaks(&work, &t->ctx, sizes);
    if (workspace_reserve(&work, &t->ctx, sizes, "to time ways to compute") != 0) {
        workspace_free(&work, backend);
        return -1;
    }
    t->lay_out(t);
    t->fill(t);
    t->run(t); /* algorithms are chosen, kernels loaded */
    cudaEvent_t start, stop;
    float ms = 0, best = 0;
    CUDA_CHECK(cudaEventCreate(&start));
    CUDA_CHECK(cudaEventCreate(&stop));
    for (int i = 0; i < WARM + SERIES; i++) {
        CUDA_CHECK(cudaEventRecord(start, cuda->stream));
        backend->replay(backend, 0, run_rounds, t);
        CUDA_CHECK(cudaEventRecord(stop, cuda->stream));
        CUDA_CHECK(cudaEventSynchronize(stop));
        CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
        best = i <= WARM || ms < best ? ms : best;
    }
    backend->forget(backend);
    CUDA_CHECK(cudaEventDestroy(start));
    CUDA_CHECK(cudaEventDestroy(stop));
    workspace_free(&work, backend);
    return best / ROUNDS;
}

static void lay_out_attention(Trial *t)
{
    const HeadShape *s = &t->shape;
    int64_t rows = s->batch * s->seq, width = s->heads * s->head_dim;
    int64_t packed = width + 2 * s->kv_heads * s->head_dim;
    t->qkv = ctx_save(&t->ctx, MEM_MIXER, t->dtype, rows, packed);
    t->dqkv = ctx_save(&t->ctx, MEM_MIXER, t->dtype, rows, packed);
    t->out = ctx_save(&t->ctx, MEM_MIXER, t->dtype, rows, width);
    t->dout = ctx_save(&t->ctx, MEM_MIXER, t->dtype, rows, width);
    t->aux = op_attention_aux(&t->ctx, *s, t->dtype);
}

static void fill(Trial *t, Tensor tensor)
{
    cuda_fill_noise(cuda_of(&t->ctx), tensor.data, tensor.dtype, tensor_count(tensor));
}

static void fill_attention(Trial *t)
{
    fill(t, t->qkv);
    fill(t, t->dout);
}

static void run_attention(Trial *t)
{
    op_attention_forward(&t->ctx, t->qkv, t->shape, t->out, t->aux);
    op_attention_backward(&t->ctx, t->dout, t->qkv, t->out, t->aux, t->shape, t->dqkv);
}

static float time_kind(Backend *backend, AttentionKind kind, HeadShape shape, DType dtype)
{
    Trial t = {.lay_out = lay_out_attention,
               .fill = fill_attention,
               .run = run_attention,
               .dtype = dtype,
               .shape = shape};
    ctx_init(&t.ctx, backend);
    t.ctx.attention = kind;
    return time_trial(backend, &t);
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

static Quant room_for_codes(Trial *t, int64_t rows, int64_t width)
{
    Quant q = {.rows = ctx_save(&t->ctx, MEM_FFN, DT_E4M3, rows, width),
               .columns = ctx_save(&t->ctx, MEM_FFN, DT_E4M3, width, rows),
               .stride = rows,
               .scale = ctx_save(&t->ctx, MEM_FFN, DT_F32, SCALE_COUNT, 1),
               .largest = ctx_save(&t->ctx, MEM_FFN, DT_F32, 1, 1)};
    q.scale.rank = q.largest.rank = 1;
    return q;
}

static void lay_out_linear(Trial *t)
{
    t->x = ctx_save(&t->ctx, MEM_FFN, DT_BF16, t->rows, t->inputs);
    t->y = ctx_save(&t->ctx, MEM_FFN, DT_BF16, t->rows, t->outputs);
    t->dx = ctx_save(&t->ctx, MEM_FFN, DT_BF16, t->rows, t->inputs);
    t->dy = ctx_save(&t->ctx, MEM_FFN, DT_BF16, t->rows, t->outputs);
    t->w = ctx_save(&t->ctx, MEM_FFN, DT_BF16, t->outputs, t->inputs);
    t->dw = ctx_save(&t->ctx, MEM_FFN, DT_F32, t->outputs, t->inputs);
    if (t->dtype == DT_E4M3) {
        t->codes_x = room_for_codes(t, t->rows, t->inputs);
        t->codes_y = room_for_codes(t, t->rows, t->outputs);
        t->codes_w = room_for_codes(t, t->outputs, t->inputs);
    }
}

static void fill_linear(Trial *t)
{
    const float ones[SCALE_COUNT] = {1, 1};
    fill(t, t->x);
    fill(t, t->dy);
    fill(t, t->w);
    if (t->dtype == DT_E4M3) {
        Quant *all[] = {&t->codes_x, &t->codes_y, &t->codes_w};
        Backend *backend = t->ctx.backend;
        for (int i = 0; i < 3; i++) {
            backend->upload(backend, all[i]->scale.data, ones, sizeof ones);
            backend->zero(backend, all[i]->largest.data, sizeof(float));
        }
        op_quantise(&t->ctx, t->x, t->codes_x, TENSOR_NONE, MODE_SET);
    }
}

/* Codes of the input cost about what its plain form does, since who makes it makes them; those
 * of the gradient and of the weight are more work. */
static void run_linear(Trial *t)
{
    Ctx *c = &t->ctx;
    if (t->dtype == DT_E4M3) {
        op_quantise(c, t->w, t->codes_w, TENSOR_NONE, MODE_SET);
        op_quant_forward(c, t->codes_x, t->codes_w, TENSOR_NONE, t->y);
        op_quantise(c, t->dy, t->codes_y, TENSOR_NONE, MODE_SET);
        op_quant_backward_weight(c, t->codes_x, t->codes_y, t->dw, MODE_SET);
        op_quant_backward_input(c, t->codes_y, t->codes_w, t->dx, MODE_SET);
    } else {
        op_linear_forward(c, t->x, t->w, TENSOR_NONE, t->y);
        op_linear_backward_weight(c, t->x, t->dy, t->dw, TENSOR_NONE, MODE_SET);
        op_linear_backward_input(c, t->dy, t->w, t->dx, MODE_SET);
    }
}

static float time_linear(Backend *backend, DType dtype, int64_t rows, int64_t inputs,
                         int64_t outputs)
{
    Trial t = {.lay_out = lay_out_linear,
               .fill = fill_linear,
               .run = run_linear,
               .dtype = dtype,
               .rows = rows,
               .inputs = inputs,
               .outputs = outputs};
    ctx_init(&t.ctx, backend);
    return time_trial(backend, &t);
}

bool cuda_quant_pays(Backend *backend, int64_t rows, int64_t inputs, int64_t outputs)
{
    TuneCache *cache = ((const CudaBackend *)backend)->matmul->cache;
    if (cache == NULL) {
        return true;
    }
    char key[160], value[16];
    snprintf(key, sizeof key, "linear rows %" PRId64 " inputs %" PRId64 " outputs %" PRId64, rows,
             inputs, outputs);
    tune_cache_lock(cache);
    bool known = tune_cache_get(cache, key, value, sizeof value);
    tune_cache_unlock(cache);
    if (!known) { /* not under the lock: products choose their algorithms */
        float plain = time_linear(backend, DT_BF16, rows, inputs, outputs);
        float coded = time_linear(backend, DT_E4M3, rows, inputs, outputs);
        bool pays = plain < 0 || coded < 0 || coded < plain;
        log_debug("linear map (%" PRId64 ", %" PRId64 ", %" PRId64 "): bf16 %.3f ms, fp8 %.3f ms",
                  rows, inputs, outputs, (double)plain, (double)coded);
        tune_cache_lock(cache);
        if (!tune_cache_get(cache, key, value, sizeof value)) {
            snprintf(value, sizeof value, "%s", pays ? " fp8" : " bf16");
            tune_cache_put(cache, key, value);
        }
        tune_cache_unlock(cache);
    }
    return strcmp(value, " fp8") == 0;
}
