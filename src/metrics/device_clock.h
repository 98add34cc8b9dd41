#pragma once
/* The host's time of a moment that a device has put down by its own clock (Backend.stamp). The
 * two clocks start and run differently. What is known: a result that has reached the host was
 * made before that. So the least difference ever seen between the host's clock at such a moment
 * and the device's stamp is the offset, too large by the shortest way of a result to the host,
 * some microseconds; it may grow slowly, for clocks drift. */
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool known;
    int64_t offset_ns;  /* host minus device */
    int64_t learned_ns; /* host's time of the last lesson */
} DeviceClock;

/* A result stamped `device_ns` is here, and it is host_ns. */
void device_clock_learn(DeviceClock *clock, int64_t device_ns, int64_t host_ns);
int64_t device_clock_to_host(const DeviceClock *clock, int64_t device_ns);
