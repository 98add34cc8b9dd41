/* The registry: one row per quantity says its name, title, unit and where it comes from.
 * Besides, every option of `pacer train` is a quantity, and mem_KIND_bytes is for every kind of
 * memory that a record has. */
#include "report/metric.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "config/config.h"
#include "record/reader.h"
#include "report/scaling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- values --- */

/* What a source is asked for. rank < 0: of the run, which is its slowest rank for times and its
 * worst one for memory; with several ranks they are unknown as long as one rank's file is
 * missing. All give NAN for what is not known. Times of phases are exclusive ones: wall time that
 * was spent in that phase and in no other, so that the parts of a table add up to its total.
 * Hidden communication passes beside other work and has its own length. */
static const cJSON *file_of(MetricQuery q)
{
    if (q.rank < 0) {
        return result_has_all_ranks(q.result) ? q.result->ranks[q.result->slowest] : NULL;
    }
    return q.rank < q.result->rank_count ? q.result->ranks[q.rank] : NULL;
}

static MetricQuery of_rank(MetricQuery q, int rank)
{
    q.rank = rank;
    return q;
}

/* of: a path in a rank's file */
static double value_file(MetricQuery q)
{
    return json_number(file_of(q), q.of);
}

static double value_phase(MetricQuery q)
{
    char path[128];
    bool beside = strcmp(q.of, "comm_hidden") == 0;
    snprintf(path, sizeof path, "timers.%s.%s", q.of, beside ? "total_s" : "exclusive_s");
    return json_number(file_of(q), path);
}

static double value_phase_mean(MetricQuery q)
{
    char path[128];
    snprintf(path, sizeof path, "timers.%s.count", q.of);
    double count = json_number(file_of(q), path);
    return count > 0 ? value_phase(q) / count : NAN;
}

/* of: phases with spaces between them. */
static double value_phases(MetricQuery q)
{
    double sum = 0;
    for (const char *at = q.of; *at != '\0'; at += strspn(at, " ")) {
        char phase[32];
        size_t length = strcspn(at, " ");
        snprintf(phase, sizeof phase, "%.*s", (int)length, at);
        sum += value_phase((MetricQuery){q.results, q.result, q.rank, phase});
        at += length;
    }
    return sum;
}

/* of: a path in run.json */
static double value_run(MetricQuery q)
{
    return json_number(q.result->run, q.of);
}

static double value_entry(MetricQuery q)
{
    return json_number(q.result->entry, q.of);
}

static double value_repeat(MetricQuery q)
{
    return q.result->repeat + 1;
}

static double value_rank(MetricQuery q)
{
    return q.rank >= 0 && q.rank < q.result->rank_count ? q.rank : NAN;
}

static double value_global_batch(MetricQuery q)
{
    double given = result_setting_number(q.result, "global-batch");
    return given > 0 ? given
                     : result_setting_number(q.result, "batch") *
                           result_setting_number(q.result, "accum") *
                           result_setting_number(q.result, "ranks");
}

static double value_tokens_update(MetricQuery q)
{
    return value_global_batch(q) * result_setting_number(q.result, "seq");
}

static double value_samples_epoch(MetricQuery q)
{
    double epochs = json_number(file_of(of_rank(q, -1)), "spans.epoch.count");
    double steps = json_number(q.result->run, "summary.steps");
    bool ramp = json_get(q.result->run, "ramp") != NULL; /* updates differ in size */
    double sequences =
        ramp ? json_number(q.result->run, "summary.tokens") / result_setting_number(q.result, "seq")
             : steps * value_global_batch(q);
    return epochs > 0 ? sequences / epochs : NAN;
}

double result_timed_tokens(const Result *result)
{
    double tokens =
        json_number(result->run, "summary.tok_s") * json_number(result->run, "summary.train_s");
    return tokens > 0 ? tokens : NAN;
}

static double value_rate(MetricQuery q)
{
    if (q.rank < 0) {
        return json_number(q.result->run, "summary.tok_s");
    }
    double seconds = json_number(file_of(q), "spans.training.total_s");
    return seconds > 0 ? result_timed_tokens(q.result) / q.result->rank_count / seconds : NAN;
}

/* Least, most and mean of a value over the ranks of a run; false unless all are known. */
static bool over_ranks(MetricSource *source, MetricQuery q, double *least, double *most,
                       double *mean)
{
    double sum = 0;
    *least = INFINITY;
    *most = -INFINITY;
    for (int i = 0; i < q.result->rank_count; i++) {
        double value = source(of_rank(q, i));
        *least = fmin(*least, value);
        *most = fmax(*most, value);
        sum += value;
    }
    *mean = sum / q.result->rank_count;
    return q.result->rank_count > 0 && !isnan(sum);
}

/* of: "mean", "min", "max" */
static double value_rate_ranks(MetricQuery q)
{
    double least, most, mean;
    if (q.rank >= 0) {
        return value_rate(q);
    }
    if (!over_ranks(value_rate, q, &least, &most, &mean)) {
        return NAN;
    }
    return strcmp(q.of, "min") == 0 ? least : strcmp(q.of, "max") == 0 ? most : mean;
}

static double value_balance(MetricQuery q)
{
    double least, most, mean;
    bool known = over_ranks(value_phases, q, &least, &most, &mean);
    return known && q.result->rank_count > 1 && most > 0 ? least / most : NAN;
}

static double value_first_loss(MetricQuery q)
{
    if (q.rank >= 0) {
        return json_number(file_of(q), "first_loss");
    }
    const CurveLine *line = &q.result->curve.train;
    double least, most, mean;
    if (line->thinning.lines > 1) { /* its first point is a mean of several lines */
        return over_ranks(value_first_loss, q, &least, &most, &mean) ? mean : NAN;
    }
    return line->count > 0 && line->points[0].step == 1 ? line->points[0].loss : NAN;
}

static double value_gap(MetricQuery q)
{
    const cJSON *summary = json_get(q.result->run, "summary");
    return json_number(summary, "val_loss") - json_number(summary, "train_loss");
}

/* of: "tokens", "seconds" */
static double value_to_target(MetricQuery q)
{
    double target = json_number(q.results->json, "target_loss");
    const Curve *curve = &q.result->curve;
    for (size_t i = 0; i < curve->validation.count; i++) {
        if (curve->validation.points[i].loss <= target) {
            int64_t step = curve->validation.points[i].step;
            return strcmp(q.of, "tokens") == 0 ? curve_tokens(curve, step)
                                               : curve_seconds(curve, step);
        }
    }
    return NAN;
}

static double value_memory(MetricQuery q)
{
    char path[64];
    snprintf(path, sizeof path, "memory.%s", q.of);
    if (q.rank >= 0) {
        return json_number(file_of(q), path);
    }
    double worst = json_number(json_get(q.result->run, "summary"), q.of);
    for (int i = 0; i < q.result->rank_count; i++) {
        worst = fmax(worst, json_number(q.result->ranks[i], path)); /* fmax passes over NAN */
    }
    /* What was refused never ran: the sweep's own account is all there is. */
    return isnan(worst) ? value_entry(q) : worst;
}

/* Memory of the device that a rank computes on. A GPU whose sensors were not read has not told
 * its own. */
static double memory_of_device(const Result *result, int rank)
{
    const cJSON *machine = json_get(result->run, "machine");
    if (cJSON_HasObjectItem(machine, "device")) {
        return json_number(result->ranks[rank], "gpu.total_bytes");
    }
    return fmin(json_number(machine, "memory_bytes"), json_number(machine, "memory_limit_bytes"));
}

static double value_peak_share(MetricQuery q)
{
    int first = q.rank < 0 ? 0 : q.rank, end = q.rank < 0 ? q.result->rank_count : q.rank + 1;
    double worst = NAN;
    for (int i = first; i < end && i < q.result->rank_count; i++) {
        worst = fmax(worst, value_memory(of_rank(q, i)) / memory_of_device(q.result, i));
    }
    return worst;
}

/* name: mem_KIND_bytes */
static double kind_in(const cJSON *rows, const char *name, const char *field)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        char of_row[64];
        snprintf(of_row, sizeof of_row, "mem_%s_bytes", json_text_or(row, "kind", ""));
        if (strcmp(of_row, name) == 0) {
            return json_number(row, field);
        }
    }
    return NAN;
}

static double value_memory_kind(MetricQuery q)
{
    int first = q.rank < 0 ? 0 : q.rank, end = q.rank < 0 ? q.result->rank_count : q.rank + 1;
    double worst = NAN;
    for (int i = first; i < end; i++) {
        const cJSON *rows = json_find(file_of(of_rank(q, i)), "memory.categories");
        worst = fmax(worst, kind_in(rows, q.of, "peak_bytes"));
    }
    return isnan(worst) && q.rank < 0
               ? kind_in(json_get(q.result->run, "memory_plan"), q.of, "bytes")
               : worst;
}

static double value_checks(MetricQuery q)
{
    const cJSON *run = q.result->run;
    return cJSON_IsArray(json_find(run, "summary.checks")) ? record_checks(run, q.of) : NAN;
}

static double value_option(MetricQuery q)
{
    return result_setting_number(q.result, q.of);
}

/* --- the registry --- */

/* Work in steps, without waiting for a device or for other ranks. */
#define BUSY_PHASES "data_load data_move forward loss backward optimizer launch"

/* clang-format off */
#define SPAN(name, title) \
    {#name "_s", title, UNIT_SECONDS, true, value_file, "spans." #name ".total_s"}, \
    {#name "_mean_s", title " per call", UNIT_SECONDS, true, value_file, "spans." #name ".mean_s"}
#define PHASE(name, title) \
    {#name "_s", title, UNIT_SECONDS, true, value_phase, #name}, \
    {#name "_mean_s", title " per call", UNIT_SECONDS, true, value_phase_mean, #name}
#define SUMMARY(name, title, unit) {#name, title, unit, false, value_run, "summary." #name}
#define MEMORY(name, title) {#name, title, UNIT_BYTES, true, value_memory, #name}

static const Metric rows[] = {
    {"configuration", "Configuration", UNIT_TEXT, false, NULL, NULL},
    {"program", "Program", UNIT_TEXT, false, NULL, NULL},
    {"repeat", "Repeat", UNIT_COUNT, false, value_repeat, NULL},
    {"state", "State", UNIT_TEXT, false, NULL, NULL},
    {"reason", "Reason", UNIT_TEXT, false, NULL, NULL},
    {"rank", "Rank", UNIT_COUNT, true, value_rank, NULL},
    {"host", "Host", UNIT_TEXT, true, NULL, NULL},
    SPAN(total, "Total"), SPAN(init, "Start-up"), SPAN(worker, "Worker"), SPAN(epoch, "Epochs"),
    SPAN(training, "Training"), SPAN(validation, "Validation"),
    {"epoch_wall_s", "One epoch", UNIT_SECONDS, true, value_file, "spans.epoch.mean_s"},
    PHASE(forward, "Forward"), PHASE(backward, "Backward"), PHASE(loss, "Loss"),
    PHASE(optimizer, "Optimizer"), PHASE(data_load, "Data loading"),
    PHASE(data_move, "Data to the device"), PHASE(comm_exposed, "Communication, exposed"),
    PHASE(comm_hidden, "Communication, overlapped"), PHASE(eval, "Evaluation"),
    PHASE(checkpoint, "Checkpoints"), PHASE(wait, "Waiting for the device"),
    PHASE(launch, "Launching"), PHASE(log, "Logging"),
    {"unattributed_s", "Unattributed", UNIT_SECONDS, true, value_phase, "unattributed"},
    {"compute_s", "Compute", UNIT_SECONDS, true, value_phases,
     "forward loss backward optimizer"},
    {"comm_s", "Communication", UNIT_SECONDS, true, value_phases, "comm_exposed comm_hidden"},
    {"busy_s", "Busy", UNIT_SECONDS, true, value_phases, BUSY_PHASES},
    {"predicted_s", "Predicted", UNIT_SECONDS, false, value_entry, "predicted_s"},
    SUMMARY(steps, "Updates", UNIT_COUNT), SUMMARY(tokens, "Tokens", UNIT_COUNT),
    {"tokens_update", "Tokens per update", UNIT_COUNT, false, value_tokens_update, NULL},
    {"samples_epoch", "Sequences per epoch", UNIT_COUNT, false, value_samples_epoch, NULL},
    {"global_batch", "Global batch", UNIT_COUNT, false, value_global_batch, NULL},
    {"parameters", "Parameters", UNIT_COUNT, false, value_run, "model.parameters"},
    {"budget", "FLOP budget", UNIT_COUNT, false, value_entry, "budget"},
    {"tok_s", "Throughput", UNIT_RATE, true, value_rate, NULL},
    {"tok_s_rank", "Throughput per rank", UNIT_RATE, true, value_rate_ranks, "mean"},
    {"tok_s_min", "Slowest rank", UNIT_RATE, true, value_rate_ranks, "min"},
    {"tok_s_max", "Fastest rank", UNIT_RATE, true, value_rate_ranks, "max"},
    {"balance", "Balance of ranks", UNIT_PERCENT, false, value_balance, BUSY_PHASES},
    {"first_loss", "First loss", UNIT_LOSS, true, value_first_loss, NULL},
    SUMMARY(train_loss, "Training loss", UNIT_LOSS),
    SUMMARY(val_loss, "Validation loss", UNIT_LOSS),
    SUMMARY(best_val_loss, "Best validation loss", UNIT_LOSS),
    {"gap", "Validation less training loss", UNIT_LOSS, false, value_gap, NULL},
    {"tokens_to_target", "Tokens to the target loss", UNIT_COUNT, false, value_to_target, "tokens"},
    {"seconds_to_target", "Training to the target loss", UNIT_SECONDS, false, value_to_target,
     "seconds"},
    MEMORY(peak_bytes, "Peak memory"), MEMORY(planned_bytes, "Planned memory"),
    MEMORY(allocated_bytes, "Allocated memory"), MEMORY(reserved_bytes, "Reserved memory"),
    {"peak_share", "Peak, of the device", UNIT_PERCENT, true, value_peak_share,
     "peak_bytes"},
    {"speedup", "Speed-up", UNIT_RATIO, false, value_speedup, "slowest"},
    {"speedup_mean", "Speed-up by the mean rank", UNIT_RATIO, false, value_speedup, "mean"},
    {"efficiency", "Efficiency", UNIT_PERCENT, false, value_efficiency, NULL},
    {"amdahl", "Serial fraction", UNIT_PERCENT, false, value_amdahl, NULL},
    SUMMARY(noise_scale, "Noise scale, sequences", UNIT_COUNT),
    SUMMARY(noise_error, "Standard error of the noise scale, sequences", UNIT_COUNT),
    SUMMARY(noise_tokens, "Noise scale, tokens", UNIT_COUNT),
    SUMMARY(mfu_peak, "Of the stated peak", UNIT_PERCENT),
    SUMMARY(mfu_measured, "Of the measured ceiling", UNIT_PERCENT),
    SUMMARY(step_p50_ms, "Update, median", UNIT_MILLISECONDS),
    SUMMARY(step_p95_ms, "Update, 95th percentile", UNIT_MILLISECONDS),
    {"checks_failed", "Checks failed", UNIT_COUNT, false, value_checks, "fail"},
    {"checks_warned", "Checks with a warning", UNIT_COUNT, false, value_checks, "warn"},
};
/* clang-format on */
#define ROW_COUNT (sizeof rows / sizeof rows[0])

static const Metric *row_of(const char *name)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

/* --- names --- */

static const Option *train_option(const char *name)
{
    const Option *option = config_find(name);
    return option != NULL && (option->commands & (1u << COMMAND_TRAIN)) != 0 ? option : NULL;
}

static Unit option_unit(const Option *option)
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
    size_t count = 0;
    const Option *options = config_options();
    const char **names = mem_zalloc(ROW_COUNT + CONFIG_MAX_OPTIONS + 1, sizeof *names);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        names[count++] = rows[i].name;
    }
    for (size_t i = 0; options[i].name != NULL; i++) {
        if (train_option(options[i].name) != NULL) {
            names[count++] = options[i].name;
        }
    }
    const char *nearest = config_nearest(name, names);
    int code = err_set(ERR_INPUT, "\"%.60s\" is no quantity of a run%s%s%s", name,
                       nearest != NULL ? "; did you mean \"" : "", nearest != NULL ? nearest : "",
                       nearest != NULL ? "\"?" : "");
    free(names);
    return code;
}

int metric_find(const char *name, Metric *metric)
{
    const Metric *row = row_of(name);
    const Option *option = row == NULL ? train_option(name) : NULL;
    size_t length = strlen(name), around = strlen("mem_") + strlen("_bytes");
    *metric = (Metric){.unit = UNIT_TEXT};
    if (row != NULL) {
        *metric = *row;
    } else if (length > around && length < sizeof metric->name && strncmp(name, "mem_", 4) == 0 &&
               strcmp(name + length - strlen("_bytes"), "_bytes") == 0) {
        *metric = (Metric){.unit = UNIT_BYTES, .per_rank = true, .source = value_memory_kind};
        snprintf(metric->title, sizeof metric->title, "Memory: %.*s", (int)(length - around),
                 name + strlen("mem_"));
    } else if (option != NULL) {
        *metric = (Metric){.unit = option_unit(option), .source = value_option};
        metric->per_rank = strcmp(name, "device") == 0;
        snprintf(metric->title, sizeof metric->title, "%s", name);
    } else {
        return unknown(name);
    }
    snprintf(metric->name, sizeof metric->name, "%s", name);
    return 0;
}

Metric metric_named(const char *name)
{
    Metric metric;
    int code = metric_find(name, &metric);
    PACER_ASSERT(code == 0, "%s", name);
    return metric;
}

bool metric_is_one_of(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(*names, name) != 0) {
        names++;
    }
    return *names != NULL;
}

const char *metric_unit(const Metric *metric)
{
    static const char *const units[] = {
        [UNIT_SECONDS] = "s", [UNIT_BYTES] = "bytes", [UNIT_RATE] = "tokens/s",
        [UNIT_LOSS] = "nats", [UNIT_PERCENT] = "%",   [UNIT_MILLISECONDS] = "ms",
        [UNIT_TEXT] = NULL,
    };
    return metric->source != value_option ? units[metric->unit] : NULL;
}

char *metric_axis_title(const Metric *metric)
{
    const char *unit = metric_unit(metric);
    return unit != NULL ? mem_format("%s (%s)", metric->title, unit) : mem_strdup(metric->title);
}

/* --- values of a metric --- */

double metric_value(const Metric *metric, const Results *results, const Result *result, int rank)
{
    if (metric->source == NULL || metric->unit == UNIT_TEXT ||
        (rank >= 0 && !metric->per_rank && metric->source != value_option)) {
        return NAN;
    }
    const char *of = metric->of != NULL ? metric->of : metric->name;
    double value = metric->source((MetricQuery){results, result, rank, of});
    return isfinite(value) ? value : NAN;
}

Samples metric_samples(const Metric *metric, const Results *results, int configuration, bool sound)
{
    Samples samples = {.count = 0};
    for (const Result *run = NULL; (run = results_next(results, configuration, run)) != NULL;) {
        bool counts = sound ? run->sound : run->state == RUN_DONE;
        samples_add(&samples, counts ? metric_value(metric, results, run, -1) : NAN);
    }
    return samples;
}

Estimate metric_estimate(const Metric *metric, const Results *results, int configuration)
{
    Samples samples = metric_samples(metric, results, configuration, false);
    return samples_estimate(&samples);
}

/* --- text --- */

static const char *plain_text(const Metric *metric, const Result *result, int rank)
{
    const char *name = metric->name;
    bool host = strcmp(name, "host") == 0, device = strcmp(name, "device") == 0;
    int file = host && rank < 0 ? 0 : rank; /* a run's host is that of its first rank */
    const char *own = (host || device) && file >= 0 && file < result->rank_count
                          ? json_text(result->ranks[file], name)
                          : NULL;
    return own != NULL                          ? own
           : metric->source == value_option     ? result_setting(result, name)
           : strcmp(name, "configuration") == 0 ? result->label
           : strcmp(name, "program") == 0       ? peer_title(result->peer)
           : strcmp(name, "state") == 0         ? run_state_name(result->state)
           : strcmp(name, "reason") == 0        ? result->reason
                                                : NULL;
}

char *metric_text(const Metric *metric, const Results *results, const Result *result, int rank)
{
    const char *plain = plain_text(metric, result, rank);
    return mem_strdup(
        plain != NULL
            ? plain
            : unit_format(metric->unit, metric_value(metric, results, result, rank)).text);
}
