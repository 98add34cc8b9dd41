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

/* Parses the header into file->header; *data_start is where the tensors begin. */
static int parse_header(SafeFile *file, const uint8_t *bytes, size_t size, size_t *data_start)
{
    if (size < LENGTH_BYTES) {
        return err_set(ERR_INPUT, "%zu bytes are too few for a safetensors file", size);
    }
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
    const char *text = (const char *)bytes + LENGTH_BYTES;
    const char *fault = safetensors_header_fault(bytes + LENGTH_BYTES, (size_t)length);
    if (fault != NULL) {
        return err_set(ERR_INPUT, "the header %s", fault);
    }
    const char *end = NULL;
    file->header = cJSON_ParseWithLengthOpts(text, (size_t)length, &end, 0);
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
    *data_start = LENGTH_BYTES + (size_t)length;
    return 0;
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

static int parse_tensor(const cJSON *item, const uint8_t *data, size_t data_size,
                        SafeTensor *tensor)
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
    tensor->data = data + begin;
    tensor->bytes = bytes;
    return 0;
}

static int by_position(const void *a, const void *b)
{
    const SafeTensor *x = a, *y = b;
    if (x->data != y->data) {
        return x->data < y->data ? -1 : 1;
    }
    return (x->bytes > y->bytes) -
           (x->bytes < y->bytes); /* empty tensors before what starts there */
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const SafeTensor *const *)a)->name, (*(const SafeTensor *const *)b)->name);
}

/* Sorts by position and demands that the tensors tile the data. */
static int check_tiling(SafeFile *file, const uint8_t *data, size_t data_size)
{
    if (file->count > 0) {
        qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, by_position);
    }
    const uint8_t *expected = data;
    for (int i = 0; i < file->count; i++) {
        const SafeTensor *tensor = &file->tensors[i];
        if (tensor->data != expected) {
            return err_set(ERR_INPUT, "tensor \"%.200s\": %s the tensor before it", tensor->name,
                           tensor->data < expected ? "overlaps" : "leaves a hole after");
        }
        expected += tensor->bytes;
    }
    if (expected != data + data_size) {
        return err_set(ERR_INPUT, "%zu bytes after the last tensor belong to none",
                       (size_t)(data + data_size - expected));
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

static int parse_tensors(SafeFile *file, const uint8_t *data, size_t data_size)
{
    size_t members = (size_t)cJSON_GetArraySize(file->header);
    file->tensors = mem_zalloc(members, sizeof *file->tensors);
    bool metadata_seen = false;
    for (const cJSON *item = file->header->child; item != NULL; item = item->next) {
        int code;
        if (strcmp(item->string, "__metadata__") != 0) {
            code = parse_tensor(item, data, data_size, &file->tensors[file->count++]);
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
    int code = check_tiling(file, data, data_size);
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

int safetensors_open_bytes(const char *name, const void *data, size_t size, SafeFile *file)
{
    *file = (SafeFile){.path = mem_strdup(name)};
    size_t data_start = 0;
    int code = parse_header(file, data, size, &data_start);
    if (code == 0) {
        code = parse_tensors(file, (const uint8_t *)data + data_start, size - data_start);
    }
    if (code != 0) {
        err_wrap(code, "%s", name);
        safetensors_close(file);
    }
    return code;
}

int safetensors_open(const char *path, SafeFile *file)
{
    *file = (SafeFile){0};
    IoMap map;
    int code = io_map(path, &map);
    if (code != 0) {
        return code;
    }
    code = safetensors_open_bytes(path, map.data, map.size, file);
    if (code != 0) {
        io_unmap(&map);
    } else {
        file->map = map;
    }
    return code;
}

void safetensors_close(SafeFile *file)
{
    free(file->by_name);
    free(file->tensors);
    cJSON_Delete(file->header);
    io_unmap(&file->map);
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

int safetensors_require(const SafeFile *file, const char *name, Tensor want, const void **data)
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
    *data = found->data;
    return 0;
}

int safetensors_check(const SafeFile *file)
{
    return io_map_check(&file->map, file->path);
}

const char *safetensors_metadata(const SafeFile *file, const char *key)
{
    const cJSON *metadata = json_get(file->header, "__metadata__");
    const cJSON *item = json_get(metadata, key);
    return item != NULL ? item->valuestring : NULL;
}

int safetensors_digest(const char *path, uint64_t *digest)
{
    IoMap map;
    int code = io_map(path, &map);
    if (code == 0) {
        *digest = io_hash(map.data, map.size);
        code = io_map_check(&map, path);
        io_unmap(&map);
    }
    return code;
}
