/* Which GPU a backend computes on, in the words of the driver and of the management library. */
#include "cuda/cuda.h"
#include "cuda/internal.h"

#include <cublasLt.h>
#include <stdio.h>
#include <string.h>

int cuda_backend_device(const Backend *backend)
{
    return strcmp(backend->name, "cuda") == 0 ? ((const CudaBackend *)backend)->device : -1;
}

bool cuda_bus_id(int device, char *text, size_t size)
{
    bool found = device >= 0 && cudaDeviceGetPCIBusId(text, (int)size, device) == cudaSuccess;
    if (!found) {
        cudaGetLastError(); /* not to be found by the next launch */
    }
    return found;
}

void cuda_versions(char *text, size_t size)
{
    int driver = 0;
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    snprintf(text, size, "driver %d, cuBLASLt %zu", driver, cublasLtGetVersion());
}
