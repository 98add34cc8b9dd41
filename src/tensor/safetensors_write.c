/* Writing safetensors: the header is laid out from the entries alone, then the data is streamed, so
 * tensors of any size in any memory cost one piece of host memory at most. */
#include "tensor/safetensors.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DATA_ALIGN 64 /* of the first tensor, so that a mapped file can be read by wide loads */

static const char *type_name(DType dtype)
{
    static const char *const names[] = {
        [DT_F32] = "F32", [DT_BF16] = "BF16", [DT_F64] = "F64", [DT_I32] = "I32"};
    return names[dtype];
}

static void check_entries(const SafeEntry *entries, int count)
{
    for (int i = 0; i < count; i++) {
        const char *name = entries[i].name;
        int rank = entries[i].tensor.rank;
        PACER_ASSERT(name[0] != '\0' && strcmp(name, "__metadata__") != 0, "entry %d: \"%s\"", i,
                     name);
        PACER_ASSERT(rank >= 1 && rank <= TENSOR_MAX_RANK, "%s: rank %d", name, rank);
        for (int j = 0; j < i; j++) {
            PACER_ASSERT(strcmp(entries[j].name, name) != 0, "%s twice: %d and %d", name, j, i);
        }
    }
}

/* Numbers go in as text: cJSON's own would round from 15 digits on. */
static cJSON *describe(Tensor tensor, size_t begin)
{
    char shape[TENSOR_MAX_RANK * 24], offsets[64];
    int used = 0;
    for (int i = 0; i < tensor.rank; i++) {
        used += snprintf(shape + used, sizeof shape - (size_t)used, "%s%lld", i == 0 ? "[" : ",",
                         (long long)tensor.dim[i]);
    }
    snprintf(shape + used, sizeof shape - (size_t)used, "]");
    snprintf(offsets, sizeof offsets, "[%zu,%zu]", begin, begin + tensor_bytes(tensor));
    cJSON *entry = json_object();
    json_put_text(entry, "dtype", type_name(tensor.dtype));
    json_put_raw(entry, "shape", shape);
    json_put_raw(entry, "data_offsets", offsets);
    return entry;
}

/* The header's JSON text; caller frees. */
static char *header_text(const SafeEntry *entries, int count, const SafeMeta *metadata)
{
    cJSON *header = json_object();
    cJSON *about = json_put_object(header, "__metadata__");
    json_put_text(about, "format", "pt");
    for (const SafeMeta *item = metadata; item != NULL && item->key != NULL; item++) {
        PACER_ASSERT(json_get(about, item->key) == NULL, "metadata \"%s\" twice", item->key);
        json_put_text(about, item->key, item->value);
    }
    size_t begin = 0;
    for (int i = 0; i < count; i++) {
        json_put_item(header, entries[i].name, describe(entries[i].tensor, begin));
        begin += tensor_bytes(entries[i].tensor);
    }
    char *text = json_line(header);
    cJSON_Delete(header);
    return text;
}

int safetensors_header(const char *path, const SafeEntry *entries, int count,
                       const SafeMeta *metadata, char **header, size_t *bytes)
{
    check_entries(entries, count);
    char *text = header_text(entries, count, metadata);
    size_t used = strlen(text);
    const char *fault = safetensors_header_fault(text, used);
    if (fault != NULL) {
        free(text);
        return err_set(ERR_INPUT, "%s: cannot write: the header %s (tensor names and metadata)",
                       path, fault);
    }
    *bytes = (8 + used + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    *header = mem_alloc(*bytes);
    for (int i = 0; i < 8; i++) {
        (*header)[i] = (char)(uint8_t)((uint64_t)(*bytes - 8) >> (8 * i));
    }
    memcpy(*header + 8, text, used);
    memset(*header + 8 + used, ' ', *bytes - 8 - used);
    free(text);
    return 0;
}

static int put_tensor(IoWriter *writer, const SafeEntry *entry, const SafeSource *source,
                      void *piece)
{
    size_t bytes = tensor_bytes(entry->tensor);
    if (source == NULL) {
        return bytes > 0 ? io_writer_put(writer, entry->tensor.data, bytes) : 0;
    }
    for (size_t offset = 0; offset < bytes; offset += SAFETENSORS_PIECE) {
        size_t part = bytes - offset < SAFETENSORS_PIECE ? bytes - offset : SAFETENSORS_PIECE;
        int code = source->fetch(source->user, entry, offset, piece, part);
        if (code == 0) {
            code = io_writer_put(writer, piece, part);
        }
        if (code != 0) {
            return code;
        }
    }
    return 0;
}

/* A device or a link that the user named as the target is not ours to remove. */
static void remove_partial(const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0 && S_ISREG(info.st_mode)) {
        unlink(path);
    }
}

int safetensors_write(const char *path, const SafeEntry *entries, int count,
                      const SafeMeta *metadata, const SafeSource *source, uint64_t *digest)
{
    char *header;
    size_t bytes;
    int code = safetensors_header(path, entries, count, metadata, &header, &bytes);
    if (code != 0) {
        return code;
    }
    IoWriter *writer;
    code = io_writer_open(path, &writer);
    if (code != 0) {
        free(header);
        return code;
    }
    io_writer_put(writer, header, bytes);
    free(header);
    void *piece = source != NULL ? mem_alloc(SAFETENSORS_PIECE) : NULL;
    for (int i = 0; i < count && code == 0; i++) {
        code = put_tensor(writer, &entries[i], source, piece);
    }
    free(piece);
    int closed = io_writer_close(writer, digest);
    code = code != 0 ? code : closed;
    if (code != 0) {
        remove_partial(path);
    }
    return code;
}
