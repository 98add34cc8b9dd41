/* What was fastest, where more of something stops helping, what does not fit, and how pacer
 * compares with its peers. A peer's configuration is compared with the fastest of pacer's that do
 * the same work: equal in every option that means something to the peer. */
#include "report/findings.h"

#include "base/mem.h"
#include "record/names.h"
#include "report/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORTHWHILE 0.10 /* gain per doubling */

/* Kernels are equal that keep the T x T probabilities, or do not: what kernel it has is up to
 * each program. */
static bool same_attention(const char *a, const char *b)
{
    return (strcmp(a, "naive") == 0) == (strcmp(b, "naive") == 0);
}

static bool same_work(const Results *results, const Result *own, const Result *peer)
{
    for (int i = 0; i < results->varying_count; i++) {
        const char *option = results->varying[i].option;
        const char *a = result_setting(own, option), *b = result_setting(peer, option);
        bool kernel = strcmp(option, "attention") == 0;
        if (b != NULL && (a == NULL || !(kernel ? same_attention(a, b) : strcmp(a, b) == 0))) {
            return false;
        }
    }
    return true;
}

/* pacer's configuration of the highest mean besides `except`, and of the same work as a peer's
 * unless that is NULL; -1: none came to its end. */
static int fastest_but(const Results *results, int except, const Result *peer)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < results->configurations; i++) {
        const Result *own = results_first(results, i);
        if (i == except || own == NULL || own->peer[0] != '\0' ||
            (peer != NULL && !same_work(results, own, peer))) {
            continue;
        }
        double mean = findings_mean(results, i, "tok_s");
        if (mean > most) {
            most = mean;
            best = i;
        }
    }
    return best;
}

void rule_fastest(const Results *results, Findings *findings)
{
    int best = fastest_but(results, -1, NULL);
    int next = best >= 0 ? fastest_but(results, best, NULL) : -1;
    if (next < 0) {
        return;
    }
    double most = findings_mean(results, best, "tok_s");
    double second = findings_mean(results, next, "tok_s");
    Welch welch = findings_welch("tok_s", results, next, best);
    Finding *finding = findings_add(findings, FINDING_RESULT);
    page_put(&finding->text, "Fastest: %s with %s, %.1f %% ahead of %s; %s.",
             findings_label(results, best), findings_value("tok_s", most).text,
             100 * (most / second - 1), findings_label(results, next),
             findings_judgement(&welch).text);
    findings_list(&finding->evidence, "tok_s", results, NULL, results->configurations);
}

/* --- diminishing returns --- */

/* The part's share of the training time in a configuration; NAN when not known. */
static double share_of(const Results *results, int configuration, const char *part)
{
    char name[48];
    snprintf(name, sizeof name, "%s_s", part);
    double all = findings_mean(results, configuration, "training_s");
    return all > 0 ? findings_mean(results, configuration, name) / all : NAN;
}

/* Which part of a step dominates there, and which one took a larger share than before. */
static void put_parts(Page *page, const Results *results, int before, int after)
{
    static const char *const parts[] = {"data_load",    "data_move", "forward", "loss", "backward",
                                        "comm_exposed", "optimizer", "launch",  "wait"};
    double most = 0, growth = 0, from = 0, to = 0;
    const char *dominant = NULL, *growing = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        double share = share_of(results, after, parts[i]);
        double earlier = share_of(results, before, parts[i]);
        if (share > most) {
            most = share;
            dominant = parts[i];
        }
        if (share - earlier > growth) {
            growth = share - earlier;
            from = earlier;
            to = share;
            growing = parts[i];
        }
    }
    if (dominant == NULL) {
        return;
    }
    page_put(page, "; at that point %s takes the largest share of the training time, %.0f %%",
             dominant, 100 * most);
    if (growth >= 0.01 && growing == dominant) {
        page_put(page, " after %.0f %% before", 100 * from);
    } else if (growth >= 0.01) {
        page_put(page, ", and %s grew most, from %.0f %% to %.0f %%", growing, 100 * from,
                 100 * to);
    }
}

static bool measures_scaling(const Results *results, const Series *series, int configuration)
{
    return strcmp(series->option, "ranks") != 0 ||
           !result_is_oversubscribed(results_first(results, configuration));
}

static void returns_along(const Results *results, const Series *series, Findings *findings)
{
    int before = -1;
    double speed_before = NAN;
    for (int i = 0; i < series->count; i++) {
        int configuration = series->configurations[i];
        double mean = findings_mean(results, configuration, "tok_s");
        if (isnan(mean) || !measures_scaling(results, series, configuration)) {
            continue;
        }
        double doublings = before >= 0 ? log2(series->values[i] / series->values[before]) : NAN;
        double gain = before >= 0 ? pow(mean / speed_before, 1 / doublings) - 1 : NAN;
        if (gain < WORTHWHILE) {
            int last = series->configurations[before];
            Welch welch = findings_welch("tok_s", results, last, configuration);
            Finding *finding = findings_add(findings, FINDING_RESULT);
            page_put(&finding->text,
                     "Diminishing returns along %s%s from %.15g on: up to %.15g throughput changes "
                     "by %+.1f %% per doubling, less than %.0f %%",
                     series->option, series->where, series->values[before], series->values[i],
                     100 * gain, 100 * WORTHWHILE);
            if (!isnan(welch.p)) {
                page_put(&finding->text, ", %s", findings_judgement(&welch).text);
            }
            put_parts(&finding->text, results, last, configuration);
            page_put(&finding->text, ".");
            findings_list(&finding->evidence, "tok_s", results, series->configurations,
                          series->count);
            return;
        }
        before = i;
        speed_before = mean;
    }
}

void rule_diminishing_returns(const Results *results, Findings *findings)
{
    static const char *const resources[] = {
        "batch", "accum", "global-batch", "ranks", "threads", "bucket-mb", NULL};
    SeriesList list;
    series_make(results, &list);
    for (int i = 0; i < list.count; i++) {
        if (metric_is_one_of(list.items[i].option, resources)) {
            returns_along(results, &list.items[i], findings);
        }
    }
    series_free(&list);
}

/* --- what does not fit --- */

/* The first run of the configuration that did not fit; NULL: all did, or did not try. */
static const Result *refusal_of(const Results *results, int configuration)
{
    const Result *refused = results_in_state(results, configuration, RUN_REFUSED);
    return refused != NULL ? refused : results_in_state(results, configuration, RUN_OOM);
}

/* Bytes that a run may use, and whose they are. NAN when no record says. */
static double room_of(const Results *results, const Result *result, const char **whose)
{
    double limit = result_setting_number(result, "memory-limit");
    *whose = "of memory-limit";
    if (limit > 0) {
        return limit;
    }
    double gpu = NAN, host = json_number(result->run, "machine.memory_bytes");
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        for (int rank = 0; rank < run->rank_count && isnan(gpu); rank++) {
            gpu = json_number(run->ranks[rank], "gpu.total_bytes");
        }
        host = isnan(host) ? json_number(run->run, "machine.memory_bytes") : host;
        host = fmin(host, json_number(run->run, "machine.memory_limit_bytes"));
    }
    *whose = isnan(gpu) ? "of the machine" : "of the GPU";
    return isnan(gpu) ? host : gpu;
}

static void put_bytes(Page *page, const Results *results, const Result *result)
{
    const char *whose;
    double wanted = findings_number(results, result, -1, "planned_bytes");
    double room = room_of(results, result, &whose);
    if (!isnan(wanted)) {
        page_put(page, ", planned %s", findings_value("planned_bytes", wanted).text);
        if (!isnan(room)) {
            page_put(page, " against %s %s", findings_value("planned_bytes", room).text, whose);
        }
    }
}

static void limit_along(const Results *results, const Series *series, bool *told,
                        Findings *findings)
{
    int limit = 0, fits = -1;
    while (limit < series->count && refusal_of(results, series->configurations[limit]) == NULL) {
        fits = results_in_state(results, series->configurations[limit], RUN_DONE) != NULL ? limit
                                                                                          : fits;
        limit++;
    }
    if (limit == series->count || told[series->configurations[limit]]) {
        return;
    }
    const Result *refusal = refusal_of(results, series->configurations[limit]);
    Finding *finding = findings_add(findings, FINDING_RESULT);
    page_put(&finding->text, "Memory limits %s%s: %.15g does not fit (%s)", series->option,
             series->where, series->values[limit],
             refusal->state == RUN_REFUSED ? "refused by its plan" : "ran out of memory");
    put_bytes(&finding->text, results, refusal);
    if (fits >= 0) {
        Metric planned = metric_named("planned_bytes");
        double bytes = metric_estimate(&planned, results, series->configurations[fits]).mean;
        page_put(&finding->text, "; the largest below it that fits is %.15g", series->values[fits]);
        if (!isnan(bytes)) {
            page_put(&finding->text, " with %s planned",
                     findings_value("planned_bytes", bytes).text);
        }
    } else {
        page_put(&finding->text, "; nothing smaller was run");
    }
    page_put(&finding->text, ".");
    page_put(&finding->evidence, "%s", refusal->reason);
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
        limit_along(results, &list.items[i], told, findings);
    }
    for (int i = 0; i < results->configurations; i++) {
        const Result *refusal = refusal_of(results, i);
        if (refusal != NULL && !told[i]) {
            Finding *finding = findings_add(findings, FINDING_RESULT);
            page_put(&finding->text, "%s does not fit", findings_label(results, i));
            put_bytes(&finding->text, results, refusal);
            page_put(&finding->text, ".");
            page_put(&finding->evidence, "%s", refusal->reason);
        }
    }
    series_free(&list);
    free(told);
}

/* --- pacer against the programs beside it --- */

static void compare(const Results *results, int own, int peer, Findings *findings)
{
    const Result *us = results_first(results, own), *them = results_first(results, peer);
    double median =
        findings_mean(results, peer, "step_p50_ms") / findings_mean(results, own, "step_p50_ms");
    double mine = findings_mean(results, own, "tok_s");
    double theirs = findings_mean(results, peer, "tok_s");
    double share =
        findings_mean(results, own, "peak_bytes") / findings_mean(results, peer, "peak_bytes");
    Welch welch = findings_welch("tok_s", results, peer, own);
    Finding *finding = findings_add(findings, FINDING_RESULT);
    if (results->varying_count > 0) {
        page_put(&finding->text, "pacer (%s) is %.2f times as fast as %s (%s)", us->varying,
                 mine / theirs, peer_title(them->peer), them->varying);
    } else {
        page_put(&finding->text, "pacer is %.2f times as fast as %s", mine / theirs,
                 peer_title(them->peer));
    }
    page_put(&finding->text, ", %s against %s", findings_value("tok_s", mine).text,
             findings_value("tok_s", theirs).text);
    if (median > 0) {
        page_put(&finding->text, " (%.2f times by the median update)", median);
    }
    if (share > 0) {
        page_put(&finding->text, ", with %.0f %% of its memory", 100 * share);
    }
    page_put(&finding->text, "; %s.", findings_judgement(&welch).text);
    findings_list(&finding->evidence, "tok_s", results, (int[]){own, peer}, 2);
    if (share > 0) {
        findings_list(&finding->evidence, "peak_bytes", results, (int[]){own, peer}, 2);
    }
}

static void tell_of_memory(const Results *results, int own, const Result *peer, Findings *findings)
{
    double bytes = own >= 0 ? findings_mean(results, own, "peak_bytes") : NAN;
    Finding *finding = findings_add(findings, FINDING_RESULT);
    page_put(&finding->text, "%s ran out of memory", findings_label(results, peer->configuration));
    if (!isnan(bytes)) {
        page_put(&finding->text, "; pacer takes %s for the same",
                 findings_value("peak_bytes", bytes).text);
    }
    page_put(&finding->text, ".");
    page_put(&finding->evidence, "%s", peer->reason);
}

void rule_peers(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations; i++) {
        const Result *peer = results_first(results, i);
        if (peer == NULL || peer->peer[0] == '\0') {
            continue;
        }
        int own = fastest_but(results, -1, peer);
        const Result *full = results_in_state(results, i, RUN_OOM);
        if (full != NULL) {
            tell_of_memory(results, own, full, findings);
        } else if (own >= 0 && findings_mean(results, i, "tok_s") > 0) {
            compare(results, own, i, findings);
        }
    }
}

void rule_circumstances(const Results *results, Findings *findings)
{
    const char *note = json_text(results->json, "peers.note");
    double jobs = json_number(results->json, "jobs");
    if (note != NULL) {
        page_put(&findings_add(findings, FINDING_CAUTION)->text, "%s.", note);
    }
    if (jobs > 1) {
        page_put(&findings_add(findings, FINDING_CAUTION)->text,
                 "Up to %.0f runs were made at once (--jobs), each on its share of the processors: "
                 "speeds are those of a part of the machine, losses are not touched.",
                 jobs);
    }
}
