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
#define EXPOSED 0.05       /* communication's share of training that is worth an advice */
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

/* Of ranks that share a device, times of communication measure nothing. */
static bool measures(const Results *results, int configuration)
{
    return !isnan(exposed_share(results, configuration)) &&
           !result_is_oversubscribed(results_first(results, configuration));
}

void rule_communication(const Results *results, Findings *findings)
{
    int worst = -1;
    double most = -1;
    Page evidence = {0};
    for (int i = 0; i < results->configurations; i++) {
        if (measures(results, i)) {
            double share = exposed_share(results, i);
            page_put(&evidence, "%s%s: %.1f %% exposed, %s of %s", evidence.size > 0 ? "; " : "",
                     findings_label(results, i), 100 * share,
                     findings_value("training_s", findings_mean(results, i, "comm_exposed_s")).text,
                     findings_value("training_s", findings_mean(results, i, "training_s")).text);
            worst = share > most ? i : worst;
            most = fmax(most, share);
        }
    }
    if (worst >= 0) {
        double hidden = findings_mean(results, worst, "comm_hidden_s");
        double all = findings_mean(results, worst, "comm_s");
        Finding *finding =
            findings_add(findings, FINDING_RESULT, findings_rank(RANK_SCALING, 1 - most, NULL));
        page_put(&finding->text,
                 "Communication that nothing hides takes up to %.1f %% of training (%s)%s",
                 100 * most, findings_name(results, worst, -1).text,
                 most > EXPOSED ? ": larger batches or ddp overlap would hide more." : ".");
        if (all > 0 && hidden > 0) {
            page_put(&finding->evidence, "overlapped there: %s, %.0f %% of all communication; ",
                     findings_value("training_s", hidden).text, 100 * hidden / all);
        }
        page_put(&finding->evidence, "%s", evidence.text);
    }
    page_free(&evidence);
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
    int axis = results_axis_of(results, "ddp"), most = -1, beside = -1;
    double ratio = 1;
    Page evidence = {0};
    for (int i = 0; i < results->configurations && axis >= 0; i++) {
        int other = uses(results, i, "overlap") && measures(results, i)
                        ? counterpart(results, i, axis)
                        : -1;
        if (other < 0) {
            continue;
        }
        double own = findings_mean(results, i, "tok_s") / findings_mean(results, other, "tok_s");
        Welch welch = findings_welch("comm_exposed_s", results, other, i);
        page_put(&evidence, "%s%s: %s of exposed communication against %s with flat, %s",
                 evidence.size > 0 ? "; " : "", findings_label(results, i),
                 findings_value("training_s", findings_mean(results, i, "comm_exposed_s")).text,
                 findings_value("training_s", findings_mean(results, other, "comm_exposed_s")).text,
                 findings_judgement(&welch).text);
        findings_list(&evidence, "tok_s", results, (int[]){other, i}, 2);
        if (most < 0 || fabs(log(own)) > fabs(log(ratio))) {
            most = i;
            beside = other;
            ratio = own;
        }
    }
    if (most >= 0) {
        Welch welch = findings_welch("tok_s", results, beside, most);
        Finding *finding =
            findings_add(findings, FINDING_RESULT, findings_rank(RANK_SCALING, ratio, &welch));
        page_put(&finding->text, "ddp overlap changes throughput by %+.1f %% against flat (%s)%s.",
                 100 * (ratio - 1), findings_name(results, most, -1).text,
                 welch.p >= WELCH_SIGNIFICANT ? ", within noise" : "");
        page_put(&finding->evidence, "%s", evidence.text);
    }
    page_free(&evidence);
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
        Finding *finding =
            findings_add(findings, FINDING_RESULT, findings_rank(RANK_SCALING, 1 - serial, NULL));
        if (serial > 0) {
            page_put(
                &finding->text,
                "%.1f %% of the work is serial%s by Amdahl's law: more ranks end at %.1f times "
                "the speed.",
                100 * serial, series->where, 1 / serial);
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
    Page evidence = {0};
    const char *first = NULL;
    for (int i = 0; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        if (result == NULL || !(findings_mean(results, i, "efficiency") > 1 + ROUNDING)) {
            continue;
        }
        first = first != NULL ? first : result->label;
        page_put(&evidence, "%s%s: %.2f times as fast with %.15g times the ranks",
                 evidence.size > 0 ? "; " : "", result->label, findings_mean(results, i, "speedup"),
                 scaling_ranks(results, result));
    }
    if (first != NULL) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 54);
        page_put(&finding->text, "%s scales better than linear: look for a slow baseline", first);
        page_put(&finding->evidence,
                 "%s; dividing work cannot do that, data that fits a cache only when divided can",
                 evidence.text);
    }
    page_free(&evidence);
}

void rule_mean_speedup(const Results *results, Findings *findings)
{
    Page evidence = {0};
    for (int i = 0; i < results->configurations; i++) {
        double real = findings_mean(results, i, "speedup");
        double claimed = findings_mean(results, i, "speedup_mean");
        if (claimed > real * (1 + MEAN_FLATTERS) && has_several_ranks(results, i)) {
            page_put(&evidence,
                     "%s%s: the mean over ranks would claim a speed-up of %.2f, the "
                     "slowest makes it %.2f",
                     evidence.size > 0 ? "; " : "", findings_label(results, i), claimed, real);
        }
    }
    if (evidence.size > 0) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 33);
        page_put(&finding->text, "speed-ups are those of the slowest rank, not of the mean");
        page_put(&finding->evidence, "%s", evidence.text);
    }
    page_free(&evidence);
}

void rule_oversubscribed(const Results *results, Findings *findings)
{
    char *shared = results_oversubscribed(results);
    if (shared != NULL) {
        Finding *finding = findings_add(findings, FINDING_CAUTION, 60);
        page_put(&finding->text, "oversubscribed: no measurement of scaling");
        page_put(&finding->evidence, "%s: ranks shared a device", shared);
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
        bool counts = run->sound && rank < run->rank_count;
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
    Finding *finding = findings_add(findings, FINDING_CAUTION, 55);
    page_put(&finding->text,
             "rank %d on %.79s %.79s holds up the others (%s), busy %.2f times as "
             "long",
             rank, host_text, device_text, findings_name(results, configuration, -1).text, most);
    page_put(&finding->evidence, "than the median rank, in %d of %d runs; busy: ", seen, runs);
    for (int i = 0; i < worst->rank_count && i < 16; i++) {
        page_put(&finding->evidence, "%srank %d %s", i > 0 ? ", " : "", i,
                 findings_value("busy_s", findings_number(results, worst, i, "busy_s")).text);
    }
    free(host_text);
    free(device_text);
}

/* Each is one of its kind; the first few are named. */
#define NAMED 2

void rule_stragglers(const Results *results, Findings *findings)
{
    int before = findings->count;
    for (int i = 0; i < results->configurations; i++) {
        int ranks = 0;
        for (const Result *run = NULL; (run = results_next(results, i, run)) != NULL;) {
            bool counts = run->rank_count > ranks && result_has_all_ranks(run);
            ranks = counts ? run->rank_count : ranks;
        }
        for (int rank = 0; ranks > 1 && rank < ranks && findings->count < before + NAMED; rank++) {
            look_at(results, i, rank, findings);
        }
    }
}
