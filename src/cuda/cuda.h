#pragma once
/* The CUDA backend, as the rest of pacer sees it. A build without CUDA has these functions too:
 * they then say that it was left out (absent.c). */
#include "tensor/backend.h"

/* GPUs that can be used; with 0, the reason in why. */
int cuda_devices(char *why, size_t size);

/* A device, counted from 0, of those that CUDA_VISIBLE_DEVICES leaves. f32 and bf16. ERR_INPUT
 * saying why there is none. */
int cuda_backend_open(int device, Backend **out);

/* The fastest kind of attention for the shape, forward and backward together, of those that
 * cover it: timed at the first call and remembered on disk, so that later runs choose the same. */
AttentionKind cuda_attention_choose(Backend *backend, HeadShape shape, DType dtype);

/* NULL when a layer of test-time training has a kernel, else a sentence that says what is not
 * covered. */
const char *cuda_ttt_refusal(const Backend *backend, const TttShape *shape, DType dtype);

/* The GPU of a CUDA backend as CUDA counts them; -1 for any other backend. */
int cuda_backend_device(const Backend *backend);

/* Where that GPU sits on the PCI bus, "0000:3B:00.0"; false when there is no such GPU. */
bool cuda_bus_id(int device, char *text, size_t size);

/* Of the driver and of cuBLASLt, which together decide how fast products are; "" without CUDA. */
void cuda_versions(char *text, size_t size);

/* What lies between the host and the GPU, each the median of several after a warm-up; 0: not
 * measured. */
typedef struct {
    double launch_s;           /* per empty kernel, many launched one behind the other */
    double launch_wait_s;      /* one empty kernel: launch it and wait until it is done */
    double graph_launch_s;     /* per empty kernel of a recorded sequence */
    double to_device, to_host; /* bytes/s from and to pinned memory */
} CudaLink;
CudaLink cuda_measure_link(Backend *backend);
