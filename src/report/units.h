#pragma once
/* Numbers as text, in the unit and with the prefix in which they read well. */

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

/* Text that is given back by value: it lives as long as the expression it is made in. */
typedef struct {
    char text[120];
} Phrase;
Phrase phrase(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "1.25 k", "3.4 GiB", "87.1 %", "253.84 s"; "" of what is not finite. */
Phrase unit_format(Unit unit, double value);

/* Shorter forms. */
Phrase unit_count(double count); /* 1234567 as 1.23M */
Phrase unit_bytes(double bytes); /* 1.2 MiB */

/* "0", "0.25", "15k", "20M": at most `digits` significant digits. Numbers below ten thousand, such
 * as batch sizes and steps, read better in full (below a thousand with less than four digits). */
Phrase unit_tic(double value, int digits);
