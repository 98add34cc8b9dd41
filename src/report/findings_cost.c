/* What was fastest, what each choice and each doubling gains, how speed depends on the length, and
 * what does not fit. */
#include "report/findings.h"

#include "base/mem.h"
#include "config/config.h"
#include "record/names.h"
#include "report/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORTHWHILE 0.10 /* gain per doubling */
#define SMALLER 0.9     /* of the memory: worth a word */
#define LEVEL 1.01      /* single runs that differ by less are not told apart */

/* Whether updates of both are the same work, differing in numbers alone that enter it. */
static bool same_updates(const Results *results, int a, int b)
{
    static const char *const harmless[] = {
        "lr",    "min-lr",          "warmup",   "schedule", "wsd-decay", "weight-decay", "momentum",
        "beta1", "beta2",           "eps",      "clip",     "steps",     "tokens",       "epochs",
        "seed",  "parametrization", "mup-base", "ramp-lr",  NULL};
    const Result *first = results_first(results, a), *second = results_first(results, b);
    for (int i = 0; i < results->varying_count; i++) {
        const char *option = results->varying[i].option;
        if (!metric_is_one_of(option, harmless) && !result_same_setting(first, second, option)) {
            return false;
        }
    }
    return true;
}

/* The configuration of the highest mean besides `except` and its like; -1: none came to its end. */
static int fastest_but(const Results *results, int except)
{
    int best = -1;
    double most = 0;
    for (int i = 0; i < results->configurations; i++) {
        bool other = except < 0 || (results_first(results, i) != NULL && i != except &&
                                    !same_updates(results, except, i));
        double mean = other ? findings_mean(results, i, "tok_s") : NAN;
        if (mean > most) {
            most = mean;
            best = i;
        }
    }
    return best;
}

/* Tokens of larger models and longer sequences are more work: speeds do not compare. */
static bool same_work(const Results *results)
{
    static const char *const names[] = {"parameters", "seq"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        Metric metric = metric_named(names[k]);
        double first = NAN;
        for (int i = 0; i < results->count; i++) {
            double value = metric_value(&metric, results, &results->runs[i], -1);
            first = isnan(first) ? value : first;
            if (!isnan(value) && value != first) {
                return false;
            }
        }
    }
    return true;
}

void rule_fastest(const Results *results, Findings *findings)
{
    int best = same_work(results) ? fastest_but(results, -1) : -1;
    int next = best >= 0 ? fastest_but(results, best) : -1;
    if (next < 0) {
        return;
    }
    double most = findings_mean(results, best, "tok_s");
    double second = findings_mean(results, next, "tok_s");
    Welch welch = findings_welch("tok_s", results, next, best);
    Finding *finding =
        findings_add(findings, FINDING_RESULT, findings_rank(RANK_SPEED, most / second, &welch));
    bool noise = welch.p >= WELCH_SIGNIFICANT, level = isnan(welch.p) && most < LEVEL * second;
    if (noise || level) {
        page_put(&finding->text, "%s and %s are equally fast within %s: %s.",
                 findings_name(results, best, -1).text, findings_name(results, next, -1).text,
                 noise ? "noise" : "1 %", findings_value("tok_s", most).text);
    } else {
        page_put(&finding->text, "Use %s for speed: %s, %.1f %% ahead of %s.",
                 findings_name(results, best, -1).text, findings_value("tok_s", most).text,
                 100 * (most / second - 1), findings_name(results, next, -1).text);
    }
    page_put(&finding->evidence, "%s", findings_judgement(&welch).text);
    findings_list(&finding->evidence, "tok_s", results, NULL, results->configurations);
}

/* --- choices between words, such as kernels --- */

/* An axis of words, in which the first option names the choice. */
static const char *choice_of(const Results *results, int axis)
{
    static const char *const no_choice[] = {"model",    "data",    "tokenizer",
                                            "init",     "ddp",     "parametrization",
                                            "schedule", "ramp-lr", NULL};
    const char *option = NULL;
    for (int i = 0; i < results->varying_count; i++) {
        const Varying *varying = &results->varying[i];
        if (varying->axis != axis) {
            continue;
        }
        if (option != NULL && !varying->implied) {
            return NULL;
        }
        option = option != NULL ? option : varying->option;
    }
    for (int i = 0; i < results->count && option != NULL; i++) {
        if (result_setting(&results->runs[i], option) == NULL ||
            !isnan(result_setting_number(&results->runs[i], option))) {
            return NULL;
        }
    }
    return option == NULL || metric_is_one_of(option, no_choice) ? NULL : option;
}

/* The configuration that differs from one in the axis alone and has this value; -1: none is done,
 * or its ranks shared a device. */
static int with_value(const Results *results, int own, int axis, const char *option,
                      const char *value)
{
    const Result *first = results_first(results, own);
    for (int i = 0; i < results->configurations; i++) {
        const Result *other = results_first(results, i);
        const char *setting = other != NULL ? result_setting(other, option) : NULL;
        if (setting != NULL && strcmp(setting, value) == 0 &&
            results_equal_but(results, first, other, axis)) {
            return result_is_oversubscribed(other) || isnan(findings_mean(results, i, "tok_s")) ? -1
                                                                                                : i;
        }
    }
    return -1;
}

/* How many times as fast a value is as another, wherever both were run: the least and the most. */
typedef struct {
    double least, most, sum_log;
    int count, at; /* at: a configuration of the first, of the largest ratio */
} Ratio;

static Ratio ratio_of(const Results *results, int axis, const char *option, const char *value,
                      const char *other)
{
    Ratio ratio = {.least = INFINITY, .most = 0, .at = -1};
    for (int i = 0; i < results->configurations; i++) {
        const Result *first = results_first(results, i);
        if (first == NULL || strcmp(result_setting(first, option), value) != 0 ||
            with_value(results, i, axis, option, value) != i) {
            continue;
        }
        int beside = with_value(results, i, axis, option, other);
        if (beside >= 0) {
            double own =
                findings_mean(results, i, "tok_s") / findings_mean(results, beside, "tok_s");
            ratio.at = own > ratio.most ? i : ratio.at;
            ratio.least = fmin(ratio.least, own);
            ratio.most = fmax(ratio.most, own);
            ratio.sum_log += log(own);
            ratio.count++;
        }
    }
    return ratio;
}

#define MOST_VALUES 16

static void choose_along(const Results *results, int axis, const char *option, Findings *findings)
{
    const char *values[MOST_VALUES];
    int count = 0, best = 0, worst = 0;
    for (int i = 0; i < results->count && count < MOST_VALUES; i++) {
        const char *value = result_setting(&results->runs[i], option);
        int k = 0;
        while (k < count && strcmp(values[k], value) != 0) {
            k++;
        }
        if (k == count) {
            values[count++] = value;
        }
    }
    for (int i = 1; i < count; i++) { /* by the mean of the logarithms */
        Ratio to_best = ratio_of(results, axis, option, values[i], values[best]);
        Ratio to_worst = ratio_of(results, axis, option, values[i], values[worst]);
        best = to_best.sum_log > 0 ? i : best;
        worst = to_worst.sum_log < 0 ? i : worst;
    }
    Ratio ratio = ratio_of(results, axis, option, values[best], values[worst]);
    if (best == worst || !(ratio.most > 1 + WORTHWHILE / 2)) {
        return;
    }
    Finding *finding =
        findings_add(findings, FINDING_RESULT, findings_rank(RANK_SPEED, ratio.most, NULL));
    unsigned flags = config_find(option)->flags;
    bool other = (flags & OPTION_RESULT) != 0 && (flags & OPTION_FIT_ALSO) == 0; /* training */
    bool mixed = ratio.least < 1;
    page_put(&finding->text, "%s%s %s%s", other || mixed ? "" : "Use ", option, values[best],
             other || mixed ? " is " : ": ");
    if (ratio.count > 1 && ratio.most - ratio.least >= 0.01) {
        page_put(&finding->text, "%.2f to %.2f", ratio.least, ratio.most);
    } else {
        page_put(&finding->text, "%.2f", ratio.most);
    }
    page_put(&finding->text, " times as fast as %s%s.", values[worst],
             mixed ? ", by the other settings" : "");
    for (int i = 0; i < count; i++) {
        Ratio own = ratio_of(results, axis, option, values[best], values[i]);
        if (i != best && own.count > 0) {
            page_put(&finding->evidence, "%sagainst %s %.2f times",
                     finding->evidence.size > 0 ? "; " : "", values[i], own.least);
            if (own.count > 1) {
                page_put(&finding->evidence, " to %.2f times, in %d pairs", own.most, own.count);
            }
        }
    }
}

void rule_choice(const Results *results, Findings *findings)
{
    int axis = -1;
    for (int i = 0; i < results->varying_count; i++) {
        if (results->varying[i].axis != axis) {
            axis = results->varying[i].axis;
            const char *option = choice_of(results, axis);
            if (option != NULL) {
                choose_along(results, axis, option, findings);
            }
        }
    }
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
    page_put(page, "; %s takes the largest share of the training time there, %.0f %%", dominant,
             100 * most);
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

/* The fastest of the series, and its configuration. */
static double top_of(const Results *results, const Series *series, int *at)
{
    double top = 0;
    for (int i = 0; i < series->count; i++) {
        double mean = findings_mean(results, series->configurations[i], "tok_s");
        if (mean > top && measures_scaling(results, series, series->configurations[i])) {
            top = mean;
            *at = series->configurations[i];
        }
    }
    return top;
}

/* From value number `last` on, up to configuration `after`, a doubling gains too little. */
static void tell_of_returns(const Results *results, const Series *series, int last, int after,
                            double gain, Findings *findings)
{
    int before = series->configurations[last], best = before;
    double top = top_of(results, series, &best);
    double share = findings_mean(results, before, "tok_s") / top;
    double bytes = findings_mean(results, before, "peak_bytes");
    double most = findings_mean(results, best, "peak_bytes");
    Welch welch = findings_welch("tok_s", results, before, after);
    Finding *finding =
        findings_add(findings, FINDING_RESULT, findings_rank(RANK_SPEED - 5, 1 + gain, NULL));
    page_put(&finding->text, "Beyond %s %.15g%s a doubling gains under %.0f %%", series->option,
             series->values[last], series->where, 100 * WORTHWHILE);
    if (best != before) {
        page_put(&finding->text, ": it has %.0f %% of the top speed", 100 * share);
        if (bytes < SMALLER * most) {
            page_put(&finding->text, " with %.0f %% of the memory", 100 * bytes / most);
            findings_list(&finding->evidence, "peak_bytes", results, (int[]){before, best}, 2);
            page_put(&finding->evidence, "; ");
        }
    }
    page_put(&finding->text, ".");
    page_put(&finding->evidence, "%+.1f %% per doubling up to %s, %s", 100 * gain,
             findings_name(results, after, -1).text, findings_judgement(&welch).text);
    put_parts(&finding->evidence, results, before, after);
    findings_list(&finding->evidence, "tok_s", results, series->configurations, series->count);
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
            tell_of_returns(results, series, before, configuration, gain, findings);
            return;
        }
        before = i;
        speed_before = mean;
    }
}

void rule_returns(const Results *results, Findings *findings)
{
    static const char *const resources[] = {
        "batch", "accum", "global-batch", "ranks", "threads", "bucket-mb", NULL};
    SeriesList list;
    series_make(results, &list);
    bool asked = results_axis_of(results, "branch-at") < 0; /* branches are about losses */
    for (int i = 0; i < list.count; i++) {
        if (asked && metric_is_one_of(list.items[i].option, resources)) {
            returns_along(results, &list.items[i], findings);
        }
    }
    series_free(&list);
}

/* --- lengths of sequences --- */

static int known_in(const Results *results, const Series *series)
{
    int known = 0;
    for (int i = 0; i < series->count; i++) {
        known += !isnan(findings_mean(results, series->configurations[i], "tok_s"));
    }
    return known;
}

/* Of the series with the most lengths: what the longest costs. */
void rule_lengths(const Results *results, Findings *findings)
{
    SeriesList list;
    const Series *most = NULL;
    series_make(results, &list);
    for (int i = 0; i < list.count; i++) {
        const Series *series = &list.items[i];
        bool longer = most == NULL || known_in(results, series) > known_in(results, most);
        most = strcmp(series->option, "seq") == 0 && longer ? series : most;
    }
    if (most != NULL && known_in(results, most) > 1) {
        int first = 0, last = most->count - 1;
        while (isnan(findings_mean(results, most->configurations[first], "tok_s"))) {
            first++;
        }
        while (isnan(findings_mean(results, most->configurations[last], "tok_s"))) {
            last--;
        }
        double from = findings_mean(results, most->configurations[first], "tok_s");
        double to = findings_mean(results, most->configurations[last], "tok_s");
        Finding *finding =
            findings_add(findings, FINDING_RESULT, findings_rank(RANK_SPEED, to / from, NULL));
        page_put(&finding->text, "seq %.15g ", most->values[last]);
        if (to > from) {
            page_put(&finding->text, "is %.2f times as fast as", to / from);
        } else {
            page_put(&finding->text, "runs at %.0f %% of the speed of", 100 * to / from);
        }
        page_put(&finding->text, " seq %.15g, %s against %s", most->values[first],
                 unit_format(UNIT_RATE, to).text, findings_value("tok_s", from).text);
        if (most->where[0] != '\0') {
            page_put(&finding->text, " (%s)",
                     findings_name(results, most->configurations[last], most->axis).text);
        }
        page_put(&finding->text, ".");
        findings_list(&finding->evidence, "tok_s", results, most->configurations, most->count);
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
        page_put(page, ": it needs %s", findings_value("planned_bytes", wanted).text);
        if (!isnan(room)) {
            page_put(page, " of the %s %s", findings_value("planned_bytes", room).text, whose);
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
    Finding *finding = findings_add(findings, FINDING_RESULT, RANK_LIMIT);
    page_put(&finding->text, "%s %.15g%s does not fit", series->option, series->values[limit],
             series->where);
    put_bytes(&finding->text, results, refusal);
    if (fits >= 0) {
        page_put(&finding->text, "; use %.15g", series->values[fits]);
    }
    page_put(&finding->text, ".");
    page_put(&finding->evidence, "%s%s%s",
             refusal->state == RUN_REFUSED ? "refused by its plan" : "ran out of memory",
             refusal->reason[0] != '\0' ? ": " : "", refusal->reason);
    if (fits >= 0) {
        Metric planned = metric_named("planned_bytes");
        double bytes = metric_estimate(&planned, results, series->configurations[fits]).mean;
        page_put(&finding->evidence, "; %.15g is the largest below it that fits%s%s",
                 series->values[fits], isnan(bytes) ? "" : ", planned ",
                 isnan(bytes) ? "" : findings_value("planned_bytes", bytes).text);
    }
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
        if (refusal != NULL && !told[i] && results->json != NULL) {
            Finding *finding = findings_add(findings, FINDING_RESULT, RANK_LIMIT - 1);
            page_put(&finding->text, "%s does not fit", findings_name(results, i, -1).text);
            put_bytes(&finding->text, results, refusal);
            page_put(&finding->text, ".");
            page_put(&finding->evidence, "%s", refusal->reason);
        }
    }
    series_free(&list);
    free(told);
}
