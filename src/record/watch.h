#pragma once
/* A GPU under observation for as long as a run lasts: readings of its sensors, at most one a
 * second, as smallest, mean and largest, and whether its clocks were ever held down or somebody
 * else computed on it. A rate that nobody can repeat is often explained here. */
#include "base/json.h"
#include "tensor/sensors.h"

typedef struct {
    double least, most, sum;
    int64_t count; /* of readings that had the number */
} Spread;

typedef struct {
    Sensors *sensors; /* not owned */
    double next;      /* clock_seconds of the next reading */
    int64_t readings; /* that were known */
    Spread sm_mhz, memory_mhz, power_w, temperature_c, used_bytes;
    double power_limit_w, total_bytes; /* of the last reading; NaN: not known */
    unsigned long long throttle;       /* of all readings together */
    int64_t power_capped;              /* readings at the power limit */
    int64_t throttled;                 /* readings with any other reason */
    int other_processes;               /* most at one time; -1: not known */
    double other_bytes;                /* most at one time; NaN: not known */
    double slowest_s;                  /* that a reading took */
} GpuWatch;

/* sensors may be NULL: nothing is then ever known. They must outlive the watch. */
void gpu_watch_start(GpuWatch *watch, Sensors *sensors);

/* Takes a reading when the last one is a second old; now is clock_seconds(). True when one was
 * taken. */
bool gpu_watch_poll(GpuWatch *watch, double now);

/* Adds a reading that somebody else took. */
void gpu_watch_add(GpuWatch *watch, const GpuReading *reading);

/* For a record; NULL when no reading was known. Caller deletes it. */
cJSON *gpu_watch_json(const GpuWatch *watch);

/* A single reading likewise. */
cJSON *gpu_reading_json(const GpuReading *reading);
