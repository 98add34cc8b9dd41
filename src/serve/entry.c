#include "serve/catalog.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "record/process.h"
#include "record/reader.h"
#include "report/results.h"
#include "report/watch.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_MOST (8 << 20) /* bytes of a run.json or experiment.json */
#define TAIL 16384            /* bytes of metrics.jsonl that are read */

static FileKey key_of(const char *dir, const char *name)
{
    char *path = io_join(dir, name);
    struct stat now;
    bool there = lstat(path, &now) == 0 && S_ISREG(now.st_mode);
    free(path);
    return there ? (FileKey){now.st_ino, now.st_size, now.st_mtim} : (FileKey){.size = -1};
}

static bool is_same(const FileKey *a, const FileKey *b)
{
    return a->size == b->size && a->inode == b->inode && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

void entry_text(char **field, const char *text)
{
    mem_set_text(field, text != NULL ? text : "");
}

/* The last losses, and how long a line takes, of whole lines at the end of metrics.jsonl. */
static void read_tail(Entry *entry)
{
    char *path = io_join(entry->path, RECORD_LINES);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    free(path);
    if (file < 0) {
        return;
    }
    char *text = mem_alloc(TAIL);
    off_t from = entry->lines.size > TAIL ? entry->lines.size - TAIL : 0;
    ssize_t got = pread(file, text, TAIL, from);
    close(file);
    size_t end = got > 0 ? (size_t)got : 0;
    while (end > 0 && text[end - 1] != '\n') { /* not finished yet */
        end--;
    }
    double later = NAN;
    while (end > 0 && (isnan(entry->loss) || isnan(entry->val_loss) || isnan(entry->gap))) {
        size_t begin = end - 1;
        while (begin > 0 && text[begin - 1] != '\n') {
            begin--;
        }
        cJSON *line = begin > 0 || from == 0 ? json_parse(text + begin, end - begin, NULL) : NULL;
        double step = json_number(line, "step");
        if (json_get(line, "val_loss") != NULL) {
            entry->val_loss =
                isnan(entry->val_loss) ? json_number(line, "val_loss") : entry->val_loss;
        } else if (isnan(later) && isfinite(step)) {
            later = step;
            entry->step = step;
            entry->loss = json_number(line, "loss");
            entry->tok_s = json_number(line, "tok_s");
            entry->gap = step <= 1 ? 1e-3 * json_number(line, "ms") : NAN;
        } else if (isfinite(step) && isnan(entry->gap)) {
            entry->gap = entry->tok_s > 0 ? (later - step) * 1e-3 * json_number(line, "ms") : NAN;
        }
        cJSON_Delete(line);
        end = begin;
    }
    free(text);
}

static double or_else(double value, double otherwise)
{
    return isfinite(value) ? value : otherwise;
}

/* Called where its record was not read. */
static const char *problem_of(const Entry *entry)
{
    return entry->record.size > RECORD_MOST ? "its record is too large to be one" : err_message();
}

static void read_run(Entry *entry, const cJSON *run)
{
    RunState state = RUN_FAILED;
    run_state_find(json_text(run, "status"), &state);
    entry->state = run == NULL ? WATCH_UNREADABLE : (int)state;
    entry_text(&entry->reason, run == NULL            ? problem_of(entry)
                               : state != RUN_RUNNING ? json_text(run, "message")
                                                      : NULL);
    entry_text(&entry->model, json_text(run, "model.name"));
    entry_text(&entry->host, json_text(run, "machine.host"));
    entry_text(&entry->title, NULL);
    cJSON_Delete(entry->process);
    entry->process = state == RUN_RUNNING ? json_copy(json_get(run, "process")) : NULL;
    entry->parameters = json_number(run, "model.parameters");
    entry->total = or_else(json_number(run, "total_steps"), json_number(run, "config.steps"));
    entry->begun = results_stamp(run, "started");
    entry->wrote = clock_of(entry->lines.size >= 0 ? entry->lines.changed : entry->record.changed);
    if (state != RUN_RUNNING) { /* files are copied; what a record says is not */
        entry->wrote = or_else(results_stamp(run, "updated"), entry->wrote);
    }
    bool summed = state != RUN_RUNNING; /* while it runs, the lines know more */
    entry->step = summed ? json_number(run, "summary.steps") : NAN;
    entry->loss = summed ? json_number(run, "summary.train_loss") : NAN;
    entry->val_loss = summed ? json_number(run, "summary.val_loss") : NAN;
    entry->tok_s = summed ? json_number(run, "summary.tok_s") : NAN;
    entry->gap = NAN;
    if (entry->lines.size > 0 && !isfinite(entry->loss)) {
        read_tail(entry);
    }
}

/* What varies, of a run of an experiment: "batch 16, lr 0.001". Caller frees. */
static char *label_of(const cJSON *run)
{
    Page label = {0};
    const cJSON *setting;
    page_put(&label, "%s%s", json_text_or(run, "peer", ""),
             json_text(run, "peer") != NULL ? ": " : "");
    bool first = true;
    cJSON_ArrayForEach(setting, json_get(run, "settings"))
    {
        if (cJSON_IsString(setting) && strcmp(setting->string, "seed") != 0) {
            const char *text = setting->valuestring;
            char *end, number[32] = "";
            double value = strtod(text, &end);
            if (strchr(text, '.') != NULL && *end == '\0' && strlen(text) > 8) {
                snprintf(number, sizeof number, "%.4g", value); /* of a rule: 0.00424264069 */
            }
            page_put(&label, "%s%s %.60s", first ? "" : ", ", setting->string,
                     number[0] != '\0' ? number : text);
            first = false;
        }
    }
    if (json_number(run, "repeat") > 0) {
        page_put(&label, ", repeat %.0f", json_number(run, "repeat") + 1);
    }
    return label.text;
}

static void read_experiment(Entry *entry, const cJSON *json)
{
    entry_text(&entry->title, json_text_or(json, "title", json_text(json, "name")));
    entry_text(&entry->model, json_text(json, "name"));
    entry_text(&entry->host, NULL);
    entry_text(&entry->reason, json == NULL ? problem_of(entry) : NULL);
    entry->begun = results_stamp(json, "started");
    entry->wrote = or_else(results_stamp(json, "updated"), clock_of(entry->record.changed));
    entry->loss = entry->val_loss = entry->tok_s = entry->parameters = entry->step = NAN;
    entry->total = entry->gap = NAN;
    entry->runs = entry->done = entry->bad = entry->going = 0;
    entry->gone = false;
    cJSON_Delete(entry->labels);
    entry->labels = json_object();
    const cJSON *run;
    cJSON_ArrayForEach(run, json_get(json, "runs"))
    {
        RunState state;
        entry->runs++;
        if (json_text(run, "id") != NULL) {
            char *label = label_of(run);
            json_put_text(entry->labels, json_text(run, "id"), label);
            free(label);
        }
        if (run_state_find(json_text(run, "state"), &state)) {
            entry->done += state == RUN_DONE;
            entry->bad += state != RUN_DONE && run_state_is_over(state);
            entry->going += state == RUN_RUNNING;
        }
    }
    entry->step = entry->done;
    entry->total = entry->runs;
    entry->state = json == NULL                     ? WATCH_UNREADABLE
                   : json_is_true(json, "finished") ? RUN_DONE
                   : entry->going > 0               ? RUN_RUNNING
                                                    : RUN_STOPPED;
}

bool entry_refresh(Entry *entry)
{
    const char *name = entry->is_experiment ? RECORD_EXPERIMENT : RECORD_RUN;
    FileKey record = key_of(entry->path, name);
    FileKey lines =
        entry->is_experiment ? (FileKey){.size = -1} : key_of(entry->path, RECORD_LINES);
    if (entry->model != NULL && is_same(&record, &entry->record) &&
        is_same(&lines, &entry->lines)) {
        return false;
    }
    entry->record = record;
    entry->lines = lines;
    cJSON *tree = NULL;
    if (record.size <= RECORD_MOST) {
        record_load(entry->path, name, &tree);
    }
    if (entry->is_experiment) {
        read_experiment(entry, tree);
    } else {
        read_run(entry, tree);
    }
    cJSON_Delete(tree);
    return true;
}

int entry_state(const Entry *entry, double now)
{
    if (entry->state != RUN_RUNNING || entry->is_experiment) {
        return entry->gone ? WATCH_DEAD : entry->state;
    }
    switch (process_life(entry->process, entry->host[0] != '\0' ? entry->host : NULL)) {
    case PROCESS_GONE:
        return WATCH_DEAD;
    case PROCESS_ELSEWHERE:
        return watch_is_silent(now - entry->wrote, entry->gap) ? WATCH_SILENT : RUN_RUNNING;
    default:
        return RUN_RUNNING;
    }
}

cJSON *entry_json(const Entry *entry)
{
    cJSON *object = json_object();
    json_put_text(object, "id", entry->id);
    json_put_text(object, "name", entry->name);
    json_put_text(object, "kind", entry->is_experiment ? "experiment" : "run");
    json_put_text(object, "state", watch_state_name(entry->shown));
    json_put_text(object, "model", entry->model);
    if (entry->parent[0] != '\0') {
        json_put_text(object, "parent", entry->parent);
    }
    if (entry->title[0] != '\0') {
        json_put_text(object, "title", entry->title);
    }
    if (entry->reason[0] != '\0') {
        json_put_text(object, "reason", entry->reason);
    }
    const struct {
        const char *name;
        double number;
    } numbers[] = {{"loss", entry->loss},   {"val_loss", entry->val_loss},
                   {"tok_s", entry->tok_s}, {"parameters", entry->parameters},
                   {"step", entry->step},   {"total", entry->total},
                   {"begun", entry->begun}, {"wrote", entry->wrote}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_put(object, numbers[i].name, value_finite(numbers[i].number));
    }
    if (entry->is_experiment) {
        json_put_whole(object, "bad", entry->bad);
    }
    return object;
}

void entry_free(Entry *entry)
{
    free(entry->path);
    free(entry->name);
    free(entry->model);
    free(entry->title);
    free(entry->reason);
    free(entry->host);
    cJSON_Delete(entry->process);
    cJSON_Delete(entry->labels);
    free(entry);
}
