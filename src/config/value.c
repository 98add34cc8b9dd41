/* One value: text in, text out, strict. Numbers are decimal, with k M G T (powers of 1000) or Ki
 * Mi Gi Ti (powers of 1024) behind them or an exponent, and must be used up entirely: nothing is
 * cut, wrapped or clamped. Whole numbers are computed in integers, so 1.5k is 1500 and 1.2345k
 * is refused. Reals keep 15 significant digits, which every text form, JSON included, carries
 * exactly. */
#include "config/config.h"
#include "config/internal.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NUMBER_LENGTH 64
#define MAX_TEXT_LENGTH 4000
#define MAX_DIGITS 24 /* 10^24 x 1024^4 still fits the 127 bits of an __int128 */

/* A decimal number taken apart: (-1)^negative x digits x 10^exponent x multiplier. */
typedef struct {
    bool negative, many_digits; /* many_digits: more than MAX_DIGITS, `digits` is not complete */
    __int128 digits;
    int exponent;
    int64_t multiplier;
    size_t length; /* characters before the suffix */
} Number;

typedef struct {
    const char *suffix;
    int64_t multiplier;
} Suffix;

static const Suffix suffixes[] = {
    {"", 1},
    {"k", 1000},
    {"K", 1000},
    {"M", 1000000},
    {"G", 1000000000},
    {"T", 1000000000000},
    {"Ki", (int64_t)1 << 10},
    {"Mi", (int64_t)1 << 20},
    {"Gi", (int64_t)1 << 30},
    {"Ti", (int64_t)1 << 40},
};

static int read_suffix(const Option *option, const char *text, int64_t *multiplier)
{
    char suffix[4] = "";
    size_t length = strlen(text);
    if (length > 0 && text[length - 1] == 'B' && option->type == OPTION_BYTES) {
        length--;
    }
    if (length < sizeof suffix) {
        memcpy(suffix, text, length);
        for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
            if (strcmp(suffix, suffixes[i].suffix) == 0) {
                *multiplier = suffixes[i].multiplier;
                return 0;
            }
        }
    }
    char quoted[VALUE_QUOTE_SIZE];
    return err_set(
        ERR_INPUT, "%s does not belong to a number; suffixes are k M G T and Ki Mi Gi Ti%s",
        value_quote(text, quoted), option->type == OPTION_BYTES ? ", with or without B" : "");
}

static void add_digit(Number *number, char digit, bool fraction)
{
    if (number->digits >= (__int128)1e17 * 1000000) { /* MAX_DIGITS reached */
        number->many_digits = number->many_digits || digit != '0';
        number->exponent += !fraction;
        return;
    }
    number->digits = number->digits * 10 + (digit - '0');
    number->exponent -= fraction;
}

static const char *read_exponent(const char *at, Number *number)
{
    const char *digit = at + 1;
    bool negative = *digit == '-';
    digit += *digit == '-' || *digit == '+';
    if (!isdigit((unsigned char)*digit)) {
        return at;
    }
    int exponent = 0;
    for (; isdigit((unsigned char)*digit); digit++) {
        exponent = exponent < 10000 ? exponent * 10 + (*digit - '0') : exponent;
    }
    number->exponent += negative ? -exponent : exponent;
    return digit;
}

static int read_number(const Option *option, const char *text, Number *number)
{
    *number = (Number){.multiplier = 1};
    const char *at = text;
    number->negative = *at == '-';
    at += *at == '-' || *at == '+';
    bool any = false;
    for (; isdigit((unsigned char)*at); at++, any = true) {
        add_digit(number, *at, false);
    }
    if (at[0] == '.' && isdigit((unsigned char)at[1])) {
        for (at++; isdigit((unsigned char)*at); at++, any = true) {
            add_digit(number, *at, true);
        }
    }
    if (!any || strlen(text) > MAX_NUMBER_LENGTH) {
        bool whole = option->type != OPTION_REAL;
        return err_set(ERR_INPUT, "not a number; write it like %s",
                       option->type == OPTION_BYTES ? "512Mi or 24G"
                                                    : (whole ? "8, 10k or 1.5M" : "0.1 or 3e-4"));
    }
    bool has_exponent = false;
    if (*at == 'e' || *at == 'E') {
        const char *end = read_exponent(at, number);
        has_exponent = end != at;
        at = end;
    }
    number->length = (size_t)(at - text);
    int code = read_suffix(option, at, &number->multiplier);
    if (code == 0 && has_exponent && *at != '\0') {
        return err_set(ERR_INPUT, "has both an exponent and a suffix; use one of them");
    }
    return code;
}

const char *value_word(const Option *option)
{
    return option->flags & OPTION_AUTO ? "auto" : option->flags & OPTION_NONE ? "none" : NULL;
}

static int outside_limits(const Option *option)
{
    char low[VALUE_BRIEF_SIZE], high[VALUE_BRIEF_SIZE];
    const char *word = value_word(option);
    return err_set(ERR_INPUT, "outside its limits, %s%s%s to %s", word != NULL ? word : "",
                   word != NULL ? " or " : "", value_brief(option->min, low),
                   value_brief(option->max, high));
}

static int parse_whole(const Option *option, const char *text, int64_t *out)
{
    Number number;
    int code = read_number(option, text, &number);
    if (code != 0) {
        return code;
    }
    __int128 value = number.digits * number.multiplier;
    bool whole = !number.many_digits || number.exponent >= 0;
    for (int e = number.exponent; e < 0 && value != 0 && whole; e++) {
        whole = value % 10 == 0;
        value /= 10;
    }
    if (!whole) {
        return err_set(ERR_INPUT, "not a whole number");
    }
    /* Limits are far below 10^18: a larger value is outside whatever else follows. */
    const __int128 large = (__int128)1000000000000000000;
    for (int e = number.exponent; e > 0 && value != 0 && value < large; e--) {
        value *= 10;
    }
    value = value < large ? value : large;
    *out = number.negative ? -(int64_t)value : (int64_t)value;
    bool inside = (double)*out >= option->min && (double)*out <= option->max;
    return inside ? 0 : outside_limits(option);
}

static double keep_15_digits(double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", value);
    return strtod(text, NULL);
}

static int parse_real(const Option *option, const char *text, double *out)
{
    Number number;
    int code = read_number(option, text, &number);
    if (code != 0) {
        return code;
    }
    char digits[MAX_NUMBER_LENGTH + 1] = "";
    memcpy(digits, text, number.length);
    double value = strtod(digits, NULL) * (double)number.multiplier;
    if (value == 0 && number.digits != 0) {
        return err_set(ERR_INPUT, "too small to be told from 0");
    }
    if (!isfinite(value)) {
        return outside_limits(option);
    }
    *out = value == 0 ? 0 : keep_15_digits(value); /* no -0 */
    return *out >= option->min && *out <= option->max ? 0 : outside_limits(option);
}

static int parse_flag(const char *text, bool *out)
{
    bool on = strcmp(text, "on") == 0 || strcmp(text, "true") == 0;
    if (!on && strcmp(text, "off") != 0 && strcmp(text, "false") != 0) {
        return err_set(ERR_INPUT, "must be on or off");
    }
    *out = on;
    return 0;
}

static int parse_choice(const Option *option, const char *text, int *out)
{
    char all[256] = "";
    for (int i = 0; option->choices[i] != NULL; i++) {
        if (strcmp(text, option->choices[i]) == 0) {
            *out = i;
            return 0;
        }
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", option->choices[i]);
    }
    const char *nearest = config_nearest(text, option->choices);
    return nearest != NULL
               ? err_set(ERR_INPUT, "no such value; did you mean %s? (all: %s)", nearest, all)
               : err_set(ERR_INPUT, "no such value (all: %s)", all);
}

/* Bytes of the UTF-8 character at `at`; 0 if it is none, or a control character. */
static size_t character_length(const char *at)
{
    const uint8_t *text = (const uint8_t *)at;
    int length = utf8_length(text, strnlen(at, 4));
    bool control = text[0] < 0x20 || text[0] == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0);
    return control ? 0 : (size_t)length;
}

static int parse_text(const Option *option, const char *text)
{
    if (strnlen(text, MAX_TEXT_LENGTH + 1) > MAX_TEXT_LENGTH) {
        return err_set(ERR_INPUT, "longer than %d bytes", MAX_TEXT_LENGTH);
    }
    for (const char *at = text; *at != '\0';) {
        bool between = *at == '\n' && (option->flags & (OPTION_LIST | OPTION_BREAKS));
        bool tab = *at == '\t' && (option->flags & OPTION_BREAKS);
        size_t length = between || tab ? 1 : character_length(at);
        if (length == 0) {
            return err_set(ERR_INPUT, "has a control character or is not UTF-8");
        }
        at += length;
    }
    return 0;
}

int value_parse(const Option *option, const char *text, OptionValue *value)
{
    const char *word = value_word(option);
    if (word != NULL && strcmp(text, word) == 0) {
        if (option->type == OPTION_REAL) {
            value->real = -1;
        } else {
            value->whole = -1;
        }
        return 0;
    }
    switch (option->type) {
    case OPTION_BOOL:
        return parse_flag(text, &value->flag);
    case OPTION_INT:
    case OPTION_BYTES:
        return parse_whole(option, text, &value->whole);
    case OPTION_REAL:
        return parse_real(option, text, &value->real);
    case OPTION_CHOICE:
        return parse_choice(option, text, &value->choice);
    case OPTION_TEXT:
        value->text = text;
        return parse_text(option, text);
    }
    PACER_ASSERT(false, "option %s has type %d", option->name, (int)option->type);
    return ERR_FAILED;
}

int config_parse_bytes(const char *text, int64_t *bytes)
{
    static const Option option = {.name = "bytes", .type = OPTION_BYTES, .min = 1, .max = 1e15};
    return parse_whole(&option, text, bytes);
}

int config_parse_count(const char *text, int64_t *count)
{
    static const Option option = {.name = "count", .type = OPTION_INT, .min = 1, .max = 1e15};
    return parse_whole(&option, text, count);
}

char *config_value_text(const Config *cfg, const Option *option)
{
    const void *field = option_field_const(cfg, option);
    const char *word = value_word(option);
    switch (option->type) {
    case OPTION_BOOL:
        return mem_strdup(*(const bool *)field ? "on" : "off");
    case OPTION_INT:
    case OPTION_BYTES: {
        int64_t whole = *(const int64_t *)field;
        return word != NULL && whole < 0 ? mem_strdup(word) : mem_format("%" PRId64, whole);
    }
    case OPTION_REAL: {
        double real = *(const double *)field;
        return word != NULL && real < 0 ? mem_strdup(word) : mem_format("%.15g", real);
    }
    case OPTION_CHOICE:
        return mem_strdup(option->choices[*(const int *)field]);
    case OPTION_TEXT:
        return mem_strdup(*(char *const *)field);
    }
    PACER_ASSERT(false, "option %s has type %d", option->name, (int)option->type);
    return NULL;
}

const char *value_quote(const char *text, char quoted[VALUE_QUOTE_SIZE])
{
    const size_t room = VALUE_QUOTE_SIZE - 6; /* two quotes, three dots, NUL */
    size_t used = 0;
    quoted[used++] = '\'';
    while (*text != '\0') {
        size_t length = character_length(text), step = length > 0 ? length : 1;
        if (used + step > room) {
            memcpy(quoted + used, "...", 3);
            used += 3;
            break;
        }
        for (size_t i = 0; i < step; i++) {
            quoted[used++] = length > 0 ? text[i] : '?';
        }
        text += step;
    }
    quoted[used++] = '\'';
    quoted[used] = '\0';
    return quoted;
}

const char *value_brief(double number, char brief[VALUE_BRIEF_SIZE])
{
    static const char letters[] = "TGMk";
    double unit = 1e12;
    for (int i = 0; letters[i] != '\0'; i++, unit /= 1000) {
        if (number >= unit && fmod(number, unit) == 0) {
            snprintf(brief, VALUE_BRIEF_SIZE, "%.15g%c", number / unit, letters[i]);
            return brief;
        }
    }
    snprintf(brief, VALUE_BRIEF_SIZE, "%.15g", number);
    return brief;
}
