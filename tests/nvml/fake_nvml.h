#pragma once
/* What the stand-in for the driver's management library answers; the library exports one as
 * fake_nvml, which a test finds by dlsym and changes. Fields that are functions' results: 0 is
 * success. */

typedef struct {
    unsigned pid;
    unsigned long long used;
} FakeProcess;

typedef struct {
    int init_result, handle_result, value_result;
    const char *bus_id; /* the only one with a GPU */
    unsigned sm_mhz, memory_mhz, milliwatt, limit_milliwatt, celsius;
    unsigned long long total, used, reasons;
    FakeProcess processes[128];
    unsigned process_count;
    int opened; /* inits less shutdowns */
} FakeNvml;
