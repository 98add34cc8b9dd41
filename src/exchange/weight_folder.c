#include "exchange/weight_folder.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "exchange/hf_config.h"
#include "tensor/half.h"
#include "tensor/safetensors.h"
#include "text/word_table.h"

#include <stdio.h>
#include <stdlib.h>

#define CONFIG_LIMIT ((size_t)4 << 20)
#define INDEX_LIMIT ((size_t)64 << 20)
#define MOST_FILES 10000
#define NAMED_FAULTS 3 /* in a message; the others are counted */
#define COMPARED_BYTES ((size_t)32 << 10)
#define TURNED_LINES \
    16 /* of a matrix that are transposed together: one cache line of each output */

struct WeightFolder {
    char *path;
    bool foreign; /* Hugging Face's: names and orientation are theirs */
    ModelSpec spec;
    SafeFile *files; /* model.safetensors, or those that the index lists */
    int file_count;
};

/* --- files ---
 *
 * An index is an object with "weight_map": tensor name to file name. The names come from outside: a
 * file name that could lead out of the folder is refused, and the map is held against what the
 * files hold, so that neither can say something that the other does not. */

/* NULL: not there. */
static const SafeTensor *find(const WeightFolder *folder, const char *name)
{
    const SafeTensor *found = NULL;
    for (int i = 0; found == NULL && i < folder->file_count; i++) {
        found = safetensors_find(&folder->files[i], name);
    }
    return found;
}

static int open_one(WeightFolder *folder, const char *name)
{
    char *path = io_join(folder->path, name);
    folder->files =
        mem_realloc(folder->files, (size_t)folder->file_count + 1, sizeof *folder->files);
    int code = safetensors_open(path, &folder->files[folder->file_count]);
    folder->file_count += code == 0;
    free(path);
    return code;
}

static uint64_t *number_of(WordTable *tensors, const char *name)
{
    return word_table_at(tensors, (const uint8_t *)name, strlen(name));
}

/* The place of a file in the set; -1: it was not opened yet. */
static int file_index(const WeightFolder *folder, const char *name)
{
    for (int i = 0; i < folder->file_count; i++) {
        const char *slash = strrchr(folder->files[i].path, '/');
        if (strcmp(slash != NULL ? slash + 1 : folder->files[i].path, name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool stays_inside(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL && strlen(name) < 256;
}

/* Opens the files that the map names. In `listed`, by tensor: 1 + the place of its file. */
static int open_listed(WeightFolder *folder, const char *path, const cJSON *map, WordTable *listed)
{
    for (const cJSON *item = map->child; item != NULL; item = item->next) {
        if (!cJSON_IsString(item) || !stays_inside(item->valuestring)) {
            return err_set(ERR_INPUT,
                           "%s: tensor \"%.200s\": its file must be a plain name in this folder",
                           path, item->string);
        }
        int file = file_index(folder, item->valuestring);
        if (file < 0 && folder->file_count == MOST_FILES) {
            return err_set(ERR_INPUT, "%s: lists more than %d files", path, MOST_FILES);
        }
        if (file < 0) {
            file = folder->file_count;
            int code = open_one(folder, item->valuestring);
            if (code != 0) {
                return code;
            }
        }
        uint64_t *place = number_of(listed, item->string);
        if (*place != 0) {
            return err_set(ERR_INPUT, "%s: tensor \"%.200s\" is listed twice", path, item->string);
        }
        if (safetensors_find(&folder->files[file], item->string) == NULL) {
            return err_set(ERR_INPUT, "%s: tensor \"%.200s\" is not in %s, where it is listed",
                           path, item->string, folder->files[file].path);
        }
        *place = (uint64_t)file + 1;
    }
    return 0;
}

/* What is in the files is in the map, too. */
static int check_listed(const WeightFolder *folder, const char *path, WordTable *listed)
{
    for (int f = 0; f < folder->file_count; f++) {
        for (int t = 0; t < folder->files[f].count; t++) {
            const char *name = folder->files[f].tensors[t].name;
            if (*number_of(listed, name) != (uint64_t)f + 1) {
                return err_set(ERR_INPUT,
                               "%s: tensor \"%.200s\" is not listed as one of this file in %s",
                               folder->files[f].path, name, path);
            }
        }
    }
    return 0;
}

static int open_index(WeightFolder *folder)
{
    char *path = io_join(folder->path, WEIGHT_INDEX), *text = NULL;
    size_t size;
    int code = io_read_all(path, INDEX_LIMIT, &text, &size);
    if (code != 0) {
        free(path);
        return code;
    }
    cJSON *root = json_parse(text, size, NULL);
    free(text);
    const cJSON *map = json_get(root, "weight_map");
    if (!cJSON_IsObject(map) || map->child == NULL) {
        code = err_set(ERR_INPUT, "%s: needs \"weight_map\", an object of tensors and files", path);
    } else {
        WordTable *listed = word_table_open(0);
        code = open_listed(folder, path, map, listed);
        code = code != 0 ? code : check_listed(folder, path, listed);
        word_table_close(listed);
    }
    cJSON_Delete(root);
    free(path);
    return code;
}

/* What to say where there are no safetensors files. */
static int refuse(const char *folder)
{
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                         "consolidated.00.pth", "tf_model.h5",
                                         "flax_model.msgpack"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (io_has(folder, others[i])) {
            return err_set(ERR_INPUT,
                           "%s: has %s, but no " WEIGHT_FILE ": load the model with transformers "
                           "and save it again with save_pretrained(folder, "
                           "safe_serialization=True)",
                           folder, others[i]);
        }
    }
    return err_set(ERR_INPUT, "%s: has neither " WEIGHT_FILE " nor " WEIGHT_INDEX, folder);
}

static int open_files(WeightFolder *folder)
{
    return io_has(folder->path, WEIGHT_FILE)    ? open_one(folder, WEIGHT_FILE)
           : io_has(folder->path, WEIGHT_INDEX) ? open_index(folder)
                                                : refuse(folder->path);
}

static int read_config(WeightFolder *folder)
{
    char *path = io_join(folder->path, "config.json"), *text = NULL;
    size_t size;
    int code = io_read_all(path, CONFIG_LIMIT, &text, &size);
    code = code != 0 ? code : hf_config_parse(text, size, path, &folder->spec);
    free(text);
    free(path);
    return code;
}

int weight_folder_open(const char *path, WeightFolder **out)
{
    *out = NULL;
    bool own = io_has(path, "state.json"), foreign = !own && io_has(path, "config.json");
    if (!own && !foreign) {
        return err_set(ERR_INPUT,
                       "%s: is neither a checkpoint (state.json) nor a Hugging Face folder "
                       "(config.json)",
                       path);
    }
    WeightFolder *folder = mem_zalloc(1, sizeof *folder);
    folder->path = mem_strdup(path);
    folder->foreign = foreign;
    int code = foreign ? read_config(folder) : 0;
    code = code != 0 ? code : open_files(folder);
    if (code != 0) {
        weight_folder_close(folder);
        return code;
    }
    *out = folder;
    return 0;
}

void weight_folder_close(WeightFolder *folder)
{
    if (folder != NULL) {
        for (int i = 0; i < folder->file_count; i++) {
            safetensors_close(&folder->files[i]);
        }
        free(folder->files);
        free(folder->path);
        free(folder);
    }
}

const ModelSpec *weight_folder_spec(const WeightFolder *folder)
{
    return folder->foreign ? &folder->spec : NULL;
}

/* --- finding rows --- */

typedef struct {
    const SafeTensor *tensor; /* NULL: not there */
    bool transposed;
    float less; /* as HfName has it */
} Stored;

/* The tensor of a row, under Hugging Face's name with its prefix or without, or pacer's own. */
static Stored find_row(const WeightFolder *folder, const char *row)
{
    if (!folder->foreign) {
        return (Stored){find(folder, row), false, 0};
    }
    HfName theirs = hf_name(folder->spec.names, row);
    const char *prefix = hf_prefix(folder->spec.names);
    const SafeTensor *tensor = find(folder, theirs.name);
    if (tensor == NULL && strncmp(theirs.name, prefix, strlen(prefix)) == 0) {
        tensor = find(folder, theirs.name + strlen(prefix));
    }
    return (Stored){tensor, theirs.transposed, theirs.less};
}

int64_t weight_folder_vocab(const WeightFolder *folder)
{
    ParamNames names = folder->spec.names; /* GPT-2's for a checkpoint, which may have either */
    const SafeTensor *tensor = find_row(folder, hf_embedding_row(names)).tensor;
    if (tensor == NULL && !folder->foreign) {
        tensor = find(folder, hf_embedding_row(NAMES_LLAMA));
    }
    return tensor != NULL && tensor->rank == 2 ? tensor->dim[0] : 0;
}

/* --- checking --- */

static size_t element_size(const SafeTensor *t)
{
    return strcmp(t->type, "F32") == 0                                   ? 4
           : strcmp(t->type, "BF16") == 0 || strcmp(t->type, "F16") == 0 ? 2
                                                                         : 0;
}

Tensor weight_shape(const Param *row, bool transposed, DType dtype)
{
    Tensor t = {.dtype = dtype, .rank = row->rank};
    for (int i = 0; i < row->rank; i++) {
        t.dim[i] = row->dim[transposed ? row->rank - 1 - i : i];
    }
    return t;
}

static bool same_shape(const SafeTensor *t, const Param *row, bool transposed)
{
    Tensor shape = weight_shape(row, transposed, DT_F32);
    bool same = t->rank == shape.rank;
    for (int i = 0; same && i < shape.rank; i++) {
        same = t->dim[i] == shape.dim[i];
    }
    return same;
}

/* What is wrong, the first few by name and how many there are. */
typedef struct {
    char text[600];
    size_t used;
    int count;
} Faults;

static void add_fault(Faults *faults, const char *name, const char *what)
{
    if (faults->count++ < NAMED_FAULTS && faults->used < sizeof faults->text) {
        int n = snprintf(faults->text + faults->used, sizeof faults->text - faults->used,
                         "%s\"%.80s\"%s", faults->used > 0 ? ", " : "", name, what);
        faults->used += n > 0 ? (size_t)n : 0;
    }
}

static const char *describe(const SafeTensor *t, char *text, size_t size)
{
    int used = snprintf(text, size, "(");
    for (int i = 0; i < t->rank; i++) {
        used += snprintf(text + used, size - (size_t)used, "%s%lld", i > 0 ? ", " : "",
                         (long long)t->dim[i]);
    }
    snprintf(text + used, size - (size_t)used, ") %s", t->type);
    return text;
}

/* `claimed` gets the names of the tensors that are rows of the table. */
static int check_rows(const WeightFolder *folder, const ParamTable *table, WordTable *claimed)
{
    Faults missing = {.count = 0}, wrong = {.count = 0};
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        Stored stored = find_row(folder, row->name);
        if (stored.tensor == NULL) {
            add_fault(&missing,
                      folder->foreign ? hf_name(folder->spec.names, row->name).name : row->name,
                      "");
            continue;
        }
        *number_of(claimed, stored.tensor->name) = 1;
        if (!same_shape(stored.tensor, row, stored.transposed) ||
            element_size(stored.tensor) == 0) {
            char is[128], what[320], wanted[TENSOR_TEXT_SIZE];
            Tensor shape = weight_shape(row, stored.transposed, DT_F32);
            snprintf(what, sizeof what, " is %s, wanted %s (or bf16, f16)",
                     describe(stored.tensor, is, sizeof is), tensor_describe(shape, wanted));
            add_fault(&wrong, stored.tensor->name, what);
        }
    }
    if (missing.count > 0) {
        return err_set(ERR_INPUT, "%s: %d of the model's tensors %s missing: %s%s", folder->path,
                       missing.count, missing.count == 1 ? "is" : "are", missing.text,
                       missing.count > NAMED_FAULTS ? ", ..." : "");
    }
    if (wrong.count > 0) {
        return err_set(ERR_INPUT, "%s: %d tensor%s another shape or type than the model: %s%s",
                       folder->path, wrong.count, wrong.count == 1 ? " has" : "s have", wrong.text,
                       wrong.count > NAMED_FAULTS ? ", ..." : "");
    }
    return 0;
}

/* Whether two tensors have the same bytes. */
static int compare_bytes(const SafeTensor *a, const SafeTensor *b, bool *same)
{
    uint8_t part[2][COMPARED_BYTES];
    int code = 0;
    *same = a->bytes == b->bytes;
    for (size_t at = 0; code == 0 && *same && at < a->bytes; at += COMPARED_BYTES) {
        size_t size = a->bytes - at < COMPARED_BYTES ? a->bytes - at : COMPARED_BYTES;
        code = safetensors_read(a, at, part[0], size);
        code = code != 0 ? code : safetensors_read(b, at, part[1], size);
        *same = code == 0 && memcmp(part[0], part[1], size) == 0;
    }
    return code;
}

/* A head that is stored although it is the embedding: the same numbers, or a contradiction. */
static int check_tied_head(const WeightFolder *folder, const SafeTensor *head)
{
    const SafeTensor *embedding = find_row(folder, hf_embedding_row(folder->spec.names)).tensor;
    bool same = embedding != NULL && strcmp(head->type, embedding->type) == 0;
    int code = same ? compare_bytes(head, embedding, &same) : 0;
    if (code != 0) {
        return code;
    }
    return same ? 0
                : err_set(ERR_INPUT,
                          "%s: \"%s\" differs from the embedding, though config.json says that "
                          "they are one (tie_word_embeddings); set it to false if the model has a "
                          "head of its own",
                          folder->path, head->name);
}

/* Tensors that no row of the table claims. */
static int check_rest(const WeightFolder *folder, const ModelSpec *spec, WordTable *claimed)
{
    Faults extra = {.count = 0};
    for (int f = 0; f < folder->file_count; f++) {
        const SafeFile *file = &folder->files[f];
        for (int t = 0; t < file->count; t++) {
            const SafeTensor *tensor = &file->tensors[t];
            if (*number_of(claimed, tensor->name) != 0 ||
                (folder->foreign && hf_is_computed(tensor->name))) {
                continue;
            }
            if (folder->foreign && spec->tied && strcmp(tensor->name, HF_HEAD_ROW) == 0) {
                int code = check_tied_head(folder, tensor);
                if (code != 0) {
                    return code;
                }
            } else {
                add_fault(&extra, tensor->name, "");
            }
        }
    }
    return extra.count == 0
               ? 0
               : err_set(ERR_INPUT, "%s: %d tensor%s no place in the model: %s%s", folder->path,
                         extra.count, extra.count == 1 ? " has" : "s have", extra.text,
                         extra.count > NAMED_FAULTS ? ", ..." : "");
}

int weight_folder_check(const WeightFolder *folder, const ModelSpec *spec, const ParamTable *table)
{
    WordTable *claimed = word_table_open(0);
    int code = check_rows(folder, table, claimed);
    code = code != 0 ? code : check_rest(folder, spec, claimed);
    word_table_close(claimed);
    return code;
}

/* --- reading --- */

/* n numbers of a tensor's type from position `first` on. */
static int convert(const SafeTensor *t, int64_t first, int64_t n, float *out)
{
    size_t width = element_size(t);
    /* Halves lie in the second half of their place, where none is overwritten before it is read. */
    const uint8_t *from = (uint8_t *)out + (size_t)n * (sizeof *out - width);
    int code = safetensors_read(t, (size_t)first * width, (void *)from, (size_t)n * width);
    if (code != 0 || width == sizeof *out) {
        return code;
    }
    bool bf16 = strcmp(t->type, "BF16") == 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        out[i] = bf16 ? f32_from_bf16(half) : f32_from_f16(half);
    }
    return 0;
}

int weight_folder_read(const WeightFolder *folder, const ParamTable *table, int row,
                       bool transposed, float *out)
{
    const Param *param = &table->rows[row];
    Stored stored = find_row(folder, param->name);
    const SafeTensor *t = stored.tensor;
    PACER_ASSERT(t != NULL && element_size(t) > 0 && same_shape(t, param, stored.transposed),
                 "%s was not checked", param->name);
    if (stored.transposed == transposed) {
        int code = convert(t, 0, param->count, out);
        for (int64_t i = 0; stored.less != 0 && i < param->count; i++) {
            out[i] += stored.less;
        }
        return code;
    }
    int64_t rows = t->dim[0], columns = t->dim[1];
    float *lines = mem_alloc((size_t)(columns * TURNED_LINES) * sizeof *lines);
    int code = 0;
    for (int64_t r = 0; code == 0 && r < rows; r += TURNED_LINES) {
        int64_t n = rows - r < TURNED_LINES ? rows - r : TURNED_LINES;
        code = convert(t, r * columns, n * columns, lines);
        for (int64_t c = 0; c < columns; c++) {
            for (int64_t k = 0; k < n; k++) {
                out[c * rows + r + k] = lines[k * columns + c];
            }
        }
    }
    free(lines);
    return code;
}
