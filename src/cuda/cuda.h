#pragma once
/* The CUDA backend, as the rest of pacer sees it. A build without CUDA has these functions too: they then
 * say that it was left out (absent.c). */
#include "tensor/backend.h"

/* GPUs that can be used; with 0, the reason in why. */
int cuda_devices(char *why, size_t size);

/* Device 0 of those that CUDA_VISIBLE_DEVICES leaves. f32 and bf16. ERR_INPUT saying why there is none. */
int cuda_backend_open(Backend **out);

/* The fastest kind of attention for the shape, forward and backward together, of those that cover it: timed at
 * the first call and remembered on disk, so that later runs choose the same. */
AttentionKind cuda_attention_choose(Backend *backend, HeadShape shape, DType dtype);

/* NULL when this kind of attention does the shape, else a sentence that says what is not covered. */
const char *cuda_attention_refusal(const Backend *backend, AttentionKind kind, HeadShape shape,
                                   DType dtype);
