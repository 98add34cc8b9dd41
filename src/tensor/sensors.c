#include "tensor/sensors.h"

#include <math.h>
#include <stdio.h>

GpuReading sensors_unknown(void)
{
    return (GpuReading){.sm_mhz = NAN,
                        .memory_mhz = NAN,
                        .power_w = NAN,
                        .power_limit_w = NAN,
                        .temperature_c = NAN,
                        .used_bytes = NAN,
                        .total_bytes = NAN,
                        .other_processes = -1,
                        .other_bytes = NAN};
}

GpuReading sensors_read(Sensors *sensors)
{
    return sensors != NULL ? sensors->read(sensors) : sensors_unknown();
}

void sensors_own(Sensors *sensors, double bytes)
{
    if (sensors != NULL) {
        sensors->own(sensors, bytes);
    }
}

void sensors_close(Sensors *sensors)
{
    if (sensors != NULL) {
        sensors->close(sensors);
    }
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
