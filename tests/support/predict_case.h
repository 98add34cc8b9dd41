#pragma once
/* What the tests of predictions share. */
#include "analyse/predict.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define assert_close(a, b) check_close((a), (b), #a, __LINE__)

static inline void check_close(double a, double b, const char *what, int line)
{
    if (!(fabs(a - b) <= 1e-12 + 1e-9 * fabs(b))) {
        fail_msg("line %d: %s is %.12g, not %.12g", line, what, a, b);
    }
}

/* Latency 10 us, 1 GB/s, between ranks that are nodes of their own. */
static inline PredictNetwork plain_network(void)
{
    return (PredictNetwork){.link = {"test", 10e-6, 1e9, false}, .per_node = 1};
}
