#pragma once
/* The documents of a text file: what lies between lines that are exactly BYTES_SEPARATOR (or between
 * such a line and an end of the file). Bytes are kept as they are, the line break before a
 * separator included; a separator line may end in CR LF. Documents without any byte are left out.
 * Memory does not depend on the size of file, document or line. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Documents Documents;

typedef struct {
    uint64_t offset, size; /* bytes, in the file */
} Document;

int documents_open(const char *path, Documents **out);
uint64_t documents_bytes(const Documents *documents); /* of the file, as it was when opened */

/* The next one in *document; *found is false behind the last. */
int documents_next(Documents *documents, Document *document, bool *found);

/* Bytes [offset, offset + size) of the file. ERR_INPUT when it has become shorter. */
int documents_read(Documents *documents, uint64_t offset, void *out, size_t size);

void documents_close(Documents *documents); /* NULL is fine */
