/* In the place of the CUDA backend where it is left out of the build. */
#include "cuda/cuda.h"

#include "base/err.h"

#include <stdio.h>

#define WHY "this build has no CUDA backend (make CUDA=1 builds it, where nvcc is installed)"

int cuda_devices(char *why, size_t size)
{
    snprintf(why, size, "%s", WHY);
    return 0;
}

int cuda_backend_open(int device, Backend **out)
{
    (void)device;
    *out = NULL;
    return err_set(ERR_INPUT, "%s; use --device cpu", WHY);
}

AttentionKind cuda_attention_choose(Backend *backend, HeadShape shape, DType dtype)
{
    (void)backend, (void)shape, (void)dtype;
    return ATTENTION_FLASH;
}

const char *cuda_ttt_refusal(const Backend *backend, const TttShape *shape, DType dtype)
{
    (void)backend, (void)shape, (void)dtype;
    return WHY;
}

int cuda_backend_device(const Backend *backend)
{
    (void)backend;
    return -1;
}

bool cuda_bus_id(int device, char *text, size_t size)
{
    (void)device, (void)text, (void)size;
    return false;
}

void cuda_versions(char *text, size_t size)
{
    snprintf(text, size, "%s", "");
}

CudaLink cuda_measure_link(Backend *backend)
{
    (void)backend;
    return (CudaLink){0};
}
