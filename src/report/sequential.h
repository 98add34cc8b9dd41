#pragma once
/* Is a mean different from 0, asked again after every value: repeated confidence intervals that
 * hold at all looks together (docs/reference/duel.md). */

#define SEQUENTIAL_MOST 200 /* values */

typedef struct {
    double error;    /* of all looks together: how often an interval may miss the true mean */
    double margin;   /* the smallest difference that matters; 0: every difference does */
    int least, most; /* values at the first look and at the last one; a look at each in between */
    double tail;     /* two-sided tail of Student's t that each look uses */
    double bound[SEQUENTIAL_MOST + 1]; /* |t| with that tail, by the number of values */
} SequentialTest;

typedef enum {
    SEQUENTIAL_OPEN,       /* another value is wanted */
    SEQUENTIAL_LOWER,      /* the mean is below 0 */
    SEQUENTIAL_HIGHER,     /* above */
    SEQUENTIAL_NEGLIGIBLE, /* within the margin on either side of 0 */
    SEQUENTIAL_UNDECIDED,  /* after the last look */
} SequentialVerdict;

typedef struct {
    SequentialVerdict verdict;
    int count;
    double mean, low, high; /* the interval at this look; NAN before the first */
    double p;               /* Student's two-sided, of these values alone; compares with tail */
} SequentialLook;

/* 2 <= least <= most <= SEQUENTIAL_MOST, 0 < error < 1; works out the tail. */
SequentialTest sequential_test(double error, double margin, int least, int most);

/* What the first `count` values say, without regard to earlier looks. */
SequentialLook sequential_look(const SequentialTest *test, const double *values, int count);

/* The first look among `count` values that decides, or the last that they allow. */
SequentialLook sequential_run(const SequentialTest *test, const double *values, int count);
