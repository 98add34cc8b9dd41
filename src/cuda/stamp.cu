/* Readings of the GPU's clock in order with its work. An event inside a recorded step would be
 * overwritten by the next replay before anyone reads it; a number in device memory travels with
 * the step's results. */
#include "cuda/internal.h"

static __global__ void stamp(int64_t *slot)
{
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    *slot = (int64_t)now;
}

void cuda_stamp(Backend *backend, int64_t *slot)
{
    stamp<<<1, 1, 0, ((CudaBackend *)backend)->stream>>>(slot);
    CUDA_LAUNCHED("stamp");
}
