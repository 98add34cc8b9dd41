/* What the reader has to know before believing the rest: cautions, of a few words each. */
#include "report/findings.h"

#include "record/names.h"
#include "report/scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NOISE 0.10 /* (largest - smallest) / mean of the repeats */
#define LISTED 12

void rule_smoke(const Results *results, Findings *findings)
{
    if (json_is_true(results->json, "smoke")) {
        page_put(&findings_add(findings, FINDING_CAUTION, 80)->text,
                 "a smoke run: it shows that everything works, and nothing else");
    }
}

void rule_unfinished(const Results *results, Findings *findings)
{
    int waiting = 0, running = 0;
    for (int i = 0; i < results->count && results->json != NULL; i++) {
        waiting += results->runs[i].state == RUN_WAITING;
        running += results->runs[i].state == RUN_RUNNING;
    }
    if (waiting + running > 0) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 75);
        page_put(&finding->text, "%d of %d runs are not finished", waiting + running,
                 results->count);
        page_put(&finding->evidence, "%d waiting, %d running", waiting, running);
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

/* "batch 16: loss became NaN at step 7 (runs 1-0, 1-1)" for each kind, at most a dozen. */
static void list_failures(const Results *results, RunState state, Page *evidence)
{
    int listed = 0;
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        bool told = result->state != state || has_failed_checks(results, result);
        for (int j = 0; j < i && !told; j++) {
            told = same_failure(&results->runs[j], result);
        }
        if (told || listed++ >= LISTED) {
            continue;
        }
        page_put(evidence, "%s%s: %s%s(", evidence->size > 0 ? "; " : "", result->label,
                 result->reason, result->reason[0] != '\0' ? " " : "");
        int alike = 0;
        for (int j = i; j < results->count; j++) {
            if (same_failure(&results->runs[j], result)) {
                page_put(evidence, "%s%s", alike++ > 0 ? ", " : "run ", results->runs[j].id);
            }
        }
        page_put(evidence, ")");
    }
    if (listed > LISTED) {
        page_put(evidence, "; and %d more", listed - LISTED);
    }
}

void rule_failures(const Results *results, Findings *findings)
{
    static const struct {
        RunState state;
        const char *words;
    } kinds[] = {{RUN_FAILED, "failed"},
                 {RUN_TIMEOUT, "ran into the time limit"},
                 {RUN_STOPPED, "stopped before the end"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int count = 0;
        for (int k = 0; k < results->count; k++) {
            count += results->runs[k].state == kinds[i].state &&
                     !has_failed_checks(results, &results->runs[k]);
        }
        if (count > 0) {
            Finding *finding = findings_add(findings, FINDING_CAUTION, 90);
            page_put(&finding->text, "%d run%s %s", count, count == 1 ? "" : "s", kinds[i].words);
            list_failures(results, kinds[i].state, &finding->evidence);
        }
    }
}

void rule_checks(const Results *results, Findings *findings)
{
    Finding *finding = NULL;
    int count = 0;
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (!has_failed_checks(results, result)) {
            continue;
        }
        finding = finding != NULL ? finding : findings_add(findings, FINDING_CAUTION, 85);
        if (count++ >= LISTED) {
            continue;
        }
        page_put(&finding->evidence, "%s%s, repeat %d (run %s)", count > 1 ? "; " : "",
                 result->label, result->repeat + 1, result->id);
        const cJSON *check;
        cJSON_ArrayForEach(check, json_find(result->run, "summary.checks"))
        {
            if (strcmp(json_text_or(check, "verdict", ""), "fail") == 0) {
                page_put(&finding->evidence, ", %s: %s, expected %.6g, found %.6g",
                         json_text_or(check, "name", ""), json_text_or(check, "rule", ""),
                         json_number(check, "expected"), json_number(check, "found"));
            }
        }
    }
    if (finding != NULL) {
        page_put(&finding->text, "checks of %d run%s failed, so no finding uses %s", count,
                 count == 1 ? "" : "s", count == 1 ? "it" : "them");
    }
}

void rule_repeats(const Results *results, Findings *findings)
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
    Finding *finding = findings_add(findings, FINDING_CAUTION, 50);
    if (with_one == with_any) {
        page_put(&finding->text, "single runs: noise cannot be judged");
        page_put(&finding->evidence, "%d configurations with one sound run each", with_any);
    } else {
        page_put(&finding->text,
                 "%d of %d configurations have one sound run: their noise cannot "
                 "be judged",
                 with_one, with_any);
    }
}

void rule_noise(const Results *results, Findings *findings)
{
    Metric speed = metric_named("tok_s");
    Finding *finding = NULL;
    int count = 0;
    double worst = 0;
    for (int i = 0; i < results->configurations; i++) {
        Samples samples = metric_samples(&speed, results, i, true);
        double least = INFINITY, most = -INFINITY;
        double mean = samples_estimate(&samples).mean;
        for (int k = 0; k < samples.count; k++) {
            least = fmin(least, samples.values[k]);
            most = fmax(most, samples.values[k]);
        }
        if (samples.count < 2 || !((most - least) > NOISE * mean)) {
            continue;
        }
        finding = finding != NULL ? finding : findings_add(findings, FINDING_CAUTION, 35);
        worst = fmax(worst, (most - least) / mean);
        if (count++ < LISTED) {
            page_put(&finding->evidence, "%s%s: ", count > 1 ? "; " : "",
                     findings_label(results, i));
            for (int k = 0; k < samples.count && k < LISTED; k++) {
                page_put(&finding->evidence, "%s%s", k > 0 ? ", " : "",
                         findings_value("tok_s", samples.values[k]).text);
            }
        }
    }
    if (finding != NULL) {
        page_put(&finding->text,
                 "throughput of %d configuration%s spreads by %s%.0f %% over "
                 "repeats",
                 count, count == 1 ? "" : "s", count == 1 ? "" : "up to ", 100 * worst);
    }
}

void rule_circumstances(const Results *results, Findings *findings)
{
    const char *note = json_text(results->json, "peers.note");
    double jobs = json_number(results->json, "jobs");
    if (note != NULL) {
        size_t short_of = strcspn(note, ":"); /* behind it come the reasons */
        Finding *finding = findings_add(findings, FINDING_CAUTION, 45);
        page_put(&finding->text, "%.*s", (int)short_of, note);
        page_put(&finding->evidence, "%s", note[short_of] != '\0' ? note : "");
    }
    if (jobs > 1) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 40);
        page_put(&finding->text, "speeds are of up to %.0f runs at once", jobs);
        page_put(&finding->evidence, "--jobs: each run had its share of the processors; losses are "
                                     "not touched");
    }
}
