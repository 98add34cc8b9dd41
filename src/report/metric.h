#pragma once
/* Named quantities of a run, for the columns of tables and the axes of charts. */
#include "report/results.h"
#include "report/statistics.h"
#include "report/units.h"

typedef struct {
    char name[48];  /* as recipes write it */
    char title[64]; /* of a column or axis, with its unit */
    Unit unit;
    bool per_rank; /* has a value for each rank */
} Metric;

/* A source of values: what the registry's row asks it for (`of`: a span, a phase, a field) of a run
 * or, with rank >= 0, of one of its ranks. */
typedef struct {
    const Results *results;
    const Result *result;
    int rank;
    const char *of;
} MetricQuery;
typedef double MetricSource(MetricQuery query);

/* The metric of that name; an option of the table is one too. ERR_INPUT naming the nearest name. */
int metric_find(const char *name, Metric *metric);

/* Its value in a run; NAN: not known. rank >= 0: of that rank, where the metric has one. */
double metric_value(const Metric *metric, const Results *results, const Result *result, int rank);

/* The value as text for a table, of any metric; "" when it is not known. */
void metric_text(const Metric *metric, const Results *results, const Result *result, int rank,
                 char *text, size_t size);

/* A number in the metric's unit: "1.25 k", "3.4 GiB", "87.1 %", "253.84 s". */
void metric_format(const Metric *metric, double value, char *text, size_t size);

/* The title without its unit, for a column whose cells have it. */
void metric_heading(const Metric *metric, char text[64]);

/* Mean over the repeats of a configuration that are done, the half-width of its 95 % confidence
 * interval (NAN with fewer than two), and how many there were. */
Estimate metric_estimate(const Metric *metric, const Results *results, int configuration);

/* Done, and none of the run's own checks failed: conclusions are drawn from such runs alone. */
bool result_is_sound(const Result *result);

/* The known values in the sound runs of a configuration, at most `room` of them; returns how
 * many. */
int metric_samples(const Metric *metric, const Results *results, int configuration, double *values,
                   int room);
#define METRIC_MAX_SAMPLES 256

/* The estimate from these alone. */
Estimate metric_sound_estimate(const Metric *metric, const Results *results, int configuration);

/* Tokens trained on during the time that the records account for: less than all after a resume. */
double result_timed_tokens(const Result *result);
