#pragma once
/* A reader of GGUF files for tests, which shares nothing with what writes them. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *name;
    int type;         /* u32 4, i32 5, f32 6, bool 7, text 8, array 9 */
    uint64_t value;   /* or bits */
    char *text;       /* type 8 */
    int element;      /* type 9 */
    uint64_t count;   /* type 9 */
    char **texts;     /* of element 8 */
    uint64_t *wholes; /* of element 5, or bits of element 6 */
} Field;

typedef struct {
    char *name;
    int dims, type;
    uint64_t dim[2], offset;
} Listed;

typedef struct {
    char *bytes;
    size_t size, data; /* data: where tensors begin */
    Field fields[64];
    Listed tensors[128];
    int field_count, tensor_count;
} Gguf;

Gguf *read_gguf(const char *path); /* fails the test where the file is none */
void free_gguf(Gguf *file);
const Field *field_of(const Gguf *file, const char *name);   /* NULL: none */
const Listed *listed_of(const Gguf *file, const char *name); /* NULL: none */
