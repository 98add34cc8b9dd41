#pragma once
/* What a device says about itself while it works: clocks, power, temperature, memory, why its
 * clocks are held down, and who else computes on it (Backend.sensors_open). What cannot be asked
 * is not known, and that is never an error. */
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

/* How a device is asked. */
typedef struct Sensors Sensors;
struct Sensors {
    GpuReading (*read)(Sensors *sensors);
    void (*own)(Sensors *sensors, double bytes);
    void (*close)(Sensors *sensors);
};

/* NULL, sensors that cannot be asked, is fine for every function below. */
void sensors_close(Sensors *sensors);

/* Tells what this process itself holds of the GPU's memory, for machines where it cannot find
 * itself in the list of processes (a container with process ids of its own). */
void sensors_own(Sensors *sensors, double bytes);

/* A handful of calls into the driver. */
GpuReading sensors_read(Sensors *sensors);

/* Nothing is known. */
GpuReading sensors_unknown(void);

/* "power cap, thermal" for the bits of SENSORS_THROTTLE among these; "" for none. Returns text. */
const char *sensors_throttle_text(unsigned long long bits, char *text, size_t size);
