/* A stand-in for libnvidia-ml.so.1, with the functions that pacer asks for. Built a second time
 * with FAKE_NVML_OLD, as a driver that lacks some of them and has others under older names. */
#include "nvml/fake_nvml.h"

#include <string.h>

FakeNvml fake_nvml;

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define INSUFFICIENT_SIZE 7

typedef struct {
    unsigned long long total, available, used;
} Memory;

typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} Process;

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device);
int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz);
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory);

int nvmlInit_v2(void)
{
    fake_nvml.opened += fake_nvml.init_result == SUCCESS;
    return fake_nvml.init_result;
}

int nvmlShutdown(void)
{
    fake_nvml.opened--;
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **device)
{
    *device = &fake_nvml;
    return strcmp(bus_id, fake_nvml.bus_id) != 0 ? INVALID_ARGUMENT : fake_nvml.handle_result;
}

/* value into *out, for the device that was handed out. */
static int answer(void *device, unsigned value, unsigned *out)
{
    if (device != &fake_nvml) {
        return INVALID_ARGUMENT;
    }
    *out = value;
    return fake_nvml.value_result;
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned *mhz)
{
    if (kind != 1 && kind != 2) {
        return INVALID_ARGUMENT;
    }
    return answer(device, kind == 1 ? fake_nvml.sm_mhz : fake_nvml.memory_mhz, mhz);
}

int nvmlDeviceGetMemoryInfo(void *device, Memory *memory)
{
    if (device != &fake_nvml) {
        return INVALID_ARGUMENT;
    }
    *memory = (Memory){fake_nvml.total, fake_nvml.total - fake_nvml.used, fake_nvml.used};
    return fake_nvml.value_result;
}

#ifdef FAKE_NVML_OLD
#define REASONS nvmlDeviceGetCurrentClocksThrottleReasons
#else
#define REASONS nvmlDeviceGetCurrentClocksEventReasons

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt);
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatt);
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius);
int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, Process *list);

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatt)
{
    return answer(device, fake_nvml.milliwatt, milliwatt);
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatt)
{
    return answer(device, fake_nvml.limit_milliwatt, milliwatt);
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius)
{
    return sensor != 0 ? INVALID_ARGUMENT : answer(device, fake_nvml.celsius, celsius);
}

int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *count, Process *list)
{
    unsigned room = *count;
    *count = fake_nvml.process_count;
    if (device != &fake_nvml || fake_nvml.process_count > room) {
        return INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < fake_nvml.process_count; i++) {
        list[i] = (Process){fake_nvml.processes[i].pid, fake_nvml.processes[i].used, 0, 0};
    }
    return fake_nvml.value_result;
}
#endif

int REASONS(void *device, unsigned long long *bits);

int REASONS(void *device, unsigned long long *bits)
{
    *bits = fake_nvml.reasons;
    return device != &fake_nvml ? INVALID_ARGUMENT : fake_nvml.value_result;
}
