#pragma once
/* What a GPU says about itself while it works: clocks, power, temperature, memory, why its
 * clocks are held down, and who else computes on it. Asked of the driver's management library
 * (NVML), which is looked for at run time; where it, one of its functions or an answer is
 * missing the value is not known, and that is never an error. */
#include <stdbool.h>
#include <stddef.h>

/* A number that is not known is NaN. */
typedef struct {
    bool known; /* false: nothing is */
    double sm_mhz, memory_mhz;
    double power_w, power_limit_w;
    double temperature_c;
    double used_bytes, total_bytes; /* of its memory, by everybody */
    unsigned long long
        throttle;        /* SENSORS_THROTTLE bits; 0: clocks are not held down, or unknown */
    int other_processes; /* that compute on it, besides this one; -1: not known */
    double other_bytes;  /* that they hold */
} GpuReading;

/* Reasons that take clocks away from a GPU that has work: power cap, hardware slowdown, sync
 * boost, thermal (by software, by hardware), power brake. Being idle, and clocks that somebody
 * has set, are not among them. */
#define SENSORS_THROTTLE 0xfcull
/* The first of them is how a large GPU works under full load: it takes as much clock as its
 * power limit lets it. */
#define SENSORS_POWER_CAP 0x4ull

typedef struct Sensors Sensors;

/* Of the GPU that CUDA counts as `device` (cuda_backend_device), found by its place on the PCI
 * bus. NULL when they cannot be asked; NULL is fine for every function below. */
Sensors *sensors_open(int device);
void sensors_close(Sensors *sensors);

/* The same with a library and a bus id ("00000000:3B:00.0") of the caller's choice. */
Sensors *sensors_open_at(const char *library, const char *bus_id);

/* Tells what this process itself holds of the GPU's memory, for machines where it cannot find
 * itself in the list of processes (a container with process ids of its own). */
void sensors_own(Sensors *sensors, double bytes);

/* A handful of calls into the driver. Not known for NULL. */
GpuReading sensors_read(Sensors *sensors);

/* "power cap, thermal" for the bits of SENSORS_THROTTLE among these; "" for none. Returns text. */
const char *sensors_throttle_text(unsigned long long bits, char *text, size_t size);
