#pragma once
/* Kernels that begin before the one in front of them has ended. A step of generation is a chain of
 * short ones, of which each waits for the last: what does not depend on others, fetching weights
 * into L2 above all, is then done by the time that the wait is over. From compute capability 9.0
 * on; before, they are launched like all others and the functions do nothing.
 *
 * Every thread of such a kernel calls await_kernels_before, and reads and writes no memory but
 * its arguments until then; to fetch something into L2 is no read. Since each waits for the end of
 * the one in front, the end of one is that of all before it. let_next_begin comes first: by then
 * all blocks have begun, so that those of the next never hold the place of one of these. */
#include "cuda/device.cuh"

#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 128

__device__ inline void let_next_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void await_kernels_before()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void fetch_line(const void *at)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
}

/* Shared out over the block's first row of threads. */
__device__ inline void fetch_lines(const void *from, int64_t bytes)
{
    for (int64_t at = threadIdx.x * (int64_t)LINE_BYTES; at < bytes;
         at += blockDim.x * (int64_t)LINE_BYTES) {
        fetch_line((const char *)from + at);
    }
}

/* decode.cu: whether the program has the code of compute capability 9.0 for this GPU. */
bool cuda_has_hopper_code(const CudaBackend *backend);

/* PACER_EARLY=off: kernels begin one after the other. */
inline bool starts_early(const CudaBackend *backend)
{
    static const char *const given = getenv("PACER_EARLY");
    return cuda_has_hopper_code(backend) && (given == NULL || strcmp(given, "off") != 0);
}

/* Such a launch, in clusters of `cluster` blocks along x where that is more than 1. */
template <typename... Params, typename... Args>
inline void launch_early(const CudaBackend *backend, dim3 blocks, dim3 threads, unsigned cluster,
                         void (*kernel)(Params...), Args... args)
{
    cudaLaunchAttribute attributes[2];
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = backend->stream;
    config.attrs = attributes;
    if (starts_early(backend)) {
        attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        cudaLaunchAttribute *dimension = &attributes[config.numAttrs++];
        dimension->id = cudaLaunchAttributeClusterDimension;
        dimension->val.clusterDim.x = cluster;
        dimension->val.clusterDim.y = dimension->val.clusterDim.z = 1;
    }
    CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, args...));
}
