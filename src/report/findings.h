#pragma once
/* Sentences that follow from an experiment's numbers by rules, each with the numbers in it. */
#include "report/metric.h"
#include "report/page.h"

typedef enum { FINDING_RESULT, FINDING_CAUTION } FindingKind;

typedef struct {
    FindingKind kind;
    Page text;     /* a sentence */
    Page evidence; /* runs and numbers behind it; may be empty */
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

/* A new one, to be filled before the next. */
Finding *findings_add(Findings *findings, FindingKind kind);

/* Over the sound runs of a configuration; the mean is NAN where there is none. Here and below,
 * `name` is that of a metric. */
Estimate findings_estimate(const Results *results, int configuration, const char *name);
double findings_mean(const Results *results, int configuration, const char *name);

/* Of a single run, or one of its ranks. */
double findings_number(const Results *results, const Result *result, int rank, const char *name);

/* "batch 16, ranks 2" */
const char *findings_label(const Results *results, int configuration);

/* A number with its unit, tokens/s and nats included. */
Phrase findings_value(const char *name, double value);

/* Adds "label: 1.25 k ± 12 (3 runs)" for each configuration, as far as known and at most a dozen.
 * configurations NULL: 0, 1, ... */
void findings_list(Page *page, const char *name, const Results *results, const int *configurations,
                   int count);

/* What the repeats say about two samples: "significant (p = 0.012)", "within the noise of the
 * repeats (p = 0.4)", "from single runs, so noise cannot be judged". */
Phrase findings_judgement(const Welch *welch);
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

/* Adds findings as far as the sound runs of the experiment support them; cautions are about all
 * runs. */
typedef void Rule(const Results *results, Findings *findings);

Rule rule_duel, rule_law; /* duel.c, law_report.c */
Rule rule_fastest, rule_diminishing_returns, rule_memory, rule_peers, rule_circumstances;
Rule rule_communication, rule_overlap, rule_amdahl, rule_superlinear, rule_mean_speedup;
Rule rule_stragglers, rule_oversubscribed;
Rule rule_batch_quality, rule_gap, rule_learning_rate, rule_probed_rates;
