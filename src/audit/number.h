#pragma once
/* A number as somebody wrote it: its value in base units (seconds, bytes, shares of 1, tokens per
 * second, counts) and the interval of values that round to what is shown. "~" and "about" count
 * trailing zeros as rounded too; "2.4-2.6" is the interval itself. */
#include <stdbool.h>
#include <stddef.h>

typedef enum {
    UNIT_NONE,
    UNIT_SECONDS,
    UNIT_BYTES,
    UNIT_PERCENT, /* value is the share: 90 % is 0.9 */
    UNIT_TIMES,   /* "4.25x" */
    UNIT_TOKENS_PER_SECOND,
    UNIT_SAMPLES_PER_SECOND,
    UNIT_GPU_SECONDS, /* "162,000 GPU hours" */
    UNIT_FLOP_PER_SECOND,
    UNIT_DOLLARS,
    UNIT_OTHER, /* known, and of no use here: images per second */
} Unit;

typedef struct {
    double value, low, high;
    Unit unit;
    double scale;  /* of the unit as it is written: 3600 of hours; 0: 1 */
    char letter;   /* k, M, B or T behind the digits; 0 */
    bool grouped;  /* has commas */
    bool range;    /* two numbers: "26-89 ms" */
    bool open;     /* "512+", "over 100": a bound, not a value */
    bool counted;  /* an integer written out: no decimals, no k or M, no "~" */
    bool per_rank; /* "tok/s per GPU", "16/GPU" */
} Number;

/* The number at the start of text, with sign, grouping commas and unit. Returns how many characters
 * it takes; 0 when there is none there (a date, a clock time, a version and a name such as 3D are
 * none). `about`: an approximate word stands before it. */
size_t number_read(const char *text, bool about, Number *number);

/* A duration by the clock, "1:23:45" or "4:42 h", where one is expected. 0: there is none. */
size_t number_read_clock(const char *text, Number *number);

/* Characters of a date or time stamp at the start of text, 0 when there is none. */
size_t number_stamp(const char *text);

/* A unit alone, with what is per rank: "ms", "tokens/s/GPU". 0: text is not that and nothing
 * else. */
size_t number_unit(const char *text, size_t size, Unit *unit, double *scale, bool *per_rank);

/* Gives a bare number the unit of its column. */
void number_apply_unit(Number *number, Unit unit, double scale);

/* A value as the page writes the number `like`: "10.4 h", "147.32M", "$40". The text lasts for
 * seven more calls. */
const char *number_show(double value, Number like);
const char *number_text(Number number); /* as it is */
double number_scale(Number number);     /* of its digits: 1048576 of "2,194 MiB" */

/* Arithmetic on intervals of positive numbers. */
Number number_exact(double value);
Number number_multiply(Number a, Number b);
Number number_divide(Number a, Number b);
Number number_add(Number a, Number b);
Number number_map(Number number, double (*rising)(double));

/* A share of 1, also where it is written as a number of per cent without the sign: 41.2. */
Number number_share(Number number);

/* Whether the intervals meet once each is widened by a share `slack`. */
bool number_agrees(Number a, Number b, double slack);
