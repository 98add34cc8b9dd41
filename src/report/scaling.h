#pragma once
/* How runs compare with a baseline: speed-up, efficiency, and Amdahl's serial fraction. The
 * baseline of a run is the configuration with the settings that experiment.json's "baseline"
 * names (without one: one rank, where ranks vary) and equal other settings, made by the same
 * program; options zipped with a named one may differ. */
#include "report/metric.h"

/* Of the slowest rank's training time per token; of "mean": what the mean over ranks would
 * claim. */
double value_speedup(MetricQuery q);

/* Speed-up per added rank; NAN unless ranks vary, and where ranks shared a device. */
double value_efficiency(MetricQuery q);

/* Serial fraction f of 1 / speedup = f + (1 - f) / ranks, by least squares over all rank counts
 * with the run's other settings; NAN with fewer than three. */
double value_amdahl(MetricQuery q);

/* Ranks of the run over those of its baseline; NAN when unknown. */
double scaling_ranks(const Results *results, const Result *result);

/* Ranks shared a device, by option or by the run's own check: no measurement of scaling. */
bool result_is_oversubscribed(const Result *result);

/* The configurations whose ranks did, for a sentence: the one, or how many and the first; NULL:
 * none. The caller frees it. */
char *results_oversubscribed(const Results *results);

/* Equal in all axes but this one (-1: in all), and made by the same program. */
bool results_equal_but(const Results *results, const Result *a, const Result *b, int axis);
