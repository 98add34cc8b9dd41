#include "base/assert.h"
#include "cuda/cudnn.h"

#include <stdio.h>

/* The attention slots, which hand over to the kind that the run has chosen. Whoever chose has asked
 * cuda_attention_problem; a shape that is not covered ends the program here.
 *
 * cuDNN wants pointers that are multiples of 16 bytes and sequences of more than one token, and
 * gets no windows, caps and documents. Its aux is that of the flash kernels, which do the calls
 * that it cannot take. */

static bool supported_type(DType dtype)
{
    return dtype == DT_F32 || dtype == DT_BF16;
}

const char *cuda_attention_problem(const CudaBackend *backend, AttentionKind kind, HeadShape shape,
                                   DType dtype)
{
    if (!supported_type(dtype)) {
        return "attention on the GPU takes f32 or bf16.";
    }
    switch (kind) {
    case ATTENTION_NAIVE:
        return NULL;
    case ATTENTION_FLASH:
        return cuda_flash_covers(backend, shape, dtype)
                   ? NULL
                   : "flash attention has no kernel for this head width and type on this GPU.";
    case ATTENTION_LIBRARY:
        if (backend->cudnn == NULL) {
            static char text[sizeof backend->cudnn_missing + 32];
            snprintf(text, sizeof text, "cuDNN is not available: %s.", backend->cudnn_missing);
            return text;
        }
        if (cuda_bounded(shape)) {
            return "cuDNN attention takes no window, no cap on scores and no documents here; take "
                   "flash.";
        }
        if (!cudnn_attention_covers(shape, dtype)) {
            return "cuDNN attention takes bf16, heads whose width is a multiple of 8 up to 128, "
                   "and "
                   "sequences of more than one token.";
        }
        return cudnn_attention_problem(backend->cudnn, shape);
    }
    return "there is no such kind of attention.";
}

static bool cudnn_takes(const CudaBackend *backend, HeadShape shape, DType dtype)
{
    return backend->cudnn != NULL && cudnn_attention_covers(shape, dtype);
}

static bool aligned(Tensor t)
{
    return (uintptr_t)t.data % 16 == 0;
}

static void check_flash(const CudaBackend *backend, HeadShape s, DType dtype)
{
    PACER_ASSERT(cuda_flash_covers(backend, s, dtype),
                 "flash attention of (%lld, %lld) tokens, %lld and %lld heads of %lld, %s",
                 (long long)s.batch, (long long)s.seq, (long long)s.heads, (long long)s.kv_heads,
                 (long long)s.head_dim, dtype_name(dtype));
}

void cuda_attention_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux, void *ws)
{
    const CudaBackend *backend = cuda_of(c);
    if (c->attention == ATTENTION_NAIVE) {
        cuda_naive_forward(c, qkv, shape, out, aux, ws);
    } else if (c->attention == ATTENTION_LIBRARY && cudnn_takes(backend, shape, qkv.dtype) &&
               aligned(qkv) && aligned(out) && aligned(aux)) {
        cudnn_attention_forward(backend->cudnn, qkv, shape, out, aux, ws);
    } else {
        check_flash(backend, shape, qkv.dtype);
        cuda_flash_forward(c, qkv, shape, out, aux);
    }
}

bool cuda_attention_turns(const Ctx *c, HeadShape shape, DType dtype)
{
    return c->attention == ATTENTION_FLASH && cuda_flash_turns(cuda_of(c), shape, dtype);
}

size_t cuda_attention_forward_ws(const Ctx *c, HeadShape shape, DType dtype)
{
    const CudaBackend *backend = cuda_of(c);
    if (c->attention == ATTENTION_NAIVE) {
        return cuda_naive_forward_ws(backend, shape, dtype);
    }
    return c->attention == ATTENTION_LIBRARY && cudnn_takes(backend, shape, dtype)
               ? cudnn_attention_forward_ws(backend->cudnn, shape)
               : 0;
}

void cuda_attention_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux,
                             HeadShape shape, Tensor dqkv, void *ws)
{
    const CudaBackend *backend = cuda_of(c);
    if (c->attention == ATTENTION_NAIVE) {
        cuda_naive_backward(c, dout, qkv, aux, shape, dqkv, ws);
    } else if (c->attention == ATTENTION_LIBRARY && cudnn_takes(backend, shape, qkv.dtype) &&
               aligned(dout) && aligned(qkv) && aligned(out) && aligned(aux) && aligned(dqkv)) {
        cudnn_attention_backward(backend->cudnn, dout, qkv, out, aux, shape, dqkv, ws);
    } else {
        check_flash(backend, shape, qkv.dtype);
        cuda_flash_backward(c, dout, qkv, out, aux, shape, dqkv, ws);
    }
}

/* Pointers are not known when sizes are asked for: cuDNN's room has to do for the flash kernels
 * too. */
size_t cuda_attention_backward_ws(const Ctx *c, HeadShape shape, DType dtype)
{
    const CudaBackend *backend = cuda_of(c);
    if (c->attention == ATTENTION_NAIVE) {
        return cuda_naive_backward_ws(backend, shape, dtype);
    }
    size_t flash = 0, cudnn = 0;
    if (cuda_flash_covers(backend, shape, dtype)) {
        flash = cuda_flash_backward_ws(backend, shape, dtype);
    }
    if (c->attention == ATTENTION_LIBRARY && cudnn_takes(backend, shape, dtype)) {
        cudnn = cudnn_attention_backward_ws(backend->cudnn, shape);
    }
    return flash > cudnn ? flash : cudnn;
}
