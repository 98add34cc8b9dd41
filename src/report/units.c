#include "report/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

Phrase phrase(const char *format, ...)
{
    Phrase result;
    va_list args;
    va_start(args, format);
    vsnprintf(result.text, sizeof result.text, format, args);
    va_end(args);
    return result;
}

/* Three digits or more, with the prefix that makes the number read well. */
static Phrase format_scaled(double value, double step, const char *const *units)
{
    double shown = value;
    while (fabs(shown) >= step && units[1] != NULL) {
        shown /= step;
        units++;
    }
    int digits = fabs(shown) >= 1000 ? 0 : fabs(shown) >= 100 ? 1 : 2;
    bool whole = shown == value && floor(shown) == shown;
    return phrase("%.*f%s%s", whole ? 0 : digits, shown, units[0][0] != '\0' ? " " : "", units[0]);
}

static Phrase format_count(double value)
{
    static const char *const units[] = {"", "k", "M", "G", "T", NULL};
    return fabs(value) >= 100000 ? format_scaled(value, 1000, units)
                                 : phrase("%.*f", floor(value) == value ? 0 : 2, value);
}

static Phrase format_seconds(double value)
{
    double length = fabs(value);
    return length > 0 && length < 1e-3 ? phrase("%.1f us", 1e6 * value)
           : length > 0 && length < 1  ? phrase("%.*f ms", length < 0.1 ? 2 : 1, 1e3 * value)
                                       : phrase("%.*f s", length < 10000 ? 2 : 0, value);
}

Phrase unit_format(Unit unit, double value)
{
    static const char *const rates[] = {"", "k", "M", "G", NULL};
    static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
    if (!isfinite(value)) {
        return (Phrase){""};
    }
    switch (unit) {
    case UNIT_COUNT:
        return format_count(value);
    case UNIT_SECONDS:
        return format_seconds(value);
    case UNIT_BYTES:
        return format_scaled(value, 1024, bytes);
    case UNIT_RATE:
        return format_scaled(value, 1000, rates);
    case UNIT_LOSS:
        return phrase("%.4f", value);
    case UNIT_PERCENT:
        return fabs(value) < 5e-4 && value != 0 ? phrase("%.1g %%", 100 * value)
                                                : phrase("%.1f %%", 100 * value);
    case UNIT_MILLISECONDS:
        return phrase("%.*f ms", fabs(value) < 1e4 ? 2 : 0, value);
    case UNIT_RATIO:
        return fabs(value) >= 0.1 ? phrase("%.2f", value) : phrase("%.3g", value);
    case UNIT_TEXT:
        break;
    }
    return phrase("%.6g", value);
}

Phrase unit_count(double count)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    int unit = 0;
    while (count >= 999.5 && unit < 5) {
        count /= 1000;
        unit++;
    }
    int digits = unit == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
    return phrase("%.*f%s", digits, count, units[unit]);
}

Phrase unit_bytes(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    while (bytes >= 1023.95 && unit < 4) {
        bytes /= 1024;
        unit++;
    }
    return phrase("%.*f %s", unit > 0, bytes, units[unit]);
}

Phrase unit_tic(double value, int digits)
{
    static const char *const letters[] = {"", "k", "M", "G", "T"};
    double size = fabs(value) * (1 + 0.5 * pow(10, -digits)), least = digits > 3 ? 1e4 : 1e3;
    int power = 0;
    for (double unit = 1e3; power < 4 && size >= unit && size >= least; unit *= 1e3) {
        power++;
    }
    return phrase("%.*g%s", digits, value / pow(1000, power), letters[power]);
}
