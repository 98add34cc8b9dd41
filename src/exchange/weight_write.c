#include "exchange/weight_folder.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "exchange/hf_config.h"
#include "tensor/half.h"
#include "tensor/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

/* One row of the table and where it goes. */
typedef struct {
    HfName as;
    int file;
} Place;

typedef struct {
    const WeightFolder *from;
    const ParamTable *table;
    WeightLayout layout;
    const SafeEntry *entries; /* of the file under way, rows [first, ...) of the table */
    const Place *places;
    int first;
    int row;       /* whose values `values` has; -1: none */
    float *values; /* as they are to be stored */
    int64_t done;  /* elements */
    Progress progress;
} Writing;

static int read_row(Writing *w, int row)
{
    const Param *param = &w->table->rows[row];
    size_t bytes = (size_t)param->count * sizeof(float);
    float *values = mem_try_aligned(bytes);
    free(w->values);
    w->values = values;
    if (values == NULL) {
        return err_set(ERR_MEMORY, "no memory for the %.1f MB of %s", (double)bytes / 1e6,
                       param->name);
    }
    w->row = row;
    HfName as = w->places[row].as;
    int code = weight_folder_read(w->from, w->table, row, as.transposed, values);
    for (int64_t i = 0; as.less != 0 && i < param->count; i++) {
        values[i] -= as.less;
    }
    return code;
}

static int fetch(void *user, const SafeEntry *entry, size_t offset, void *to, size_t bytes)
{
    Writing *w = user;
    int row = w->first + (int)(entry - w->entries), code = 0;
    if (row != w->row) {
        code = read_row(w, row);
    }
    if (code != 0) {
        return code;
    }
    size_t size = dtype_size(w->layout.dtype);
    const float *from = w->values + offset / size;
    int64_t count = (int64_t)(bytes / size);
    if (w->layout.dtype == DT_F32) {
        memcpy(to, from, bytes);
    } else {
        uint16_t *halves = to;
        for (int64_t i = 0; i < count; i++) {
            halves[i] = bf16_from_f32(from[i]);
        }
    }
    w->done += count;
    if (progress_due(&w->progress)) {
        (log_is_terminal() ? log_live : log_info)(
            "Writing weights: %d %%",
            (int)(100.0 * (double)w->done / (double)w->table->parameters));
    }
    return 0;
}

/* Gives every row its name and file; returns the number of files. */
static int place_rows(const ModelSpec *spec, const ParamTable *table, WeightLayout layout,
                      Place *places)
{
    int files = 1;
    int64_t filled = 0, size = (int64_t)dtype_size(layout.dtype);
    for (int r = 0; r < table->count; r++) {
        places[r] = (Place){.file = 0};
        if (layout.foreign) {
            places[r].as = hf_name(spec->names, table->rows[r].name);
        } else {
            snprintf(places[r].as.name, sizeof places[r].as.name, "%s", table->rows[r].name);
        }
        int64_t bytes = table->rows[r].count * size;
        if (layout.shard_bytes > 0 && filled > 0 && filled + bytes > layout.shard_bytes) {
            files++;
            filled = 0;
        }
        filled += bytes;
        places[r].file = files - 1;
    }
    return files;
}

static char *file_name(int file, int files)
{
    return files == 1 ? mem_strdup(WEIGHT_FILE)
                      : mem_format("model-%05d-of-%05d.safetensors", file + 1, files);
}

static int write_file(Writing *w, const char *folder, int file, int files, uint64_t *digest)
{
    SafeEntry *entries = mem_zalloc((size_t)w->table->count, sizeof *entries);
    int count = 0;
    w->first = 0;
    for (int r = 0; r < w->table->count; r++) {
        if (w->places[r].file == file) {
            w->first = count == 0 ? r : w->first;
            entries[count++] = (SafeEntry){
                w->places[r].as.name,
                weight_shape(&w->table->rows[r], w->places[r].as.transposed, w->layout.dtype)};
        }
    }
    w->entries = entries;
    char *name = file_name(file, files), *path = io_join(folder, name);
    SafeSource source = {fetch, w};
    int code = safetensors_write(path, entries, count, NULL, &source, digest);
    free(path);
    free(name);
    free(entries);
    return code;
}

static int write_index(const Writing *w, const char *folder, int files)
{
    cJSON *root = json_object();
    cJSON *about = json_put_object(root, "metadata");
    json_put_whole(about, "total_parameters", w->table->parameters);
    json_put_whole(about, "total_size",
                   w->table->parameters * (int64_t)dtype_size(w->layout.dtype));
    cJSON *map = json_put_object(root, "weight_map");
    for (int r = 0; r < w->table->count; r++) {
        char *name = file_name(w->places[r].file, files);
        json_put_text(map, w->places[r].as.name, name);
        free(name);
    }
    char *path = io_join(folder, WEIGHT_INDEX);
    int code = json_save(path, root);
    free(path);
    cJSON_Delete(root);
    return code;
}

int weight_write(const char *folder, const WeightFolder *from, const ModelSpec *spec,
                 const ParamTable *table, WeightLayout layout, uint64_t *digest)
{
    Place *places = mem_zalloc((size_t)table->count, sizeof *places);
    int files = place_rows(spec, table, layout, places), code = 0;
    Writing w = {.from = from,
                 .table = table,
                 .layout = layout,
                 .places = places,
                 .row = -1,
                 .progress = progress_begin(NULL)};
    for (int file = 0; code == 0 && file < files; file++) {
        code = write_file(&w, folder, file, files, digest);
    }
    if (code == 0 && files > 1) {
        code = write_index(&w, folder, files);
    }
    free(w.values);
    free(places);
    return code;
}
