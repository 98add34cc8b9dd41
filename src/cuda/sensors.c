/* NVML by hand: its types and numbers from the public reference, its functions by name from the
 * library that comes with the driver, so that one program runs with any driver and without one.
 *
 * Who else computes: NVML lists processes by the ids of the machine. Where this process is in
 * the list, all others are others. In a container ids may be translated or hidden. Then, of a
 * list without this process's id, one entry is taken to be this process: the one whose memory
 * comes closest to what sensors_own told. An empty list leaves memory alone to judge by: what is
 * in use beyond this process's own and OWN_EXTRA, if it is more than OTHER_LEAST, is one other
 * process. */
#include "cuda/sensors.h"

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

struct Sensors {
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
};

/* The first of two names that the library has; a pointer to data made one to a function the way
 * POSIX allows. */
static void find(const Sensors *s, const char *name, const char *other, void *slot)
{
    void *found = dlsym(s->library, name);
    if (found == NULL && other != NULL) {
        found = dlsym(s->library, other);
    }
    memcpy(slot, &found, sizeof found);
}

static bool start(Sensors *s, const char *bus_id)
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

Sensors *sensors_open_at(const char *library, const char *bus_id)
{
    Sensors *s = mem_zalloc(1, sizeof *s);
    s->own = NAN;
    s->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (s->library == NULL || !start(s, bus_id)) {
        log_debug("the sensors of the GPU cannot be read: %s has no answer for %s", library,
                  bus_id);
        sensors_close(s);
        return NULL;
    }
    return s;
}

Sensors *sensors_open(int device)
{
    char bus_id[32];
    return cuda_bus_id(device, bus_id, sizeof bus_id) ? sensors_open_at(LIBRARY, bus_id) : NULL;
}

void sensors_close(Sensors *s)
{
    if (s == NULL) {
        return;
    }
    if (s->shutdown != NULL) {
        s->shutdown();
    }
    if (s->library != NULL) {
        dlclose(s->library);
    }
    free(s);
}

void sensors_own(Sensors *s, double bytes)
{
    if (s != NULL) {
        s->own = bytes;
    }
}

static void count_hidden(const Sensors *s, GpuReading *r)
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
static unsigned find_self(const Sensors *s, const NvmlProcess *list, unsigned count)
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

static void count_others(const Sensors *s, GpuReading *r)
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

GpuReading sensors_read(Sensors *s)
{
    GpuReading r = {.sm_mhz = NAN,
                    .memory_mhz = NAN,
                    .power_w = NAN,
                    .power_limit_w = NAN,
                    .temperature_c = NAN,
                    .used_bytes = NAN,
                    .total_bytes = NAN,
                    .other_processes = -1,
                    .other_bytes = NAN};
    if (s == NULL) {
        return r;
    }
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

const char *sensors_throttle_text(unsigned long long bits, char *text, size_t size)
{
    static const struct {
        unsigned long long bit;
        const char *name;
    } reasons[] = {{0x04, "power cap"}, {0x08, "hardware slowdown"}, {0x10, "sync boost"},
                   {0x20, "thermal"},   {0x40, "hardware thermal"},  {0x80, "power brake"}};
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if ((bits & reasons[i].bit) != 0 && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "",
                                     reasons[i].name);
        }
    }
    return text;
}
