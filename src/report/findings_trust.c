/* What the reader has to know before believing the rest. */
#include "report/findings_rules.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE 0.10 /* (largest - smallest) / mean of the repeats */

void rule_smoke(const Results *results, Findings *findings)
{
    if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(results->json, "smoke"))) {
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
        waiting += results->runs[i].state == RESULT_WAITING;
        running += results->runs[i].state == RESULT_RUNNING;
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
        bool told = result->state != RESULT_FAILED && result->state != RESULT_TIMEOUT &&
                    result->state != RESULT_STOPPED;
        for (int j = 0; j < i && !told; j++) {
            told = same_failure(&results->runs[j], result);
        }
        if (told || (result->state == RESULT_FAILED && has_failed_checks(results, result))) {
            continue;
        }
        int alike = 0;
        Page ids = {0};
        for (int j = i; j < results->count; j++) {
            if (same_failure(&results->runs[j], result)) {
                page_put(&ids, "%s%s", alike++ > 0 ? ", " : "run ", results->runs[j].id);
            }
        }
        char *label = findings_label(results, result->configuration);
        const char *what = result->state == RESULT_FAILED    ? "failed"
                           : result->state == RESULT_TIMEOUT ? "ran into the time limit"
                                                             : "stopped before the end";
        findings_add(findings, FINDING_CAUTION,
                     mem_format("%s: %d run%s %s%s%s", label, alike, alike == 1 ? "" : "s", what,
                                result->reason[0] != '\0' ? ": " : ".", result->reason),
                     ids.text);
        free(label);
    }
}

/* --- checks --- */

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text != NULL ? text : "";
}

void rule_checks(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (!has_failed_checks(results, result)) {
            continue;
        }
        const cJSON *summary = cJSON_GetObjectItemCaseSensitive(result->run, "summary"), *check;
        Page names = {0}, evidence = {0};
        page_put(&evidence, "run %s", result->id);
        cJSON_ArrayForEach(check, cJSON_GetObjectItemCaseSensitive(summary, "checks"))
        {
            if (strcmp(text_of(check, "verdict"), "fail") == 0) {
                page_put(&names, "%s%s", names.size > 0 ? ", " : "", text_of(check, "name"));
                page_put(&evidence, "; %s: %s, expected %.6g, found %.6g", text_of(check, "name"),
                         text_of(check, "rule"), results_number(check, "expected"),
                         results_number(check, "found"));
            }
        }
        char *label = findings_label(results, result->configuration);
        findings_add(
            findings, FINDING_CAUTION,
            mem_format("%s, repeat %d: the run's own checks failed (%s); no conclusion here "
                       "uses its numbers.",
                       label, result->repeat + 1, names.text),
            evidence.text);
        page_free(&names);
        free(label);
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
        char *label = findings_label(results, i), value[FINDINGS_VALUE_SIZE];
        for (int k = 0; k < count && k < 12; k++) {
            page_put(&evidence, "%s%s", k > 0 ? ", " : "",
                     findings_value(&speed, values[k], value));
        }
        findings_add(
            findings, FINDING_CAUTION,
            mem_format("%s: the repeats' throughput spreads over %.1f %% of its mean; smaller "
                       "differences mean nothing.",
                       label, 100 * (most - least) / (sum / count)),
            evidence.text);
        free(label);
    }
}
