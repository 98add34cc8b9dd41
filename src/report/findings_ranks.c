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
    Finding *finding = NULL;
    for (int i = 0; i < results->configurations; i++) {
        double share = exposed_share(results, i);
        if (isnan(share)) {
            continue;
        }
        finding = finding != NULL ? finding : findings_add(findings, FINDING_RESULT);
        page_put(&finding->evidence, "%s%s: %.1f %% exposed", worst >= 0 ? "; " : "",
                 findings_label(results, i), 100 * share);
        if (share > most) {
            most = share;
            worst = i;
        }
    }
    if (finding == NULL) {
        return;
    }
    double hidden = findings_mean(results, worst, "comm_hidden_s");
    double all = findings_mean(results, worst, "comm_s");
    page_put(&finding->text,
             "Exposed communication takes at most %.1f %% of the training time (%s: %s of %s, "
             "with %s of compute)",
             100 * most, findings_label(results, worst),
             findings_value("training_s", findings_mean(results, worst, "comm_exposed_s")).text,
             findings_value("training_s", findings_mean(results, worst, "training_s")).text,
             findings_value("training_s", findings_mean(results, worst, "compute_s")).text);
    if (all > 0 && hidden > 0) {
        page_put(&finding->text,
                 "; another %s, %.0f %% of all communication, was overlapped with computation",
                 findings_value("training_s", hidden).text, 100 * hidden / all);
    }
    page_put(&finding->text, ".");
}

static bool uses(const Results *results, int configuration, const char *strategy)
{
    const Result *result = results_first(results, configuration);
    const char *value = result != NULL ? result_setting(result, "ddp") : NULL;
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
        Finding *finding = findings_add(findings, FINDING_RESULT);
        page_put(
            &finding->text,
            "%s: %s of exposed communication, against %s with ddp flat; %s. Throughput "
            "changes by %+.1f %%.",
            findings_label(results, i), findings_value("training_s", with).text,
            findings_value("training_s", without).text, findings_judgement(&welch).text,
            100 *
                (findings_mean(results, i, "tok_s") / findings_mean(results, other, "tok_s") - 1));
        findings_list(&finding->evidence, "tok_s", results, (int[]){other, i}, 2);
    }
}

/* --- scaling --- */

void rule_amdahl(const Results *results, Findings *findings)
{
    SeriesList list;
    series_make(results, &list);
    for (int i = 0; i < list.count; i++) {
        const Series *series = &list.items[i];
        const Result *first = results_first(results, series->configurations[0]);
        double serial = series->axis == results_axis_of(results, "ranks")
                            ? findings_number(results, first, -1, "amdahl")
                            : NAN;
        if (isnan(serial)) {
            continue;
        }
        Finding *finding = findings_add(findings, FINDING_RESULT);
        if (serial > 0) {
            page_put(&finding->text,
                     "Amdahl's law fits the speed-up over ranks%s with a serial fraction of "
                     "%.1f %%: no number of ranks would be more than %.1f times as fast.",
                     series->where, 100 * serial, 1 / serial);
        } else {
            page_put(&finding->text, "The speed-up over ranks%s shows no serial fraction.",
                     series->where);
        }
        findings_list(&finding->evidence, "speedup", results, series->configurations,
                      series->count);
    }
    series_free(&list);
}

void rule_superlinear(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations; i++) {
        const Result *first = results_first(results, i);
        if (first == NULL || !(findings_mean(results, i, "efficiency") > 1 + ROUNDING)) {
            continue;
        }
        Finding *finding = findings_add(findings, FINDING_CAUTION);
        page_put(&finding->text,
                 "%s: %.2f times as fast with %.15g times the ranks is more than possible by "
                 "dividing work; look for a slow or noisy baseline, or data that fits a cache "
                 "only when divided.",
                 first->label, findings_mean(results, i, "speedup"), scaling_ranks(results, first));
        findings_list(&finding->evidence, "speedup", results, &i, 1);
    }
}

void rule_mean_speedup(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations; i++) {
        double real = findings_mean(results, i, "speedup");
        double claimed = findings_mean(results, i, "speedup_mean");
        if (claimed > real * (1 + MEAN_FLATTERS) && has_several_ranks(results, i)) {
            page_put(&findings_add(findings, FINDING_CAUTION)->text,
                     "%s: the mean over ranks would claim a speed-up of %.2f; the slowest rank, "
                     "for which the others wait, makes it %.2f.",
                     findings_label(results, i), claimed, real);
        }
    }
}

void rule_oversubscribed(const Results *results, Findings *findings)
{
    char *shared = results_oversubscribed(results);
    if (shared != NULL) {
        page_put(&findings_add(findings, FINDING_CAUTION)->text,
                 "%s: ranks shared a device, so this is no measurement of scaling and has no "
                 "efficiency.",
                 shared);
    }
    free(shared);
}

/* --- stragglers --- */

/* Busy time of a rank over the median of all; NAN when one is not known. */
static double lag_of(const Results *results, const Result *result, int rank)
{
    if (result->rank_count < 2 || !result_has_all_ranks(result)) {
        return NAN;
    }
    double *busy = mem_alloc((size_t)result->rank_count * sizeof *busy), own = NAN;
    bool known = true;
    for (int i = 0; i < result->rank_count; i++) {
        busy[i] = findings_number(results, result, i, "busy_s");
        known = known && busy[i] >= 0;
        own = i == rank ? busy[i] : own;
    }
    double median = known ? clock_quantile(busy, (size_t)result->rank_count, 0.5) : NAN;
    free(busy);
    return median > 0 ? own / median : NAN;
}

/* Whether a rank held up the others in sound runs of the configuration. */
static void look_at(const Results *results, int configuration, int rank, Findings *findings)
{
    int seen = 0, runs = 0;
    double most = 0;
    const Result *worst = NULL;
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        bool counts = result_is_sound(run) && rank < run->rank_count;
        double lag = counts ? lag_of(results, run, rank) : NAN;
        runs += !isnan(lag);
        seen += lag > CHECK_STRAGGLER;
        if (lag > most) {
            most = lag;
            worst = run;
        }
    }
    if (seen == 0) {
        return;
    }
    Metric host = metric_named("host"), device = metric_named("device");
    char *host_text = metric_text(&host, results, worst, rank);
    char *device_text = metric_text(&device, results, worst, rank);
    Finding *finding = findings_add(findings, FINDING_CAUTION);
    page_put(
        &finding->text,
        "%s: rank %d on %.79s %.79s is a straggler, busy %.2f times as long as the median rank (in "
        "%d of %d runs); the others wait for it.",
        findings_label(results, configuration), rank, host_text, device_text, most, seen, runs);
    for (int i = 0; i < worst->rank_count && i < 16; i++) {
        page_put(&finding->evidence, "%srank %d %s", i > 0 ? ", " : "busy: ", i,
                 findings_value("busy_s", findings_number(results, worst, i, "busy_s")).text);
    }
    free(host_text);
    free(device_text);
}

void rule_stragglers(const Results *results, Findings *findings)
{
    for (int i = 0; i < results->configurations; i++) {
        int ranks = 0;
        for (const Result *run = NULL; (run = results_next(results, i, run)) != NULL;) {
            bool counts = run->rank_count > ranks && result_has_all_ranks(run);
            ranks = counts ? run->rank_count : ranks;
        }
        for (int rank = 0; ranks > 1 && rank < ranks; rank++) {
            look_at(results, i, rank, findings);
        }
    }
}
