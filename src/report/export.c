#include "report/report.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/events.h"
#include "record/reader.h"
#include "report/csv.h"
#include "report/results.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines of metrics.jsonl; a refused run has none. */
static int each_line(const char *run_dir, LineTake *take, void *context, bool warn)
{
    char *path = io_join(run_dir, RECORD_LINES);
    bool torn = false;
    int code = io_exists(path) ? lines_read(run_dir, take, context, &torn) : 0;
    if (torn && warn) {
        log_warn("%s: the last line is incomplete and left out", path);
    }
    free(path);
    return code;
}

/* --- CSV ---
 *
 * Each table is made in two passes over its source: the first collects the columns, the second
 * writes rows. Of a run that is under way the second may meet more lines than the first; what
 * has no column then is left out. */

static void columns_named(Csv *csv, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        csv_column(csv, names[i]);
    }
}
#define COLUMNS(csv, names) columns_named(csv, names, sizeof names / sizeof names[0])

/* --- metrics.csv --- */

static int take_row(void *context, const cJSON *line, const char *where, long number)
{
    (void)number;
    Csv *csv = context;
    csv_put_tree(csv, line);
    csv_end_row(csv);
    return csv->code != 0 && csv->output == NULL ? err_wrap(csv->code, "%s", where) : csv->code;
}

static int export_metrics(const char *run, const char *out)
{
    static const char *const usual[] = {"step",  "tokens", "loss",       "lr",      "grad_norm",
                                        "tok_s", "ms",     "peak_bytes", "val_loss"};
    Csv csv = {0};
    COLUMNS(&csv, usual);
    csv.code = each_line(run, take_row, &csv, false);
    csv_open(&csv, out, "metrics.csv");
    csv.code = csv.code != 0 ? csv.code : each_line(run, take_row, &csv, true);
    return csv_close(&csv);
}

/* --- summary.csv --- */

#define PHASES "summary.phases." /* they have a table of their own */

static void put_name(Csv *csv, const char *name, const cJSON *leaf)
{
    if (strncmp(name, PHASES, strlen(PHASES)) != 0) {
        csv_put_text(csv, "name", name);
        csv_put(csv, "value", leaf);
        csv_end_row(csv);
    }
}

static int export_summary(const Result *result, const char *out)
{
    static const char *const columns[] = {"name", "value"};
    Csv csv = {0};
    COLUMNS(&csv, columns);
    csv_open(&csv, out, "summary.csv");
    csv_flatten(&csv, result->run, put_name);
    return csv_close(&csv);
}

/* --- ranks.csv --- */

static int export_ranks(const Result *result, const char *out)
{
    Csv csv = {0};
    csv_column(&csv, "rank");
    for (int i = 0; i < result->rank_count; i++) {
        csv_put_tree(&csv, result->ranks[i]);
    }
    csv_open(&csv, out, "ranks.csv");
    for (int i = 0; i < result->rank_count; i++) {
        if (result->ranks[i] != NULL) {
            csv_put_tree(&csv, result->ranks[i]);
            csv_end_row(&csv);
        }
    }
    return csv_close(&csv);
}

/* --- phases.csv --- */

static void put_phases(Csv *csv, const cJSON *rank, const char *kind, const cJSON *phases)
{
    const cJSON *phase, *time;
    cJSON_ArrayForEach(phase, phases)
    {
        csv_put(csv, "rank", rank);
        csv_put_text(csv, "kind", kind);
        csv_put_text(csv, "name", phase->string);
        cJSON_ArrayForEach(time, phase)
        {
            if (time->string != NULL) {
                csv_put(csv, time->string, time);
            }
        }
        csv_end_row(csv);
    }
}

static int export_phases(const Result *result, const char *out)
{
    static const char *const columns[] = {"rank",        "kind",  "name",   "total_s",
                                          "exclusive_s", "count", "mean_s", "p50_s",
                                          "p95_s",       "p99_s", "max_s"};
    Csv csv = {0};
    COLUMNS(&csv, columns);
    csv_open(&csv, out, "phases.csv");
    put_phases(&csv, NULL, "phase", json_find(result->run, "summary.phases"));
    for (int i = 0; i < result->rank_count; i++) {
        const cJSON *file = result->ranks[i], *rank = json_get(file, "rank");
        put_phases(&csv, rank, "phase", json_get(file, "timers"));
        put_phases(&csv, rank, "span", json_get(file, "spans"));
    }
    return csv_close(&csv);
}

/* --- runs.csv --- */

/* The numbers of a summary, with the prefix that keeps them apart from options of the same name. */
static void put_summary(Csv *csv, const Result *result)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(result->run, "summary"))
    {
        char name[128];
        snprintf(name, sizeof name, "summary.%s", item->string);
        if (!cJSON_IsObject(item) && !cJSON_IsArray(item)) {
            csv_put(csv, name, item);
        }
    }
}

static void put_members(Csv *csv, const cJSON *entry, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        csv_put(csv, names[i], json_get(entry, names[i]));
    }
}

static int export_runs(const Results *results, const char *out)
{
    static const char *const first[] = {"id", "configuration", "repeat", "state", "reason"};
    static const char *const last[] = {"seconds", "exit", "planned_bytes", "predicted_s"};
    Csv csv = {0};
    COLUMNS(&csv, first);
    if (results_have_peers(results)) {
        csv_column(&csv, "peer");
    }
    for (int i = 0; i < results->varying_count; i++) {
        csv_column(&csv, results->varying[i].option);
    }
    for (int i = 0; i < results->count; i++) {
        csv_put_tree(&csv, json_get(results->runs[i].entry, "settings"));
    }
    COLUMNS(&csv, last);
    for (int i = 0; i < results->count; i++) {
        put_summary(&csv, &results->runs[i]);
    }
    csv_open(&csv, out, "runs.csv");
    for (int i = 0; csv.code == 0 && i < results->count; i++) {
        const Result *result = &results->runs[i];
        put_members(&csv, result->entry, first, sizeof first / sizeof first[0]);
        csv_put(&csv, "peer", json_get(result->entry, "peer"));
        for (int k = 0; k < results->varying_count; k++) {
            const char *option = results->varying[k].option;
            csv_put_text(&csv, option, result_setting(result, option));
        }
        csv_put_tree(&csv, json_get(result->entry, "settings"));
        put_members(&csv, result->entry, last, sizeof last / sizeof last[0]);
        put_summary(&csv, result);
        csv_end_row(&csv);
    }
    return csv_close(&csv);
}

int export_csv(const char *run, const char *out)
{
    Results results;
    bool experiment;
    int code = results_read_any(&results, run, &experiment);
    if (code != 0) {
        return code;
    }
    code = io_make_folders(out);
    if (code == 0 && experiment) {
        code = export_runs(&results, out);
    } else if (code == 0) {
        const Result *result = &results.runs[0];
        code = export_metrics(run, out);
        code = code != 0 ? code : export_summary(result, out);
        code = code != 0 ? code : export_phases(result, out);
        code = code != 0 ? code : export_ranks(result, out);
    }
    results_free(&results);
    return code;
}

/* --- TensorBoard --- */

typedef struct {
    Events *events;
    const cJSON *run;
    double time; /* of the line before, seconds since 1970 */
    double step;
} Export;

/* A line's `ms` is the mean of the steps since the line before; an evaluation has none. */
static int take_line(void *context, const cJSON *line, const char *where, long number)
{
    (void)where;
    (void)number;
    Export *export = context;
    double ms = json_number(line, "ms"), step = json_number(line, "step");
    if (ms >= 0 && step > export->step) {
        export->time += 1e-3 * ms * (step - export->step);
    }
    export->step = step > export->step ? step : export->step;
    return event_log_line(export->events, export->run, line, export->time);
}

static int write_events(Export *export, const char *run_dir, double ended)
{
    int code = event_log_start(export->events, export->run, export->time, -1);
    double init = json_number(export->run, "summary.init_s");
    export->time += init > 0 ? init : 0;
    code = code != 0 ? code : each_line(run_dir, take_line, export, true);
    bool later = ended > export->time;
    return code != 0 ? code
                     : event_log_end(export->events, export->run, later ? ended : export->time);
}

/* The name that the run itself would have given, but for the process. Caller frees. */
static char *file_name(const Result *result, const char *out, double started)
{
    const char *host = json_text_or(result->run, "machine.host", "");
    char *path = mem_format("%s/events.out.tfevents.%010lld.%.64s.0.0", out, (long long)started,
                            host[0] != '\0' ? host : "host");
    for (char *at = path + strlen(out) + 1; *at != '\0'; at++) {
        *at = *at == '/' || (unsigned char)*at <= ' ' ? '_' : *at;
    }
    return path;
}

static int lock_folder(const char *path, int *lock)
{
    *lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) {
        return io_error(path, "open");
    }
    return io_lock(*lock, path) ? 0
                                : err_set(ERR_INPUT, "%s: another pacer is exporting there", path);
}

/* Written under a name that TensorBoard does not take for an event file, then renamed. */
static int events_of_run(const Result *result, const char *run_dir, const char *out)
{
    double started = results_stamp(result->run, "started");
    started = isnan(started) ? 0 : started;
    char *path = file_name(result, out, started);
    char *temporary = mem_format("%s/export" IO_TEMPORARY, out);
    Export export = {.run = result->run, .time = started};
    int code = io_make_folders(out), lock = -1;
    code = code != 0 ? code : lock_folder(out, &lock);
    code = code != 0 ? code : events_create(temporary, started, &export.events);
    if (code == 0) {
        code = write_events(&export, run_dir, results_stamp(result->run, "updated"));
        int closed = events_close(export.events, true);
        code = code != 0 ? code : closed;
        if (code == 0 && rename(temporary, path) != 0) {
            code = io_error(path, "write");
        }
        if (code != 0) {
            unlink(temporary);
        }
    }
    code = code != 0 ? code : io_sync_folder(out);
    if (lock >= 0) {
        close(lock);
    }
    free(temporary);
    free(path);
    return code;
}

/* A run that has no record, or a damaged one, does not keep those of the others. */
static int events_of_each(const Results *results, const char *dir, const char *out)
{
    int code = 0;
    for (int i = 0; code == 0 && i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (result->run == NULL || strchr(result->id, '/') != NULL || result->id[0] == '.') {
            continue;
        }
        char *run_dir = io_join(dir, result->dir), *folder = io_join(out, result->id);
        code = events_of_run(result, run_dir, folder);
        if (code == ERR_INPUT) {
            log_warn("%s; left out", err_message());
            code = 0;
        }
        free(folder);
        free(run_dir);
    }
    return code;
}

int export_events(const char *run, const char *out)
{
    Results results;
    bool experiment;
    int code = results_read_any(&results, run, &experiment);
    if (code == 0) {
        code = experiment ? events_of_each(&results, run, out)
                          : events_of_run(&results.runs[0], run, out);
        results_free(&results);
    }
    return code;
}
