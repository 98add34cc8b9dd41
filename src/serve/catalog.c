#include "serve/catalog.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/mem.h"
#include "record/process.h"
#include "record/reader.h"
#include "report/results.h"
#include "report/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MOST 8          /* of folders below those that were named */
#define ENTRIES_MOST 20000    /* listed */
#define FOLDERS_MOST 100000   /* looked into */
#define RECORD_MOST (8 << 20) /* bytes of a run.json or experiment.json */
#define TAIL 16384            /* bytes of metrics.jsonl that are read */
#define REST 1.0              /* seconds between two looks, at least */
#define REST_SHARE 50         /* a look takes at most one part of so many of the time */

/* --- reading one --- */

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

static void take_text(char **field, const char *text)
{
    free(*field);
    *field = mem_strdup(text != NULL ? text : "");
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

static double seconds_of(struct timespec time)
{
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return seconds_of(time);
}

static void read_run(Entry *entry, const cJSON *run)
{
    RunState state = RUN_FAILED;
    run_state_find(json_text(run, "status"), &state);
    entry->state = run == NULL ? RUN_WAITING : (int)state;
    take_text(&entry->model, json_text(run, "model.name"));
    take_text(&entry->host, json_text(run, "machine.host"));
    take_text(&entry->title, NULL);
    cJSON_Delete(entry->process);
    entry->process = state == RUN_RUNNING ? json_copy(json_get(run, "process")) : NULL;
    entry->parameters = json_number(run, "model.parameters");
    entry->total = or_else(json_number(run, "total_steps"), json_number(run, "config.steps"));
    entry->begun = results_stamp(run, "started");
    entry->wrote =
        seconds_of(entry->lines.size >= 0 ? entry->lines.changed : entry->record.changed);
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
            page_put(&label, "%s%s %.60s", first ? "" : ", ", setting->string,
                     setting->valuestring);
            first = false;
        }
    }
    if (json_number(run, "repeat") > 0) {
        page_put(&label, ", repeat %.0f", json_number(run, "repeat"));
    }
    return label.text;
}

static void read_experiment(Entry *entry, const cJSON *json)
{
    take_text(&entry->title, json_text_or(json, "title", json_text(json, "name")));
    take_text(&entry->model, json_text(json, "name"));
    take_text(&entry->host, NULL);
    entry->begun = results_stamp(json, "started");
    entry->wrote = or_else(results_stamp(json, "updated"), seconds_of(entry->record.changed));
    entry->loss = entry->val_loss = entry->tok_s = entry->parameters = entry->step = NAN;
    entry->total = entry->gap = NAN;
    entry->runs = entry->done = entry->bad = 0;
    cJSON_Delete(entry->labels);
    entry->labels = json_object();
    bool running = false;
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
            running |= state == RUN_RUNNING;
        }
    }
    entry->step = entry->done;
    entry->total = entry->runs;
    entry->state = json_is_true(json, "finished") ? RUN_DONE : running ? RUN_RUNNING : RUN_STOPPED;
}

/* Reads what has changed; true when anything has. */
static bool refresh(Entry *entry)
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

/* With what the process of a run that is running says now. */
static int state_now(const Entry *entry, double now)
{
    if (entry->state != RUN_RUNNING || entry->is_experiment) {
        return entry->state;
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

/* --- looking for them --- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

static void entry_free(Entry *entry)
{
    free(entry->path);
    free(entry->name);
    free(entry->model);
    free(entry->title);
    free(entry->host);
    cJSON_Delete(entry->process);
    cJSON_Delete(entry->labels);
    free(entry);
}

static int by_id(const void *a, const void *b)
{
    return strcmp((*(Entry *const *)a)->id, (*(Entry *const *)b)->id);
}

static Entry *find(const Catalog *catalog, size_t count, const char *id)
{
    Entry key = {0}, *wanted = &key;
    snprintf(key.id, sizeof key.id, "%s", id);
    Entry **found =
        count > 0 ? bsearch(&wanted, catalog->entries, count, sizeof wanted, by_id) : NULL;
    return found != NULL ? *found : NULL;
}

typedef struct {
    Catalog *catalog;
    size_t sorted; /* entries of the last look */
    size_t folders;
    double now; /* seconds since 1970 */
    bool changed;
} Look;

static const Entry *found(Look *look, const char *path, const char *name, const Entry *parent,
                          bool is_experiment)
{
    Catalog *catalog = look->catalog;
    char id[ENTRY_ID_SIZE];
    const char *above = parent != NULL ? parent->id : "";
    snprintf(id, sizeof id, "%016" PRIx64, io_hash(path, strlen(path)));
    Entry *entry = find(catalog, look->sorted, id);
    if (entry == NULL && catalog->count >= ENTRIES_MOST) {
        catalog->full = true;
        return parent;
    }
    if (entry == NULL) {
        entry = mem_zalloc(1, sizeof *entry);
        snprintf(entry->id, sizeof entry->id, "%s", id);
        entry->path = mem_strdup(path);
        entry->name = mem_strdup(name);
        catalog->entries = mem_grow(catalog->entries, catalog->count, &catalog->capacity,
                                    sizeof *catalog->entries);
        catalog->entries[catalog->count++] = entry;
        look->changed = true;
    }
    entry->seen = true;
    if (entry->is_experiment != is_experiment || strcmp(entry->parent, above) != 0) {
        entry->is_experiment = is_experiment;
        snprintf(entry->parent, sizeof entry->parent, "%s", above);
        take_text(&entry->model, NULL);
        entry->record.size = -2;
    }
    if (refresh(entry)) {
        look->changed = true;
        if (!is_experiment && parent != NULL) {
            take_text(&entry->title,
                      cJSON_GetStringValue(json_get(parent->labels, base_name(path))));
        }
    }
    int state = state_now(entry, look->now);
    look->changed |= state != entry->shown;
    entry->shown = state;
    return entry;
}

static bool has_file(int folder, const char *name)
{
    struct stat file;
    return fstatat(folder, name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(file.st_mode);
}

static bool is_folder(int at, const struct dirent *entry)
{
    struct stat file;
    return entry->d_name[0] != '.' &&
           (entry->d_type == DT_DIR ||
            (entry->d_type == DT_UNKNOWN &&
             fstatat(at, entry->d_name, &file, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(file.st_mode)));
}

/* A run ends the way down; an experiment has its runs below. */
static void walk(Look *look, const char *path, const char *name, const Entry *parent, int depth)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int folder = open(path, flags);
    DIR *entries = folder >= 0 ? fdopendir(folder) : NULL;
    if (entries == NULL) {
        if (folder >= 0) {
            close(folder);
        }
        return;
    }
    const Entry *itself = NULL;
    bool experiment = has_file(folder, RECORD_EXPERIMENT);
    bool run = !experiment && has_file(folder, RECORD_RUN);
    if (experiment || run) {
        itself = found(look, path, name, parent, experiment);
    }
    for (const struct dirent *entry;
         !run && depth < DEPTH_MOST && (entry = readdir(entries)) != NULL;) {
        if (is_folder(folder, entry) && look->folders++ < FOLDERS_MOST) {
            char *below = io_join(path, entry->d_name);
            char *shown = name[0] != '\0' ? mem_format("%s/%s", name, entry->d_name)
                                          : mem_strdup(entry->d_name);
            walk(look, below, shown, experiment ? itself : parent, depth + 1);
            free(shown);
            free(below);
        }
    }
    closedir(entries);
}

static void look_again(Catalog *catalog)
{
    double begin = clock_seconds();
    if (begin < catalog->due) {
        return;
    }
    Look look = {.catalog = catalog, .sorted = catalog->count, .now = now_seconds()};
    catalog->full = false;
    for (size_t i = 0; i < catalog->count; i++) {
        catalog->entries[i]->seen = false;
    }
    for (int i = 0; i < catalog->root_count; i++) {
        const char *root = catalog->roots[i];
        char *record = io_join(root, RECORD_RUN), *experiment = io_join(root, RECORD_EXPERIMENT);
        bool itself = io_exists(record) || io_exists(experiment);
        walk(&look, root, itself || catalog->root_count > 1 ? base_name(root) : "", NULL, 0);
        free(record);
        free(experiment);
    }
    size_t kept = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        Entry *entry = catalog->entries[i];
        if (entry->seen) {
            catalog->entries[kept++] = entry;
        } else {
            entry_free(entry);
            look.changed = true;
        }
    }
    catalog->count = kept;
    catalog->full |= look.folders >= FOLDERS_MOST;
    if (kept > 0) {
        qsort(catalog->entries, kept, sizeof *catalog->entries, by_id);
    }
    catalog->version += look.changed;
    double end = clock_seconds();
    catalog->due = end + fmax(REST, REST_SHARE * (end - begin));
}

static bool lies_in(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 &&
           (path[length] == '/' || path[length] == '\0' || strcmp(folder, "/") == 0);
}

/* What lies in another of the folders is found there. */
static void drop_nested(Catalog *catalog)
{
    int kept = 0;
    for (int i = 0; i < catalog->root_count; i++) {
        char *root = catalog->roots[i];
        bool nested = false;
        for (int j = 0; j < catalog->root_count && !nested; j++) {
            bool first = j<kept, later = j> i;
            nested =
                (first && lies_in(root, catalog->roots[j])) ||
                (later && lies_in(root, catalog->roots[j]) && strcmp(root, catalog->roots[j]) != 0);
        }
        if (nested) {
            free(root);
        } else {
            catalog->roots[kept++] = root;
        }
    }
    catalog->root_count = kept;
}

int catalog_open(Catalog *catalog, char *const *folders, int count)
{
    *catalog = (Catalog){.roots = mem_zalloc((size_t)count, sizeof *catalog->roots)};
    pthread_mutex_init(&catalog->lock, NULL);
    for (int i = 0; i < count; i++) {
        char *real = realpath(folders[i], NULL);
        if (real == NULL || !io_is_folder(real)) {
            free(real);
            catalog_close(catalog);
            return err_set(ERR_INPUT, "%s: not a folder; name folders that have runs in them",
                           folders[i]);
        }
        catalog->roots[catalog->root_count++] = real;
    }
    drop_nested(catalog);
    catalog->version = (uint64_t)time(NULL) << 20; /* unlike those of an earlier session */
    return 0;
}

void catalog_close(Catalog *catalog)
{
    for (size_t i = 0; i < catalog->count; i++) {
        entry_free(catalog->entries[i]);
    }
    free(catalog->entries);
    for (int i = 0; i < catalog->root_count; i++) {
        free(catalog->roots[i]);
    }
    free(catalog->roots);
    pthread_mutex_destroy(&catalog->lock);
    *catalog = (Catalog){0};
}

/* --- handing them out --- */

static cJSON *entry_json(const Entry *entry)
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
    const struct {
        const char *name;
        double number;
    } numbers[] = {{"loss", entry->loss},   {"val_loss", entry->val_loss},
                   {"tok_s", entry->tok_s}, {"parameters", entry->parameters},
                   {"step", entry->step},   {"total", entry->total},
                   {"begun", entry->begun}, {"wrote", entry->wrote}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (isfinite(numbers[i].number)) {
            json_put_number(object, numbers[i].name, numbers[i].number);
        }
    }
    if (entry->is_experiment) {
        json_put_whole(object, "bad", entry->bad);
    }
    return object;
}

void catalog_put(Catalog *catalog, const char *seen, Page *page)
{
    char version[32];
    cJSON *list = json_object();
    pthread_mutex_lock(&catalog->lock);
    look_again(catalog);
    snprintf(version, sizeof version, "%" PRIu64, catalog->version);
    json_put_text(list, "version", version);
    json_put_number(list, "now", now_seconds());
    if (seen == NULL || strcmp(seen, version) != 0) {
        cJSON *folders = json_put_array(list, "folders");
        for (int i = 0; i < catalog->root_count; i++) {
            json_append_text(folders, catalog->roots[i]);
        }
        json_put_bool(list, "full", catalog->full);
        cJSON *entries = json_put_array(list, "entries");
        for (size_t i = 0; i < catalog->count; i++) {
            json_append(entries, entry_json(catalog->entries[i]));
        }
    }
    pthread_mutex_unlock(&catalog->lock);
    char *line = json_line(list), *safe = escape_json(line);
    page_put_bytes(page, safe, strlen(safe));
    free(safe);
    free(line);
    cJSON_Delete(list);
}

bool catalog_find(Catalog *catalog, const char *id, Place *place)
{
    *place = (Place){0};
    pthread_mutex_lock(&catalog->lock);
    if (catalog->due == 0) { /* a link to it was opened before the list */
        look_again(catalog);
    }
    const Entry *entry = find(catalog, catalog->count, id);
    if (entry != NULL) {
        *place = (Place){mem_strdup(entry->path), mem_strdup(entry->name), mem_strdup(entry->title),
                         entry->is_experiment};
    }
    pthread_mutex_unlock(&catalog->lock);
    char *real = place->path != NULL ? realpath(place->path, NULL) : NULL;
    bool same = real != NULL && strcmp(real, place->path) == 0;
    free(real);
    if (!same) {
        place_free(place);
    }
    return same;
}

void place_free(Place *place)
{
    free(place->path);
    free(place->name);
    free(place->title);
    *place = (Place){0};
}
