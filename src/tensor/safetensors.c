/* Reading safetensors. The header is the only part that is parsed, so all distrust is here: its
 * length is checked against the file before it is touched, cJSON (which bounds nesting) makes a
 * tree of it, each tensor's numbers are checked one by one, and then the whole set: sorted by
 * position, the tensors must tile the data exactly. cJSON keeps numbers as double and keeps both of
 * two equal keys, so integers from 2^53 up and repeated names are refused by hand; it also ends
 * strings at an escaped NUL, so those are refused before parsing. */
#include "tensor/safetensors.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_LIMIT ((uint64_t)100 << 20)
#define EXACT_LIMIT 9007199254740992.0 /* 2^53: from here on a double may stand for two integers */
#define LENGTH_BYTES 8

typedef struct {
    const char *name;
    size_t size;
    bool supported;
    DType dtype;
} FileType;

/* Every type that the format had in whole bytes when this was written. Files with masks or counters
 * of types that pacer does not compute with can be opened; only those tensors cannot be used. */
static const FileType file_types[] = {
    {"F32", 4, true, DT_F32},      {"BF16", 2, true, DT_BF16},    {"F64", 8, true, DT_F64},
    {"I32", 4, true, DT_I32},      {"F16", 2, false, DT_F32},     {"BOOL", 1, false, DT_F32},
    {"U8", 1, false, DT_F32},      {"I8", 1, false, DT_F32},      {"I16", 2, false, DT_F32},
    {"U16", 2, false, DT_F32},     {"U32", 4, false, DT_F32},     {"I64", 8, false, DT_F32},
    {"U64", 8, false, DT_F32},     {"C64", 8, false, DT_F32},     {"F8_E4M3", 1, false, DT_F32},
    {"F8_E5M2", 1, false, DT_F32}, {"F8_E8M0", 1, false, DT_F32},
};

static const FileType *find_type(const char *name)
{
    for (size_t i = 0; i < sizeof file_types / sizeof *file_types; i++) {
        if (strcmp(file_types[i].name, name) == 0) {
            return &file_types[i];
        }
    }
    return NULL;
}

const char *safetensors_header_fault(const void *header, size_t size)
{
    const uint8_t *text = header;
    if (size > HEADER_LIMIT) {
        return "is larger than 100 MiB";
    }
    if (size == 0 || text[0] != '{') {
        return "does not begin with '{'";
    }
    size_t length;
    for (size_t i = 0; i < size; i += length) {
        length = (size_t)utf8_length(text + i, size - i);
        if (length == 0 || text[i] == '\0') {
            return "is not UTF-8 text";
        }
        if (text[i] == '\\' && size - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0) {
            return "has an escaped NUL in a string";
        }
        if (text[i] == '\\' && size - i >= 2 && text[i + 1] == '\\') {
            length = 2;
        }
    }
    return NULL;
}

/* A file, or bytes of the caller's: one of them is NULL. */
typedef struct {
    IoFile *file;
    const uint8_t *data;
    size_t size;
} Input;

static int read_input(Input from, size_t at, void *to, size_t size)
{
    if (from.file != NULL) {
        return io_file_read(from.file, at, to, size);
    }
    memcpy(to, from.data + at, size);
    return 0;
}

/* The text of the header, of which the first byte is at LENGTH_BYTES. */
static int parse_text(SafeFile *file, const char *text, size_t length)
{
    const char *fault = safetensors_header_fault(text, length);
    if (fault != NULL) {
        return err_set(ERR_INPUT, "the header %s", fault);
    }
    const char *end = NULL;
    file->header = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    if (file->header == NULL) {
        return err_set(ERR_INPUT, "the header is not JSON, at or before byte %lld of it",
                       end != NULL ? (long long)(end - text) : 0LL);
    }
    for (; end < text + length; end++) {
        if (strchr(" \t\r\n", *end) == NULL) {
            return err_set(ERR_INPUT, "the header goes on after its JSON, at byte %lld of it",
                           (long long)(end - text));
        }
    }
    return 0;
}

/* Parses the header into file->header; *data_start is where the tensors begin. */
static int parse_header(SafeFile *file, Input from, size_t *data_start)
{
    size_t size = from.size;
    if (size < LENGTH_BYTES) {
        return err_set(ERR_INPUT, "%zu bytes are too few for a safetensors file", size);
    }
    uint8_t bytes[LENGTH_BYTES];
    int code = read_input(from, 0, bytes, sizeof bytes);
    uint64_t length = 0;
    for (int i = 0; i < LENGTH_BYTES; i++) {
        length |= (uint64_t)bytes[i] << (8 * i);
    }
    if (length > HEADER_LIMIT) {
        return err_set(ERR_INPUT,
                       "header of %llu bytes is above the limit of %llu: not a safetensors file?",
                       (unsigned long long)length, (unsigned long long)HEADER_LIMIT);
    }
    if (length > size - LENGTH_BYTES) {
        return err_set(ERR_INPUT, "header of %llu bytes in a file of %zu: the file is cut short",
                       (unsigned long long)length, size);
    }
    char *text = mem_alloc((size_t)length + 1);
    code = code != 0 ? code : read_input(from, LENGTH_BYTES, text, (size_t)length);
    code = code != 0 ? code : parse_text(file, text, (size_t)length);
    free(text);
    *data_start = LENGTH_BYTES + (size_t)length;
    return code;
}

/* The only member of that name; NULL if there is none or more than one. */
static const cJSON *only_member(const cJSON *object, const char *name)
{
    const cJSON *found = NULL;
    for (const cJSON *item = object->child; item != NULL; item = item->next) {
        if (strcmp(item->string, name) == 0) {
            if (found != NULL) {
                return NULL;
            }
            found = item;
        }
    }
    return found;
}

static int parse_shape(const cJSON *shape, SafeTensor *tensor)
{
    if (!cJSON_IsArray(shape)) {
        return err_set(ERR_INPUT, "needs one \"shape\", an array");
    }
    for (const cJSON *item = shape->child; item != NULL; item = item->next) {
        if (tensor->rank == TENSOR_MAX_RANK) {
            return err_set(ERR_INPUT, "more than %d dimensions", TENSOR_MAX_RANK);
        }
        if (!json_whole(item, EXACT_LIMIT - 1, &tensor->dim[tensor->rank])) {
            return err_set(ERR_INPUT, "dimension %d is not a whole number below 2^53",
                           tensor->rank);
        }
        tensor->rank++;
    }
    return 0;
}

/* Its offset is that within the data. */
static int parse_tensor(const cJSON *item, size_t data_size, SafeTensor *tensor)
{
    *tensor = (SafeTensor){.name = item->string};
    if (!cJSON_IsObject(item)) {
        return err_set(ERR_INPUT, "its entry is not an object");
    }
    const cJSON *dtype = only_member(item, "dtype");
    if (!cJSON_IsString(dtype)) {
        return err_set(ERR_INPUT, "needs one \"dtype\", a string");
    }
    const FileType *type = find_type(dtype->valuestring);
    if (type == NULL) {
        return err_set(ERR_INPUT, "unknown dtype \"%.40s\"", dtype->valuestring);
    }
    tensor->type = type->name;
    tensor->supported = type->supported;
    tensor->dtype = type->dtype;
    int code = parse_shape(only_member(item, "shape"), tensor);
    if (code != 0) {
        return code;
    }
    const cJSON *offsets = only_member(item, "data_offsets");
    int64_t begin, end;
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !json_whole(offsets->child, EXACT_LIMIT - 1, &begin) ||
        !json_whole(offsets->child->next, EXACT_LIMIT - 1, &end)) {
        return err_set(ERR_INPUT, "needs one \"data_offsets\", two whole numbers");
    }
    if (begin > end || (uint64_t)end > data_size) {
        return err_set(
            ERR_INPUT,
            "bytes %lld to %lld do not lie in the %zu bytes of data: the file is damaged "
            "or cut short",
            (long long)begin, (long long)end, data_size);
    }
    size_t bytes = type->size;
    bool fits = true;
    for (int i = 0; i < tensor->rank && fits; i++) {
        fits = !__builtin_mul_overflow(bytes, (size_t)tensor->dim[i], &bytes);
    }
    if (!fits || bytes != (size_t)(end - begin)) {
        return err_set(ERR_INPUT, "shape and dtype do not make its %lld bytes",
                       (long long)(end - begin));
    }
    tensor->offset = (size_t)begin;
    tensor->bytes = bytes;
    return 0;
}

static int by_position(const void *a, const void *b)
{
    const SafeTensor *x = a, *y = b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return (x->bytes > y->bytes) -
           (x->bytes < y->bytes); /* empty tensors before what starts there */
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const SafeTensor *const *)a)->name, (*(const SafeTensor *const *)b)->name);
}

/* Sorts by position and demands that the tensors tile the data. */
static int check_tiling(SafeFile *file, size_t data_size)
{
    if (file->count > 0) {
        qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_position);
    }
    size_t expected = 0;
    for (int i = 0; i < file->count; i++) {
        const SafeTensor *tensor = &file->tensors[i];
        if (tensor->offset != expected) {
            return err_set(ERR_INPUT, "tensor \"%.200s\": %s the tensor before it", tensor->name,
                           tensor->offset < expected ? "overlaps" : "leaves a hole after");
        }
        expected += tensor->bytes;
    }
    if (expected != data_size) {
        return err_set(ERR_INPUT, "%zu bytes after the last tensor belong to none",
                       data_size - expected);
    }
    return 0;
}

static int check_metadata(const cJSON *metadata)
{
    if (!cJSON_IsObject(metadata)) {
        return err_set(ERR_INPUT, "__metadata__ is not an object");
    }
    for (const cJSON *item = metadata->child; item != NULL; item = item->next) {
        if (!cJSON_IsString(item)) {
            return err_set(ERR_INPUT, "__metadata__: \"%.200s\" is not a string", item->string);
        }
    }
    return 0;
}

static int parse_tensors(SafeFile *file, size_t data_size)
{
    size_t members = (size_t)cJSON_GetArraySize(file->header);
    file->tensors = mem_zalloc(members, sizeof *file->tensors);
    bool metadata_seen = false;
    for (const cJSON *item = file->header->child; item != NULL; item = item->next) {
        int code;
        if (strcmp(item->string, "__metadata__") != 0) {
            code = parse_tensor(item, data_size, &file->tensors[file->count++]);
            code = code != 0 ? err_wrap(code, "tensor \"%.200s\"", item->string) : 0;
        } else if (metadata_seen) {
            code = err_set(ERR_INPUT, "more than one __metadata__");
        } else {
            code = check_metadata(item);
            metadata_seen = true;
        }
        if (code != 0) {
            return code;
        }
    }
    int code = check_tiling(file, data_size);
    if (code != 0) {
        return code;
    }
    file->by_name = mem_zalloc((size_t)file->count, sizeof *file->by_name);
    for (int i = 0; i < file->count; i++) {
        file->by_name[i] = &file->tensors[i];
    }
    if (file->count > 0) {
        qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, by_name);
    }
    for (int i = 1; i < file->count; i++) {
        if (by_name(&file->by_name[i - 1], &file->by_name[i]) == 0) {
            return err_set(ERR_INPUT, "tensor \"%.200s\" appears twice", file->by_name[i]->name);
        }
    }
    return 0;
}

static int open_input(const char *name, Input from, SafeFile *file)
{
    *file = (SafeFile){.path = mem_strdup(name), .file = from.file};
    size_t data_start = 0;
    int code = parse_header(file, from, &data_start);
    code = code != 0 ? code : parse_tensors(file, from.size - data_start);
    for (int i = 0; code == 0 && i < file->count; i++) {
        SafeTensor *tensor = &file->tensors[i];
        tensor->file = from.file;
        tensor->offset += data_start;
        tensor->data = from.file == NULL ? from.data + tensor->offset : NULL;
    }
    if (code != 0) {
        err_wrap(code, "%s", name);
        safetensors_close(file);
    }
    return code;
}

int safetensors_open_bytes(const char *name, const void *data, size_t size, SafeFile *file)
{
    return open_input(name, (Input){.data = data, .size = size}, file);
}

int safetensors_open(const char *path, SafeFile *file)
{
    *file = (SafeFile){0};
    Input from = {0};
    int code = io_file_open(path, &from.file);
    if (code == 0) {
        from.size = (size_t)io_file_size(from.file);
        code = open_input(path, from, file);
    }
    return code;
}

void safetensors_close(SafeFile *file)
{
    free(file->by_name);
    free(file->tensors);
    cJSON_Delete(file->header);
    io_file_close(file->file);
    free(file->path);
    *file = (SafeFile){0};
}

static int name_against(const void *name, const void *element)
{
    return strcmp(name, (*(const SafeTensor *const *)element)->name);
}

const SafeTensor *safetensors_find(const SafeFile *file, const char *name)
{
    const SafeTensor **found = NULL;
    if (file->count > 0) {
        found =
            bsearch(name, file->by_name, (size_t)file->count, sizeof *file->by_name, name_against);
    }
    return found != NULL ? *found : NULL;
}

int safetensors_require(const SafeFile *file, const char *name, Tensor want, const SafeTensor **out)
{
    const SafeTensor *found = safetensors_find(file, name);
    if (found == NULL) {
        return err_set(ERR_INPUT, "%s: has no tensor \"%.200s\"", file->path, name);
    }
    char wanted[TENSOR_TEXT_SIZE], present[TENSOR_TEXT_SIZE];
    if (!found->supported) {
        return err_set(ERR_INPUT, "%s: tensor \"%.200s\": is %s, wanted %s; convert the file first",
                       file->path, name, found->type, tensor_describe(want, wanted));
    }
    Tensor shape = {.dtype = found->dtype, .rank = found->rank};
    memcpy(shape.dim, found->dim, sizeof shape.dim);
    if (found->dtype != want.dtype || !tensor_same_shape(shape, want)) {
        return err_set(ERR_INPUT, "%s: tensor \"%.200s\": is %s, wanted %s", file->path, name,
                       tensor_describe(shape, present), tensor_describe(want, wanted));
    }
    *out = found;
    return 0;
}

int safetensors_read(const SafeTensor *tensor, size_t first, void *to, size_t bytes)
{
    return read_input((Input){.file = tensor->file, .data = tensor->data},
                      (tensor->file != NULL ? tensor->offset : 0) + first, to, bytes);
}

const char *safetensors_metadata(const SafeFile *file, const char *key)
{
    const cJSON *metadata = json_get(file->header, "__metadata__");
    const cJSON *item = json_get(metadata, key);
    return item != NULL ? item->valuestring : NULL;
}

int safetensors_digest(const char *path, uint64_t *digest)
{
    IoFile *file;
    int code = io_file_open(path, &file);
    if (code != 0) {
        return code;
    }
    IoHash *hash = io_hash_new();
    void *bytes = mem_alloc(SAFETENSORS_PIECE);
    uint64_t size = io_file_size(file);
    for (uint64_t at = 0; code == 0 && at < size; at += SAFETENSORS_PIECE) {
        size_t part = size - at < SAFETENSORS_PIECE ? (size_t)(size - at) : SAFETENSORS_PIECE;
        code = io_file_read(file, at, bytes, part);
        io_hash_add(hash, bytes, part);
    }
    *digest = io_hash_end(hash);
    free(bytes);
    io_file_close(file);
    return code;
}
