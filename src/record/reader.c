#include "record/reader.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int record_load(const char *dir, const char *name, cJSON **tree)
{
    bool experiment = strcmp(name, RECORD_EXPERIMENT) == 0;
    char *path = io_join(dir, name);
    int code = json_load(path, tree);
    code = code != 0 ? code
                     : json_read_format(path, *tree, experiment ? "format" : "schema",
                                        experiment ? EXPERIMENT_FORMAT : RECORD_SCHEMA);
    if (code != 0) {
        cJSON_Delete(*tree);
        *tree = NULL;
    }
    free(path);
    return code;
}

bool record_is(const cJSON *run, RunState state)
{
    RunState found;
    return run_state_find(json_text(run, "status"), &found) && found == state;
}

int record_is_done(const char *dir, bool *done)
{
    char *path = io_join(dir, RECORD_RUN);
    cJSON *run;
    int code = json_load_optional(path, &run);
    *done = record_is(run, RUN_DONE);
    cJSON_Delete(run);
    free(path);
    return code;
}

/* K of "K.json", as pacer writes it; -1 for any other name. */
static int64_t rank_of_name(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    bool good = digits > 0 && digits < 10 && strcmp(name + digits, ".json") == 0 &&
                (digits == 1 || name[0] != '0');
    return good ? strtoll(name, NULL, 10) : -1;
}

static int by_number(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

int record_rank_files(const char *dir, int64_t **ranks, size_t *count)
{
    *ranks = NULL;
    *count = 0;
    char *folder = io_join(dir, "ranks");
    DIR *entries = opendir(folder);
    int code = entries == NULL && errno != ENOENT ? io_error(folder, "read") : 0;
    free(folder);
    for (const struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        int64_t rank = rank_of_name(entry->d_name);
        if (rank >= 0) {
            if ((*count & (*count - 1)) == 0) { /* full at powers of two */
                *ranks = mem_realloc(*ranks, *count == 0 ? 1 : 2 * *count, sizeof **ranks);
            }
            (*ranks)[(*count)++] = rank;
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    if (*count > 0) {
        qsort(*ranks, *count, sizeof **ranks, by_number);
    }
    return code;
}

#define LINE_LIMIT ((size_t)1 << 20)

int lines_read(const char *dir, LineTake *take, void *context, bool *torn)
{
    char *path = io_join(dir, RECORD_LINES);
    char *text = NULL;
    size_t length = 0;
    int code = io_read_all(path, SIZE_MAX / 2, &text, &length);
    long number = 0;
    bool left_over = false;
    for (size_t at = 0; code == 0 && at < length;) {
        const char *newline = memchr(text + at, '\n', length - at);
        size_t size = newline != NULL ? (size_t)(newline - text) - at : length - at;
        char *where = mem_format("%s:%ld", path, ++number);
        cJSON *line = size <= LINE_LIMIT ? json_parse(text + at, size, NULL) : NULL;
        if (cJSON_IsObject(line)) {
            code = take(context, line, where, number);
        } else if (newline != NULL) {
            code = err_set(ERR_INPUT, "%s: not a line of a run's record", where);
        } else {
            left_over = true;
        }
        cJSON_Delete(line);
        free(where);
        at += size + 1;
    }
    free(text);
    free(path);
    if (torn != NULL) {
        *torn = left_over;
    }
    return code;
}
