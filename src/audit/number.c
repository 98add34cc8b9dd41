/* Reading is by hand and not by strtod: grouping commas, units glued to digits and the count of
 * digits shown all matter. No more than 40 characters belong to one number. */
#include "audit/number.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Unit unit;
    double scale;
    const char *shown, *names;
} UnitRow;

static const UnitRow units[] = {
    {UNIT_TOKENS_PER_SECOND, 1, " tok/s",
     "tokens per second|tokens per sec|tokens/second|tokens / second|tokens/sec|tokens / s|"
     "tokens/s|token/s|tok/sec|tok/s|toks/s"},
    {UNIT_TOKENS_PER_SECOND, 1e3, "k tok/s", "ktok/s"},
    {UNIT_SAMPLES_PER_SECOND, 1, " samples/s",
     "samples per second|samples/second|samples/sec|samples/s|sequences/second|sequences/sec|"
     "sequences/s|seqs/s|seq/s|s/s|/s"},
    {UNIT_FLOP_PER_SECOND, 1e12, " TFLOP/s", "tflop/s|tflops/s|tflops"},
    {UNIT_FLOP_PER_SECOND, 1e15, " PFLOP/s", "pflop/s|pflops"},
    {UNIT_GPU_SECONDS, 3600, " GPU hours",
     "gpu hours|gpu-hours|gpu hrs|gpu-hrs|gpuh|gpu h|gpu-h|a100 hours|a100-hours|h100 hours|"
     "h100-hours"},
    {UNIT_GPU_SECONDS, 86400, " GPU days", "gpu days|gpu-days"},
    {UNIT_SECONDS, 1e-6, " us", "us|\xc2\xb5s"},
    {UNIT_SECONDS, 1e-3, " ms", "milliseconds|msec|ms"},
    {UNIT_SECONDS, 1, " s", "seconds|second|secs|sec|s"},
    {UNIT_SECONDS, 60, " min", "minutes|minute|mins|min"},
    {UNIT_SECONDS, 3600, " h", "hours|hour|hrs|hr|h"},
    {UNIT_SECONDS, 86400, " days", "days|day"},
    {UNIT_BYTES, 1, " bytes", "bytes"},
    {UNIT_BYTES, 1e3, " KB", "kb"},
    {UNIT_BYTES, 1e6, " MB", "mb"},
    {UNIT_BYTES, 1e9, " GB", "gb"},
    {UNIT_BYTES, 1e12, " TB", "tb"},
    {UNIT_BYTES, 1024.0, " KiB", "kib"},
    {UNIT_BYTES, 1048576.0, " MiB", "mib"},
    {UNIT_BYTES, 1073741824.0, " GiB", "gib"},
    {UNIT_BYTES, 1099511627776.0, " TiB", "tib"},
    {UNIT_DOLLARS, 1, "", "usd|$"},
    {UNIT_PERCENT, 0.01, " %", "%"},
    {UNIT_TIMES, 1, "x", "x|\xc3\x97"},
};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Length of " per GPU", "/device" and the like at the start of text; 0: it is not there. */
static size_t per_rank_length(const char *text)
{
    static const char *const words[] = {"/gpu",      " per gpu",  "/device", " per device",
                                        "/rank",     " per rank", "/chip",   " per chip",
                                        " per a100", " per h100", "/a100",   "/h100"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i]);
        if (strncasecmp(text, words[i], length) == 0 && !is_word(text[length])) {
            return length;
        }
    }
    return 0;
}

/* The unit at the start of text, as a whole word, the longest. Returns its length. */
static size_t read_unit(const char *text, bool glued, Unit *unit, double *scale)
{
    size_t longest = 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        for (const char *name = units[i].names; *name != '\0';) {
            size_t length = (size_t)(strchrnul(name, '|') - name);
            bool named = length > longest && strncasecmp(text, name, length) == 0;
            bool goes_on = named && is_word(name[length - 1]) &&
                           (is_word(text[length]) || (!glued && text[length] == '\''));
            bool times = units[i].unit == UNIT_TIMES && !glued; /* "2 x 3" multiplies */
            if (named && !goes_on && !times) {
                longest = length;
                *unit = units[i].unit;
                *scale = units[i].scale;
            }
            name += length + (name[length] == '|');
        }
    }
    if (longest > 0 && text[longest] == '/' && per_rank_length(text + longest) == 0 &&
        *unit != UNIT_TIMES) {
        *unit = UNIT_OTHER; /* GB/s */
        *scale = 1;
    }
    return longest;
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
    static const char letters[] = "kKMBGT";
    static const double scales[] = {1e3, 1e3, 1e6, 1e9, 1e9, 1e12};
    const char *at = letter != '\0' ? strchr(letters, letter) : NULL;
    return at != NULL ? scales[at - letters] : 0;
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
    bool dollars = false;
    for (; at < 4; at++) {
        if (text[at] == '~') {
            about = true;
        } else if (text[at] == '-' && at == 0) {
            negative = true;
        } else if (text[at] == '$' && !dollars) {
            dollars = true;
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
    number->grouped = memchr(text + at - length, ',', length) != NULL;
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
    bool binary = scale > 0 && text[at + spaced + 1] == 'i' && !is_word(text[at + spaced + 2]);
    if (binary || (scale > 0 && !is_word(text[at + spaced + 1]))) {
        number->letter = binary ? '\0' : text[at + spaced];
        scale = binary ? exp2(10 * round(log10(scale) / 3)) : scale; /* "4Mi" */
        at += 1 + spaced + binary;
        number->counted = false;
    } else {
        scale = 1;
    }
    static const struct {
        const char *name;
        double scale;
        char letter;
    } words[] = {{" trillion", 1e12, 'T'}, {" billion", 1e9, 'B'}, {" million", 1e6, 'M'}};
    for (size_t i = 0; i < sizeof words / sizeof words[0] && scale == 1; i++) {
        size_t size = strlen(words[i].name);
        if (strncasecmp(text + at, words[i].name, size) == 0 && !is_word(text[at + size])) {
            at += size;
            scale = words[i].scale;
            number->letter = words[i].letter;
            number->counted = false;
        }
    }
    double unit_scale;
    size_t gap = text[at] == ' ' || text[at] == '-' ? 1 : 0;
    length = read_unit(text + at + gap, gap == 0, &number->unit, &unit_scale);
    if (length > 0) {
        at += gap + length;
        scale *= unit_scale;
        number->scale = unit_scale;
        number->counted = false;
    } else if (is_part_of_a_name(text + at)) {
        return 0;
    }
    if (dollars) {
        number->unit = UNIT_DOLLARS;
        number->counted = false;
    }
    length = per_rank_length(text + at);
    number->per_rank = length > 0;
    at += length;
    double sign = negative ? -1 : 1;
    number->value = sign * value * scale;
    number->low = (negative ? -high : low) * scale;
    number->high = (negative ? -low : high) * scale;
    return at;
}

size_t number_read_clock(const char *text, Number *number)
{
    double parts[3];
    int count = 0;
    size_t at = 0;
    while (count < 3) {
        size_t digits = strspn(text + at, "0123456789");
        if (digits == 0 || digits > (count == 0 ? 4U : 2U) || (count > 0 && digits != 2)) {
            return 0;
        }
        parts[count++] = strtod(text + at, NULL);
        at += digits;
        if (text[at] != ':') {
            break;
        }
        at++;
    }
    Unit unit = UNIT_NONE;
    double scale = 0;
    size_t gap = text[at] == ' ' ? 1 : 0;
    size_t length = read_unit(text + at + gap, gap == 0, &unit, &scale);
    scale = unit == UNIT_SECONDS ? scale : 0;
    if (count < 2 || (count == 2 && scale != 3600 && scale != 60) || is_word(text[at])) {
        return 0; /* "4:42" alone may be hours or minutes */
    }
    double last = count == 3 ? 1 : scale / 60;
    double value =
        last * (count == 3 ? 3600 * parts[0] + 60 * parts[1] + parts[2] : 60 * parts[0] + parts[1]);
    *number = (Number){.value = value, .unit = UNIT_SECONDS, .scale = scale > 0 ? scale : 1};
    number->low = value - last / 2;
    number->high = value + last / 2;
    return at + (scale > 0 ? gap + length : 0);
}

size_t number_unit(const char *text, size_t size, Unit *unit, double *scale, bool *per_rank)
{
    char copy[32];
    if (size == 0 || size >= sizeof copy) {
        return 0;
    }
    memcpy(copy, text, size);
    copy[size] = '\0';
    double thousand = 1;
    const char *name = copy;
    if ((copy[0] == 'k' || copy[0] == 'K' || copy[0] == 'M') &&
        (copy[1] == ' ' || copy[1] == 't')) {
        thousand = letter_scale(copy[0]); /* "k tok/s", "ktok/s" */
        name += copy[1] == ' ' ? 2 : 1;
    }
    Unit found;
    double found_scale;
    size_t length = read_unit(name, true, &found, &found_scale);
    size_t rank = length > 0 ? per_rank_length(name + length) : 0;
    if (length == 0 || name[length + rank] != '\0') {
        return 0;
    }
    *unit = found;
    *scale = thousand * found_scale;
    *per_rank = rank > 0;
    return size;
}

void number_apply_unit(Number *number, Unit unit, double scale)
{
    if (number->unit == UNIT_NONE && unit != UNIT_NONE) {
        number->unit = unit;
        number->scale = scale;
        number->value *= scale;
        number->low *= scale;
        number->high *= scale;
    }
}

double number_scale(Number number)
{
    double letter = letter_scale(number.letter);
    return (letter > 0 ? letter : 1) * (number.scale > 0 ? number.scale : 1);
}

const char *number_show(double value, Number like)
{
    static _Thread_local char texts[8][64];
    static _Thread_local unsigned next;
    char digits[40], *text = texts[next++ % 8], *to = text;
    double scale = like.scale > 0 ? like.scale : 1;
    const char *unit = "";
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        bool same = units[i].unit == like.unit && units[i].scale == scale;
        unit = same ? units[i].shown : unit;
    }
    double shown = value / number_scale(like), whole = rint(shown);
    bool integer = fabs(shown - whole) < 1e-9 * fmax(1, fabs(shown));
    int size = snprintf(digits, sizeof digits, "%.*g", integer || fabs(shown) >= 1e6 ? 12 : 6,
                        integer ? whole : shown);
    to += snprintf(to, 2, "%s", like.unit == UNIT_DOLLARS ? "$" : "");
    bool commas = like.grouped && strspn(digits, "-0123456789") == (size_t)size;
    for (int i = 0; i < size; i++) {
        *to++ = digits[i];
        if (commas && (size - 1 - i) % 3 == 0 && i + 1 < size && digits[i] != '-') {
            *to++ = ',';
        }
    }
    snprintf(to, 20, "%.1s%s", &like.letter, unit);
    return text;
}

const char *number_text(Number number)
{
    return number_show(number.value, number);
}

Number number_exact(double value)
{
    return (Number){.value = value, .low = value, .high = value};
}

Number number_multiply(Number a, Number b)
{
    return (Number){.value = a.value * b.value, .low = a.low * b.low, .high = a.high * b.high};
}

Number number_divide(Number a, Number b)
{
    double low = b.low > 0 ? b.low : b.value;
    return (Number){.value = a.value / b.value, .low = a.low / b.high, .high = a.high / low};
}

Number number_add(Number a, Number b)
{
    return (Number){.value = a.value + b.value, .low = a.low + b.low, .high = a.high + b.high};
}

Number number_map(Number number, double (*rising)(double))
{
    return (Number){
        .value = rising(number.value), .low = rising(number.low), .high = rising(number.high)};
}

Number number_share(Number number)
{
    bool bare = number.unit == UNIT_NONE && number.value > 2;
    return bare ? number_multiply(number, number_exact(0.01)) : number;
}

bool number_agrees(Number a, Number b, double slack)
{
    double reach = slack * fmax(fabs(a.value), fabs(b.value));
    return a.low - reach <= b.high && b.low - reach <= a.high;
}
