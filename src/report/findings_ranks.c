/* What several ranks gain and lose: communication, scaling, and ranks that hold up the others. */
#include "report/findings.h"

#include "base/clock.h"
#include "base/mem.h"
#include "record/checks.h"
#include "report/scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDING 0.005     /* by which an efficiency may be above 1 without being called so */
#define MEAN_FLATTERS 0.02 /* by which the mean over ranks must differ to be worth a word */

/* --- communication --- */

static bool has_several_ranks(const Results *results, int configuration)
{
    const Result *result = results_first(results, configuration);
    return result != NULL && result_setting_number(result, "ranks") > 1;
}

/* Exposed communication over training time; NAN when not known. */
static double exposed_share(const Results *results, int configuration)
{
    if (!has_several_ranks(results, configuration)) {
        return NAN;
    }
    double training = findings_mean(results, configuration, "training_s");
    return training > 0 ? findings_mean(results, configuration, "comm_exposed_s") / training : NAN;
}

void rule_communication(const Results *results, Findings *findings)
{
    int worst = -1;
    double most = -1;
    Page evidence = {0};
    for (int i = 0; i < results->configurations; i++) {
        double share = exposed_share(results, i);
        if (isnan(share)) {
            continue;
        }
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, i, label);
        page_put(&evidence, "%s%s: %.1f %% exposed", evidence.size > 0 ? "; " : "", label,
                 100 * share);
        if (share > most) {
            most = share;
            worst = i;
        }
    }
    if (worst < 0) {
        return;
    }
    double hidden = findings_mean(results, worst, "comm_hidden_s");
    double all = findings_mean(results, worst, "comm_s");
    char exposed_s[FINDINGS_VALUE_SIZE], training_s[FINDINGS_VALUE_SIZE];
    char compute_s[FINDINGS_VALUE_SIZE], hidden_s[FINDINGS_VALUE_SIZE];
    char label[FINDINGS_LABEL_SIZE];
    findings_label(results, worst, label);
    Page text = {0};
    page_put(
        &text,
        "Exposed communication takes at most %.1f %% of the training time (%s: %s of %s, with %s "
        "of "
        "compute)",
        100 * most, label,
        findings_value("training_s", findings_mean(results, worst, "comm_exposed_s"), exposed_s),
        findings_value("training_s", findings_mean(results, worst, "training_s"), training_s),
        findings_value("training_s", findings_mean(results, worst, "compute_s"), compute_s));
    if (all > 0 && hidden > 0) {
        page_put(&text,
                 "; another %s, %.0f %% of all communication, was overlapped with computation",
                 findings_value("training_s", hidden, hidden_s), 100 * hidden / all);
    }
    page_put(&text, ".");
    findings_add(findings, FINDING_RESULT, text.text, evidence.text);
}

static bool uses(const Results *results, int configuration, const char *strategy)
{
    char buffer[RESULT_SETTING_SIZE];
    const Result *result = results_first(results, configuration);
    const char *value = result != NULL ? result_setting(result, "ddp", buffer) : NULL;
    return value != NULL && strcmp(value, strategy) == 0;
}

/* The same settings with gradients sent as one block after the backward pass; -1: not run. */
static int counterpart(const Results *results, int configuration, int axis)
{
    const Result *own = results_first(results, configuration);
    for (int i = 0; i < results->configurations; i++) {
        const Result *other = results_first(results, i);
        if (other != NULL && uses(results, i, "flat") &&
            results_equal_but(results, own, other, axis) && !isnan(exposed_share(results, i))) {
            return i;
        }
    }
    return -1;
}

void rule_overlap(const Results *results, Findings *findings)
{
    int axis = results_axis_of(results, "ddp");
    for (int i = 0; i < results->configurations && axis >= 0; i++) {
        if (!uses(results, i, "overlap") || isnan(exposed_share(results, i))) {
            continue;
        }
        int other = counterpart(results, i, axis);
        if (other < 0) {
            continue;
        }
        double with = findings_mean(results, i, "comm_exposed_s");
        double without = findings_mean(results, other, "comm_exposed_s");
        Welch welch = findings_welch("comm_exposed_s", results, other, i);
        char with_s[FINDINGS_VALUE_SIZE], without_s[FINDINGS_VALUE_SIZE];
        char judgement[FINDINGS_JUDGEMENT_SIZE];
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, i, label);
        Page evidence = {0};
        findings_list(&evidence, "tok_s", results, (int[]){other, i}, 2);
        findings_add(findings, FINDING_RESULT,
                     mem_format("%s: %s of exposed communication, against %s with ddp flat; %s. "
                                "Throughput changes by %+.1f %%.",
                                label, findings_value("training_s", with, with_s),
                                findings_value("training_s", without, without_s),
                                findings_judgement(&welch, judgement),
                                100 * (findings_mean(results, i, "tok_s") /
                                           findings_mean(results, other, "tok_s") -
                                       1)),
                     evidence.text);
    }
}

/* --- scaling --- */

static bool is_along_ranks(const Results *results, const Series *series)
{
    return series->axis == results_axis_of(results, "ranks");
}

void rule_amdahl(const Results *results, Findings *findings)
{
    Metric fraction = findings_metric("amdahl");
    SeriesList list;
    series_make(results, &list);
    for (int i = 0; i < list.count; i++) {
        const Series *series = &list.items[i];
        const Result *first = results_first(results, series->configurations[0]);
        double serial =
            is_along_ranks(results, series) ? metric_value(&fraction, results, first, -1) : NAN;
        if (isnan(serial)) {
            continue;
        }
        Page evidence = {0};
        findings_list(&evidence, "speedup", results, series->configurations, series->count);
        findings_add(
            findings, FINDING_RESULT,
            serial > 0
                ? mem_format("Amdahl's law fits the speed-up over ranks%s with a serial "
                             "fraction of %.1f %%: no number of ranks would be more than "
                             "%.1f times as fast.",
                             series->where, 100 * serial, 1 / serial)
                : mem_format("The speed-up over ranks%s shows no serial fraction.", series->where),
            evidence.text);
    }
    series_free(&list);
}

void rule_superlinear(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations; i++) {
        const Result *first = results_first(results, i);
        double mean = findings_mean(results, i, "efficiency");
        if (first == NULL || !(mean > 1 + ROUNDING)) {
            continue;
        }
        Page evidence = {0};
        findings_list(&evidence, "speedup", results, &i, 1);
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, i, label);
        findings_add(findings, FINDING_CAUTION,
                     mem_format("%s: %.2f times as fast with %.15g times the ranks is more than "
                                "possible by dividing work; look for a slow or noisy baseline, or "
                                "data that fits a cache only when divided.",
                                label, findings_mean(results, i, "speedup"),
                                scaling_ranks(results, first)),
                     evidence.text);
    }
}

void rule_mean_speedup(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations; i++) {
        double real = findings_mean(results, i, "speedup");
        double claimed = findings_mean(results, i, "speedup_mean");
        if (!(claimed > real * (1 + MEAN_FLATTERS)) || !has_several_ranks(results, i)) {
            continue;
        }
        char label[FINDINGS_LABEL_SIZE];
        findings_label(results, i, label);
        findings_add(
            findings, FINDING_CAUTION,
            mem_format("%s: the mean over ranks would claim a speed-up of %.2f; the slowest "
                       "rank, for which the others wait, makes it %.2f.",
                       label, claimed, real),
            NULL);
    }
}

void rule_oversubscribed(const Results *results, Findings *findings)
{
    char *shared = results_oversubscribed(results);
    if (shared != NULL) {
        findings_add(findings, FINDING_CAUTION,
                     mem_format("%s: ranks shared a device, so this is no measurement of scaling "
                                "and has no efficiency.",
                                shared),
                     NULL);
    }
    free(shared);
}

/* --- stragglers --- */

typedef struct {
    int rank, seen, runs; /* in how many of the runs with that many ranks */
    double worst;         /* busy time over the median */
    const Result *result; /* where it was worst */
} Straggler;

/* Busy time of a rank over the median of all; NAN when one is not known. */
static double lag_of(const Results *results, const Result *result, int rank)
{
    if (result->rank_count < 2 || !result_has_all_ranks(result)) {
        return NAN;
    }
    double *busy = mem_alloc((size_t)result->rank_count * sizeof *busy), own = NAN;
    Metric metric = findings_metric("busy_s");
    bool known = true;
    for (int i = 0; i < result->rank_count; i++) {
        busy[i] = metric_value(&metric, results, result, i);
        known = known && busy[i] >= 0;
        own = i == rank ? busy[i] : own;
    }
    double median = known ? clock_quantile(busy, (size_t)result->rank_count, 0.5) : NAN;
    free(busy);
    return median > 0 ? own / median : NAN;
}

static Straggler look_at(const Results *results, int configuration, int rank)
{
    Straggler found = {.rank = rank};
    for (int i = 0; i < results->count; i++) {
        const Result *result = &results->runs[i];
        bool counts = result->configuration == configuration && result_is_sound(result) &&
                      rank < result->rank_count;
        double lag = counts ? lag_of(results, result, rank) : NAN;
        found.runs += !isnan(lag);
        found.seen += lag > CHECK_STRAGGLER;
        if (lag > found.worst) {
            found.worst = lag;
            found.result = result;
        }
    }
    return found;
}

static void tell(const Results *results, const Straggler *straggler, int configuration,
                 Findings *findings)
{
    Metric host = findings_metric("host"), device = findings_metric("device");
    Metric busy = findings_metric("busy_s");
    char host_text[80], device_text[80], value[FINDINGS_VALUE_SIZE];
    char label[FINDINGS_LABEL_SIZE];
    findings_label(results, configuration, label);
    Page evidence = {0};
    metric_text(&host, results, straggler->result, straggler->rank, host_text, sizeof host_text);
    metric_text(&device, results, straggler->result, straggler->rank, device_text,
                sizeof device_text);
    for (int rank = 0; rank < straggler->result->rank_count && rank < 16; rank++) {
        page_put(
            &evidence, "%srank %d %s", rank > 0 ? ", " : "busy: ", rank,
            findings_value("busy_s", metric_value(&busy, results, straggler->result, rank), value));
    }
    findings_add(findings, FINDING_CAUTION,
                 mem_format("%s: rank %d on %s %s is a straggler, busy %.2f times as long as the "
                            "median rank (in %d of %d runs); the others wait for it.",
                            label, straggler->rank, host_text, device_text, straggler->worst,
                            straggler->seen, straggler->runs),
                 evidence.text);
}

void rule_stragglers(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations; i++) {
        const Result *first = results_first(results, i);
        int ranks = 0;
        for (int k = 0; first != NULL && k < results->count; k++) {
            const Result *result = &results->runs[k];
            bool own = result->configuration == i && result->rank_count > ranks &&
                       result_has_all_ranks(result);
            ranks = own ? result->rank_count : ranks;
        }
        for (int rank = 0; ranks > 1 && rank < ranks; rank++) {
            Straggler straggler = look_at(results, i, rank);
            if (straggler.seen > 0) {
                tell(results, &straggler, i, findings);
            }
        }
    }
}
