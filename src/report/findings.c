#include "report/findings.h"

#include "base/mem.h"
#include "report/page.h"
#include "report/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OF_ONE_RULE 8 /* a reader's patience */
#define NOISE 0.10    /* (largest - smallest) / mean of the repeats */
#define LISTED 12

Finding *findings_add(Findings *findings, FindingKind kind)
{
    findings->items =
        mem_realloc(findings->items, (size_t)findings->count + 1, sizeof *findings->items);
    Finding *finding = &findings->items[findings->count++];
    *finding = (Finding){.kind = kind};
    page_put_bytes(&finding->text, "", 0);
    page_put_bytes(&finding->evidence, "", 0);
    return finding;
}

/* Removes the last ones, so that `count` are left. */
static void cut_to(Findings *findings, int count)
{
    while (findings->count > count) {
        Finding *last = &findings->items[--findings->count];
        page_free(&last->text);
        page_free(&last->evidence);
    }
}

void findings_free(Findings *findings)
{
    cut_to(findings, 0);
    free(findings->items);
    *findings = (Findings){0};
}

/* --- what rules share --- */

const char *findings_label(const Results *results, int configuration)
{
    const Result *result = results_first(results, configuration);
    return result != NULL ? result->label : "";
}

Estimate findings_estimate(const Results *results, int configuration, const char *name)
{
    Metric metric = metric_named(name);
    Samples samples = metric_samples(&metric, results, configuration, true);
    return estimate_of(samples.values, samples.count);
}

double findings_mean(const Results *results, int configuration, const char *name)
{
    return findings_estimate(results, configuration, name).mean;
}

double findings_number(const Results *results, const Result *result, int rank, const char *name)
{
    Metric metric = metric_named(name);
    return metric_value(&metric, results, result, rank);
}

Phrase findings_value(const char *name, double value)
{
    Unit unit = metric_named(name).unit;
    return phrase("%s%s", isfinite(value) ? unit_format(unit, value).text : "unknown",
                  unit == UNIT_RATE   ? " tokens/s"
                  : unit == UNIT_LOSS ? " nats"
                                      : "");
}

void findings_list(Page *page, const char *name, const Results *results, const int *configurations,
                   int count)
{
    int listed = 0;
    for (int i = 0; i < count; i++) {
        int configuration = configurations != NULL ? configurations[i] : i;
        Estimate estimate = findings_estimate(results, configuration, name);
        if (estimate.count == 0 || listed++ >= LISTED) {
            continue;
        }
        page_put(page, "%s%s: %s", page->size > 0 ? "; " : "",
                 findings_label(results, configuration), findings_value(name, estimate.mean).text);
        if (estimate.half > 0) {
            page_put(page, " \xc2\xb1 %s", findings_value(name, estimate.half).text);
        }
        page_put(page, " (%d run%s)", estimate.count, estimate.count == 1 ? "" : "s");
    }
    if (listed > LISTED) {
        page_put(page, "; and %d more", listed - LISTED);
    }
}

Phrase findings_judgement(const Welch *welch)
{
    if (isnan(welch->p)) {
        return phrase("from single runs, so noise cannot be judged");
    }
    if (welch->p == 0 && isnan(welch->t)) {
        return phrase("every repeat gave the same, so their noise is not known");
    }
    if (welch->p < 0.001) {
        return phrase("significant over the repeats (p < 0.001)");
    }
    return welch->p < WELCH_SIGNIFICANT
               ? phrase("significant over the repeats (p = %.3f)", welch->p)
               : phrase("within the noise of the repeats (p = %.2f)", welch->p);
}

Welch findings_welch(const char *name, const Results *results, int a, int b)
{
    Metric metric = metric_named(name);
    Samples of_a = metric_samples(&metric, results, a, true);
    Samples of_b = metric_samples(&metric, results, b, true);
    return welch_test(of_a.values, of_a.count, of_b.values, of_b.count);
}

/* --- series --- */

/* Whether its numbers give an order; attention kinds, for one, have none. */
static bool gives_order(const Results *results, const char *option)
{
    bool differ = false;
    for (int i = 0; i < results->count; i++) {
        double value = result_setting_number(&results->runs[i], option);
        if (!(value > 0)) {
            return false;
        }
        differ = differ || value != result_setting_number(&results->runs[0], option);
    }
    return differ;
}

static char *other_settings(const Results *results, const Result *result, int without)
{
    Page page = {0};
    for (int i = 0; i < results->varying_count; i++) {
        const Varying *varying = &results->varying[i];
        const char *value = result_setting(result, varying->option);
        if (varying->axis != without) {
            page_put(&page, "%s%s %s", page.size == 0 ? " (" : ", ", varying->option,
                     value != NULL ? value : "unknown");
        }
    }
    page_put(&page, "%s", page.size > 0 ? ")" : "");
    return page.text;
}

/* In its order, unless that value is there. */
static void insert_value(Series *series, int configuration, double value)
{
    for (int i = 0; i < series->count; i++) {
        if (series->values[i] == value) {
            return;
        }
    }
    int at = series->count++;
    for (; at > 0 && series->values[at - 1] > value; at--) {
        series->values[at] = series->values[at - 1];
        series->configurations[at] = series->configurations[at - 1];
    }
    series->values[at] = value;
    series->configurations[at] = configuration;
}

static void free_series(Series *series)
{
    free(series->where);
    free(series->configurations);
    free(series->values);
}

/* The series that configuration `from` begins; those of lower numbers are in others. */
static void add_series(const Results *results, const Varying *varying, int from, bool *taken,
                       SeriesList *list)
{
    size_t most = (size_t)results->configurations;
    const Result *first = results_first(results, from);
    Series series = {.axis = varying->axis,
                     .option = varying->option,
                     .where = other_settings(results, first, varying->axis),
                     .configurations = mem_zalloc(most, sizeof *series.configurations),
                     .values = mem_zalloc(most, sizeof *series.values)};
    for (int i = from; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        if (result == NULL || taken[i] ||
            !results_equal_but(results, first, result, varying->axis)) {
            continue;
        }
        insert_value(&series, i, result_setting_number(result, varying->option));
        taken[i] = true;
    }
    if (series.count < 2) {
        free_series(&series);
        return;
    }
    list->items = mem_realloc(list->items, (size_t)list->count + 1, sizeof *list->items);
    list->items[list->count++] = series;
}

void series_make(const Results *results, SeriesList *list)
{
    *list = (SeriesList){0};
    bool *taken = mem_zalloc((size_t)results->configurations + 1, sizeof *taken);
    int done = -1; /* with this axis: its first ordering option decides */
    for (int k = 0; k < results->varying_count; k++) {
        const Varying *varying = &results->varying[k];
        if (varying->axis == done || !gives_order(results, varying->option)) {
            continue;
        }
        done = varying->axis;
        memset(taken, 0, (size_t)results->configurations * sizeof *taken);
        for (int i = 0; i < results->configurations; i++) {
            if (!taken[i] && results_first(results, i) != NULL) {
                add_series(results, varying, i, taken, list);
            }
        }
    }
    free(taken);
}

void series_free(SeriesList *list)
{
    for (int i = 0; i < list->count; i++) {
        free_series(&list->items[i]);
    }
    free(list->items);
    *list = (SeriesList){0};
}

/* --- rules on what the reader has to know before believing the rest --- */

static void rule_smoke(const Results *results, Findings *findings)
{
    if (json_is_true(results->json, "smoke")) {
        page_put(&findings_add(findings, FINDING_CAUTION)->text,
                 "This is a smoke run: it shows that everything works, at sizes from which "
                 "nothing else follows.");
    }
}

static void rule_unfinished(const Results *results, Findings *findings)
{
    int waiting = 0, running = 0;
    for (int i = 0; i < results->count; i++) {
        waiting += results->runs[i].state == RUN_WAITING;
        running += results->runs[i].state == RUN_RUNNING;
    }
    if (waiting + running > 0) {
        page_put(&findings_add(findings, FINDING_CAUTION)->text,
                 "The experiment is not finished: %d of %d runs are waiting and %d running.",
                 waiting, results->count, running);
    }
}

static bool has_failed_checks(const Results *results, const Result *result)
{
    return findings_number(results, result, -1, "checks_failed") > 0;
}

static bool same_failure(const Result *a, const Result *b)
{
    return a->configuration == b->configuration && a->state == b->state &&
           strcmp(a->reason, b->reason) == 0;
}

static void rule_failures(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        bool told = result->state != RUN_FAILED && result->state != RUN_TIMEOUT &&
                    result->state != RUN_STOPPED;
        for (int j = 0; j < i && !told; j++) {
            told = same_failure(&results->runs[j], result);
        }
        if (told || (result->state == RUN_FAILED && has_failed_checks(results, result))) {
            continue;
        }
        int alike = 0;
        Finding *finding = findings_add(findings, FINDING_CAUTION);
        for (int j = i; j < results->count; j++) {
            if (same_failure(&results->runs[j], result)) {
                page_put(&finding->evidence, "%s%s", alike++ > 0 ? ", " : "run ",
                         results->runs[j].id);
            }
        }
        page_put(&finding->text, "%s: %d run%s %s%s%s",
                 findings_label(results, result->configuration), alike, alike == 1 ? "" : "s",
                 result->state == RUN_FAILED    ? "failed"
                 : result->state == RUN_TIMEOUT ? "ran into the time limit"
                                                : "stopped before the end",
                 result->reason[0] != '\0' ? ": " : ".", result->reason);
    }
}

static void rule_checks(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (!has_failed_checks(results, result)) {
            continue;
        }
        Finding *finding = findings_add(findings, FINDING_CAUTION);
        page_put(&finding->text, "%s, repeat %d: the run's own checks failed (",
                 findings_label(results, result->configuration), result->repeat + 1);
        page_put(&finding->evidence, "run %s", result->id);
        const cJSON *check;
        const char *before = "";
        cJSON_ArrayForEach(check, json_find(result->run, "summary.checks"))
        {
            if (strcmp(json_text_or(check, "verdict", ""), "fail") == 0) {
                const char *name = json_text_or(check, "name", "");
                page_put(&finding->text, "%s%s", before, name);
                page_put(&finding->evidence, "; %s: %s, expected %.6g, found %.6g", name,
                         json_text_or(check, "rule", ""), json_number(check, "expected"),
                         json_number(check, "found"));
                before = ", ";
            }
        }
        page_put(&finding->text, "); no conclusion here uses its numbers.");
    }
}

static void rule_repeats(const Results *results, Findings *findings)
{
    int with_any = 0, with_one = 0;
    for (int i = 0; i < results->configurations; i++) {
        int count = findings_estimate(results, i, "tok_s").count;
        with_any += count > 0;
        with_one += count == 1;
    }
    if (with_any < 2 || with_one == 0) {
        return;
    }
    Finding *finding = findings_add(findings, FINDING_CAUTION);
    if (with_one == with_any) {
        page_put(&finding->text, "Every configuration was run once: whether a difference is more "
                                 "than noise cannot be judged.");
        page_put(&finding->evidence, "%d configurations with one sound run each", with_any);
    } else {
        page_put(&finding->text,
                 "%d of %d configurations have one sound run only: whether they differ from "
                 "others by more than noise cannot be judged.",
                 with_one, with_any);
    }
}

static void rule_noise(const Results *results, Findings *findings)
{
    Metric speed = metric_named("tok_s");
    for (int i = 0; i < results->configurations; i++) {
        Samples samples = metric_samples(&speed, results, i, true);
        double least = INFINITY, most = -INFINITY;
        double mean = estimate_of(samples.values, samples.count).mean;
        for (int k = 0; k < samples.count; k++) {
            least = fmin(least, samples.values[k]);
            most = fmax(most, samples.values[k]);
        }
        if (samples.count < 2 || !((most - least) > NOISE * mean)) {
            continue;
        }
        Finding *finding = findings_add(findings, FINDING_CAUTION);
        page_put(&finding->text,
                 "%s: the repeats' throughput spreads over %.1f %% of its mean; smaller "
                 "differences are noise.",
                 findings_label(results, i), 100 * (most - least) / mean);
        for (int k = 0; k < samples.count && k < LISTED; k++) {
            page_put(&finding->evidence, "%s%s", k > 0 ? ", " : "",
                     findings_value("tok_s", samples.values[k]).text);
        }
    }
}

/* --- all rules --- */

void findings_make(const Results *results, Findings *findings)
{
    static const struct {
        Rule *make;
        bool all; /* about every run; else about those that pacer made itself */
    } rules[] = {
        {rule_fastest, false},      {rule_peers, true},          {rule_diminishing_returns, false},
        {rule_memory, false},       {rule_communication, false}, {rule_overlap, false},
        {rule_amdahl, false},       {rule_batch_quality, false}, {rule_gap, false},
        {rule_smoke, true},         {rule_unfinished, true},     {rule_circumstances, true},
        {rule_failures, true},      {rule_checks, true},         {rule_repeats, true},
        {rule_noise, true},         {rule_stragglers, false},    {rule_oversubscribed, false},
        {rule_superlinear, false},  {rule_mean_speedup, false},  {rule_learning_rate, false},
        {rule_probed_rates, false},
    };
    *findings = (Findings){0};
    Results own = results_own(results);
    rule_duel(results, findings); /* what the experiment was made for comes first */
    rule_law(results, findings);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        int before = findings->count;
        rules[i].make(rules[i].all ? results : &own, findings);
        int more = findings->count - before - OF_ONE_RULE;
        if (more >= 2) {
            cut_to(findings, before + OF_ONE_RULE);
            page_put(&findings_add(findings, findings->items[before].kind)->text,
                     "The same holds for %d more cases, which the tables show.", more);
        }
    }
    results_own_free(&own);
}
