#pragma once
/* Named tensors in one file, in the safetensors format that other tools read and write: eight bytes
 * of header length (little-endian), a JSON header that gives each tensor its type, shape and place,
 * then the tensors one after the other without holes. docs/reference/formats.md has the bytes.
 *
 * A file is input: nothing in it is believed unchecked. What safetensors_open accepts has
 * every tensor inside the file, of the size that type and shape demand, and every byte behind the
 * header belonging to exactly one tensor. */
#include "base/io.h"
#include "tensor/tensor.h"

struct cJSON;

/* One tensor to be written: rank 1 to 4; tensor.data is where SafeSource finds it. */
typedef struct {
    const char *name; /* not empty, not "__metadata__", each only once */
    Tensor tensor;
} SafeEntry;

/* Text kept in the header; an array of these ends with a NULL key. */
typedef struct {
    const char *key, *value; /* UTF-8; "format" is pacer's own key */
} SafeMeta;

/* How to read tensors that do not live in host memory: copies bytes [offset, offset + bytes) of
 * an entry to `to` and returns 0 or an ErrCode. Entries come in order, each in pieces of
 * SAFETENSORS_PIECE bytes and what is left, front to back. */
#define SAFETENSORS_PIECE ((size_t)4 << 20)
typedef struct {
    int (*fetch)(void *user, const SafeEntry *entry, size_t offset, void *to, size_t bytes);
    void *user;
} SafeSource;

/* Writes entries in the given order and makes the file durable. metadata may be NULL; source NULL
 * means host memory. *digest (may be NULL) receives the XXH3 hash of the whole file. On failure
 * there is no file at path: for a file that replaces another, write beside it and rename. */
int safetensors_write(const char *path, const SafeEntry *entries, int count,
                      const SafeMeta *metadata, const SafeSource *source, uint64_t *digest);

/* The same file in parts: what it begins with (length, JSON, spaces; caller frees) and how many
 * bytes, behind which the entries' data lies in their order. path is for the message. */
int safetensors_header(const char *path, const SafeEntry *entries, int count,
                       const SafeMeta *metadata, char **header, size_t *bytes);

typedef struct {
    const char *name;
    const char *type; /* as the file spells it: "F32", "BF16", "I64", ... */
    bool supported;   /* type is one of pacer's; dtype has a meaning only then */
    DType dtype;
    int rank; /* 0: a single number */
    int64_t dim[TENSOR_MAX_RANK];
    const uint8_t *data; /* in the caller's memory, not aligned for its type; NULL: in `file` */
    IoFile *file;
    size_t offset; /* of its bytes in the file */
    size_t bytes;
} SafeTensor;

typedef struct {
    char *path;
    IoFile *file; /* NULL: the bytes are the caller's */
    struct cJSON *header;
    SafeTensor *tensors; /* in the order of their data */
    int count;
    const SafeTensor **by_name; /* sorted */
} SafeFile;

/* Opens and checks a file; ERR_INPUT names the path, the tensor and what is wrong. On failure
 * *file is zeroed. Pointers into it hold until safetensors_close. */
int safetensors_open(const char *path, SafeFile *file);

/* The same over bytes in memory, which stay the caller's and must outlive the file. */
int safetensors_open_bytes(const char *name, const void *data, size_t size, SafeFile *file);

void safetensors_close(SafeFile *file); /* no-op on a zeroed file */

const SafeTensor *safetensors_find(const SafeFile *file, const char *name); /* NULL: not there */

/* Tensor `name`, which must have the type and shape of `want` (want.data is ignored); else
 * ERR_INPUT saying what the file has instead. */
int safetensors_require(const SafeFile *file, const char *name, Tensor want,
                        const SafeTensor **found);

/* Bytes [first, first + bytes) of a tensor. ERR_INPUT when the file was cut short meanwhile. */
int safetensors_read(const SafeTensor *tensor, size_t first, void *to, size_t bytes);

const char *safetensors_metadata(const SafeFile *file, const char *key); /* NULL: not there */

/* XXH3 hash of the whole file, equal to what safetensors_write reported. */
int safetensors_digest(const char *path, uint64_t *digest);

/* NULL, or what makes this text unfit to be a header; both sides ask before they trust it. */
const char *safetensors_header_fault(const void *header, size_t size);
