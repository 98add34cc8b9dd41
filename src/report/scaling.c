#include "report/scaling.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* --- who is compared with whom --- */

bool results_equal_but(const Results *results, const Result *a, const Result *b, int axis)
{
    for (int i = 0; i < results->varying_count; i++) {
        const Varying *varying = &results->varying[i];
        if (varying->axis != axis && !result_same_setting(a, b, varying->option)) {
            return false;
        }
    }
    return strcmp(a->peer, b->peer) == 0;
}

/* Whether a setting of the baseline belongs to the axis. */
static bool names_axis(const Results *results, int axis)
{
    const cJSON *setting;
    cJSON_ArrayForEach(setting, results->baseline)
    {
        if (results_axis_of(results, setting->string) == axis) {
            return true;
        }
    }
    return false;
}

static bool is_baseline_of(const Results *results, const Result *candidate, const Result *result)
{
    const cJSON *setting;
    cJSON_ArrayForEach(setting, results->baseline)
    {
        if (!result_has_value(candidate, setting->string, setting)) {
            return false;
        }
    }
    for (int i = 0; i < results->varying_count; i++) {
        const Varying *varying = &results->varying[i];
        if (!names_axis(results, varying->axis) &&
            !result_same_setting(candidate, result, varying->option)) {
            return false;
        }
    }
    return strcmp(candidate->peer, result->peer) == 0;
}

/* The first run of the baseline's configuration; NULL: there is none. */
static const Result *baseline_of(const Results *results, const Result *result)
{
    for (int i = 0; results->baseline != NULL && i < results->count; i++) {
        if (is_baseline_of(results, &results->runs[i], result)) {
            return results_first(results, results->runs[i].configuration);
        }
    }
    return NULL;
}

double scaling_ranks(const Results *results, const Result *result)
{
    const Result *base = baseline_of(results, result);
    return base != NULL
               ? result_setting_number(result, "ranks") / result_setting_number(base, "ranks")
               : NAN;
}

bool result_is_oversubscribed(const Result *result)
{
    if (result_setting_number(result, "ranks") == 1) {
        return false;
    }
    static const char *const yes[] = {"on", "true", "yes", "1", NULL};
    const char *value = result_setting(result, "oversubscribe");
    if (value != NULL && metric_is_one_of(value, yes)) {
        return true;
    }
    const cJSON *check;
    cJSON_ArrayForEach(check, json_find(result->run, "summary.checks"))
    {
        if (strcmp(json_text_or(check, "name", ""), "shared_device") == 0 &&
            strcmp(json_text_or(check, "verdict", ""), "pass") != 0) {
            return true;
        }
    }
    return false;
}

char *results_oversubscribed(const Results *results)
{
    int shared = 0;
    const char *first = "";
    for (int i = 0; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        if (result != NULL && result_is_oversubscribed(result) && shared++ == 0) {
            first = result->label;
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
    Mean mean = {0};
    for (const Result *run = baseline_of(results, result); run != NULL;
         run = results_next(results, run->configuration, run)) {
        mean_add(&mean, run->sound ? seconds_per_token(run, choice) : NAN);
    }
    return mean_value(mean);
}

static double speedup(const Results *results, const Result *result, RankChoice choice)
{
    return baseline_seconds(results, result, choice) / seconds_per_token(result, choice);
}

double value_speedup(MetricQuery q)
{
    return speedup(q.results, q.result, strcmp(q.of, "mean") == 0 ? MEAN_RANK : SLOWEST_RANK);
}

double value_efficiency(MetricQuery q)
{
    const Results *results = q.results;
    const Result *result = q.result;
    const Result *base = baseline_of(results, result);
    if (results_axis_of(results, "ranks") < 0 || base == NULL || result_is_oversubscribed(result) ||
        result_is_oversubscribed(base)) {
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
        if (!run->sound || result_is_oversubscribed(run) ||
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
