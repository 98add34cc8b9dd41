/* Readings of the GPU's clock in order with its work. An event inside a recorded step would be
 * overwritten by the next replay before anyone reads it; a number in device memory travels with
 * the step's results. */
#include "cuda/internal.h"

__device__ static uint64_t now()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __global__ void stamp(int64_t *slot)
{
    *slot = (int64_t)now();
}

static __global__ void idle(int64_t ns)
{
    uint64_t start = now();
    while (now() - start < (uint64_t)ns) {
        __nanosleep(500);
    }
}

void cuda_idle(cudaStream_t stream, int64_t ns)
{
    idle<<<1, 1, 0, stream>>>(ns);
    CUDA_LAUNCHED("idle");
}

void cuda_stamp(Backend *backend, int64_t *slot)
{
    stamp<<<1, 1, 0, ((CudaBackend *)backend)->stream>>>(slot);
    CUDA_LAUNCHED("stamp");
}
