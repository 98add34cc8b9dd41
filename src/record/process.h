#pragma once
/* Which process a record belongs to, so that a reader can tell a run that goes on from one whose
 * process was killed and could not say so. */
#include <cjson/cJSON.h>
#include <stdint.h>

typedef enum {
    PROCESS_ALIVE,
    PROCESS_GONE,
    PROCESS_ELSEWHERE /* not visible from here: another host or container, or not recorded */
} ProcessLife;

/* This process: {pid, start, namespace}, run.json's "process". `start` is in clock ticks since
 * the host was booted, which tells it from a later process of the same number. */
cJSON *process_describe(void);

/* Of a recorded process, on a host of that name (NULL: unknown). */
ProcessLife process_life(const cJSON *process, const char *host);

/* Resident bytes of a live process now and at most; 0 when the system does not say. */
void process_memory(const cJSON *process, int64_t *now, int64_t *most);
