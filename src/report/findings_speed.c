/* What was fastest, and where more of something stops helping. */
#include "report/findings_rules.h"

#include "base/mem.h"
#include "report/metric_scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORTHWHILE 0.10 /* gain per doubling */

/* The configuration of the highest mean besides `except`; -1: none. */
static int fastest_but(const Metric *speed, const Results *results, int except)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < results->configurations; i++) {
        double mean = i != except ? metric_sound_estimate(speed, results, i).mean : NAN;
        if (mean > most) {
            most = mean;
            best = i;
        }
    }
    return best;
}

void rule_fastest(const Results *results, Findings *findings)
{
    Metric speed = findings_metric("tok_s");
    int best = fastest_but(&speed, results, -1);
    int next = best >= 0 ? fastest_but(&speed, results, best) : -1;
    if (next < 0) {
        return;
    }
    double most = metric_sound_estimate(&speed, results, best).mean;
    double second = metric_sound_estimate(&speed, results, next).mean;
    Welch welch = findings_welch(&speed, results, next, best);
    char value[FINDINGS_VALUE_SIZE], judgement[FINDINGS_JUDGEMENT_SIZE];
    char *winner = findings_label(results, best), *other = findings_label(results, next);
    Page evidence = {0};
    findings_list(&evidence, &speed, results, NULL, results->configurations);
    findings_add(findings, FINDING_RESULT,
                 mem_format("Fastest: %s with %s, %.1f %% ahead of %s; %s.", winner,
                            findings_value(&speed, most, value), 100 * (most / second - 1), other,
                            findings_judgement(&welch, judgement)),
                 evidence.text);
    free(winner);
    free(other);
}

/* --- diminishing returns --- */

static bool is_a_resource(const char *option)
{
    static const char *const names[] = {"batch",     "accum", "global-batch", "ranks", "threads",
                                        "bucket-mb", NULL};
    for (const char *const *name = names; *name != NULL; name++) {
        if (strcmp(*name, option) == 0) {
            return true;
        }
    }
    return false;
}

static const char *const step_parts[] = {"data_load",    "data_move", "forward", "loss", "backward",
                                         "comm_exposed", "optimizer", "launch",  "wait"};
#define STEP_PARTS (sizeof step_parts / sizeof step_parts[0])

/* The part's share of the training time in a configuration; NAN when not known. */
static double share_of(const Results *results, int configuration, const char *part)
{
    char name[48];
    snprintf(name, sizeof name, "%s_s", part);
    Metric own = findings_metric(name), training = findings_metric("training_s");
    double all = metric_sound_estimate(&training, results, configuration).mean;
    return all > 0 ? metric_sound_estimate(&own, results, configuration).mean / all : NAN;
}

/* Which part of a step dominates there, and which one took a larger share than before. */
static void put_parts(Page *page, const Results *results, int before, int after)
{
    double most = 0, growth = 0, from = 0, to = 0;
    const char *dominant = NULL, *growing = NULL;
    for (size_t i = 0; i < STEP_PARTS; i++) {
        double share = share_of(results, after, step_parts[i]);
        double earlier = share_of(results, before, step_parts[i]);
        if (share > most) {
            most = share;
            dominant = step_parts[i];
        }
        if (share - earlier > growth) {
            growth = share - earlier;
            from = earlier;
            to = share;
            growing = step_parts[i];
        }
    }
    if (dominant == NULL) {
        return;
    }
    page_put(page, "; there %s takes the largest part of the training time, %.0f %%", dominant,
             100 * most);
    if (growth >= 0.01 && growing == dominant) {
        page_put(page, " after %.0f %% before", 100 * from);
    } else if (growth >= 0.01) {
        page_put(page, ", and %s grew most, from %.0f %% to %.0f %%", growing, 100 * from,
                 100 * to);
    }
}

static void put_judgement(Page *page, const Results *results, const Metric *speed, int before,
                          int after)
{
    Welch welch = findings_welch(speed, results, before, after);
    char judgement[FINDINGS_JUDGEMENT_SIZE];
    if (!isnan(welch.p)) {
        page_put(page, ", %s", findings_judgement(&welch, judgement));
    }
}

static bool measures_scaling(const Results *results, const Series *series, int configuration)
{
    return strcmp(series->option, "ranks") != 0 ||
           !result_is_oversubscribed(results_first(results, configuration));
}

static void look_along(const Results *results, const Series *series, const Metric *speed,
                       Findings *findings)
{
    int before = -1;
    double speed_before = NAN;
    for (int i = 0; i < series->count; i++) {
        int configuration = series->configurations[i];
        double mean = metric_sound_estimate(speed, results, configuration).mean;
        if (isnan(mean) || !measures_scaling(results, series, configuration)) {
            continue;
        }
        double doublings = before >= 0 ? log2(series->values[i] / series->values[before]) : NAN;
        double gain = before >= 0 ? pow(mean / speed_before, 1 / doublings) - 1 : NAN;
        if (gain < WORTHWHILE) {
            Page text = {0}, evidence = {0};
            page_put(&text,
                     "Along %s%s returns diminish from %.15g on: up to %.15g throughput changes by "
                     "%+.1f %% per doubling, less than %.0f %%",
                     series->option, series->where, series->values[before], series->values[i],
                     100 * gain, 100 * WORTHWHILE);
            put_judgement(&text, results, speed, series->configurations[before], configuration);
            put_parts(&text, results, series->configurations[before], configuration);
            page_put(&text, ".");
            findings_list(&evidence, speed, results, series->configurations, series->count);
            findings_add(findings, FINDING_RESULT, text.text, evidence.text);
            return;
        }
        before = i;
        speed_before = mean;
    }
}

void rule_diminishing_returns(const Results *results, Findings *findings)
{
    Metric speed = findings_metric("tok_s");
    SeriesList list;
    series_make(results, &list);
    for (int i = 0; i < list.count; i++) {
        if (is_a_resource(list.items[i].option)) {
            look_along(results, &list.items[i], &speed, findings);
        }
    }
    series_free(&list);
}
