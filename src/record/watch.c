#include "record/watch.h"

#include "base/clock.h"
#include "base/json.h"

#include <math.h>

#define INTERVAL 1.0 /* seconds */
#define THROTTLE_TEXT 128

void gpu_watch_start(GpuWatch *watch, Sensors *sensors)
{
    *watch = (GpuWatch){.sensors = sensors,
                        .next = -INFINITY,
                        .power_limit_w = NAN,
                        .total_bytes = NAN,
                        .other_processes = -1,
                        .other_bytes = NAN};
}

static void spread_add(Spread *spread, double number)
{
    if (isnan(number)) {
        return;
    }
    spread->least = spread->count == 0 || number < spread->least ? number : spread->least;
    spread->most = spread->count == 0 || number > spread->most ? number : spread->most;
    spread->sum += number;
    spread->count++;
}

void gpu_watch_add(GpuWatch *watch, const GpuReading *reading)
{
    if (!reading->known) {
        return;
    }
    watch->readings++;
    spread_add(&watch->sm_mhz, reading->sm_mhz);
    spread_add(&watch->memory_mhz, reading->memory_mhz);
    spread_add(&watch->power_w, reading->power_w);
    spread_add(&watch->temperature_c, reading->temperature_c);
    spread_add(&watch->used_bytes, reading->used_bytes);
    watch->power_limit_w = reading->power_limit_w;
    watch->total_bytes = reading->total_bytes;
    watch->throttle |= reading->throttle;
    watch->power_capped += (reading->throttle & SENSORS_POWER_CAP) != 0;
    watch->throttled += (reading->throttle & ~SENSORS_POWER_CAP) != 0;
    if (reading->other_processes > watch->other_processes) {
        watch->other_processes = reading->other_processes;
    }
    watch->other_bytes = fmax(watch->other_bytes, reading->other_bytes); /* a number beats NaN */
}

bool gpu_watch_poll(GpuWatch *watch, double now)
{
    if (watch->sensors == NULL || now < watch->next) {
        return false;
    }
    watch->next = now + INTERVAL;
    double started = clock_seconds();
    GpuReading reading = sensors_read(watch->sensors);
    watch->slowest_s = fmax(watch->slowest_s, clock_seconds() - started);
    gpu_watch_add(watch, &reading);
    return true;
}

/* {"min": .., "mean": .., "max": ..}; left out when no reading had the number. */
static void put_spread(cJSON *object, const char *name, const Spread *spread)
{
    if (spread->count == 0) {
        return;
    }
    cJSON *item = json_object();
    json_put_number(item, "min", spread->least);
    json_put_number(item, "mean", spread->sum / (double)spread->count);
    json_put_number(item, "max", spread->most);
    json_put_item(object, name, item);
}

static void put_throttle(cJSON *object, unsigned long long bits)
{
    char text[THROTTLE_TEXT];
    json_put_text(object, "throttle", sensors_throttle_text(bits, text, sizeof text));
}

static void put_others(cJSON *object, int processes, double bytes)
{
    json_put(object, "other_processes", processes >= 0 ? value_of(processes) : (Value){0});
    json_put(object, "other_bytes", value_finite(bytes));
}

cJSON *gpu_watch_json(const GpuWatch *watch)
{
    if (watch->readings == 0) {
        return NULL;
    }
    cJSON *object = json_object();
    json_put_whole(object, "readings", watch->readings);
    put_spread(object, "sm_mhz", &watch->sm_mhz);
    put_spread(object, "memory_mhz", &watch->memory_mhz);
    put_spread(object, "power_w", &watch->power_w);
    json_put(object, "power_limit_w", value_finite(watch->power_limit_w));
    put_spread(object, "temperature_c", &watch->temperature_c);
    put_spread(object, "used_bytes", &watch->used_bytes);
    json_put(object, "total_bytes", value_finite(watch->total_bytes));
    put_throttle(object, watch->throttle);
    json_put_number(object, "power_capped_share",
                    (double)watch->power_capped / (double)watch->readings);
    json_put_number(object, "throttled_share", (double)watch->throttled / (double)watch->readings);
    put_others(object, watch->other_processes, watch->other_bytes);
    json_put_number(object, "slowest_reading_s", watch->slowest_s);
    return object;
}

cJSON *gpu_reading_json(const GpuReading *reading)
{
    if (!reading->known) {
        return NULL;
    }
    cJSON *object = json_object();
    json_put(object, "sm_mhz", value_finite(reading->sm_mhz));
    json_put(object, "memory_mhz", value_finite(reading->memory_mhz));
    json_put(object, "power_w", value_finite(reading->power_w));
    json_put(object, "power_limit_w", value_finite(reading->power_limit_w));
    json_put(object, "temperature_c", value_finite(reading->temperature_c));
    json_put(object, "used_bytes", value_finite(reading->used_bytes));
    json_put(object, "total_bytes", value_finite(reading->total_bytes));
    put_throttle(object, reading->throttle);
    put_others(object, reading->other_processes, reading->other_bytes);
    return object;
}
