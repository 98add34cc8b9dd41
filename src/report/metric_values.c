/* Times of phases are exclusive ones: they are wall time that was spent in that phase and in no
 * other, so that the parts of a table add up to its total. Hidden communication passes beside
 * other work and has its own length. */
#include "report/metric_values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define UNUSED(name) (void)(name)

/* --- time --- */

bool result_has_all_ranks(const Result *result)
{
    for (int rank = 0; rank < result->rank_count; rank++) {
        if (result->ranks[rank] == NULL) {
            return false;
        }
    }
    return result->rank_count > 0;
}

static const cJSON *file_of(const Result *result, int rank)
{
    if (rank < 0) {
        return result_has_all_ranks(result) ? result->ranks[result->slowest] : NULL;
    }
    return rank < result->rank_count ? result->ranks[rank] : NULL;
}

static double number_in(const Result *result, int rank, const char *group, const char *of,
                        const char *field)
{
    char path[128];
    snprintf(path, sizeof path, "%s.%s.%s", group, of, field);
    return results_number(file_of(result, rank), path);
}

double value_span(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    return number_in(result, rank, "spans", of, "total_s");
}

double value_span_mean(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    return number_in(result, rank, "spans", of, "mean_s");
}

double value_phase(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    bool beside = strcmp(of, "comm_hidden") == 0;
    return number_in(result, rank, "timers", of, beside ? "total_s" : "exclusive_s");
}

double value_phase_mean(const Results *results, const Result *result, int rank, const char *of)
{
    double count = number_in(result, rank, "timers", of, "count");
    return count > 0 ? value_phase(results, result, rank, of) / count : NAN;
}

static double sum_of(const Result *result, int rank, const char *const *phases)
{
    double sum = 0;
    for (; *phases != NULL; phases++) {
        sum += value_phase(NULL, result, rank, *phases);
    }
    return sum;
}

double value_compute(const Results *results, const Result *result, int rank, const char *of)
{
    static const char *const phases[] = {"forward", "loss", "backward", "optimizer", NULL};
    UNUSED(results);
    UNUSED(of);
    return sum_of(result, rank, phases);
}

double value_comm(const Results *results, const Result *result, int rank, const char *of)
{
    static const char *const phases[] = {"comm_exposed", "comm_hidden", NULL};
    UNUSED(results);
    UNUSED(of);
    return sum_of(result, rank, phases);
}

/* Work in steps, without waiting for a device or for other ranks. */
double value_busy(const Results *results, const Result *result, int rank, const char *of)
{
    static const char *const phases[] = {"data_load", "data_move", "forward", "loss",
                                         "backward",  "optimizer", "launch",  NULL};
    UNUSED(results);
    UNUSED(of);
    return sum_of(result, rank, phases);
}

/* --- counts --- */

double value_summary(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    UNUSED(rank);
    return results_number(cJSON_GetObjectItemCaseSensitive(result->run, "summary"), of);
}

double value_run(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    UNUSED(rank);
    return results_number(result->run, of);
}

double value_entry(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    UNUSED(rank);
    return results_number(result->entry, of);
}

double value_repeat(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    UNUSED(rank);
    UNUSED(of);
    return result->repeat + 1;
}

double value_global_batch(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    UNUSED(rank);
    UNUSED(of);
    double given = result_setting_number(result, "global-batch");
    return given > 0
               ? given
               : result_setting_number(result, "batch") * result_setting_number(result, "accum") *
                     result_setting_number(result, "ranks");
}

double value_tokens_update(const Results *results, const Result *result, int rank, const char *of)
{
    return value_global_batch(results, result, rank, of) * result_setting_number(result, "seq");
}

double value_samples_epoch(const Results *results, const Result *result, int rank, const char *of)
{
    double epochs = number_in(result, -1, "spans", "epoch", "count");
    double sequences = value_summary(results, result, rank, "steps") *
                       value_global_batch(results, result, rank, of);
    return epochs > 0 ? sequences / epochs : NAN;
}

double value_rank(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    UNUSED(of);
    return rank >= 0 && rank < result->rank_count ? rank : NAN;
}

/* --- rates --- */

double result_timed_tokens(const Result *result)
{
    double tokens = results_number(result->run, "summary.tok_s") *
                    results_number(result->run, "summary.train_s");
    return tokens > 0 ? tokens : NAN;
}

double value_rate(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(of);
    if (rank < 0) {
        return results_number(result->run, "summary.tok_s");
    }
    double seconds = value_span(results, result, rank, "training");
    return seconds > 0 ? result_timed_tokens(result) / result->rank_count / seconds : NAN;
}

double value_rate_ranks(const Results *results, const Result *result, int rank, const char *of)
{
    if (rank >= 0) {
        return value_rate(results, result, rank, of);
    }
    double sum = 0, least = INFINITY, most = -INFINITY;
    for (int i = 0; i < result->rank_count; i++) {
        double rate = value_rate(results, result, i, of);
        if (isnan(rate)) {
            return NAN;
        }
        sum += rate;
        least = fmin(least, rate);
        most = fmax(most, rate);
    }
    if (result->rank_count == 0) {
        return NAN;
    }
    return strcmp(of, "min") == 0   ? least
           : strcmp(of, "max") == 0 ? most
                                    : sum / result->rank_count;
}

double value_balance(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(rank);
    double least = INFINITY, most = -INFINITY;
    for (int i = 0; i < result->rank_count; i++) {
        double busy = value_busy(results, result, i, of);
        if (isnan(busy)) {
            return NAN;
        }
        least = fmin(least, busy);
        most = fmax(most, busy);
    }
    return result->rank_count > 1 && most > 0 ? least / most : NAN;
}

/* --- loss --- */

double value_first_loss(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    UNUSED(of);
    if (rank >= 0) {
        return results_number(file_of(result, rank), "first_loss");
    }
    const Curve *curve = &result->curve;
    return curve->train_count > 0 && curve->train[0].step == 1 ? curve->train[0].loss : NAN;
}

double value_gap(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(of);
    return value_summary(results, result, rank, "val_loss") -
           value_summary(results, result, rank, "train_loss");
}

double value_to_target(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(rank);
    double target = results_number(results->json, "target_loss");
    const Curve *curve = &result->curve;
    for (size_t i = 0; i < curve->validation_count; i++) {
        if (curve->validation[i].loss <= target) {
            int64_t step = curve->validation[i].step;
            return strcmp(of, "tokens") == 0 ? curve_tokens(curve, step)
                                             : curve_seconds(curve, step);
        }
    }
    return NAN;
}

/* --- memory and checks --- */

double value_memory(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    char path[64];
    snprintf(path, sizeof path, "memory.%s", of);
    if (rank >= 0) {
        return results_number(file_of(result, rank), path);
    }
    double worst = value_summary(results, result, rank, of);
    for (int i = 0; i < result->rank_count; i++) {
        worst = fmax(worst, results_number(result->ranks[i], path)); /* fmax passes over NAN */
    }
    /* What was refused never ran: the sweep's own account is all there is. */
    return isnan(worst) ? results_number(result->entry, of) : worst;
}

/* Memory of the device that a rank computes on. A GPU whose sensors were not read has not told
 * its own. */
static double memory_of_device(const Result *result, int rank)
{
    const cJSON *machine = cJSON_GetObjectItemCaseSensitive(result->run, "machine");
    if (cJSON_HasObjectItem(machine, "device")) {
        return results_number(result->ranks[rank], "gpu.total_bytes");
    }
    return fmin(results_number(machine, "memory_bytes"),
                results_number(machine, "memory_limit_bytes"));
}

double value_peak_share(const Results *results, const Result *result, int rank, const char *of)
{
    int first = rank < 0 ? 0 : rank, end = rank < 0 ? result->rank_count : rank + 1;
    double worst = NAN;
    for (int i = first; i < end && i < result->rank_count; i++) {
        worst = fmax(worst, value_memory(results, result, i, of) / memory_of_device(result, i));
    }
    return worst;
}

static double kind_in(const cJSON *rows, const char *kind, const char *field)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "kind"));
        if (name != NULL && strcmp(name, kind) == 0) {
            return results_number(row, field);
        }
    }
    return NAN;
}

static double kind_of_rank(const Result *result, int rank, const char *kind)
{
    const cJSON *memory = cJSON_GetObjectItemCaseSensitive(file_of(result, rank), "memory");
    return kind_in(cJSON_GetObjectItemCaseSensitive(memory, "categories"), kind, "peak_bytes");
}

double value_memory_kind(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    if (rank >= 0) {
        return kind_of_rank(result, rank, of);
    }
    double worst = NAN;
    for (int i = 0; i < result->rank_count; i++) {
        worst = fmax(worst, kind_of_rank(result, i, of));
    }
    return isnan(worst)
               ? kind_in(cJSON_GetObjectItemCaseSensitive(result->run, "memory_plan"), of, "bytes")
               : worst;
}

double value_checks(const Results *results, const Result *result, int rank, const char *of)
{
    UNUSED(results);
    UNUSED(rank);
    const cJSON *summary = cJSON_GetObjectItemCaseSensitive(result->run, "summary");
    const cJSON *checks = cJSON_GetObjectItemCaseSensitive(summary, "checks"), *check;
    int count = 0;
    cJSON_ArrayForEach(check, checks)
    {
        const char *verdict =
            cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(check, "verdict"));
        count += verdict != NULL && strcmp(verdict, of) == 0;
    }
    return cJSON_IsArray(checks) ? count : NAN;
}
