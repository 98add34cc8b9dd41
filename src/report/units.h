#pragma once
/* Numbers as text, in the unit and with the prefix in which they read well. */
#include <stddef.h>

typedef enum {
    UNIT_COUNT,
    UNIT_SECONDS,
    UNIT_BYTES,
    UNIT_RATE,    /* tokens per second */
    UNIT_LOSS,    /* nats per token */
    UNIT_PERCENT, /* a fraction, shown times 100 */
    UNIT_RATIO,
    UNIT_MILLISECONDS,
    UNIT_TEXT /* an option's value, a state, a reason: no number */
} Unit;

/* "1.25 k", "3.4 GiB", "87.1 %", "253.84 s"; "" of what is not finite. */
void unit_format(Unit unit, double value, char *text, size_t size);

/* The shorter forms return text. */
#define UNIT_SHORT_SIZE 32
const char *unit_count(double count, char text[UNIT_SHORT_SIZE]); /* 1234567 as 1.23M */
const char *unit_bytes(double bytes, char text[UNIT_SHORT_SIZE]); /* 1.2 MiB */

/* "0", "0.25", "15k", "20M": at most `digits` significant digits. Numbers below ten thousand, such
 * as batch sizes and steps, read better in full (below a thousand with less than four digits). */
const char *unit_tic(double value, int digits, char text[UNIT_SHORT_SIZE]);
