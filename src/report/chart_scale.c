#include "report/chart_scale.h"

#include <math.h>
#include <stdio.h>

/* 1, 2 or 5 times a power of ten, at least `step`. */
static double round_step(double step)
{
    double power = pow(10, floor(log10(step)));
    double rest = step / power;
    return power * (rest <= 1.0001 ? 1 : rest <= 2.0001 ? 2 : rest <= 5.0001 ? 5 : 10);
}

static void linear(Scale *scale, bool tight)
{
    double step = round_step((scale->high - scale->low) / 6);
    if (!tight) {
        scale->low = floor(scale->low / step + 1e-9) * step;
        scale->high = ceil(scale->high / step - 1e-9) * step;
    }
    double first = ceil(scale->low / step - 1e-9);
    for (int i = 0; scale->count < SCALE_MAX_TICS; i++) {
        double value = (first + i) * step;
        if (value > scale->high + step * 1e-6) {
            break;
        }
        scale->tics[scale->count++] = fabs(value) < step * 1e-6 ? 0 : value;
    }
}

/* Decades, and 2 and 5 between them where there are few. */
static void logarithmic(Scale *scale, bool tight)
{
    static const double parts[] = {1, 2, 5};
    double decades = log10(scale->high / scale->low), low = scale->low, high = INFINITY;
    int used = decades > 3 ? 1 : 3, every = 1 + (int)(decades / (SCALE_MAX_TICS - 2));
    int first = (int)floor(log10(scale->low) + 1e-9), last = (int)ceil(log10(scale->high) - 1e-9);
    for (int i = 0; i < 3 * (last - first + 1); i++) { /* outwards to numbers that read well */
        double at = parts[i % 3] * pow(10, first + i / 3);
        low = at <= scale->low * 1.0001 ? at : low;
        high = at >= scale->high * 0.9999 ? fmin(high, at) : high;
    }
    if (!tight) {
        scale->low = low;
        scale->high = high;
    }
    for (int power = first; power <= last; power += every) {
        for (int i = 0; i < used && scale->count < SCALE_MAX_TICS; i++) {
            double at = parts[i] * pow(10, power);
            if (at >= scale->low * 0.9999 && at <= scale->high * 1.0001) {
                scale->tics[scale->count++] = at;
            }
        }
    }
}

Scale scale_make(double low, double high, bool log, bool tight)
{
    if (!(high > low)) {
        double room = log ? low * 0.5 : fmax(fabs(low) * 0.1, 1e-9);
        high = log ? low * 2 : low + room;
        low = low == 0 && !log ? 0 : low - room;
    }
    Scale scale = {.low = low, .high = high, .log = log};
    if (log) {
        logarithmic(&scale, tight);
    } else {
        linear(&scale, tight);
    }
    return scale;
}

void scale_tics_at(Scale *scale, const double *values, size_t count, double room)
{
    scale->count = 0;
    scale->exact = true;
    double last = -INFINITY;
    for (size_t i = 0; i < count && scale->count < SCALE_MAX_TICS; i++) {
        double place = scale_place(scale, values[i]);
        if (place - last >= room) {
            scale->tics[scale->count++] = values[i];
            last = place;
        }
    }
}

double scale_place(const Scale *scale, double value)
{
    return scale->log ? log(value / scale->low) / log(scale->high / scale->low)
                      : (value - scale->low) / (scale->high - scale->low);
}

void scale_text(double value, int digits, char text[32])
{
    static const struct {
        double scale;
        const char *suffix;
    } steps[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
    /* Batch sizes and steps below ten thousand read better in full. */
    double size = fabs(value) * (1 + 0.5 * pow(10, -digits)), least = digits >= 4 ? 10000 : 1000;
    size_t i = 0;
    while (steps[i].scale > 1 && !(size >= steps[i].scale && size >= least)) {
        i++;
    }
    snprintf(text, 32, "%.*g%s", digits, value / steps[i].scale, steps[i].suffix);
}

int scale_digits(const Scale *scale)
{
    bool large = scale->count > 0 && fabs(scale->tics[scale->count - 1]) >= 10000;
    return scale->exact ? 5 : large ? 3 : 4;
}
