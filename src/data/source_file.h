#pragma once
/* A file of text that is open, read at any place; and what its first bytes tell about it. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *name; /* its path, or "standard input" */
    int file;
    uint64_t size;            /* as it was when opened */
    uint64_t start;           /* of the text: behind a byte order mark */
    int (*interrupted)(void); /* asked before each read, as in SourceOptions; may be NULL */
} SourceFile;

/* ERR_INPUT when it cannot be read or is no regular file. */
int source_file_open(SourceFile *file, const char *path, int (*interrupted)(void));

/* All that can be read from descriptor `from`, kept in a file without a name in $TMPDIR or /tmp, so
 * that it can be read at any place and again. */
int source_file_spool(SourceFile *file, int from, const char *name, int (*interrupted)(void));

void source_file_close(SourceFile *file); /* no-op on a zeroed one */

/* Bytes [offset, offset + size). ERR_INPUT when the file has become shorter. */
int source_file_read(const SourceFile *file, uint64_t offset, void *out, size_t size);

/* Looks at the first bytes: sets `start`, and `*objection` to what stands against reading the
 * file as text, with advice; NULL when nothing does. Caller frees it. */
int source_file_inspect(SourceFile *file, char **objection);
