/* Which GPU a backend computes on, in the words of the driver and of the management library. */
#include "cuda/internal.h"

#include <cublasLt.h>
#include <stdio.h>

bool cuda_place(const Backend *backend, char *text, size_t size)
{
    int device = ((const CudaBackend *)backend)->device;
    bool found = cudaDeviceGetPCIBusId(text, (int)size, device) == cudaSuccess;
    if (!found) {
        cudaGetLastError(); /* not to be found by the next launch */
    }
    return found;
}

void cuda_versions(const Backend *backend, char *text, size_t size)
{
    (void)backend;
    int driver = 0;
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    snprintf(text, size, "driver %d, cuBLASLt %zu", driver, cublasLtGetVersion());
}
