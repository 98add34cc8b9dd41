#pragma once
/* How the numbers of metric.h come out of a run's records. rank < 0: of the run, which is its
 * slowest rank for times and its worst one for memory; with several ranks they are unknown as
 * long as one rank's file is missing. `of` is what the row of the registry says: a span, a
 * phase, a field. All give NAN for what is not known. */
#include "report/results.h"

typedef double (*MetricSource)(const Results *results, const Result *result, int rank,
                               const char *of);

double value_span(const Results *results, const Result *result, int rank, const char *of);
double value_span_mean(const Results *results, const Result *result, int rank, const char *of);
double value_phase(const Results *results, const Result *result, int rank, const char *of);
double value_phase_mean(const Results *results, const Result *result, int rank, const char *of);
double value_compute(const Results *results, const Result *result, int rank, const char *of);
double value_comm(const Results *results, const Result *result, int rank, const char *of);
double value_busy(const Results *results, const Result *result, int rank, const char *of);

double value_summary(const Results *results, const Result *result, int rank, const char *of);
double value_run(const Results *results, const Result *result, int rank, const char *of);
double value_entry(const Results *results, const Result *result, int rank, const char *of);
double value_repeat(const Results *results, const Result *result, int rank,
                    const char *of); /* from 1 */
double value_global_batch(const Results *results, const Result *result, int rank, const char *of);
double value_tokens_update(const Results *results, const Result *result, int rank, const char *of);
double value_samples_epoch(const Results *results, const Result *result, int rank, const char *of);

double value_rate(const Results *results, const Result *result, int rank, const char *of);
double value_rate_ranks(const Results *results, const Result *result, int rank,
                        const char *of); /* of: "mean", "min", "max" */
double value_balance(const Results *results, const Result *result, int rank, const char *of);

double value_first_loss(const Results *results, const Result *result, int rank, const char *of);
double value_gap(const Results *results, const Result *result, int rank, const char *of);
double value_to_target(const Results *results, const Result *result, int rank,
                       const char *of); /* of: "tokens", "seconds" */

double value_memory(const Results *results, const Result *result, int rank, const char *of);
double value_peak_share(const Results *results, const Result *result, int rank, const char *of);
double value_memory_kind(const Results *results, const Result *result, int rank, const char *of);
double value_checks(const Results *results, const Result *result, int rank, const char *of);
double value_rank(const Results *results, const Result *result, int rank, const char *of);

/* Tokens trained on during the time that the records account for: less than all after a resume. */
double result_timed_tokens(const Result *result);

/* Every rank's file is there. */
bool result_has_all_ranks(const Result *result);
