#include "report/export_events.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "metrics/event_log.h"
#include "metrics/reader.h"
#include "report/results.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Seconds since 1970 of a stamp such as 2026-01-31T12:00:00Z; NAN when it is none. */
static double stamp_seconds(const cJSON *run, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(run, name));
    struct tm parts = {0};
    const char *end = text != NULL ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts) : NULL;
    return end != NULL && *end == '\0' ? (double)timegm(&parts) : NAN;
}

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
    double ms = results_number(line, "ms"), step = results_number(line, "step");
    if (ms >= 0 && step > export->step) {
        export->time += 1e-3 * ms * (step - export->step);
    }
    export->step = step > export->step ? step : export->step;
    return event_log_line(export->events, export->run, line, export->time);
}

static int write_events(Export *export, const char *run_dir, double ended)
{
    char *lines = io_join(run_dir, "metrics.jsonl");
    bool torn = false;
    int code = event_log_start(export->events, export->run, export->time, -1);
    double init = results_number(export->run, "summary.init_s");
    export->time += init > 0 ? init : 0;
    if (code == 0 && io_exists(lines)) { /* a refused run has none */
        code = lines_read(run_dir, take_line, export, &torn);
    }
    if (torn) {
        log_warn("%s: the last line is incomplete and left out", lines);
    }
    free(lines);
    bool later = ended > export->time;
    return code != 0 ? code
                     : event_log_end(export->events, export->run, later ? ended : export->time);
}

/* The name that the run itself would have given, but for the process. Caller frees. */
static char *file_name(const Result *result, const char *out, double started)
{
    const cJSON *machine = cJSON_GetObjectItemCaseSensitive(result->run, "machine");
    const char *host = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(machine, "host"));
    char *path = mem_format("%s/events.out.tfevents.%010lld.%.64s.0.0", out, (long long)started,
                            host != NULL && host[0] != '\0' ? host : "host");
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
static int export_run(const Result *result, const char *run_dir, const char *out)
{
    double started = stamp_seconds(result->run, "started");
    started = isnan(started) ? 0 : started;
    char *path = file_name(result, out, started);
    char *temporary = mem_format("%s/export" IO_TEMPORARY, out);
    Export export = {.run = result->run, .time = started};
    int code = io_make_folders(out), lock = -1;
    code = code != 0 ? code : lock_folder(out, &lock);
    code = code != 0 ? code : events_create(temporary, started, &export.events);
    if (code == 0) {
        code = write_events(&export, run_dir, stamp_seconds(result->run, "updated"));
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
static int export_each(const Results *results, const char *dir, const char *out)
{
    int code = 0;
    for (int i = 0; code == 0 && i < results->count; i++) {
        const Result *result = &results->runs[i];
        if (result->run == NULL || strchr(result->id, '/') != NULL || result->id[0] == '.') {
            continue;
        }
        char *run_dir = io_join(dir, result->dir), *folder = io_join(out, result->id);
        code = export_run(result, run_dir, folder);
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
        code =
            experiment ? export_each(&results, run, out) : export_run(&results.runs[0], run, out);
        results_free(&results);
    }
    return code;
}
