/* Reading is by hand and not by strtod: grouping commas, units glued to digits and the count of
 * digits shown all matter. No more than 40 characters belong to one number. */
#include "audit/number.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

typedef struct {
    const char *name;
    Unit unit;
    double scale;
} UnitName;

/* Longer names before their beginnings. */
static const UnitName units[] = {
    {"tokens per second", UNIT_TOKENS_PER_SECOND, 1},
    {"tokens/second", UNIT_TOKENS_PER_SECOND, 1},
    {"tokens/sec", UNIT_TOKENS_PER_SECOND, 1},
    {"tokens / s", UNIT_TOKENS_PER_SECOND, 1},
    {"tokens/s", UNIT_TOKENS_PER_SECOND, 1},
    {"ktok/s", UNIT_TOKENS_PER_SECOND, 1e3},
    {"tok/sec", UNIT_TOKENS_PER_SECOND, 1},
    {"tok/s", UNIT_TOKENS_PER_SECOND, 1},
    {"toks/s", UNIT_TOKENS_PER_SECOND, 1},
    {"milliseconds", UNIT_SECONDS, 1e-3},
    {"seconds", UNIT_SECONDS, 1},
    {"second", UNIT_SECONDS, 1},
    {"secs", UNIT_SECONDS, 1},
    {"sec", UNIT_SECONDS, 1},
    {"msec", UNIT_SECONDS, 1e-3},
    {"ms", UNIT_SECONDS, 1e-3},
    {"us", UNIT_SECONDS, 1e-6},
    {"\xc2\xb5s", UNIT_SECONDS, 1e-6},
    {"minutes", UNIT_SECONDS, 60},
    {"minute", UNIT_SECONDS, 60},
    {"mins", UNIT_SECONDS, 60},
    {"min", UNIT_SECONDS, 60},
    {"hours", UNIT_SECONDS, 3600},
    {"hour", UNIT_SECONDS, 3600},
    {"hrs", UNIT_SECONDS, 3600},
    {"hr", UNIT_SECONDS, 3600},
    {"h", UNIT_SECONDS, 3600},
    {"s", UNIT_SECONDS, 1},
    {"kib", UNIT_BYTES, 1024.0},
    {"mib", UNIT_BYTES, 1048576.0},
    {"gib", UNIT_BYTES, 1073741824.0},
    {"tib", UNIT_BYTES, 1099511627776.0},
    {"kb", UNIT_BYTES, 1e3},
    {"mb", UNIT_BYTES, 1e6},
    {"gb", UNIT_BYTES, 1e9},
    {"tb", UNIT_BYTES, 1e12},
    {"bytes", UNIT_BYTES, 1},
    {"%", UNIT_PERCENT, 0.01},
    {"x", UNIT_TIMES, 1},
    {"\xc3\x97", UNIT_TIMES, 1},
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The unit at the start of text, as a whole word. Returns its length. */
static size_t read_unit(const char *text, bool glued, const UnitName **found)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t length = strlen(units[i].name);
        if (strncasecmp(text, units[i].name, length) != 0) {
            continue;
        }
        bool letters = is_word(units[i].name[length - 1]);
        if (letters && (is_word(text[length]) || (!glued && text[length] == '\''))) {
            continue;
        }
        if (units[i].unit == UNIT_TIMES && !glued) {
            continue; /* "2 x 3" multiplies */
        }
        *found = &units[i];
        return length;
    }
    return 0;
}

/* Digits with grouping commas and decimals. *half is half a unit of the last digit shown. */
static size_t read_digits(const char *text, bool about, double *value, double *half, bool *whole)
{
    size_t at = 0, digits = 0, zeros = 0;
    double sum = 0;
    while (digits < 19) {
        if (isdigit((unsigned char)text[at])) {
            sum = sum * 10 + (text[at] - '0');
            zeros = text[at] == '0' ? zeros + 1 : 0;
            digits++;
            at++;
        } else if (digits > 0 && text[at] == ',' && isdigit((unsigned char)text[at + 1]) &&
                   isdigit((unsigned char)text[at + 2]) && isdigit((unsigned char)text[at + 3]) &&
                   !isdigit((unsigned char)text[at + 4])) {
            at++;
        } else {
            break;
        }
    }
    if (digits == 0) {
        return 0;
    }
    *whole = true;
    *half = about ? 0.5 * pow(10, (double)zeros) : 0.5;
    if (text[at] == '.' && isdigit((unsigned char)text[at + 1])) {
        double place = 1;
        *whole = false;
        for (at++; isdigit((unsigned char)text[at]) && digits < 40; at++, digits++) {
            place /= 10;
            sum += place * (text[at] - '0');
        }
        *half = about ? place : place / 2;
    }
    if ((text[at] == 'e' || text[at] == 'E') &&
        (isdigit((unsigned char)text[at + 1]) ||
         ((text[at + 1] == '-' || text[at + 1] == '+') && isdigit((unsigned char)text[at + 2])))) {
        size_t start = at + 1 + !isdigit((unsigned char)text[at + 1]);
        int exponent = 0;
        for (at = start; isdigit((unsigned char)text[at]) && at < start + 3; at++) {
            exponent = exponent * 10 + (text[at] - '0');
        }
        double scale = pow(10, text[start - 1] == '-' ? -exponent : exponent);
        sum *= scale;
        *half *= scale;
        *whole = false;
    }
    *value = sum;
    return at;
}

static double letter_scale(char letter)
{
    switch (letter) {
    case 'k':
    case 'K':
        return 1e3;
    case 'M':
        return 1e6;
    case 'B':
    case 'G':
        return 1e9;
    case 'T':
        return 1e12;
    default:
        return 0;
    }
}

size_t number_stamp(const char *text)
{
    size_t at = 0;
    int groups = 0;
    if (!isdigit((unsigned char)text[0])) {
        return 0;
    }
    while (at < 40 && (isdigit((unsigned char)text[at]) ||
                       (at > 0 && strchr("-:.,/TZ ", text[at]) != NULL && text[at] != '\0' &&
                        isdigit((unsigned char)text[at + 1])))) {
        groups += text[at] == ':' || text[at] == '-' || text[at] == '/';
        at++;
    }
    bool colon = memchr(text, ':', at) != NULL, dash = memchr(text, '-', at) != NULL;
    return groups >= 2 && (colon || (dash && groups == 2 && at == 10)) ? at : 0;
}

/* Whether what follows the digits shows that they are part of something else. */
static bool is_part_of_a_name(const char *rest)
{
    bool stamp = (rest[0] == ':' || rest[0] == '.') && isdigit((unsigned char)rest[1]);
    return stamp || rest[0] == '_' || isalpha((unsigned char)rest[0]);
}

size_t number_read(const char *text, bool about, Number *number)
{
    size_t at = 0;
    bool negative = false;
    if (number_stamp(text) > 0) {
        return 0;
    }
    for (; at < 4; at++) {
        if (text[at] == '~') {
            about = true;
        } else if (text[at] == '-' && at == 0) {
            negative = true;
        } else {
            break;
        }
    }
    double value, half, second, second_half;
    bool whole, second_whole;
    size_t length = read_digits(text + at, about, &value, &half, &whole);
    if (length == 0) {
        return 0;
    }
    at += length;
    double low = value - half, high = value + half;
    *number = (Number){.counted = whole && !about};
    size_t dash = text[at] == '-' ? 1 : strncmp(text + at, "\xe2\x80\x93", 3) == 0 ? 3 : 0;
    if (dash > 0 && isdigit((unsigned char)text[at + dash])) {
        length = read_digits(text + at + dash, about, &second, &second_half, &second_whole);
        at += dash + length;
        number->range = true;
        number->counted = false;
        high = second + second_half;
        value = (value + second) / 2;
    }
    number->open = text[at] == '+';
    at += number->open;
    bool spaced = text[at] == ' ' && (text[at + 1] == 'k' || text[at + 1] == 'M');
    double scale = letter_scale(text[at + spaced]);
    if (scale > 0 && !is_word(text[at + spaced + 1])) {
        at += 1 + spaced;
        number->counted = false;
    } else {
        scale = 1;
    }
    const UnitName *unit = NULL;
    size_t gap = text[at] == ' ' ? 1 : 0;
    length = read_unit(text + at + gap, gap == 0, &unit);
    if (length > 0) {
        at += gap + length;
        scale *= unit->scale;
        number->unit = unit->unit;
        number->counted = false;
    } else if (is_part_of_a_name(text + at)) {
        return 0;
    }
    double sign = negative ? -1 : 1;
    number->value = sign * value * scale;
    number->low = (negative ? -high : low) * scale;
    number->high = (negative ? -low : high) * scale;
    return at;
}

Unit number_header_unit(const char *text, double *scale)
{
    const UnitName *unit = NULL;
    *scale = 1;
    for (const char *at = text; *at != '\0'; at++) {
        bool bracketed = at > text && (at[-1] == '(' || at[-1] == '[');
        bool word = at == text || (!is_word(at[-1]) && at[-1] != '/');
        size_t length = word || *at == '%' ? read_unit(at, *at == '%', &unit) : 0;
        if (length > 0 && (bracketed || unit->unit == UNIT_BYTES || unit->unit == UNIT_PERCENT ||
                           unit->unit == UNIT_TOKENS_PER_SECOND || length > 1 ||
                           (at[length] == '/' && at == text))) {
            *scale = unit->scale;
            return unit->unit;
        }
    }
    return UNIT_NONE;
}

void number_apply_unit(Number *number, Unit unit, double scale)
{
    if (number->unit == UNIT_NONE && unit != UNIT_NONE) {
        number->unit = unit;
        number->value *= scale;
        number->low *= scale;
        number->high *= scale;
    }
}

Number number_exact(double value)
{
    return (Number){.value = value, .low = value, .high = value};
}

Number number_multiply(Number a, Number b)
{
    return (Number){a.value * b.value, a.low * b.low, a.high * b.high, UNIT_NONE, 0, 0, 0};
}

Number number_divide(Number a, Number b)
{
    double low = b.low > 0 ? b.low : b.value;
    return (Number){a.value / b.value, a.low / b.high, a.high / low, UNIT_NONE, 0, 0, 0};
}

Number number_add(Number a, Number b)
{
    return (Number){a.value + b.value, a.low + b.low, a.high + b.high, UNIT_NONE, 0, 0, 0};
}

bool number_agrees(Number a, Number b, double slack)
{
    double reach = slack * fmax(fabs(a.value), fabs(b.value));
    return a.low - reach <= b.high && b.low - reach <= a.high;
}
