#include "report/findings.h"

#include "base/assert.h"
#include "base/mem.h"
#include "report/page.h"
#include "report/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const char *findings_label(const Results *results, int configuration,
                           char text[FINDINGS_LABEL_SIZE])
{
    const Result *result = results_first(results, configuration);
    text[0] = '\0';
    if (result != NULL) {
        result_label(results, result, text, FINDINGS_LABEL_SIZE);
    }
    return text;
}

double findings_mean(const Results *results, int configuration, const char *name)
{
    Metric metric = findings_metric(name);
    return metric_sound_estimate(&metric, results, configuration).mean;
}

const char *findings_value(const char *name, double value, char text[FINDINGS_VALUE_SIZE])
{
    char number[FINDINGS_VALUE_SIZE - 16];
    Metric metric = findings_metric(name);
    metric_format(&metric, value, number, sizeof number);
    const char *unit = metric.unit == UNIT_RATE   ? " tokens/s"
                       : metric.unit == UNIT_LOSS ? " nats"
                                                  : "";
    snprintf(text, FINDINGS_VALUE_SIZE, "%s%s", number[0] != '\0' ? number : "unknown", unit);
    return text;
}

#define LISTED 12

void findings_list(Page *page, const char *name, const Results *results, const int *configurations,
                   int count)
{
    Metric metric = findings_metric(name);
    int listed = 0;
    for (int i = 0; i < count; i++) {
        int configuration = configurations != NULL ? configurations[i] : i;
        Estimate estimate = metric_sound_estimate(&metric, results, configuration);
        if (estimate.count == 0) {
            continue;
        }
        if (listed++ >= LISTED) {
            continue;
        }
        char mean[FINDINGS_VALUE_SIZE], half[FINDINGS_VALUE_SIZE];
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, configuration, label);
        page_put(page, "%s%s: %s", page->size > 0 ? "; " : "", label,
                 findings_value(name, estimate.mean, mean));
        if (estimate.half > 0) {
            page_put(page, " \xc2\xb1 %s", findings_value(name, estimate.half, half));
        }
        page_put(page, " (%d run%s)", estimate.count, estimate.count == 1 ? "" : "s");
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

Welch findings_welch(const char *name, const Results *results, int a, int b)
{
    Metric metric = findings_metric(name);
    double of_a[METRIC_MAX_SAMPLES], of_b[METRIC_MAX_SAMPLES];
    int a_count = metric_samples(&metric, results, a, of_a, METRIC_MAX_SAMPLES);
    int b_count = metric_samples(&metric, results, b, of_b, METRIC_MAX_SAMPLES);
    return welch_test(of_a, a_count, of_b, b_count);
}

/* --- series --- */

/* The option whose numbers give the order; NULL: the axis has none, such as attention kinds. */
static const char *ordering_option(const Results *results, const Axis *axis)
{
    for (int i = 0; i < axis->count; i++) {
        double first = NAN;
        bool good = true, differ = false;
        for (int run = 0; run < results->count && good; run++) {
            double value = result_setting_number(&results->runs[run], axis->options[i]);
            good = value > 0;
            differ = differ || (run > 0 && value != first);
            first = run == 0 ? value : first;
        }
        if (good && differ) {
            return axis->options[i];
        }
    }
    return NULL;
}

static char *other_settings(const Results *results, const Result *result, int without)
{
    Page page = {0};
    for (int axis = 0; axis < results->axis_count; axis++) {
        for (int i = 0; axis != without && i < results->axes[axis].count; i++) {
            const char *option = results->axes[axis].options[i];
            char text[RESULT_SETTING_SIZE];
            const char *value = result_setting(result, option, text);
            page_put(&page, "%s%s %s", page.size == 0 ? " (" : ", ", option,
                     value != NULL ? value : "unknown");
        }
    }
    page_put(&page, "%s", page.size > 0 ? ")" : "");
    return page.text;
}

static void insert_value(Series *series, int configuration, double value)
{
    int at = series->count++;
    for (; at > 0 && series->values[at - 1] > value; at--) {
        series->values[at] = series->values[at - 1];
        series->configurations[at] = series->configurations[at - 1];
    }
    series->values[at] = value;
    series->configurations[at] = configuration;
}

static bool has_value(const Series *series, double value)
{
    for (int i = 0; i < series->count; i++) {
        if (series->values[i] == value) {
            return true;
        }
    }
    return false;
}

static void free_series(Series *series)
{
    free(series->where);
    free(series->configurations);
    free(series->values);
}

/* The series that configuration `from` begins; those of lower numbers are in others. */
static void add_series(const Results *results, int axis, const char *option, int from, bool *taken,
                       SeriesList *list)
{
    size_t most = (size_t)results->configurations;
    const Result *first = results_first(results, from);
    Series series = {.axis = axis,
                     .option = option,
                     .where = other_settings(results, first, axis),
                     .configurations = mem_zalloc(most, sizeof *series.configurations),
                     .values = mem_zalloc(most, sizeof *series.values)};
    for (int i = from; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        if (result == NULL || taken[i] || !results_equal_but(results, first, result, axis)) {
            continue;
        }
        double value = result_setting_number(result, option);
        if (!has_value(&series, value)) {
            insert_value(&series, i, value);
        }
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
    for (int axis = 0; axis < results->axis_count; axis++) {
        const char *option = ordering_option(results, &results->axes[axis]);
        memset(taken, 0, (size_t)results->configurations * sizeof *taken);
        for (int i = 0; option != NULL && i < results->configurations; i++) {
            if (!taken[i] && results_first(results, i) != NULL) {
                add_series(results, axis, option, i, taken, list);
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

#define NOISE 0.10 /* (largest - smallest) / mean of the repeats */

void rule_smoke(const Results *results, Findings *findings)
{
    if (json_is_true(results->json, "smoke")) {
        findings_add(
            findings, FINDING_CAUTION,
            mem_strdup("This is a smoke run: it shows that everything works, at sizes from "
                       "which nothing else follows."),
            NULL);
    }
}

void rule_unfinished(const Results *results, Findings *findings)
{
    int waiting = 0, running = 0;
    for (int i = 0; i < results->count; i++) {
        waiting += results->runs[i].state == RUN_WAITING;
        running += results->runs[i].state == RUN_RUNNING;
    }
    if (waiting + running > 0) {
        findings_add(findings, FINDING_CAUTION,
                     mem_format("The experiment is not finished: %d of %d runs are waiting and %d "
                                "running.",
                                waiting, results->count, running),
                     NULL);
    }
}

/* --- failures --- */

static bool has_failed_checks(const Results *results, const Result *result)
{
    Metric failed = findings_metric("checks_failed");
    return metric_value(&failed, results, result, -1) > 0;
}

static bool same_failure(const Result *a, const Result *b)
{
    return a->configuration == b->configuration && a->state == b->state &&
           strcmp(a->reason, b->reason) == 0;
}

void rule_failures(const Results *results, Findings *findings)
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
        Page ids = {0};
        for (int j = i; j < results->count; j++) {
            if (same_failure(&results->runs[j], result)) {
                page_put(&ids, "%s%s", alike++ > 0 ? ", " : "run ", results->runs[j].id);
            }
        }
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, result->configuration, label);
        const char *what = result->state == RUN_FAILED    ? "failed"
                           : result->state == RUN_TIMEOUT ? "ran into the time limit"
                                                          : "stopped before the end";
        findings_add(findings, FINDING_CAUTION,
                     mem_format("%s: %d run%s %s%s%s", label, alike, alike == 1 ? "" : "s", what,
                                result->reason[0] != '\0' ? ": " : ".", result->reason),
                     ids.text);
    }
}

/* --- checks --- */

void rule_checks(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (!has_failed_checks(results, result)) {
            continue;
        }
        const cJSON *summary = json_get(result->run, "summary"), *check;
        Page names = {0}, evidence = {0};
        page_put(&evidence, "run %s", result->id);
        cJSON_ArrayForEach(check, json_get(summary, "checks"))
        {
            if (strcmp(json_text_or(check, "verdict", ""), "fail") == 0) {
                page_put(&names, "%s%s", names.size > 0 ? ", " : "",
                         json_text_or(check, "name", ""));
                page_put(&evidence, "; %s: %s, expected %.6g, found %.6g",
                         json_text_or(check, "name", ""), json_text_or(check, "rule", ""),
                         json_number(check, "expected"), json_number(check, "found"));
            }
        }
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, result->configuration, label);
        findings_add(
            findings, FINDING_CAUTION,
            mem_format("%s, repeat %d: the run's own checks failed (%s); no conclusion here "
                       "uses its numbers.",
                       label, result->repeat + 1, names.text),
            evidence.text);
        page_free(&names);
    }
}

/* --- repeats --- */

void rule_repeats(const Results *results, Findings *findings)
{
    Metric speed = findings_metric("tok_s");
    int with_any = 0, with_one = 0;
    for (int i = 0; i < results->configurations; i++) {
        int count = metric_sound_estimate(&speed, results, i).count;
        with_any += count > 0;
        with_one += count == 1;
    }
    if (with_any > 1 && with_one == with_any) {
        findings_add(
            findings, FINDING_CAUTION,
            mem_strdup("Every configuration was run once: whether a difference is more than "
                       "noise cannot be judged."),
            mem_format("%d configurations with one sound run each", with_any));
    } else if (with_any > 1 && with_one > 0) {
        findings_add(
            findings, FINDING_CAUTION,
            mem_format("%d of %d configurations have one sound run only: whether they differ "
                       "from others by more than noise cannot be judged.",
                       with_one, with_any),
            NULL);
    }
}

void rule_noise(const Results *results, Findings *findings)
{
    Metric speed = findings_metric("tok_s");
    for (int i = 0; i < results->configurations; i++) {
        double values[METRIC_MAX_SAMPLES], least = INFINITY, most = -INFINITY, sum = 0;
        int count = metric_samples(&speed, results, i, values, METRIC_MAX_SAMPLES);
        for (int k = 0; k < count; k++) {
            least = fmin(least, values[k]);
            most = fmax(most, values[k]);
            sum += values[k];
        }
        if (count < 2 || !((most - least) > NOISE * (sum / count))) {
            continue;
        }
        Page evidence = {0};
        char label[FINDINGS_LABEL_SIZE], value[FINDINGS_VALUE_SIZE];
        findings_label(results, i, label);
        for (int k = 0; k < count && k < 12; k++) {
            page_put(&evidence, "%s%s", k > 0 ? ", " : "",
                     findings_value("tok_s", values[k], value));
        }
        findings_add(
            findings, FINDING_CAUTION,
            mem_format("%s: the repeats' throughput spreads over %.1f %% of its mean; smaller "
                       "differences are noise.",
                       label, 100 * (most - least) / (sum / count)),
            evidence.text);
    }
}
