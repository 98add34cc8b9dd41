#include "serve/catalog.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/mem.h"
#include "record/reader.h"
#include "report/watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MOST 8        /* of folders below those that were named */
#define ENTRIES_MOST 20000  /* listed */
#define FOLDERS_MOST 100000 /* looked into */
#define STILL 60.0          /* seconds in which a run of an experiment begins its record */
#define REST 1.0            /* seconds between two looks, at least */
#define REST_SHARE 50       /* a look takes at most one part of so many of the time */

/* --- looking for them --- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
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
        entry_text(&entry->model, NULL);
        entry->record.size = -2;
    }
    if (entry_refresh(entry)) {
        look->changed = true;
        if (!is_experiment && parent != NULL) {
            entry_text(&entry->title,
                       cJSON_GetStringValue(json_get(parent->labels, base_name(path))));
        }
    }
    int state = entry_state(entry, look->now);
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

/* A sweep that was killed leaves a record that calls a run running; the run's own says that it is
 * over, or that its process is gone. One that has no record yet is being begun. */
static void find_gone(Look *look, Entry *experiment)
{
    const Catalog *catalog = look->catalog;
    int known = 0, live = 0;
    for (size_t i = 0; i < catalog->count; i++) {
        const Entry *run = catalog->entries[i];
        if (run->seen && !run->is_experiment && strcmp(run->parent, experiment->id) == 0) {
            known++;
            live += run->shown == RUN_RUNNING || run->shown == WATCH_SILENT ||
                    run->shown == RUN_WAITING;
        }
    }
    bool still = look->now - (double)experiment->record.changed.tv_sec > STILL;
    experiment->gone =
        still && live == 0 && known >= experiment->done + experiment->bad + experiment->going;
    int state = entry_state(experiment, look->now);
    look->changed |= state != experiment->shown;
    experiment->shown = state;
}

static void look_again(Catalog *catalog)
{
    double begin = clock_seconds();
    if (begin < catalog->due) {
        return;
    }
    Look look = {.catalog = catalog, .sorted = catalog->count, .now = clock_now()};
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
    for (size_t i = 0; i < catalog->count; i++) {
        if (catalog->entries[i]->is_experiment && catalog->entries[i]->state == RUN_RUNNING) {
            find_gone(&look, catalog->entries[i]);
        }
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

char *catalog_link_out(const Catalog *catalog, const char *path)
{
    char *paths[] = {(char *)path, NULL}, *link = NULL;
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    for (FTSENT *file; link == NULL && tree != NULL && (file = fts_read(tree)) != NULL;) {
        char *real = file->fts_info == FTS_SL ? realpath(file->fts_path, NULL) : NULL;
        bool inside = real == NULL;
        for (int i = 0; i < catalog->root_count && !inside; i++) {
            inside = lies_in(real, catalog->roots[i]);
        }
        link = inside ? NULL : mem_strdup(file->fts_path);
        free(real);
    }
    if (tree != NULL) {
        fts_close(tree);
    }
    return link;
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
    mem_free_list(catalog->roots, (size_t)catalog->root_count);
    pthread_mutex_destroy(&catalog->lock);
    *catalog = (Catalog){0};
}

/* --- handing them out --- */

void catalog_put(Catalog *catalog, const char *seen, Page *page)
{
    char version[32];
    cJSON *list = json_object();
    pthread_mutex_lock(&catalog->lock);
    look_again(catalog);
    snprintf(version, sizeof version, "%" PRIu64, catalog->version);
    json_put_text(list, "version", version);
    json_put_number(list, "now", clock_now());
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
    page_put_tree(page, list);
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
