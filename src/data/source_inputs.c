#include "data/source_inputs.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/builtin.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define STANDARD_INPUT "standard input"

/* The folders that the walk is in, innermost first: one that comes up again is a loop of links. */
typedef struct Ancestor {
    const struct Ancestor *outer;
    dev_t device;
    ino_t node;
} Ancestor;

void source_inputs_leave_out(SourceInputs *inputs, const char *name, const char *why)
{
    if (inputs->left_out++ < SOURCE_MOST_WARNINGS) {
        log_warn("%s: %s; left out", name, why);
    }
}

static void add_input(SourceInputs *inputs, SourceInput input)
{
    if (inputs->count == inputs->capacity) {
        inputs->capacity = inputs->capacity == 0 ? 16 : 2 * inputs->capacity;
        inputs->list = mem_realloc(inputs->list, inputs->capacity, sizeof *inputs->list);
    }
    inputs->list[inputs->count++] = input;
    inputs->bytes += input.bytes;
}

static InputKind kind_of(const char *path, SourceFormat format)
{
    const char *dot = strrchr(path, '.');
    bool named = dot != NULL && (strcasecmp(dot, ".jsonl") == 0 || strcasecmp(dot, ".ndjson") == 0);
    return format == SOURCE_JSONL || (format == SOURCE_AUTO && named) ? INPUT_JSONL : INPUT_TEXT;
}

/* `named`: the user gave this file, and not a folder that it is in. */
static int add_file(SourceInputs *inputs, const SourceOptions *options, const char *path,
                    bool named)
{
    SourceFile file;
    int code = source_file_open(&file, path, options->interrupted);
    if (code != 0) {
        return code;
    }
    char *objection = NULL;
    code = source_file_inspect(&file, &objection);
    if (objection != NULL && named) {
        code = err_set(ERR_INPUT, "%s: %s", path, objection);
    } else if (objection != NULL) {
        source_inputs_leave_out(inputs, path, objection);
    } else if (code == 0) {
        add_input(inputs, (SourceInput){.name = mem_strdup(path),
                                        .kind = kind_of(path, options->format),
                                        .bytes = file.size});
    }
    free(objection);
    source_file_close(&file);
    return code;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The entries of a folder that are not hidden, in byte order. Caller frees names and list. */
static int list_folder(const char *path, char ***names, size_t *count)
{
    *names = NULL;
    *count = 0;
    DIR *entries = opendir(path);
    if (entries == NULL) {
        return io_error(path, "read the folder");
    }
    size_t capacity = 0;
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        if (*count == capacity) {
            capacity = capacity == 0 ? 16 : 2 * capacity;
            *names = mem_realloc(*names, capacity, sizeof **names);
        }
        (*names)[(*count)++] = mem_strdup(entry->d_name);
    }
    closedir(entries);
    if (*count > 0) {
        qsort(*names, *count, sizeof **names, compare_names);
    }
    return 0;
}

static bool is_loop(const Ancestor *ancestor, const struct stat *info)
{
    while (ancestor != NULL &&
           (ancestor->device != info->st_dev || ancestor->node != info->st_ino)) {
        ancestor = ancestor->outer;
    }
    return ancestor != NULL;
}

static int walk(SourceInputs *inputs, const SourceOptions *options, const char *path,
                const Ancestor *outer);

static int add_entry(SourceInputs *inputs, const SourceOptions *options, const char *path,
                     const Ancestor *folder)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        /* A link to nowhere, or a file that has just been removed: neither is text. */
        if (errno == ENOENT || errno == ELOOP) {
            source_inputs_leave_out(inputs, path, "a link that leads nowhere");
            return 0;
        }
        return io_error(path, "read");
    }
    if (S_ISDIR(info.st_mode)) {
        return is_loop(folder, &info) ? 0 : walk(inputs, options, path, folder);
    }
    if (!S_ISREG(info.st_mode)) {
        source_inputs_leave_out(inputs, path, "not a regular file");
        return 0;
    }
    return add_file(inputs, options, path, false);
}

static int walk(SourceInputs *inputs, const SourceOptions *options, const char *path,
                const Ancestor *outer)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return io_error(path, "read the folder");
    }
    Ancestor here = {outer, info.st_dev, info.st_ino};
    char **names;
    size_t count;
    int code = list_folder(path, &names, &count);
    for (size_t i = 0; i < count; i++) {
        if (code == 0) {
            char *joined = io_join(path, names[i]);
            code = add_entry(inputs, options, joined, &here);
            free(joined);
        }
        free(names[i]);
    }
    free(names);
    return code;
}

static int add_folder(SourceInputs *inputs, const SourceOptions *options, const char *path)
{
    size_t before = inputs->count;
    int code = walk(inputs, options, path, NULL);
    if (code == 0 && inputs->count == before) {
        code = err_set(ERR_INPUT, "%s: no text files in this folder", path);
    }
    return code;
}

static int add_standard_input(SourceInputs *inputs, const SourceOptions *options)
{
    for (size_t i = 0; i < inputs->count; i++) {
        if (inputs->list[i].kept.name != NULL) {
            return err_set(ERR_INPUT, "-: standard input can be given only once");
        }
    }
    SourceFile kept;
    int code = source_file_spool(&kept, STDIN_FILENO, STANDARD_INPUT, options->interrupted);
    if (code != 0) {
        return code;
    }
    char *objection = NULL;
    code = source_file_inspect(&kept, &objection);
    if (objection != NULL) {
        code = err_set(ERR_INPUT, "%s: %s", kept.name, objection);
        free(objection);
    }
    char begin[2] = "";
    if (code == 0 && options->format == SOURCE_AUTO && kept.size >= kept.start + sizeof begin) {
        code = source_file_read(&kept, kept.start, begin, sizeof begin);
        if (code == 0 && memcmp(begin, "{\"", 2) == 0) {
            log_warn("%s looks like JSON and is taken as text; --format jsonl would take one field "
                     "of each line",
                     kept.name);
        }
    }
    if (code != 0) {
        source_file_close(&kept);
        return code;
    }
    add_input(inputs, (SourceInput){.name = mem_strdup(kept.name),
                                    .kind = kind_of("", options->format),
                                    .bytes = kept.size,
                                    .kept = kept});
    return 0;
}

static int add_any(SourceInputs *inputs, const SourceOptions *options, const char *name)
{
    if (strcmp(name, "-") == 0) {
        return add_standard_input(inputs, options);
    }
    if (strncmp(name, BUILTIN_PREFIX, strlen(BUILTIN_PREFIX)) == 0) {
        uint64_t bytes;
        int code = builtin_stories_bytes(name, &bytes);
        if (code == 0) {
            add_input(inputs, (SourceInput){mem_strdup(name), INPUT_STORIES, bytes, {0}});
        }
        return code;
    }
    return io_is_folder(name) ? add_folder(inputs, options, name)
                              : add_file(inputs, options, name, true);
}

int source_inputs_open(SourceInputs *inputs, const SourceOptions *options)
{
    *inputs = (SourceInputs){0};
    int code = options->input_count > 0
                   ? 0
                   : err_set(ERR_INPUT, "no input given: name text files, JSONL files, folders, - "
                                        "(standard input) or builtin:stories");
    for (int i = 0; code == 0 && i < options->input_count; i++) {
        code = add_any(inputs, options, options->inputs[i]);
    }
    if (code != 0) {
        source_inputs_close(inputs);
    }
    return code;
}

void source_inputs_close(SourceInputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        source_file_close(&inputs->list[i].kept);
        free(inputs->list[i].name);
    }
    free(inputs->list);
    *inputs = (SourceInputs){0};
}
