#pragma once
/* Named quantities of a run, for the columns of tables and the axes of charts. */
#include "report/results.h"
#include "report/statistics.h"
#include "report/units.h"

/* A source of values: what the metric asks it for (`of`: a span, a phase, a field; else its own
 * name) of a run or, with rank >= 0, of one of its ranks. */
typedef struct {
    const Results *results;
    const Result *result;
    int rank;
    const char *of;
} MetricQuery;
typedef double MetricSource(MetricQuery query);

typedef struct {
    char name[48];  /* as recipes write it */
    char title[64]; /* of a column, whose cells have the unit */
    Unit unit;
    bool per_rank;        /* has a value for each rank */
    MetricSource *source; /* NULL: only text */
    const char *of;
} Metric;

/* The metric of that name; an option of the table is one too. ERR_INPUT naming the nearest name. */
int metric_find(const char *name, Metric *metric);
Metric metric_named(const char *name); /* the same, of one that must exist */

/* Whether a name is one of a list that ends with NULL. */
bool metric_is_one_of(const char *name, const char *const *names);

/* The unit of its numbers, "tokens/s"; NULL: none, or of an option. */
const char *metric_unit(const Metric *metric);

/* The title with the unit, for the numbers of an axis. Caller frees. */
char *metric_axis_title(const Metric *metric);

/* Its value in a run; NAN: not known. rank >= 0: of that rank, where the metric has one. */
double metric_value(const Metric *metric, const Results *results, const Result *result, int rank);

/* The value as text for a table, of any metric; "" when it is not known. Caller frees. */
char *metric_text(const Metric *metric, const Results *results, const Result *result, int rank);

/* The known values in the runs of a configuration that are done or, with `sound`, sound. */
Samples metric_samples(const Metric *metric, const Results *results, int configuration, bool sound);

/* Mean over the repeats of a configuration that are done, the half-width of its 95 % confidence
 * interval (NAN with fewer than two), and how many there were. */
Estimate metric_estimate(const Metric *metric, const Results *results, int configuration);

/* Tokens trained on during the time that the records account for: less than all after a resume. */
double result_timed_tokens(const Result *result);
