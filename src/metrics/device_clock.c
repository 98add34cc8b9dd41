#include "metrics/device_clock.h"

#include "base/assert.h"

#define DRIFT 10000 /* one part in so many is more than clocks drift apart */

void device_clock_learn(DeviceClock *clock, int64_t device_ns, int64_t host_ns)
{
    int64_t seen = host_ns - device_ns;
    int64_t limit = clock->offset_ns + (host_ns - clock->learned_ns) / DRIFT;
    clock->offset_ns = !clock->known || seen < limit ? seen : limit;
    clock->learned_ns = host_ns;
    clock->known = true;
}

int64_t device_clock_to_host(const DeviceClock *clock, int64_t device_ns)
{
    PACER_ASSERT(clock->known, "nothing was learned about the device's clock");
    return device_ns + clock->offset_ns;
}
