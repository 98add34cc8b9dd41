#pragma once
/* Sentences that follow from an experiment's numbers by rules: what to do, with the numbers it
 * needs. */
#include "report/metric.h"
#include "report/page.h"

typedef enum { FINDING_RESULT, FINDING_CAUTION } FindingKind;

typedef struct {
    FindingKind kind;
    double rank;   /* importance: the higher, the earlier it is told */
    Page text;     /* a sentence; of a caution a few words, for the line of all of them */
    Page evidence; /* runs and numbers behind it; may be empty */
} Finding;

/* What is told at once: at most so many results, and no more words, cautions included, than are
 * read out in half a minute; but always the first result. */
#define FINDINGS_SHOWN 7
#define FINDINGS_WORDS 85

typedef struct {
    Finding *items; /* results by falling rank, then cautions */
    int count;
    int results; /* how many of them are results */
    int shown;   /* how many of those are told at once */
} Findings;

/* What the rules find; a difference within the repeats' noise is called so, and nothing is
 * concluded from runs whose checks failed. */
void findings_make(const Results *results, Findings *findings);
void findings_free(Findings *findings);

/* All cautions as one line: "single runs: noise cannot be judged; 2 runs failed". */
void findings_put_cautions(const Findings *findings, Page *page);
int findings_words(const char *text); /* separated by white space */

/* Whether its runs are those of an lr-probe, which differ in the learning rate. */
bool results_are_probe(const Results *results);

/* --- what rules share --- */

/* A new one, to be filled before the next. */
Finding *findings_add(Findings *findings, FindingKind kind, double rank);

/* Importance of a result: its class, by what a reader decides from it; within one the size of the
 * effect (1 - smaller/larger of the ratio, NAN: none). What is within the noise comes after the
 * classes below. welch NULL: nothing was tested. */
#define RANK_ANSWER 80  /* the question that the experiment was made for */
#define RANK_QUALITY 70 /* what learns best */
#define RANK_PEERS 60   /* pacer or another program */
#define RANK_LIMIT 50   /* what does not fit */
#define RANK_SPEED 40   /* what is fastest, and what more of something gains */
#define RANK_SCALING 30
#define RANK_DETAIL 10
double findings_rank(double of_class, double ratio, const Welch *welch);

/* Over the sound runs of a configuration; the mean is NAN where there is none. Here and below,
 * `name` is that of a metric. */
Estimate findings_estimate(const Results *results, int configuration, const char *name);
double findings_mean(const Results *results, int configuration, const char *name);

/* Of a single run, or one of its ranks. */
double findings_number(const Results *results, const Result *result, int rank, const char *name);

/* "batch 16, accum 2, attention flash" */
const char *findings_label(const Results *results, int configuration);

/* The same for a sentence, as short as it can be told from others: "batch 16, flash". Without the
 * options of an axis, -1: of all. */
Phrase findings_name(const Results *results, int configuration, int without);

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

Rule rule_duel, rule_law, rule_branches; /* duel.c, law_report.c, branches.c */
Rule rule_fastest, rule_choice, rule_returns, rule_lengths, rule_memory, rule_peers;
Rule rule_communication, rule_overlap, rule_amdahl;
Rule rule_batch_quality, rule_gap, rule_learning_rate, rule_best_rates, rule_probed_rates;
Rule rule_probe;
Rule rule_smoke, rule_unfinished, rule_circumstances, rule_failures, rule_checks, rule_repeats;
Rule rule_noise, rule_stragglers, rule_oversubscribed, rule_superlinear, rule_mean_speedup;
