#pragma once
/* Sentences that follow from an experiment's numbers by rules, each with the numbers in it. */
#include "report/metric.h"
#include "report/page.h"

typedef enum { FINDING_RESULT, FINDING_CAUTION } FindingKind;

typedef struct {
    FindingKind kind;
    char *text;     /* a sentence */
    char *evidence; /* runs and numbers behind it */
} Finding;

typedef struct {
    Finding *items;
    int count;
} Findings;

/* What the rules find; a difference within the repeats' noise is called so, and nothing is
 * concluded from runs whose checks failed. */
void findings_make(const Results *results, Findings *findings);
void findings_free(Findings *findings);

/* --- what rules share --- */

/* Takes both strings. */
void findings_add(Findings *findings, FindingKind kind, char *text, char *evidence);

Metric findings_metric(const char *name); /* must exist */

/* "batch 16, ranks 2" */
#define FINDINGS_LABEL_SIZE 400
const char *findings_label(const Results *results, int configuration,
                           char text[FINDINGS_LABEL_SIZE]);

/* The mean over the sound runs of a configuration; NAN: none. Here and below, `name` is that of a
 * metric. */
double findings_mean(const Results *results, int configuration, const char *name);

/* A number with its unit, tokens/s and nats included. */
#define FINDINGS_VALUE_SIZE 80
const char *findings_value(const char *name, double value, char text[FINDINGS_VALUE_SIZE]);

/* Adds "label: 1.25 k ± 12 (3 runs)" for each configuration, as far as known and at most a dozen.
 * configurations NULL: 0, 1, ... */
void findings_list(Page *page, const char *name, const Results *results, const int *configurations,
                   int count);

/* What the repeats say about two samples: "significant (p = 0.012)", "within the noise of the
 * repeats (p = 0.4)", "from single runs, so noise cannot be judged". */
#define FINDINGS_JUDGEMENT_SIZE 120
const char *findings_judgement(const Welch *welch, char text[FINDINGS_JUDGEMENT_SIZE]);
Welch findings_welch(const char *name, const Results *results, int a, int b);

/* Configurations that differ along one axis alone, in the order of its numbers: batch 8, 16, 32
 * at 2 ranks. */
typedef struct {
    int axis;
    const char *option;  /* of the axis: the first whose values are different positive numbers */
    char *where;         /* the other varying settings, " (ranks 2)"; "" when there are none */
    int *configurations; /* ascending values; at least two */
    double *values;
    int count;
} Series;

typedef struct {
    Series *items;
    int count;
} SeriesList;

/* All of them, of all axes. */
void series_make(const Results *results, SeriesList *list);
void series_free(SeriesList *list);

/* --- the rules, by theme ---
 *
 * A rule adds a finding only when the sound runs of the experiment support it; cautions are about
 * all runs. */

void rule_fastest(const Results *results, Findings *findings);
void rule_diminishing_returns(const Results *results, Findings *findings);

void rule_peers(const Results *results, Findings *findings);
void rule_missing_peers(const Results *results, Findings *findings);

void rule_memory(const Results *results, Findings *findings);

void rule_communication(const Results *results, Findings *findings);
void rule_overlap(const Results *results, Findings *findings);
void rule_amdahl(const Results *results, Findings *findings);
void rule_superlinear(const Results *results, Findings *findings);
void rule_mean_speedup(const Results *results, Findings *findings);
void rule_stragglers(const Results *results, Findings *findings);
void rule_oversubscribed(const Results *results, Findings *findings);

void rule_batch_quality(const Results *results, Findings *findings);
void rule_gap(const Results *results, Findings *findings);
void rule_learning_rate(const Results *results, Findings *findings);
void rule_probed_rates(const Results *results, Findings *findings);

void rule_smoke(const Results *results, Findings *findings);
void rule_checks(const Results *results, Findings *findings);
void rule_failures(const Results *results, Findings *findings);
void rule_unfinished(const Results *results, Findings *findings);
void rule_repeats(const Results *results, Findings *findings);
void rule_noise(const Results *results, Findings *findings);
