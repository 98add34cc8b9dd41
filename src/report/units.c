#include "report/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* Three digits or more, with the prefix that makes the number read well. */
static void format_scaled(double value, double step, const char *const *units, char *text,
                          size_t size)
{
    double shown = value;
    while (fabs(shown) >= step && units[1] != NULL) {
        shown /= step;
        units++;
    }
    int digits = fabs(shown) >= 1000 ? 0 : fabs(shown) >= 100 ? 1 : 2;
    bool whole = shown == value && floor(shown) == shown;
    snprintf(text, size, "%.*f%s%s", whole ? 0 : digits, shown, units[0][0] != '\0' ? " " : "",
             units[0]);
}

static void format_count(double value, char *text, size_t size)
{
    static const char *const units[] = {"", "k", "M", "G", "T", NULL};
    if (fabs(value) < 100000) {
        snprintf(text, size, floor(value) == value ? "%.0f" : "%.2f", value);
    } else {
        format_scaled(value, 1000, units, text, size);
    }
}

static void format_seconds(double value, char *text, size_t size)
{
    double length = fabs(value);
    if (length > 0 && length < 1e-3) {
        snprintf(text, size, "%.1f us", 1e6 * value);
    } else if (length > 0 && length < 1) {
        snprintf(text, size, "%.*f ms", length < 0.1 ? 2 : 1, 1e3 * value);
    } else {
        snprintf(text, size, "%.*f s", length < 10000 ? 2 : 0, value);
    }
}

void unit_format(Unit unit, double value, char *text, size_t size)
{
    static const char *const rates[] = {"", "k", "M", "G", NULL};
    static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
    if (!isfinite(value)) {
        snprintf(text, size, "%s", "");
        return;
    }
    switch (unit) {
    case UNIT_COUNT:
        format_count(value, text, size);
        break;
    case UNIT_SECONDS:
        format_seconds(value, text, size);
        break;
    case UNIT_BYTES:
        format_scaled(value, 1024, bytes, text, size);
        break;
    case UNIT_RATE:
        format_scaled(value, 1000, rates, text, size);
        break;
    case UNIT_LOSS:
        snprintf(text, size, "%.4f", value);
        break;
    case UNIT_PERCENT:
        snprintf(text, size, fabs(value) < 5e-4 && value != 0 ? "%.1g %%" : "%.1f %%", 100 * value);
        break;
    case UNIT_MILLISECONDS:
        snprintf(text, size, fabs(value) < 1e4 ? "%.2f ms" : "%.0f ms", value);
        break;
    case UNIT_RATIO:
        snprintf(text, size, fabs(value) >= 0.1 ? "%.2f" : "%.3g", value);
        break;
    case UNIT_TEXT:
        snprintf(text, size, "%.6g", value);
        break;
    }
}

const char *unit_count(double count, char text[UNIT_SHORT_SIZE])
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    int unit = 0;
    while (count >= 999.5 && unit < 5) {
        count /= 1000;
        unit++;
    }
    int digits = unit == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
    snprintf(text, UNIT_SHORT_SIZE, "%.*f%s", digits, count, units[unit]);
    return text;
}

const char *unit_bytes(double bytes, char text[UNIT_SHORT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1023.95 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, UNIT_SHORT_SIZE, "%.*f %s", unit > 0, bytes, units[unit]);
    return text;
}

const char *unit_tic(double value, int digits, char text[UNIT_SHORT_SIZE])
{
    static const char letters_of[] = {'k', 'M', 'G', 'T'};
    double size = fabs(value) * (1 + 0.5 * pow(10, -digits)), least = digits > 3 ? 1e4 : 1e3;
    int power = 0;
    for (double unit = 1e3; power < 4 && size >= unit && size >= least; unit *= 1e3) {
        power++;
    }
    snprintf(text, UNIT_SHORT_SIZE, power > 0 ? "%.*g%c" : "%.*g", digits, value / pow(1000, power),
             letters_of[power > 0 ? power - 1 : 0]);
    return text;
}
