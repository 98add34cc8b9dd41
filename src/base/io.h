#pragma once
/* Checked files. Every function returns 0 or an ErrCode with a message that names the path. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *data; /* NULL when size is 0 */
    size_t size;
} IoMap;

int io_map(const char *path, IoMap *map); /* read-only; io_unmap releases it */
void io_unmap(IoMap *map);                /* no-op on a zeroed map */

/* The whole file, NUL-terminated behind its end; caller frees *data. ERR_INPUT if it cannot be read
 * or is larger than limit bytes. */
int io_read_all(const char *path, size_t limit, char **data, size_t *size);

/* Replaces path with these bytes as one event: temporary file beside it, fsync, rename, fsync of the
 * folder. A reader sees the old content or the new, never a part; on failure the old file stays. */
int io_write_atomic(const char *path, const void *data, size_t size);

/* A file written front to back, to be made durable by io_writer_close (which fsyncs). Errors stick:
 * after the first, writes do nothing and close returns it. `digest` is the XXH3 64-bit hash of all
 * bytes written. */
typedef struct IoWriter IoWriter;
int io_writer_open(const char *path, IoWriter **out);
int io_writer_put(IoWriter *writer, const void *data, size_t size);
int io_writer_close(IoWriter *writer, uint64_t *digest); /* frees; digest may be NULL */
void io_writer_abandon(IoWriter *writer);                /* closes and removes the file */

int io_make_folders(const char *path); /* like mkdir -p */
int io_sync_folder(const char *path);  /* makes renames inside it durable */
int io_remove_tree(const char *path);  /* like rm -rf; a missing path is fine */
bool io_exists(const char *path);
bool io_is_folder(const char *path);
char *io_join(const char *folder, const char *name); /* caller frees */

/* The folder of the running program, and of the file that this code was linked into (the same, or that of
 * libpacer.so), without a slash at the end; "." when the system does not say. Caller frees. */
char *io_program_folder(void);
char *io_library_folder(void);

/* The first folder/place/name that exists, places ending with NULL; NULL: none. Takes `folder`; caller frees. */
char *io_find_from(char *folder, const char *const *places, const char *name);

/* XXH3 64-bit hash. */
uint64_t io_hash(const void *data, size_t size);
