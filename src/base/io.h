#pragma once
/* Checked files. Every function returns 0 or an ErrCode with a message that names the path. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stat;

/* "PATH: cannot WHAT: ..." by errno, with the code that belongs to it. */
int io_error(const char *path, const char *what);

/* A file mapped read-only. Its owner may cut it short meanwhile, or its disk fail: after
 * io_claim_bus_errors what is gone then reads as zeros, and io_map_check tells. */
typedef struct {
    const uint8_t *data; /* NULL when size is 0 */
    size_t size;
    struct IoGuard *guard;
} IoMap;

int io_map(const char *path, IoMap *map); /* io_unmap releases it */
void io_unmap(IoMap *map);                /* no-op on a zeroed map */

/* Gives back the memory of what was read: it is read from the file again where it is asked for. */
void io_map_forget(const IoMap *map);

/* ERR_INPUT when what was read from the map so far need not have been in the file: it has become
 * shorter, or could not be read. To be asked behind every use of the bytes, before anybody
 * relies on them. */
int io_map_check(const IoMap *map, const char *path);

/* Handles the signal that reading lost parts of a map raises, in place of what the process did
 * with it. For pacer's own program: a library leaves signals alone. */
void io_claim_bus_errors(void);

/* Opens a file for reading that is a regular one: no pipe or device, which could keep the reader
 * waiting. */
int io_open_regular(const char *path, int *file, struct stat *info);

/* The whole file, NUL-terminated behind its end; caller frees *data. ERR_INPUT if it cannot be
 * read or is larger than limit bytes. A regular file, or a pipe without a name: the shell's
 * <(command). */
int io_read_all(const char *path, size_t limit, char **data, size_t *size);

/* Replaces path with these bytes as one event: temporary file beside it, fsync, rename, fsync of
 * the folder. A reader sees the old content or the new, never a part; on failure the old file
 * stays. */
int io_write_atomic(const char *path, const void *data, size_t size);

/* The temporary file of FILE is FILE with this behind it. It is locked while it is written, so
 * that one which a killed process left is told from one in use; the next replacement of FILE
 * uses it again. */
#define IO_TEMPORARY ".pacer-tmp"

/* Removes the temporary files in a folder that no process is writing any more. */
void io_remove_temporaries(const char *path);

/* A file written front to back, to be made durable by io_writer_close (which fsyncs). Errors stick:
 * after the first, writes do nothing and close returns it. `digest` is the XXH3 64-bit hash of all
 * bytes written. */
typedef struct IoWriter IoWriter;
int io_writer_open(const char *path, IoWriter **out);
int io_replace_open(const char *path, IoWriter **out); /* under a temporary name until the close */
int io_writer_put(IoWriter *writer, const void *data, size_t size);
int io_writer_close(IoWriter *writer, uint64_t *digest); /* frees; digest may be NULL */
void io_writer_abandon(IoWriter *writer);                /* closes and removes the file */

/* Locks an open file or folder for this process until it is closed. False: another process has
 * it. On a file system without locks that cannot be known, which is warned of once. */
bool io_lock(int file, const char *path);

int io_make_folders(const char *path); /* like mkdir -p */
int io_sync_folder(const char *path);  /* makes renames inside it durable */
int io_remove_tree(const char *path);  /* like rm -rf, links as links; a missing path is fine */
bool io_exists(const char *path);
bool io_has(const char *folder, const char *name); /* whether folder/name exists */
bool io_is_folder(const char *path);
char *io_join(const char *folder, const char *name); /* caller frees */
char *io_parent(const char *path); /* the folder in which it lies, "." at least; caller frees */

/* The folder of the running program, and of the file that this code was linked into (the same,
 * or that of libpacer.so), without a slash at the end; "." when the system does not say. Caller
 * frees. */
char *io_program_folder(void);
char *io_library_folder(void);

/* The first folder/place/name that exists, places ending with NULL; NULL: none. Takes `folder`;
 * caller frees. */
char *io_find_from(char *folder, const char *const *places, const char *name);

/* XXH3 64-bit hash. */
uint64_t io_hash(const void *data, size_t size);
