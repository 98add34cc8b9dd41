/* What does not fit. */
#include "report/findings_rules.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>

static bool is_too_large(const Result *result)
{
    return result->state == RESULT_REFUSED || result->state == RESULT_OOM;
}

/* The first run of the configuration that did not fit; NULL: all did, or did not try. */
static const Result *refusal_of(const Results *results, int configuration)
{
    for (int i = 0; i < results->count; i++) {
        if (results->runs[i].configuration == configuration && is_too_large(&results->runs[i])) {
            return &results->runs[i];
        }
    }
    return NULL;
}

static bool has_fitted(const Results *results, int configuration)
{
    for (int i = 0; i < results->count; i++) {
        if (results->runs[i].configuration == configuration &&
            results->runs[i].state == RESULT_DONE) {
            return true;
        }
    }
    return false;
}

/* Bytes that a run may use, and whose they are. NAN when no record says. */
static double room_of(const Results *results, const Result *result, const char **whose)
{
    double limit = result_setting_number(result, "memory-limit");
    *whose = "of memory-limit";
    if (limit > 0) {
        return limit;
    }
    double gpu = NAN, host = results_number(result->run, "machine.memory_bytes");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        for (int rank = 0; rank < run->rank_count && isnan(gpu); rank++) {
            gpu = results_number(run->ranks[rank], "gpu.total_bytes");
        }
        host = isnan(host) ? results_number(run->run, "machine.memory_bytes") : host;
        host = fmin(host, results_number(run->run, "machine.memory_limit_bytes"));
    }
    *whose = isnan(gpu) ? "of the machine" : "of the GPU";
    return isnan(gpu) ? host : gpu;
}

static void put_bytes(Page *page, const Results *results, const Result *result)
{
    Metric planned = findings_metric("planned_bytes");
    char bytes[FINDINGS_VALUE_SIZE], room_text[FINDINGS_VALUE_SIZE];
    const char *whose;
    double wanted = metric_value(&planned, results, result, -1);
    double room = room_of(results, result, &whose);
    if (!isnan(wanted)) {
        page_put(page, ", planned %s", findings_value(&planned, wanted, bytes));
        if (!isnan(room)) {
            page_put(page, " against %s %s", findings_value(&planned, room, room_text), whose);
        }
    }
}

static void look_along(const Results *results, const Series *series, bool *told, Findings *findings)
{
    int limit = 0, fits = -1;
    while (limit < series->count && refusal_of(results, series->configurations[limit]) == NULL) {
        fits = has_fitted(results, series->configurations[limit]) ? limit : fits;
        limit++;
    }
    if (limit == series->count || told[series->configurations[limit]]) {
        return;
    }
    const Result *refusal = refusal_of(results, series->configurations[limit]);
    Page text = {0};
    page_put(&text, "Memory limits %s%s: %.15g does not fit (%s)", series->option, series->where,
             series->values[limit],
             refusal->state == RESULT_REFUSED ? "refused by its plan" : "ran out of memory");
    put_bytes(&text, results, refusal);
    if (fits >= 0) {
        Metric planned = findings_metric("planned_bytes");
        int configuration = series->configurations[fits];
        double bytes = metric_estimate(&planned, results, configuration).mean;
        char value[FINDINGS_VALUE_SIZE];
        page_put(&text, "; the largest below it that fits is %.15g", series->values[fits]);
        if (!isnan(bytes)) {
            page_put(&text, " with %s planned", findings_value(&planned, bytes, value));
        }
    } else {
        page_put(&text, "; nothing smaller was run");
    }
    page_put(&text, ".");
    findings_add(findings, FINDING_RESULT, text.text, mem_strdup(refusal->reason));
    for (int i = limit; i < series->count; i++) {
        told[series->configurations[i]] = true;
    }
}

void rule_memory(const Results *results, Findings *findings)
{
    bool *told = mem_zalloc((size_t)results->configurations + 1, sizeof *told);
    SeriesList list;
    series_make(results, &list);
    for (int i = 0; i < list.count; i++) {
        look_along(results, &list.items[i], told, findings);
    }
    for (int i = 0; i < results->configurations; i++) {
        const Result *refusal = refusal_of(results, i);
        if (refusal != NULL && !told[i]) {
            char *label = findings_label(results, i);
            Page text = {0};
            page_put(&text, "%s does not fit", label);
            put_bytes(&text, results, refusal);
            page_put(&text, ".");
            findings_add(findings, FINDING_RESULT, text.text, mem_strdup(refusal->reason));
            free(label);
        }
    }
    series_free(&list);
    free(told);
}
