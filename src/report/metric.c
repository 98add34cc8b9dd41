/* The registry: one row per quantity says its name, title, unit and where it comes from.
 * Besides, every option of `pacer train` is a quantity, and mem_KIND_bytes is for every kind of
 * memory that a record has. */
#include "report/metric.h"

#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"
#include "metrics/names.h"
#include "report/metric_scaling.h"
#include "report/metric_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name, *title;
    MetricUnit unit;
    bool per_rank;
    MetricSource source; /* NULL: only text, see metric_text */
    const char *of;      /* what the source is asked for */
} MetricRow;

#define SPAN(name, title)                                                                  \
    {#name "_s", title " (s)", UNIT_SECONDS, true, value_span, #name},                     \
    {                                                                                      \
#name "_mean_s", title " per call (s)", UNIT_SECONDS, true, value_span_mean, #name \
    }
#define PHASE(name, title)                                                                  \
    {#name "_s", title " (s)", UNIT_SECONDS, true, value_phase, #name},                     \
    {                                                                                       \
#name "_mean_s", title " per call (s)", UNIT_SECONDS, true, value_phase_mean, #name \
    }
#define SUMMARY(name, title, unit)                      \
    {                                                   \
#name, title, unit, false, value_summary, #name \
    }
#define MEMORY(name, title)                                            \
    {                                                                  \
#name, title " (bytes)", UNIT_BYTES, true, value_memory, #name \
    }

/* clang-format off */
static const MetricRow rows[] = {
    {"configuration", "Configuration", UNIT_TEXT, false, NULL, NULL},
    {"program", "Program", UNIT_TEXT, false, NULL, NULL},
    {"repeat", "Repeat", UNIT_COUNT, false, value_repeat, NULL},
    {"state", "State", UNIT_TEXT, false, NULL, NULL},
    {"reason", "Reason", UNIT_TEXT, false, NULL, NULL},
    {"rank", "Rank", UNIT_COUNT, true, value_rank, NULL},
    {"host", "Host", UNIT_TEXT, true, NULL, NULL},
    SPAN(total, "Total"), SPAN(init, "Start-up"), SPAN(worker, "Worker"), SPAN(epoch, "Epochs"),
    SPAN(training, "Training"), SPAN(validation, "Validation"),
    {"epoch_wall_s", "One epoch (s)", UNIT_SECONDS, true, value_span_mean, "epoch"},
    PHASE(forward, "Forward"), PHASE(backward, "Backward"), PHASE(loss, "Loss"),
    PHASE(optimizer, "Optimizer"), PHASE(data_load, "Data loading"),
    PHASE(data_move, "Data to the device"), PHASE(comm_exposed, "Communication, exposed"),
    PHASE(comm_hidden, "Communication, hidden"), PHASE(eval, "Evaluation"),
    PHASE(checkpoint, "Checkpoints"), PHASE(wait, "Waiting for the device"),
    PHASE(launch, "Launching"), PHASE(log, "Logging"),
    {"unattributed_s", "Unattributed (s)", UNIT_SECONDS, true, value_phase, "unattributed"},
    {"compute_s", "Compute (s)", UNIT_SECONDS, true, value_compute, NULL},
    {"comm_s", "Communication (s)", UNIT_SECONDS, true, value_comm, NULL},
    {"busy_s", "Busy (s)", UNIT_SECONDS, true, value_busy, NULL},
    {"predicted_s", "Predicted (s)", UNIT_SECONDS, false, value_entry, "predicted_s"},
    SUMMARY(steps, "Updates", UNIT_COUNT), SUMMARY(tokens, "Tokens", UNIT_COUNT),
    {"tokens_update", "Tokens per update", UNIT_COUNT, false, value_tokens_update, NULL},
    {"samples_epoch", "Sequences per epoch", UNIT_COUNT, false, value_samples_epoch, NULL},
    {"global_batch", "Global batch", UNIT_COUNT, false, value_global_batch, NULL},
    {"parameters", "Parameters", UNIT_COUNT, false, value_run, "model.parameters"},
    {"tok_s", "Throughput (tokens/s)", UNIT_RATE, true, value_rate, NULL},
    {"tok_s_rank", "Throughput per rank (tokens/s)", UNIT_RATE, true, value_rate_ranks, "mean"},
    {"tok_s_min", "Slowest rank (tokens/s)", UNIT_RATE, true, value_rate_ranks, "min"},
    {"tok_s_max", "Fastest rank (tokens/s)", UNIT_RATE, true, value_rate_ranks, "max"},
    {"balance", "Balance of ranks (%)", UNIT_PERCENT, false, value_balance, NULL},
    {"first_loss", "First loss (nats)", UNIT_LOSS, true, value_first_loss, NULL},
    SUMMARY(train_loss, "Training loss (nats)", UNIT_LOSS),
    SUMMARY(val_loss, "Validation loss (nats)", UNIT_LOSS),
    SUMMARY(best_val_loss, "Best validation loss (nats)", UNIT_LOSS),
    {"gap", "Validation less training loss (nats)", UNIT_LOSS, false, value_gap, NULL},
    {"tokens_to_target", "Tokens to the target loss", UNIT_COUNT, false, value_to_target, "tokens"},
    {"seconds_to_target", "Training to the target loss (s)", UNIT_SECONDS, false, value_to_target,
     "seconds"},
    MEMORY(peak_bytes, "Peak memory"), MEMORY(planned_bytes, "Planned memory"),
    MEMORY(allocated_bytes, "Allocated memory"), MEMORY(reserved_bytes, "Reserved memory"),
    {"peak_share", "Peak, of the device (%)", UNIT_PERCENT, true, value_peak_share,
     "peak_bytes"},
    {"speedup", "Speed-up", UNIT_RATIO, false, value_speedup, NULL},
    {"speedup_mean", "Speed-up by the mean rank", UNIT_RATIO, false, value_speedup_mean, NULL},
    {"efficiency", "Efficiency (%)", UNIT_PERCENT, false, value_efficiency, NULL},
    {"amdahl", "Serial fraction (%)", UNIT_PERCENT, false, value_amdahl, NULL},
    SUMMARY(mfu_peak, "Of the stated peak (%)", UNIT_PERCENT),
    SUMMARY(mfu_measured, "Of the measured ceiling (%)", UNIT_PERCENT),
    SUMMARY(step_p50_ms, "Update, median (ms)", UNIT_MILLISECONDS),
    SUMMARY(step_p95_ms, "Update, 95th percentile (ms)", UNIT_MILLISECONDS),
    {"checks_failed", "Checks failed", UNIT_COUNT, false, value_checks, "fail"},
    {"checks_warned", "Checks with a warning", UNIT_COUNT, false, value_checks, "warn"},
};
/* clang-format on */
#define ROW_COUNT (sizeof rows / sizeof rows[0])

static const MetricRow *row_of(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* --- names --- */

/* "ffn" of mem_ffn_bytes; false for other names. */
static bool memory_kind(const char *name, char kind[48])
{
    size_t length = strlen(name), around = strlen("mem_") + strlen("_bytes");
    if (strncmp(name, "mem_", 4) != 0 || length <= around || length - around >= 48 ||
        strcmp(name + length - strlen("_bytes"), "_bytes") != 0) {
        return false;
    }
    memcpy(kind, name + 4, length - around);
    kind[length - around] = '\0';
    return true;
}

static const Option *train_option(const char *name)
{
    const Option *option = config_find(name);
    return option != NULL && (option->commands & (1u << COMMAND_TRAIN)) != 0 ? option : NULL;
}

static MetricUnit option_unit(const Option *option)
{
    switch (option->type) {
    case OPTION_INT:
        return UNIT_COUNT;
    case OPTION_BYTES:
        return UNIT_BYTES;
    case OPTION_REAL:
        return UNIT_RATIO;
    default:
        return UNIT_TEXT;
    }
}

static int unknown(const char *name)
{
    size_t option_count, count = 0;
    const Option *options = config_options(&option_count);
    const char **names = mem_zalloc(ROW_COUNT + option_count + 1, sizeof *names);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        names[count++] = rows[i].name;
    }
    for (size_t i = 0; i < option_count; i++) {
        if (train_option(options[i].name) != NULL) {
            names[count++] = options[i].name;
        }
    }
    bool likely;
    const char *nearest = config_nearest(name, names, &likely);
    int code = err_set(ERR_INPUT, "\"%.60s\" is no quantity of a run; the nearest is \"%s\"", name,
                       nearest);
    free(names);
    return code;
}

int metric_find(const char *name, Metric *metric)
{
    const MetricRow *row = row_of(name);
    const Option *option = row == NULL ? train_option(name) : NULL;
    char kind[48];
    *metric = (Metric){.unit = UNIT_TEXT};
    if (row != NULL) {
        metric->unit = row->unit;
        metric->per_rank = row->per_rank;
        snprintf(metric->title, sizeof metric->title, "%s", row->title);
    } else if (memory_kind(name, kind)) {
        metric->unit = UNIT_BYTES;
        metric->per_rank = true;
        snprintf(metric->title, sizeof metric->title, "Memory: %s (bytes)", kind);
    } else if (option != NULL) {
        metric->unit = option_unit(option);
        metric->per_rank = strcmp(name, "device") == 0;
        snprintf(metric->title, sizeof metric->title, "%s", name);
    } else {
        return unknown(name);
    }
    snprintf(metric->name, sizeof metric->name, "%s", name);
    return 0;
}

/* --- values --- */

double metric_value(const Metric *metric, const Results *results, const Result *result, int rank)
{
    const MetricRow *row = row_of(metric->name);
    char kind[48];
    double value = NAN;
    if (row != NULL) {
        value = row->source != NULL && (rank < 0 || row->per_rank)
                    ? row->source(results, result, rank, row->of)
                    : NAN;
    } else if (memory_kind(metric->name, kind)) {
        value = value_memory_kind(results, result, rank, kind);
    } else if (metric->unit != UNIT_TEXT) {
        value = result_setting_number(result, metric->name);
    }
    return isfinite(value) ? value : NAN;
}

bool result_is_sound(const Result *result)
{
    return result->state == RESULT_DONE && !(value_checks(NULL, result, -1, "fail") > 0);
}

static int collect(const Metric *metric, const Results *results, int configuration, bool sound,
                   double *values, int room)
{
    int count = 0;
    for (int i = 0; i < results->count && count < room; i++) {
        const Result *result = &results->runs[i];
        if (result->configuration != configuration ||
            !(sound ? result_is_sound(result) : result->state == RESULT_DONE)) {
            continue;
        }
        double value = metric_value(metric, results, result, -1);
        if (!isnan(value)) {
            values[count++] = value;
        }
    }
    return count;
}

int metric_samples(const Metric *metric, const Results *results, int configuration, double *values,
                   int room)
{
    return collect(metric, results, configuration, true, values, room);
}

Estimate metric_sound_estimate(const Metric *metric, const Results *results, int configuration)
{
    double values[METRIC_MAX_SAMPLES];
    int count = collect(metric, results, configuration, true, values, METRIC_MAX_SAMPLES);
    return estimate_of(values, count);
}

Estimate metric_estimate(const Metric *metric, const Results *results, int configuration)
{
    double values[METRIC_MAX_SAMPLES];
    int count = collect(metric, results, configuration, false, values, METRIC_MAX_SAMPLES);
    return estimate_of(values, count);
}

/* --- text --- */

/* Three digits or more, with the prefix that makes the number read well. */
static void format_scaled(double value, double step, const char *const *units, char *text,
                          size_t size)
{
    double shown = value;
    while (fabs(shown) >= step && units[1] != NULL) {
        shown /= step;
        units++;
    }
    int digits = fabs(shown) >= 1000 ? 0 : fabs(shown) >= 100 ? 1 : 2;
    bool whole = shown == value && floor(shown) == shown;
    snprintf(text, size, "%.*f%s%s", whole ? 0 : digits, shown, units[0][0] != '\0' ? " " : "",
             units[0]);
}

static void format_count(double value, char *text, size_t size)
{
    static const char *const units[] = {"", "k", "M", "G", "T", NULL};
    if (fabs(value) < 100000) {
        snprintf(text, size, floor(value) == value ? "%.0f" : "%.2f", value);
    } else {
        format_scaled(value, 1000, units, text, size);
    }
}

static void format_seconds(double value, char *text, size_t size)
{
    double length = fabs(value);
    if (length > 0 && length < 1e-3) {
        snprintf(text, size, "%.1f us", 1e6 * value);
    } else if (length > 0 && length < 1) {
        snprintf(text, size, "%.*f ms", length < 0.1 ? 2 : 1, 1e3 * value);
    } else {
        snprintf(text, size, "%.*f s", length < 10000 ? 2 : 0, value);
    }
}

void metric_format(const Metric *metric, double value, char *text, size_t size)
{
    static const char *const rates[] = {"", "k", "M", "G", NULL};
    static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
    if (!isfinite(value)) {
        snprintf(text, size, "%s", "");
        return;
    }
    switch (metric->unit) {
    case UNIT_COUNT:
        format_count(value, text, size);
        break;
    case UNIT_SECONDS:
        format_seconds(value, text, size);
        break;
    case UNIT_BYTES:
        format_scaled(value, 1024, bytes, text, size);
        break;
    case UNIT_RATE:
        format_scaled(value, 1000, rates, text, size);
        break;
    case UNIT_LOSS:
        snprintf(text, size, "%.4f", value);
        break;
    case UNIT_PERCENT:
        snprintf(text, size, fabs(value) < 5e-4 && value != 0 ? "%.1g %%" : "%.1f %%", 100 * value);
        break;
    case UNIT_MILLISECONDS:
        snprintf(text, size, fabs(value) < 1e4 ? "%.2f ms" : "%.0f ms", value);
        break;
    case UNIT_RATIO:
        snprintf(text, size, fabs(value) >= 0.1 ? "%.2f" : "%.3g", value);
        break;
    case UNIT_TEXT:
        snprintf(text, size, "%.6g", value);
        break;
    }
}

void metric_heading(const Metric *metric, char text[64])
{
    snprintf(text, 64, "%s", metric->title);
    char *unit = strstr(text, " (");
    if (unit != NULL && metric->unit != UNIT_TEXT) {
        *unit = '\0';
    }
}

static const char *plain_text(const Metric *metric, const Results *results, const Result *result,
                              int rank, char *buffer, size_t size)
{
    bool known_rank = rank >= 0 && rank < result->rank_count;
    const cJSON *file = known_rank ? result->ranks[rank] : NULL;
    if (strcmp(metric->name, "configuration") == 0) {
        result_label(results, result, buffer, size);
        return buffer;
    }
    if (strcmp(metric->name, "program") == 0) {
        return peer_title(result->peer);
    }
    if (strcmp(metric->name, "state") == 0) {
        return result_state_name(result->state);
    }
    if (strcmp(metric->name, "reason") == 0) {
        return result->reason;
    }
    if (strcmp(metric->name, "host") == 0) {
        file = rank < 0 && result->rank_count > 0 ? result->ranks[0] : file;
        return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(file, "host"));
    }
    if (strcmp(metric->name, "device") == 0 && file != NULL) {
        return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(file, "device"));
    }
    return NULL;
}

void metric_text(const Metric *metric, const Results *results, const Result *result, int rank,
                 char *text, size_t size)
{
    char buffer[512], setting[RESULT_SETTING_SIZE], kind[48];
    const char *plain = plain_text(metric, results, result, rank, buffer, sizeof buffer);
    if (plain == NULL && row_of(metric->name) == NULL && !memory_kind(metric->name, kind)) {
        plain = result_setting(result, metric->name, setting); /* an option, as it was given */
    }
    if (plain != NULL) {
        snprintf(text, size, "%s", plain);
    } else {
        metric_format(metric, metric_value(metric, results, result, rank), text, size);
    }
}
