/* Readings of the GPU's clock in order with its work. An event inside a recorded step would be
 * overwritten by the next replay before anyone reads it; a number in device memory travels with
 * the step's results. */
#include "cuda/device.cuh"

#include <stdlib.h>
#include <string.h>

__device__ static uint64_t now()
{
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

static __global__ void stamp(int64_t *slot)
{
    await_previous();
    *slot = (int64_t)now();
}

bool cuda_early, cuda_clusters;

/* Kernels wait by themselves where they were compiled for Hopper or newer. */
void cuda_find_early(void)
{
    const char *asked = getenv("PACER_PDL");
    cudaFuncAttributes compiled = {};
    CUDA_CHECK(cudaFuncGetAttributes(&compiled, stamp));
    cuda_clusters = compiled.ptxVersion >= 90;
    cuda_early = cuda_clusters && (asked == NULL || strcmp(asked, "0") != 0);
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
    cuda_start(stamp, 1, 1, 0, ((CudaBackend *)backend)->stream, slot);
    CUDA_LAUNCHED("stamp");
}
