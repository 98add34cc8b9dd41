#include "report/findings.h"

#include "base/assert.h"
#include "base/mem.h"
#include "report/findings_rules.h"

#include <math.h>
#include <stdlib.h>

#define OF_ONE_RULE 8 /* a reader's patience */

static void free_finding(Finding *finding)
{
    free(finding->text);
    free(finding->evidence);
}

/* Of what one rule found, behind `before`: the first ones, and how many more there are. */
static void shorten(Findings *findings, int before)
{
    int more = findings->count - before - OF_ONE_RULE;
    if (more < 2) {
        return;
    }
    FindingKind kind = findings->items[before].kind;
    while (findings->count > before + OF_ONE_RULE) {
        free_finding(&findings->items[--findings->count]);
    }
    findings_add(findings, kind,
                 mem_format("The same holds for %d more cases, which the tables show.", more),
                 NULL);
}

void findings_make(const Results *results, Findings *findings)
{
    static const struct {
        void (*make)(const Results *, Findings *);
        bool all; /* about every run; else about those that pacer made itself */
    } rules[] = {
        {rule_fastest, false},      {rule_peers, true},          {rule_diminishing_returns, false},
        {rule_memory, false},       {rule_communication, false}, {rule_overlap, false},
        {rule_amdahl, false},       {rule_batch_quality, false}, {rule_gap, false},
        {rule_smoke, true},         {rule_unfinished, true},     {rule_missing_peers, true},
        {rule_failures, true},      {rule_checks, true},         {rule_repeats, true},
        {rule_noise, true},         {rule_stragglers, false},    {rule_oversubscribed, false},
        {rule_superlinear, false},  {rule_mean_speedup, false},  {rule_learning_rate, false},
        {rule_probed_rates, false},
    };
    *findings = (Findings){0};
    Results own = results_own(results);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        int before = findings->count;
        rules[i].make(rules[i].all ? results : &own, findings);
        shorten(findings, before);
    }
    results_own_free(&own);
}

void findings_free(Findings *findings)
{
    for (int i = 0; i < findings->count; i++) {
        free_finding(&findings->items[i]);
    }
    free(findings->items);
    *findings = (Findings){0};
}

void findings_add(Findings *findings, FindingKind kind, char *text, char *evidence)
{
    findings->items =
        mem_realloc(findings->items, (size_t)findings->count + 1, sizeof *findings->items);
    findings->items[findings->count++] =
        (Finding){kind, text, evidence != NULL ? evidence : mem_strdup("")};
}

/* --- what rules share --- */

Metric findings_metric(const char *name)
{
    Metric metric;
    int code = metric_find(name, &metric);
    PACER_ASSERT(code == 0, "%s", name);
    return metric;
}

char *findings_label(const Results *results, int configuration)
{
    char text[400] = "";
    const Result *result = results_first(results, configuration);
    if (result != NULL) {
        result_label(results, result, text, sizeof text);
    }
    return mem_strdup(text);
}

const char *findings_value(const Metric *metric, double value, char text[FINDINGS_VALUE_SIZE])
{
    char number[FINDINGS_VALUE_SIZE - 16];
    metric_format(metric, value, number, sizeof number);
    const char *unit = metric->unit == UNIT_RATE   ? " tokens/s"
                       : metric->unit == UNIT_LOSS ? " nats"
                                                   : "";
    snprintf(text, FINDINGS_VALUE_SIZE, "%s%s", number[0] != '\0' ? number : "unknown", unit);
    return text;
}

#define LISTED 12

void findings_list(Page *page, const Metric *metric, const Results *results,
                   const int *configurations, int count)
{
    int listed = 0;
    for (int i = 0; i < count; i++) {
        int configuration = configurations != NULL ? configurations[i] : i;
        Estimate estimate = metric_sound_estimate(metric, results, configuration);
        if (estimate.count == 0) {
            continue;
        }
        if (listed++ >= LISTED) {
            continue;
        }
        char mean[FINDINGS_VALUE_SIZE], half[FINDINGS_VALUE_SIZE];
        char *label = findings_label(results, configuration);
        page_put(page, "%s%s: %s", page->size > 0 ? "; " : "", label,
                 findings_value(metric, estimate.mean, mean));
        if (estimate.half > 0) {
            page_put(page, " \xc2\xb1 %s", findings_value(metric, estimate.half, half));
        }
        page_put(page, " (%d run%s)", estimate.count, estimate.count == 1 ? "" : "s");
        free(label);
    }
    if (listed > LISTED) {
        page_put(page, "; and %d more", listed - LISTED);
    }
}

const char *findings_judgement(const Welch *welch, char text[FINDINGS_JUDGEMENT_SIZE])
{
    if (isnan(welch->p)) {
        snprintf(text, FINDINGS_JUDGEMENT_SIZE, "from single runs, so noise cannot be judged");
    } else if (welch->p == 0 && isnan(welch->t)) {
        snprintf(text, FINDINGS_JUDGEMENT_SIZE,
                 "every repeat gave the same, so their noise is not known");
    } else if (welch->p < WELCH_SIGNIFICANT) {
        snprintf(text, FINDINGS_JUDGEMENT_SIZE,
                 welch->p < 0.001 ? "significant over the repeats (p < 0.001)"
                                  : "significant over the repeats (p = %.3f)",
                 welch->p);
    } else {
        snprintf(text, FINDINGS_JUDGEMENT_SIZE, "within the noise of the repeats (p = %.2f)",
                 welch->p);
    }
    return text;
}

Welch findings_welch(const Metric *metric, const Results *results, int a, int b)
{
    double of_a[METRIC_MAX_SAMPLES], of_b[METRIC_MAX_SAMPLES];
    int a_count = metric_samples(metric, results, a, of_a, METRIC_MAX_SAMPLES);
    int b_count = metric_samples(metric, results, b, of_b, METRIC_MAX_SAMPLES);
    return welch_test(of_a, a_count, of_b, b_count);
}
