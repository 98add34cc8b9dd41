/* What a comparison of several runs must not claim. */
#include "metrics/checks.h"

#include <math.h>

double checks_speedup(double one_rank_seconds, const double *rank_seconds, int ranks,
                      Checks *checks)
{
    double slowest = 0;
    bool good = ranks > 0 && one_rank_seconds > 0 && isfinite(one_rank_seconds);
    for (int i = 0; i < ranks && good; i++) {
        good = rank_seconds[i] > 0 && isfinite(rank_seconds[i]);
        slowest = fmax(slowest, rank_seconds[i]);
    }
    if (!good) {
        return NAN;
    }
    double speedup = one_rank_seconds / slowest;
    checks_add(checks, "speedup", speedup <= ranks ? CHECK_PASS : CHECK_WARN, ranks, speedup,
               "speed-up by the slowest rank, at most the number of ranks", NULL);
    return speedup;
}

void checks_confounded_rates(const double *batches, const double *rates, int n, Checks *checks)
{
    bool one_batch = true, one_rate = true;
    for (int i = 1; i < n; i++) {
        one_batch = one_batch && batches[i] == batches[0];
        one_rate = one_rate && rates[i] == rates[0];
    }
    if (n > 1 && !one_batch) {
        checks_add(checks, "learning_rates", one_rate ? CHECK_WARN : CHECK_PASS, 2,
                   one_rate ? 1 : 2,
                   "batch sizes compared under at least two learning rates; one alone favours the "
                   "size that it suits",
                   NULL);
    }
}
