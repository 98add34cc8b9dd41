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
