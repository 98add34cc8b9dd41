#pragma once
/* cuDNN's fused causal attention. cuDNN is loaded when a backend opens and nothing links against
 * it: a machine without it, or a build without its header, has the other kinds of attention.
 * Forward and backward give the same bits in every run. */
#include "cuda/internal.h"

#define CUDNN_WHY_SIZE 256

/* NULL when there is no usable cuDNN, with the reason in why. The backend's stream is set up
 * before. */
Cudnn *cudnn_open(CudaBackend *backend, char *why, size_t size);

/* The same for a GPU that is not there, described by the text that cuDNN gives for it (JSON):
 * graphs can be built and sizes asked for, but nothing runs. For tests. */
Cudnn *cudnn_open_described(const char *device, char *why, size_t size);

void cudnn_close(Cudnn *cudnn); /* NULL is fine */

/* What is asked of shape and type whatever the GPU: bf16, head dims a multiple of 8 up to 128,
 * more than one token, all keys up to the query seen, scores not capped. Pointers have to be
 * multiples of 16 bytes besides. */
static inline bool cudnn_attention_covers(HeadShape shape, DType dtype)
{
    return dtype == DT_BF16 && shape.head_dim % 8 == 0 && shape.head_dim <= 128 && shape.seq > 1 &&
           !cuda_bounded(shape);
}

/* NULL, or why cuDNN cannot do this covered shape on this GPU; the text lasts until the next
 * call. */
const char *cudnn_attention_problem(Cudnn *cudnn, HeadShape shape);

/* Compiles the kernels of both directions, unless that has been done: up to a second each.
 * Forward and backward do it at first use, which must not be while the stream is being captured. */
void cudnn_attention_plan(Cudnn *cudnn, HeadShape shape);

/* Bytes of ws, found without compiling. That of backward grows with T^2 (the price of fixed
 * order). */
size_t cudnn_attention_forward_ws(Cudnn *cudnn, HeadShape shape);
size_t cudnn_attention_backward_ws(Cudnn *cudnn, HeadShape shape);

/* lse (B,H,T) f32. dqkv overlaps nothing. */
void cudnn_attention_forward(Cudnn *cudnn, Tensor qkv, HeadShape shape, Tensor out, Tensor lse,
                             void *ws);
void cudnn_attention_backward(Cudnn *cudnn, Tensor dout, Tensor qkv, Tensor out, Tensor lse,
                              HeadShape shape, Tensor dqkv, void *ws);
