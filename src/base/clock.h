#pragma once
/* Monotonic time, and statistics over samples of it. */
#include <stddef.h>
#include <time.h>

double clock_seconds(void); /* monotonic; only differences mean something */

double clock_now(void);                  /* since 1970 */
double clock_of(struct timespec moment); /* in seconds */

/* Writes the current date and time as 2026-01-31T12:00:00Z (UTC) into text. */
#define CLOCK_STAMP_SIZE 32
void clock_stamp(char text[CLOCK_STAMP_SIZE]);

/* The p-quantile (0 <= p <= 1) of n samples, linearly interpolated. Sorts samples in place. */
double clock_quantile(double *samples, size_t n, double p);

/* Half of what lies between their quartiles, over the median. Sorts samples in place. */
double clock_spread(double *samples, size_t n);

/* "850 ms", "12.3 s", "4 min 05 s", "3 h 20 min", into text. */
#define CLOCK_DURATION_SIZE 32
const char *clock_duration(double seconds, char text[CLOCK_DURATION_SIZE]);
