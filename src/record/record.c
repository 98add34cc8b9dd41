#include "record/record.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "record/events.h"
#include "record/lines.h"
#include "record/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct Record {
    char *run_path;
    LineFile metrics, samples; /* samples: not open before the first one */
    cJSON *run;
    Events *events; /* NULL: none are written, or no longer */
};

static void replace_text(cJSON *object, const char *name, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, name);
    json_put_text(object, name, text);
}

static cJSON *describe(const RecordInfo *info)
{
    cJSON *run = json_object();
    json_put_whole(run, "schema", RECORD_SCHEMA);
    json_put_text(run, "id", info->id);
    json_put_text(run, "status", run_state_name(RUN_RUNNING));
    cJSON *pacer = json_object();
    json_put_text(pacer, "version", version_string());
    json_put_text(pacer, "commit", version_commit());
    json_put_text(pacer, "features", version_build_features());
    json_put_item(run, "pacer", pacer);
    char now[CLOCK_STAMP_SIZE];
    clock_stamp(now);
    json_put_text(run, "started", now);
    if (info->legs != NULL) {
        json_put_item(run, "legs", json_copy(info->legs));
    }
    json_put_item(run, "process", process_describe());
    if (info->total_steps > 0) {
        json_put_whole(run, "total_steps", info->total_steps);
    }
    if (info->ramp != NULL) {
        json_put_item(run, "ramp", json_copy(info->ramp));
    }
    if (info->noise_source != NULL) {
        json_put_text(run, "noise_source", info->noise_source);
    }
    cJSON *model = spec_json(info->spec);
    json_put_whole(model, "parameters", info->parameters);
    json_put_number(model, "flops_update", info->flops_update);
    json_put_number(model, "flops_token", info->flops_token);
    json_put_item(run, "model", model);
    json_put_item(run, "config", json_copy(info->config));
    if (info->given != NULL) {
        json_put_item(run, "given", json_copy(info->given));
    }
    json_put_item(run, "machine", json_copy(info->machine));
    cJSON *plan = json_array();
    for (int i = 0; i < info->plan_rows; i++) {
        cJSON *row = json_object();
        json_put_text(row, "kind", info->plan[i].kind);
        json_put_whole(row, "bytes", (int64_t)info->plan[i].planned);
        json_append(plan, row);
    }
    json_put_item(run, "memory_plan", plan);
    return run;
}

/* Appends to a list that may not be there yet, with the time. */
static cJSON *append_event(cJSON *run, const char *list, int64_t step)
{
    cJSON *events = cJSON_GetObjectItemCaseSensitive(run, list);
    if (!cJSON_IsArray(events)) {
        events = json_array();
        json_put_item(run, list, events);
    }
    cJSON *event = json_object();
    char now[CLOCK_STAMP_SIZE];
    clock_stamp(now);
    json_put_whole(event, "step", step);
    json_put_text(event, "at", now);
    json_append(events, event);
    return event;
}

void record_failed_save(Record *record, int64_t step, const char *why)
{
    json_put_text(append_event(record->run, "failed_saves", step), "why", why);
}

/* Takes over from the run.json of the run that is continued: when it first started, and from which
 * steps it was resumed, this time included. */
static int carry_over(Record *record, const char *dir, int64_t step)
{
    cJSON *before = NULL;
    if (io_exists(record->run_path)) {
        int code = record_load(dir, RECORD_RUN, &before);
        if (code != 0) {
            return err_wrap(code, "cannot resume");
        }
    }
    const char *started = json_text(before, "started");
    static const char *const lists[] = {"resumed", "failed_saves"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        if (cJSON_IsArray(json_get(before, lists[i]))) {
            json_put_item(record->run, lists[i], json_copy(json_get(before, lists[i])));
        }
    }
    append_event(record->run, "resumed", step);
    if (started != NULL) {
        replace_text(record->run, "started", started);
    }
    cJSON_Delete(before);
    return 0;
}

/* Those of an earlier session, which may have had other ranks, would be read as this one's. */
static int remove_rank_files(const char *dir)
{
    int64_t *ranks;
    size_t count;
    int code = record_rank_files(dir, &ranks, &count);
    for (size_t i = 0; i < count && code == 0; i++) {
        char *path = mem_format("%s/ranks/%lld.json", dir, (long long)ranks[i]);
        if (unlink(path) != 0 && errno != ENOENT) {
            code = io_error(path, "remove");
        }
        free(path);
    }
    free(ranks);
    return code;
}

/* The record does without its events: a full disk must not end a run for their sake. */
static void keep_events(Record *record, int code)
{
    if (code != 0) {
        log_warn("%s; the run goes on without TensorBoard events", err_message());
        events_close(record->events, false);
        record->events = NULL;
    }
}

/* Whether dir has the record of an earlier run, whose files this one may remove. Lines without a
 * record are not pacer's. */
static int find_earlier(const char *dir, bool *earlier)
{
    char *metrics = io_join(dir, RECORD_LINES);
    struct stat info;
    *earlier = io_has(dir, RECORD_RUN);
    int code = 0;
    if (!*earlier && stat(metrics, &info) == 0 && (!S_ISREG(info.st_mode) || info.st_size > 0)) {
        code = err_set(ERR_INPUT,
                       "%s: belongs to no run of pacer's (there is no run.json beside it); give "
                       "another --out, or move it",
                       metrics);
    }
    free(metrics);
    return code;
}

/* Of a run that is begun anew in the place of another. */
static void remove_samples(const char *dir)
{
    char *path = io_join(dir, RECORD_SAMPLES);
    unlink(path);
    free(path);
}

int record_open(const char *dir, const RecordInfo *info, int64_t resume_step, Record **out)
{
    *out = NULL;
    bool fresh = resume_step < 0;
    bool earlier = false;
    int code = io_make_folders(dir);
    if (code == 0 && fresh) {
        code = find_earlier(dir, &earlier);
    } else if (code == 0) {
        code = record_resume(dir, resume_step);
    }
    if (code != 0) {
        return code;
    }
    Record *record = mem_zalloc(1, sizeof *record);
    record->run_path = io_join(dir, RECORD_RUN);
    record->run = describe(info);
    if (earlier) {
        events_remove(dir);
        remove_samples(dir);
    } else if (!fresh) {
        code = carry_over(record, dir, resume_step);
    }
    code = code != 0 ? code : lines_open(&record->metrics, io_join(dir, RECORD_LINES), fresh);
    code = code != 0 ? code : record_save(record, RUN_RUNNING, NULL, NULL);
    /* Not before: a record that says that it is done has all its files. */
    if (code == 0 && (earlier || !fresh)) {
        code = remove_rank_files(dir);
    }
    if (code != 0) {
        record_close(record);
        return code;
    }
    if (info->events) {
        code = events_open(dir, &record->events);
        keep_events(record, code != 0 ? code
                                      : event_log_start(record->events, record->run, clock_now(),
                                                        resume_step));
    }
    *out = record;
    return 0;
}

cJSON *summary_json(const Summary *summary, cJSON *checks)
{
    cJSON *object = json_object();
#define X(name) json_put_or_null(object, #name, summary->name);
    PACER_SUMMARY(X)
#undef X
    json_put_item(object, "phases", summary->phases != NULL ? timers_json(summary->phases) : NULL);
    json_put_item(object, "checks", checks);
    return object;
}

int record_catch_up(Record *record)
{
    int code = lines_catch_up(&record->metrics);
    return code != 0 ? code : lines_catch_up(&record->samples);
}

int record_save(Record *record, RunState state, const char *message, cJSON *summary)
{
    char now[CLOCK_STAMP_SIZE];
    clock_stamp(now);
    replace_text(record->run, "status", run_state_name(state));
    replace_text(record->run, "message", message);
    replace_text(record->run, "updated", now);
    if (summary != NULL) {
        json_replace(record->run, "summary", summary);
    }
    /* Lines that run.json summarises must not be lost when it survives. */
    int code = record_catch_up(record);
    if (code == 0 && record->metrics.file >= 0 && fsync(record->metrics.file) != 0 &&
        errno != EINVAL) {
        code = io_error(record->metrics.path, "write");
    }
    return code != 0 ? code : json_save(record->run_path, record->run);
}

int record_fail(const char *dir, int64_t pid, const char *host, const char *why, bool lost)
{
    cJSON *run;
    int code = record_load(dir, RECORD_RUN, &run);
    if (code != 0) {
        return code;
    }
    const char *on = json_text(json_get(run, "machine"), "host");
    bool own = pid == 0 || (json_number(json_get(run, "process"), "pid") == (double)pid &&
                            on != NULL && strcmp(on, host) == 0);
    bool running = own && record_is(run, RUN_RUNNING);
    if (running) {
        char now[CLOCK_STAMP_SIZE];
        clock_stamp(now);
        replace_text(run, "status", run_state_name(RUN_FAILED));
        replace_text(run, "message", why);
        replace_text(run, "updated", now);
    }
    const char *said = json_text(run, "message"); /* by the first rank itself, or by another */
    bool same = pid == 0 || (said != NULL && strstr(why, said) != NULL);
    bool marks = own && lost && same && record_is(run, RUN_FAILED) && json_get(run, "lost") == NULL;
    if (marks) {
        cJSON_AddTrueToObject(run, "lost");
    }
    if (running || marks) {
        char *path = io_join(dir, RECORD_RUN);
        code = json_save(path, run);
        free(path);
    }
    cJSON_Delete(run);
    return code;
}

void record_machine(Record *record, cJSON *machine)
{
    json_replace(record->run, "machine", machine);
}

void record_close(Record *record)
{
    if (record == NULL) {
        return;
    }
    lines_close(&record->metrics);
    lines_close(&record->samples);
    if (record->events != NULL && !record_is(record->run, RUN_RUNNING)) {
        keep_events(record, event_log_end(record->events, record->run, clock_now()));
    }
    events_close(record->events, false);
    cJSON_Delete(record->run);
    free(record->run_path);
    free(record);
}

static int append(LineFile *lines, const cJSON *object)
{
    char *json = json_line(object), *line = mem_format("%s\n", json);
    int code = lines_append(lines, line);
    free(line);
    free(json);
    return code;
}

/* Appends the object as one line, and as one event; takes it. */
static int put_line(Record *record, cJSON *line)
{
    int code = append(&record->metrics, line);
    if (code == 0 && record->events != NULL) {
        keep_events(record, event_log_line(record->events, record->run, line, clock_now()));
    }
    cJSON_Delete(line);
    return code;
}

int record_step(Record *record, const RecordStep *step)
{
    cJSON *line = json_object();
    json_put_whole(line, "step", step->step);
    json_put_whole(line, "tokens", step->tokens);
    if (step->left_out > 0) {
        json_put_whole(line, "counted", step->tokens - step->left_out);
    }
    json_put(line, "loss", step->loss);
    json_put(line, "lr", step->lr);
    json_put(line, "grad_norm", step->grad_norm);
    json_put(line, "tok_s", step->tok_s);
    json_put(line, "ms", step->ms);
    json_put(line, "peak_bytes", step->peak_bytes);
    json_put(line, "noise_scale", step->noise_scale);
    json_put(line, "noise_error", step->noise_error);
    json_put(line, "noise_tokens", step->noise_tokens);
    return put_line(record, line);
}

int record_eval(Record *record, int64_t step, double val_loss)
{
    cJSON *line = json_object();
    json_put_whole(line, "step", step);
    json_put_number(line, "val_loss", val_loss);
    return put_line(record, line);
}

int record_sample(Record *record, int64_t step, int64_t tokens, const char *text)
{
    cJSON *object = json_object();
    json_put_whole(object, "step", step);
    json_put_whole(object, "tokens", tokens);
    json_put_text(object, "text", text);
    char *printed = json_line(object), *safe = escape_json(printed);
    char *line = mem_format("%s\n", safe);
    int code = 0;
    if (record->samples.path == NULL) { /* no file without a sample */
        char *folder = io_parent(record->run_path);
        code = lines_open(&record->samples, io_join(folder, RECORD_SAMPLES), false);
        free(folder);
    }
    code = code != 0 ? code : lines_append(&record->samples, line);
    free(line);
    free(safe);
    free(printed);
    cJSON_Delete(object);
    return code;
}

static int cut_behind(const char *dir, const char *name, int64_t step)
{
    char *path = io_join(dir, name);
    char *text = NULL;
    size_t length = 0;
    int code = io_exists(path) ? io_read_all(path, SIZE_MAX / 2, &text, &length) : 0;
    char *kept = mem_alloc(length + 1); /* and one newline, if the last line has none */
    size_t used = 0;
    long number = 0, damaged = 0; /* lines, from 1 */
    for (size_t at = 0; at < length && code == 0;) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t size = newline != NULL ? (size_t)(newline - text) - at : length - at;
        cJSON *line = json_parse(text + at, size, NULL);
        int64_t found = 0;
        bool good = json_whole(json_get(line, "step"), 9007199254740991.0, &found);
        cJSON_Delete(line);
        number++;
        if (!good) {
            damaged = damaged != 0 ? damaged : number;
        } else if (damaged != 0) {
            code = err_set(ERR_INPUT, "%s:%ld: damaged line; remove it to resume", path, damaged);
        } else if (found <= step) {
            memcpy(kept + used, text + at, size);
            used += size;
            kept[used++] = '\n';
        }
        at += size + 1;
    }
    bool changed = used != length;
    free(text);
    if (code == 0 && changed) {
        code = io_write_atomic(path, kept, used);
    }
    free(kept);
    free(path);
    return code;
}

int record_resume(const char *dir, int64_t step)
{
    int code = cut_behind(dir, RECORD_LINES, step);
    return code != 0 ? code : cut_behind(dir, RECORD_SAMPLES, step);
}

int record_rank(const char *dir, const RecordRank *rank)
{
    cJSON *object = json_object();
    json_put_whole(object, "schema", RECORD_SCHEMA);
    json_put_whole(object, "rank", rank->rank);
    json_put_whole(object, "ranks", rank->ranks);
    json_put_text(object, "host", rank->host);
    json_put_text(object, "device", rank->device);
    json_put_text(object, "uuid", rank->uuid);
    json_put_or_null(object, "wall_s",
                     rank->timers != NULL ? value_of(rank->timers->wall_s) : (Value){0});
    json_put_or_null(object, "first_loss", rank->first_loss);
    json_put_item(object, "timers", rank->timers != NULL ? timers_json(rank->timers) : NULL);
    json_put_item(object, "spans", rank->timers != NULL ? timers_spans_json(rank->timers) : NULL);
    cJSON *memory = json_put_object(object, "memory");
    json_put_or_null(memory, "peak_bytes", rank->peak_bytes);
    json_put_or_null(memory, "allocated_bytes", rank->allocated_bytes);
    json_put_or_null(memory, "reserved_bytes", rank->reserved_bytes);
    json_put_or_null(memory, "planned_bytes", rank->planned_bytes);
    json_put_or_null(memory, "resident_bytes", rank->resident_bytes);
    json_put_or_null(memory, "loader_bytes", rank->loader_bytes);
    cJSON *categories = json_put_array(memory, "categories");
    for (int i = 0; i < rank->category_count; i++) {
        cJSON *row = json_object();
        json_put_text(row, "kind", rank->categories[i].kind);
        json_put_whole(row, "planned_bytes", (int64_t)rank->categories[i].planned);
        json_put_whole(row, "peak_bytes", (int64_t)rank->categories[i].peak);
        json_append(categories, row);
    }
    json_put_item(object, "gpu", json_copy(rank->gpu));
    char *folder = io_join(dir, "ranks");
    char *path = mem_format("%s/%d.json", folder, rank->rank);
    int code = io_make_folders(folder);
    if (code == 0) {
        code = json_save(path, object);
    }
    free(path);
    free(folder);
    cJSON_Delete(object);
    return code;
}
