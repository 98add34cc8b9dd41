#include "devices/devices.h"

#include "base/err.h"
#include "cpu/cpu.h"
#include "cuda/cuda.h"

#include <string.h>

static int open_cpu(int index, int threads, Backend **out)
{
    (void)index;
    *out = cpu_backend_open(threads);
    return *out != NULL ? 0 : ERR_INPUT;
}

static int open_ref(int index, int threads, Backend **out)
{
    (void)index, (void)threads;
    *out = ref_backend_open();
    return 0;
}

static int open_cuda(int index, int threads, Backend **out)
{
    (void)threads;
    return cuda_backend_open(index, out);
}

static const Device devices[DEVICE_COUNT] = {
    [DEVICE_CPU] = {.open = open_cpu,
                    .dtype = DT_F32,
                    .no_bf16 = cpu_no_bf16,
                    .no_fp8 = "is not supported on the CPU: take f32, or bf16 where it has "
                              "products for it, or give --device ref for a slow exact run",
                    .bf16_weights = true},
    [DEVICE_CUDA] = {.count = cuda_devices, .open = open_cuda, .dtype = DT_BF16},
    [DEVICE_REF] = {.open = open_ref, .dtype = DT_F32},
};

const Device *device_of(DeviceId id)
{
    return &devices[id];
}

DeviceId device_best(void)
{
    char why[256];
    return cuda_devices(why, sizeof why) > 0 ? DEVICE_CUDA : DEVICE_CPU;
}

const char *device_isa(const Backend *backend)
{
    return strcmp(backend->name, "cpu") == 0 ? cpu_backend_isa(backend) : NULL;
}
