#include "record/line_scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *at, *end;
} Scan;

static void skip_space(Scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r')) {
        scan->at++;
    }
}

static bool take(Scan *scan, char sign)
{
    skip_space(scan);
    bool there = scan->at < scan->end && *scan->at == sign;
    scan->at += there;
    return there;
}

static size_t digits(Scan *scan)
{
    const char *from = scan->at;
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9') {
        scan->at++;
    }
    return (size_t)(scan->at - from);
}

/* Visible ASCII up to the quote; what else a string may be is left to a parser. */
static bool take_string(Scan *scan, const char **text, size_t *length)
{
    if (!take(scan, '"')) {
        return false;
    }
    *text = scan->at;
    while (scan->at < scan->end && *scan->at >= ' ' && *scan->at < 127 && *scan->at != '"' &&
           *scan->at != '\\') {
        scan->at++;
    }
    *length = (size_t)(scan->at - *text);
    return take(scan, '"');
}

/* By JSON's grammar. Whole numbers, the most of them, are exact without strtod. */
static bool take_number(Scan *scan, bool wanted, double *number)
{
    char copy[40];
    const char *from = scan->at;
    bool negative = scan->at < scan->end && *scan->at == '-';
    scan->at += negative;
    const char *first = scan->at;
    size_t whole = digits(scan);
    bool plain = whole > 0 && whole <= 15, good = whole > 0 && (whole == 1 || *first != '0');
    if (good && scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        good = digits(scan) > 0;
        plain = false;
    }
    if (good && scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
        scan->at++;
        scan->at += scan->at < scan->end && (*scan->at == '+' || *scan->at == '-');
        good = digits(scan) > 0;
        plain = false;
    }
    size_t size = (size_t)(scan->at - from);
    if (!good || size >= sizeof copy) {
        return false;
    }
    if (plain) {
        double value = 0;
        for (size_t i = 0; i < whole; i++) {
            value = 10 * value + (first[i] - '0');
        }
        *number = negative ? -value : value;
    } else if (wanted) {
        memcpy(copy, from, size);
        copy[size] = '\0';
        *number = strtod(copy, NULL);
    }
    return true;
}

static bool take_word(Scan *scan)
{
    static const char *const words[] = {"null", "true", "false"};
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(scan->end - scan->at) >= length && memcmp(scan->at, words[i], length) == 0) {
            scan->at += length;
            return true;
        }
    }
    return false;
}

/* Where a member of this name goes; NULL: it is not asked for. */
static double *place_of(LineNumbers *numbers, const char *name, size_t length)
{
    const struct {
        const char *name;
        double *place;
    } wanted[] = {{"step", &numbers->step},         {"tokens", &numbers->tokens},
                  {"loss", &numbers->loss},         {"ms", &numbers->ms},
                  {"val_loss", &numbers->val_loss}, {"noise_scale", &numbers->noise_scale}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (strlen(wanted[i].name) == length && memcmp(wanted[i].name, name, length) == 0) {
            return wanted[i].place;
        }
    }
    return NULL;
}

static bool take_member(Scan *scan, LineNumbers *numbers)
{
    const char *name, *text;
    size_t length, size;
    if (!take_string(scan, &name, &length) || !take(scan, ':')) {
        return false;
    }
    skip_space(scan);
    double *place = place_of(numbers, name, length), number = NAN;
    bool first = place != NULL && isnan(*place);
    if (scan->at == scan->end) {
        return false;
    }
    bool good = *scan->at == '"'                       ? take_string(scan, &text, &size)
                : *scan->at >= 'a' && *scan->at <= 'z' ? take_word(scan)
                                                       : take_number(scan, first, &number);
    numbers->evaluation |= place == &numbers->val_loss;
    if (first && isfinite(number)) {
        *place = number;
    }
    return good;
}

bool line_scan(const char *text, size_t size, LineNumbers *numbers)
{
    Scan scan = {text, text + size};
    *numbers = (LineNumbers){NAN, NAN, NAN, NAN, NAN, NAN, false};
    bool good = take(&scan, '{');
    if (good && !take(&scan, '}')) {
        do {
            good = take_member(&scan, numbers);
        } while (good && take(&scan, ','));
        good = good && take(&scan, '}');
    }
    skip_space(&scan);
    return good && scan.at == scan.end;
}
