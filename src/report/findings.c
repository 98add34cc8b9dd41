#include "report/findings.h"

#include "base/mem.h"
#include "report/page.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 12
#define WITHIN_NOISE 25 /* that a result is less important by */

Finding *findings_add(Findings *findings, FindingKind kind, double rank)
{
    findings->items =
        mem_realloc(findings->items, (size_t)findings->count + 1, sizeof *findings->items);
    Finding *finding = &findings->items[findings->count++];
    *finding = (Finding){.kind = kind, .rank = rank};
    page_end(&finding->text); /* "" until something is put */
    page_end(&finding->evidence);
    return finding;
}

void findings_free(Findings *findings)
{
    for (int i = 0; i < findings->count; i++) {
        page_free(&findings->items[i].text);
        page_free(&findings->items[i].evidence);
    }
    free(findings->items);
    *findings = (Findings){0};
}

double findings_rank(double of_class, double ratio, const Welch *welch)
{
    double effect = ratio > 0 ? 1 - fmin(ratio, 1 / ratio) : 0;
    bool noise = welch != NULL && welch->p >= WELCH_SIGNIFICANT;
    return of_class + 9 * effect - (noise ? WITHIN_NOISE : 0);
}

/* --- what is told at once --- */

int findings_words(const char *text)
{
    int words = 0;
    for (bool inside = false; *text != '\0'; text++) {
        bool space = isspace((unsigned char)*text) != 0;
        words += !space && !inside;
        inside = !space;
    }
    return words;
}

void findings_put_cautions(const Findings *findings, Page *page)
{
    page_put_bytes(page, "", 0);
    for (int i = findings->results; i < findings->count; i++) {
        page_put(page, "%s%s", i > findings->results ? "; " : "", findings->items[i].text.text);
    }
}

/* Results first, then by falling rank; of equal ones the earlier stays so (insertion). */
static void sort(Findings *findings)
{
    for (int i = 1; i < findings->count; i++) {
        Finding own = findings->items[i];
        int at = i;
        for (; at > 0; at--) {
            const Finding *before = &findings->items[at - 1];
            bool later = before->kind != own.kind ? before->kind == FINDING_CAUTION
                                                  : before->rank < own.rank;
            if (!later) {
                break;
            }
            findings->items[at] = findings->items[at - 1];
        }
        findings->items[at] = own;
    }
}

static void choose(Findings *findings)
{
    int words = 0;
    findings->results = findings->shown = 0;
    for (int i = 0; i < findings->count; i++) {
        bool caution = findings->items[i].kind == FINDING_CAUTION;
        findings->results += !caution;
        words += caution ? findings_words(findings->items[i].text.text) : 0;
    }
    while (findings->shown < findings->results && findings->shown < FINDINGS_SHOWN) {
        words += findings_words(findings->items[findings->shown].text.text);
        if (findings->shown > 0 && words > FINDINGS_WORDS) {
            break;
        }
        findings->shown++;
    }
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
    return samples_estimate(&samples);
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

/* A word that tells which option it belongs to: of no other one that varies. */
static bool speaks_for_itself(const Results *results, const Varying *own, const char *value)
{
    static const char *const vague[] = {"on", "off", "auto", "none", "preset", NULL};
    if (!isalpha((unsigned char)value[0]) || metric_is_one_of(value, vague)) {
        return false;
    }
    for (int i = 0; i < results->varying_count; i++) {
        const char *option = results->varying[i].option;
        for (int k = 0; k < results->count && strcmp(option, own->option) != 0; k++) {
            const char *other = result_setting(&results->runs[k], option);
            if (other != NULL && strcmp(other, value) == 0) {
                return false;
            }
        }
    }
    return true;
}

Phrase findings_name(const Results *results, int configuration, int without)
{
    const Result *result = results_first(results, configuration);
    Page page = {0};
    for (int i = 0; result != NULL && i < results->varying_count; i++) {
        const Varying *varying = &results->varying[i];
        const char *value = result_setting(result, varying->option);
        if (value == NULL || varying->implied || varying->axis == without) {
            continue;
        }
        bool bare = speaks_for_itself(results, varying, value);
        page_put(&page, "%s%s%s%s", page.size > 0 ? ", " : "", bare ? "" : varying->option,
                 bare ? "" : " ", value);
    }
    Phrase name = phrase("%s", page.size > 0           ? page.text
                               : results->json == NULL ? "This run"
                               : result != NULL        ? result->label
                                                       : "");
    page_free(&page);
    return name;
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
    return samples_welch(&of_a, &of_b);
}

/* --- all rules --- */

void findings_make(const Results *results, Findings *findings)
{
    static const struct {
        Rule *make;
        bool all; /* about every run; else about those that pacer made itself, not for a probe */
    } rules[] = {
        {rule_duel, true},           {rule_law, true},           {rule_branches, false},
        {rule_fastest, false},       {rule_choice, false},       {rule_returns, false},
        {rule_lengths, false},       {rule_memory, false},       {rule_peers, true},
        {rule_communication, false}, {rule_overlap, false},      {rule_amdahl, false},
        {rule_batch_quality, false}, {rule_gap, false},          {rule_probe, true},
        {rule_smoke, true},          {rule_unfinished, true},    {rule_circumstances, true},
        {rule_failures, true},       {rule_checks, true},        {rule_repeats, true},
        {rule_noise, true},          {rule_stragglers, false},   {rule_oversubscribed, false},
        {rule_superlinear, false},   {rule_mean_speedup, false}, {rule_learning_rate, false},
        {rule_probed_rates, false},  {rule_best_rates, false},
    };
    *findings = (Findings){0};
    Results own = results_own(results);
    bool probe = results_are_probe(results);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].all || !probe) {
            rules[i].make(rules[i].all ? results : &own, findings);
        }
    }
    results_own_free(&own);
    sort(findings);
    choose(findings);
}
