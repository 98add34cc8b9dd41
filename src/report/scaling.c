#include "report/scaling.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* --- who is compared with whom --- */

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool same_setting(const Result *a, const Result *b, const char *option)
{
    char a_text[RESULT_SETTING_SIZE], b_text[RESULT_SETTING_SIZE];
    return same_text(result_setting(a, option, a_text), result_setting(b, option, b_text));
}

static bool same_on_axis(const Results *results, const Result *a, const Result *b, int axis)
{
    for (int i = 0; i < results->axes[axis].count; i++) {
        if (!same_setting(a, b, results->axes[axis].options[i])) {
            return false;
        }
    }
    return true;
}

bool results_equal_but(const Results *results, const Result *a, const Result *b, int axis)
{
    for (int i = 0; i < results->axis_count; i++) {
        if (i != axis && !same_on_axis(results, a, b, i)) {
            return false;
        }
    }
    return strcmp(a->peer, b->peer) == 0;
}

static bool is_baseline_of(const Results *results, const cJSON *baseline, const Result *candidate,
                           const Result *result)
{
    bool named[RESULTS_MAX_AXES] = {false};
    const cJSON *setting;
    if (strcmp(candidate->peer, result->peer) != 0) {
        return false;
    }
    cJSON_ArrayForEach(setting, baseline)
    {
        int axis = setting->string != NULL ? results_axis_of(results, setting->string) : -1;
        if (setting->string == NULL || !result_has_value(candidate, setting->string, setting)) {
            return false;
        }
        if (axis >= 0) {
            named[axis] = true;
        }
    }
    if (baseline == NULL) {
        int axis = results_axis_of(results, "ranks");
        if (axis < 0 || result_setting_number(candidate, "ranks") != 1) {
            return false;
        }
        named[axis] = true;
    }
    for (int axis = 0; axis < results->axis_count; axis++) {
        if (!named[axis] && !same_on_axis(results, candidate, result, axis)) {
            return false;
        }
    }
    return true;
}

int scaling_baseline(const Results *results, const Result *result)
{
    const cJSON *baseline = json_get(results->json, "baseline");
    baseline = cJSON_IsObject(baseline) && baseline->child != NULL ? baseline : NULL;
    for (int i = 0; i < results->count; i++) {
        if (is_baseline_of(results, baseline, &results->runs[i], result)) {
            return results->runs[i].configuration;
        }
    }
    return -1;
}

double scaling_ranks(const Results *results, const Result *result)
{
    int configuration = scaling_baseline(results, result);
    const Result *base = configuration >= 0 ? results_first(results, configuration) : NULL;
    return base != NULL
               ? result_setting_number(result, "ranks") / result_setting_number(base, "ranks")
               : NAN;
}

bool result_is_oversubscribed(const Result *result)
{
    char text[RESULT_SETTING_SIZE];
    if (result_setting_number(result, "ranks") == 1) {
        return false;
    }
    const char *value = result_setting(result, "oversubscribe", text);
    if (value != NULL && (strcmp(value, "on") == 0 || strcmp(value, "true") == 0 ||
                          strcmp(value, "yes") == 0 || strcmp(value, "1") == 0)) {
        return true;
    }
    const cJSON *summary = json_get(result->run, "summary"), *check;
    cJSON_ArrayForEach(check, json_get(summary, "checks"))
    {
        const char *name = json_text(check, "name"), *verdict = json_text(check, "verdict");
        if (same_text(name, "shared_device") && !same_text(verdict, "pass")) {
            return true;
        }
    }
    return false;
}

char *results_oversubscribed(const Results *results)
{
    int shared = 0;
    char first[300] = "";
    for (int i = 0; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        if (result != NULL && result_is_oversubscribed(result) && shared++ == 0) {
            result_label(results, result, first, sizeof first);
        }
    }
    return shared == 0   ? NULL
           : shared == 1 ? mem_strdup(first)
                         : mem_format("%d configurations, first %s", shared, first);
}

/* --- speed-up --- */

typedef enum { SLOWEST_RANK, MEAN_RANK } RankChoice;

static double seconds_per_token(const Result *result, RankChoice choice)
{
    double longest = 0, sum = 0;
    for (int rank = 0; rank < result->rank_count; rank++) {
        double seconds = json_number(result->ranks[rank], "spans.training.total_s");
        if (isnan(seconds)) {
            return NAN;
        }
        longest = fmax(longest, seconds);
        sum += seconds;
    }
    double seconds = choice == SLOWEST_RANK ? longest : sum / result->rank_count;
    return longest > 0 ? seconds / result_timed_tokens(result) : NAN;
}

static double baseline_seconds(const Results *results, const Result *result, RankChoice choice)
{
    int configuration = scaling_baseline(results, result), count = 0;
    double sum = 0;
    for (int i = 0; i < results->count && configuration >= 0; i++) {
        const Result *run = &results->runs[i];
        double seconds = run->configuration == configuration && result_is_sound(run)
                             ? seconds_per_token(run, choice)
                             : NAN;
        if (!isnan(seconds)) {
            sum += seconds;
            count++;
        }
    }
    return count > 0 ? sum / count : NAN;
}

static double speedup(const Results *results, const Result *result, RankChoice choice)
{
    return baseline_seconds(results, result, choice) / seconds_per_token(result, choice);
}

double value_speedup(MetricQuery q)
{
    return speedup(q.results, q.result, SLOWEST_RANK);
}

double value_speedup_mean(MetricQuery q)
{
    return speedup(q.results, q.result, MEAN_RANK);
}

double value_efficiency(MetricQuery q)
{
    const Results *results = q.results;
    const Result *result = q.result;
    int configuration = scaling_baseline(results, result);
    if (results_axis_of(results, "ranks") < 0 || configuration < 0 ||
        result_is_oversubscribed(result) ||
        result_is_oversubscribed(results_first(results, configuration))) {
        return NAN;
    }
    return speedup(results, result, SLOWEST_RANK) / scaling_ranks(results, result);
}

/* --- Amdahl --- */

/* With x = 1 - 1/p and y = 1/speedup - 1/p the law reads y = f x. */
double value_amdahl(MetricQuery q)
{
    const Results *results = q.results;
    const Result *result = q.result;
    int axis = results_axis_of(results, "ranks"), counts = 0;
    double seen[64], sum_xy = 0, sum_xx = 0;
    if (axis < 0) {
        return NAN;
    }
    for (int i = 0; i < results->count; i++) {
        const Result *run = &results->runs[i];
        if (!result_is_sound(run) || result_is_oversubscribed(run) ||
            !results_equal_but(results, run, result, axis)) {
            continue;
        }
        double ranks = scaling_ranks(results, run), gain = speedup(results, run, SLOWEST_RANK);
        if (!(ranks > 0 && gain > 0)) {
            continue;
        }
        double x = 1 - 1 / ranks, y = 1 / gain - 1 / ranks;
        sum_xy += x * y;
        sum_xx += x * x;
        int known = 0;
        while (known < counts && seen[known] != ranks) {
            known++;
        }
        if (known == counts && counts < (int)(sizeof seen / sizeof seen[0])) {
            seen[counts++] = ranks;
        }
    }
    return counts >= 3 && sum_xx > 0 ? sum_xy / sum_xx : NAN;
}
