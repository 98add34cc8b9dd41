/* NVML by hand: its types and numbers from the public reference, its functions by name from the
 * library that comes with the driver, so that one program runs with any driver and without one.
 *
 * Who else computes: NVML lists processes by the ids of the machine. Where this process is in
 * the list, all others are others. In a container ids may be translated or hidden. Then, of a
 * list without this process's id, one entry is taken to be this process: the one whose memory
 * comes closest to what sensors_own told. An empty list leaves memory alone to judge by: what is
 * in use beyond this process's own and OWN_EXTRA, if it is more than OTHER_LEAST, is one other
 * process. */
#include "base/log.h"
#include "base/mem.h"
#include "cuda/cuda.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libnvidia-ml.so.1"
#define OWN_EXTRA (2048.0 * 1048576)   /* bytes: a CUDA context, libraries, what the driver keeps */
#define OTHER_LEAST (1024.0 * 1048576) /* bytes */
#define PROCESSES 64                   /* of the list that are looked at */

/* NVML's own, by their public values. */
enum { NVML_OK = 0 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2 };
enum { TEMPERATURE_GPU = 0 };
#define NOT_AVAILABLE (~0ull)

typedef struct NvmlDevice NvmlDevice;

typedef struct {
    unsigned long long total, available, used;
} NvmlMemory;

typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} NvmlProcess;

typedef struct {
    Sensors base; /* first */
    void *library;
    NvmlDevice *device;
    double own; /* bytes; NaN: not told */
    /* Each may be NULL. All return NVML_OK or a reason. */
    int (*shutdown)(void);
    int (*clock)(NvmlDevice *, int kind, unsigned *mhz);
    int (*power)(NvmlDevice *, unsigned *milliwatt);
    int (*power_limit)(NvmlDevice *, unsigned *milliwatt);
    int (*temperature)(NvmlDevice *, int sensor, unsigned *celsius);
    int (*memory)(NvmlDevice *, NvmlMemory *);
    int (*reasons)(NvmlDevice *, unsigned long long *bits);
    int (*processes)(NvmlDevice *, unsigned *count, NvmlProcess *list);
} Nvml;

/* The first of two names that the library has; a pointer to data made one to a function the way
 * POSIX allows. */
static void find(const Nvml *s, const char *name, const char *other, void *slot)
{
    void *found = dlsym(s->library, name);
    if (found == NULL && other != NULL) {
        found = dlsym(s->library, other);
    }
    memcpy(slot, &found, sizeof found);
}

static bool start(Nvml *s, const char *bus_id)
{
    int (*init)(void);
    int (*by_bus)(const char *, NvmlDevice **);
    find(s, "nvmlInit_v2", NULL, &init);
    find(s, "nvmlDeviceGetHandleByPciBusId_v2", NULL, &by_bus);
    if (init == NULL || by_bus == NULL || init() != NVML_OK) {
        return false;
    }
    find(s, "nvmlShutdown", NULL, &s->shutdown);
    find(s, "nvmlDeviceGetClockInfo", NULL, &s->clock);
    find(s, "nvmlDeviceGetPowerUsage", NULL, &s->power);
    find(s, "nvmlDeviceGetEnforcedPowerLimit", NULL, &s->power_limit);
    find(s, "nvmlDeviceGetTemperature", NULL, &s->temperature);
    find(s, "nvmlDeviceGetMemoryInfo", NULL, &s->memory);
    find(s, "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
         &s->reasons);
    /* Entries of _v3 had another size in a few releases; those of _v2 always had this one. */
    find(s, "nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
         &s->processes);
    return by_bus(bus_id, &s->device) == NVML_OK;
}

static void nvml_close(Sensors *sensors)
{
    Nvml *s = (Nvml *)sensors;
    if (s->shutdown != NULL) {
        s->shutdown();
    }
    if (s->library != NULL) {
        dlclose(s->library);
    }
    free(s);
}

static void nvml_own(Sensors *sensors, double bytes)
{
    ((Nvml *)sensors)->own = bytes;
}

static void count_hidden(const Nvml *s, GpuReading *r)
{
    double beyond = r->used_bytes - s->own - OWN_EXTRA;
    if (!isnan(beyond)) {
        r->other_processes = beyond > OTHER_LEAST;
        r->other_bytes = beyond > OTHER_LEAST ? beyond : 0;
    }
}

static double bytes_of(const NvmlProcess *process)
{
    return process->used == NOT_AVAILABLE ? NAN : (double)process->used;
}

/* Which of the entries is this process. */
static unsigned find_self(const Nvml *s, const NvmlProcess *list, unsigned count)
{
    unsigned self = 0;
    double closest = INFINITY;
    for (unsigned i = 0; i < count; i++) {
        if (list[i].pid == (unsigned)getpid()) {
            return i;
        }
        double distance = fabs(bytes_of(&list[i]) - s->own);
        if (distance < closest) {
            closest = distance;
            self = i;
        }
    }
    return self;
}

static void count_others(const Nvml *s, GpuReading *r)
{
    NvmlProcess list[2 * PROCESSES]; /* room for entries that turn out larger */
    unsigned count = PROCESSES;
    memset(list, 0, sizeof list);
    if (s->processes == NULL || s->processes(s->device, &count, list) != NVML_OK ||
        count > PROCESSES) {
        return;
    }
    if (count == 0) {
        count_hidden(s, r);
        return;
    }
    unsigned self = find_self(s, list, count);
    r->other_processes = (int)count - 1;
    r->other_bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        r->other_bytes += i != self ? bytes_of(&list[i]) : 0;
    }
}

static GpuReading nvml_read(Sensors *sensors)
{
    const Nvml *s = (const Nvml *)sensors;
    GpuReading r = sensors_unknown();
    unsigned value;
    unsigned long long bits;
    NvmlMemory memory;
    if (s->clock != NULL && s->clock(s->device, CLOCK_SM, &value) == NVML_OK) {
        r.sm_mhz = value;
    }
    if (s->clock != NULL && s->clock(s->device, CLOCK_MEMORY, &value) == NVML_OK) {
        r.memory_mhz = value;
    }
    if (s->power != NULL && s->power(s->device, &value) == NVML_OK) {
        r.power_w = value * 1e-3;
    }
    if (s->power_limit != NULL && s->power_limit(s->device, &value) == NVML_OK) {
        r.power_limit_w = value * 1e-3;
    }
    if (s->temperature != NULL && s->temperature(s->device, TEMPERATURE_GPU, &value) == NVML_OK) {
        r.temperature_c = value;
    }
    if (s->memory != NULL && s->memory(s->device, &memory) == NVML_OK) {
        r.used_bytes = (double)memory.used;
        r.total_bytes = (double)memory.total;
    }
    if (s->reasons != NULL && s->reasons(s->device, &bits) == NVML_OK) {
        r.throttle = bits & SENSORS_THROTTLE;
    }
    count_others(s, &r);
    r.known =
        !isnan(r.sm_mhz) || !isnan(r.power_w) || !isnan(r.temperature_c) || !isnan(r.used_bytes);
    return r;
}

Sensors *cuda_sensors_at(const char *library, const char *bus_id)
{
    Nvml *s = mem_zalloc(1, sizeof *s);
    s->base = (Sensors){.read = nvml_read, .own = nvml_own, .close = nvml_close};
    s->own = NAN;
    s->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (s->library == NULL || !start(s, bus_id)) {
        log_debug("the sensors of the GPU cannot be read: %s has no answer for %s", library,
                  bus_id);
        nvml_close(&s->base);
        return NULL;
    }
    return &s->base;
}

Sensors *cuda_sensors_open(Backend *backend)
{
    char bus_id[32];
    return backend->place(backend, bus_id, sizeof bus_id) ? cuda_sensors_at(LIBRARY, bus_id) : NULL;
}
