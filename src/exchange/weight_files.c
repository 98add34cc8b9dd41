/* An index is an object with "weight_map": tensor name to file name. The names come from
 * outside: a file name that could lead out of the folder is refused, and the map is held against
 * what the files hold, so that neither can say something that the other does not. */
#include "exchange/weight_files.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_LIMIT ((size_t)64 << 20)
#define MOST_FILES 10000

void weight_files_close(WeightFiles *files)
{
    for (int i = 0; i < files->count; i++) {
        safetensors_close(&files->files[i]);
    }
    free(files->files);
    *files = (WeightFiles){0};
}

int weight_files_check(const WeightFiles *files)
{
    int code = 0;
    for (int i = 0; code == 0 && i < files->count; i++) {
        code = safetensors_check(&files->files[i]);
    }
    return code;
}

const SafeTensor *weight_files_find(const WeightFiles *files, const char *name, const char **file)
{
    for (int i = 0; i < files->count; i++) {
        const SafeTensor *found = safetensors_find(&files->files[i], name);
        if (found != NULL) {
            if (file != NULL) {
                *file = files->files[i].path;
            }
            return found;
        }
    }
    return NULL;
}

static int open_one(WeightFiles *files, const char *folder, const char *name)
{
    char *path = io_join(folder, name);
    files->files = mem_realloc(files->files, (size_t)files->count + 1, sizeof *files->files);
    int code = safetensors_open(path, &files->files[files->count]);
    files->count += code == 0;
    free(path);
    return code;
}

/* The place of a file in the set; -1: it was not opened yet. */
static int file_index(const WeightFiles *files, const char *name)
{
    for (int i = 0; i < files->count; i++) {
        const char *slash = strrchr(files->files[i].path, '/');
        if (strcmp(slash != NULL ? slash + 1 : files->files[i].path, name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool stays_inside(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) < 256;
}

/* A tensor of the map with its place in the set. */
typedef struct {
    const char *name;
    int file;
} Listed;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Listed *)a)->name, ((const Listed *)b)->name);
}

static int open_listed(WeightFiles *files, const char *folder, const char *path, const cJSON *map,
                       Listed *listed, int *count)
{
    int code = 0;
    for (const cJSON *item = map->child; code == 0 && item != NULL; item = item->next) {
        if (!cJSON_IsString(item) || !stays_inside(item->valuestring)) {
            return err_set(ERR_INPUT,
                           "%s: tensor \"%.200s\": its file must be a plain name in this folder",
                           path, item->string);
        }
        int file = file_index(files, item->valuestring);
        if (file < 0 && files->count == MOST_FILES) {
            return err_set(ERR_INPUT, "%s: lists more than %d files", path, MOST_FILES);
        }
        if (file < 0) {
            file = files->count;
            code = open_one(files, folder, item->valuestring);
        }
        listed[(*count)++] = (Listed){item->string, file};
    }
    return code;
}

/* The map and the files say the same. */
static int compare(const WeightFiles *files, const char *path, Listed *listed, int count)
{
    qsort(listed, (size_t)count, sizeof *listed, by_name);
    for (int i = 0; i < count; i++) {
        const SafeFile *file = &files->files[listed[i].file];
        if (i > 0 && strcmp(listed[i].name, listed[i - 1].name) == 0) {
            return err_set(ERR_INPUT, "%s: tensor \"%.200s\" is listed twice", path,
                           listed[i].name);
        }
        if (safetensors_find(file, listed[i].name) == NULL) {
            return err_set(ERR_INPUT, "%s: tensor \"%.200s\" is not in %s, where it is listed",
                           path, listed[i].name, file->path);
        }
    }
    for (int f = 0; f < files->count; f++) {
        for (int t = 0; t < files->files[f].count; t++) {
            Listed wanted = {files->files[f].tensors[t].name, f};
            const Listed *found = bsearch(&wanted, listed, (size_t)count, sizeof *listed, by_name);
            if (found == NULL || found->file != f) {
                return err_set(ERR_INPUT,
                               "%s: tensor \"%.200s\" is not listed as one of this file in %s",
                               files->files[f].path, wanted.name, path);
            }
        }
    }
    return 0;
}

static int open_index(WeightFiles *files, const char *folder, const char *path)
{
    char *text;
    size_t size;
    int code = io_read_all(path, INDEX_LIMIT, &text, &size);
    if (code != 0) {
        return code;
    }
    cJSON *root = json_parse(text, size, NULL);
    free(text);
    const cJSON *map = json_get(root, "weight_map");
    if (!cJSON_IsObject(map) || map->child == NULL) {
        code = err_set(ERR_INPUT, "%s: needs \"weight_map\", an object of tensors and files", path);
    } else {
        Listed *listed = mem_zalloc((size_t)cJSON_GetArraySize(map), sizeof *listed);
        int count = 0;
        code = open_listed(files, folder, path, map, listed, &count);
        code = code != 0 ? code : compare(files, path, listed, count);
        free(listed);
    }
    cJSON_Delete(root);
    return code;
}

/* What to say where there are no safetensors files. */
static int refuse(const char *folder)
{
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                         "consolidated.00.pth", "tf_model.h5",
                                         "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char *path = io_join(folder, others[i]);
        bool there = io_exists(path);
        free(path);
        if (there) {
            return err_set(ERR_INPUT,
                           "%s: has %s, but no " WEIGHT_FILE ": load the model with transformers "
                           "and save it again with save_pretrained(folder, "
                           "safe_serialization=True)",
                           folder, others[i]);
        }
    }
    return err_set(ERR_INPUT, "%s: has neither " WEIGHT_FILE " nor " WEIGHT_INDEX, folder);
}

int weight_files_open(WeightFiles *files, const char *folder)
{
    *files = (WeightFiles){0};
    char *single = io_join(folder, WEIGHT_FILE), *index = io_join(folder, WEIGHT_INDEX);
    int code = io_exists(single)  ? open_one(files, folder, WEIGHT_FILE)
               : io_exists(index) ? open_index(files, folder, index)
                                  : refuse(folder);
    free(single);
    free(index);
    if (code != 0) {
        weight_files_close(files);
    }
    return code;
}
