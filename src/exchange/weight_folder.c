#include "exchange/weight_folder.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "exchange/hf_config.h"
#include "exchange/weight_files.h"
#include "tensor/half.h"

#include <stdio.h>
#include <stdlib.h>

#define CONFIG_LIMIT ((size_t)4 << 20)
#define NAMED_FAULTS 3 /* in a message; the others are counted */
#define TURNED_LINES \
    16 /* of a matrix that are transposed together: one cache line of each output */

struct WeightFolder {
    char *path;
    bool foreign; /* Hugging Face's: names and orientation are theirs */
    ModelSpec spec;
    WeightFiles files;
};

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
    char *state = io_join(path, "state.json"), *config = io_join(path, "config.json");
    bool own = io_exists(state), foreign = !own && io_exists(config);
    free(state);
    free(config);
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
    code = code != 0 ? code : weight_files_open(&folder->files, path);
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
        weight_files_close(&folder->files);
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
} Stored;

static const SafeTensor *find(const WeightFolder *folder, const char *name)
{
    return weight_files_find(&folder->files, name, NULL);
}

/* The tensor of a row, under Hugging Face's name with its prefix or without, or pacer's own. */
static Stored find_row(const WeightFolder *folder, const char *row)
{
    if (!folder->foreign) {
        return (Stored){find(folder, row), false};
    }
    HfName theirs = hf_name(folder->spec.names, row);
    const char *prefix = hf_prefix(folder->spec.names);
    const SafeTensor *tensor = find(folder, theirs.name);
    if (tensor == NULL && strncmp(theirs.name, prefix, strlen(prefix)) == 0) {
        tensor = find(folder, theirs.name + strlen(prefix));
    }
    return (Stored){tensor, theirs.transposed};
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

static bool same_shape(const SafeTensor *t, const Param *row, bool transposed)
{
    bool same = t->rank == row->rank;
    for (int i = 0; same && i < row->rank; i++) {
        same = t->dim[i] == row->dim[transposed ? row->rank - 1 - i : i];
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

static int check_rows(const WeightFolder *folder, const ParamTable *table, int *claimed)
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
        ++*claimed;
        if (!same_shape(stored.tensor, row, stored.transposed) ||
            element_size(stored.tensor) == 0) {
            char is[128], what[320], wanted[TENSOR_TEXT_SIZE];
            Tensor shape = {.dtype = DT_F32, .rank = row->rank};
            for (int i = 0; i < row->rank; i++) {
                shape.dim[i] = row->dim[stored.transposed ? row->rank - 1 - i : i];
            }
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

/* A head that is stored although it is the embedding: the same numbers, or a contradiction. */
static int check_tied_head(const WeightFolder *folder, const SafeTensor *head)
{
    const SafeTensor *embedding = find_row(folder, hf_embedding_row(folder->spec.names)).tensor;
    bool same = embedding != NULL && strcmp(head->type, embedding->type) == 0 &&
                head->bytes == embedding->bytes &&
                memcmp(head->data, embedding->data, head->bytes) == 0;
    return same ? 0
                : err_set(ERR_INPUT,
                          "%s: \"%s\" differs from the embedding, though config.json says that "
                          "they are one (tie_word_embeddings); set it to false if the model has a "
                          "head of its own",
                          folder->path, head->name);
}

static int by_address(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return (x > y) - (x < y);
}

/* Tensors that no row of the table claims. */
static int check_rest(const WeightFolder *folder, const ModelSpec *spec, const ParamTable *table)
{
    Faults extra = {.count = 0};
    const char **names = mem_zalloc((size_t)table->count, sizeof *names);
    for (int r = 0; r < table->count; r++) {
        names[r] = find_row(folder, table->rows[r].name).tensor->name;
    }
    qsort(names, (size_t)table->count, sizeof *names, by_address);
    int code = 0;
    for (int f = 0; code == 0 && f < folder->files.count; f++) {
        const SafeFile *file = &folder->files.files[f];
        for (int t = 0; code == 0 && t < file->count; t++) {
            const SafeTensor *tensor = &file->tensors[t];
            bool claimed = bsearch(&tensor->name, names, (size_t)table->count, sizeof *names,
                                   by_address) != NULL;
            if (claimed || (folder->foreign && hf_is_computed(tensor->name))) {
                continue;
            }
            if (folder->foreign && spec->tied && strcmp(tensor->name, HF_HEAD_ROW) == 0) {
                code = check_tied_head(folder, tensor);
            } else {
                add_fault(&extra, tensor->name, "");
            }
        }
    }
    free(names);
    if (code == 0 && extra.count > 0) {
        code = err_set(ERR_INPUT, "%s: %d tensor%s no place in the model: %s%s", folder->path,
                       extra.count, extra.count == 1 ? " has" : "s have", extra.text,
                       extra.count > NAMED_FAULTS ? ", ..." : "");
    }
    return code;
}

int weight_folder_check(const WeightFolder *folder, const ModelSpec *spec, const ParamTable *table)
{
    int claimed = 0, stored = 0;
    int code = check_rows(folder, table, &claimed);
    for (int f = 0; f < folder->files.count; f++) {
        stored += folder->files.files[f].count;
    }
    return code != 0 || claimed == stored ? code : check_rest(folder, spec, table);
}

/* --- reading --- */

/* n numbers of a tensor's type from position `first` on. */
static void convert(const SafeTensor *t, int64_t first, int64_t n, float *out)
{
    const uint8_t *from = t->data + (size_t)first * element_size(t);
    if (element_size(t) == 4) {
        memcpy(out, from, (size_t)n * sizeof *out);
        return;
    }
    bool bf16 = strcmp(t->type, "BF16") == 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, from + 2 * i, sizeof half);
        out[i] = bf16 ? f32_from_bf16(half) : f32_from_f16(half);
    }
}

int weight_folder_read(const WeightFolder *folder, const ParamTable *table, int row, float *out)
{
    const Param *param = &table->rows[row];
    Stored stored = find_row(folder, param->name);
    PACER_ASSERT(stored.tensor != NULL && element_size(stored.tensor) > 0 &&
                     same_shape(stored.tensor, param, stored.transposed),
                 "%s was not checked", param->name);
    if (!stored.transposed) {
        convert(stored.tensor, 0, param->count, out);
        return weight_files_check(&folder->files);
    }
    int64_t inputs = param->dim[1], outputs = param->dim[0];
    float *lines = mem_alloc((size_t)(outputs * TURNED_LINES) * sizeof *lines);
    for (int64_t i = 0; i < inputs; i += TURNED_LINES) {
        int64_t n = inputs - i < TURNED_LINES ? inputs - i : TURNED_LINES;
        convert(stored.tensor, i * outputs, n * outputs, lines);
        for (int64_t o = 0; o < outputs; o++) {
            for (int64_t k = 0; k < n; k++) {
                out[o * inputs + i + k] = lines[k * outputs + o];
            }
        }
    }
    free(lines);
    return weight_files_check(&folder->files);
}
