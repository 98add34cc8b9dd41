#pragma once
/* Checked files. Every function returns 0 or an ErrCode with a message that names the path. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stat;

/* "PATH: cannot WHAT: ..." by errno, with the code that belongs to it. */
int io_error(const char *path, const char *what);

/* A regular file, read from any place by any thread. Its owner may cut it short meanwhile, put
 * another in its place, or its disk fail. */
typedef struct IoFile IoFile;

int io_file_open(const char *path, IoFile **out);
void io_file_close(IoFile *file); /* NULL is fine */

/* The same of an open descriptor, which becomes the file's; name is for messages. */
int io_file_adopt(int descriptor, const char *name, IoFile **out);

uint64_t io_file_size(const IoFile *file); /* bytes, when it was opened */

/* Bytes [offset, offset + size). Where they are not in the file any more `to` gets zeros:
 * ERR_INPUT, of this call and of io_file_check from then on. */
int io_file_read(IoFile *file, uint64_t offset, void *to, size_t size);
int io_file_check(const IoFile *file);

/* Opens a file for reading that is a regular one: no pipe or device, which could keep the reader
 * waiting. */
int io_open_regular(const char *path, int *file, struct stat *info);

/* The whole file, NUL-terminated behind its end; caller frees *data. ERR_INPUT if it cannot be
 * read or is larger than limit bytes. A regular file, or a pipe without a name: the shell's
 * <(command). */
int io_read_all(const char *path, size_t limit, char **data, size_t *size);

/* The beginning of a file, such as one of /proc: as much as `text` holds with a NUL behind it. How
 * many bytes; 0: none can be read. */
size_t io_read_start(const char *path, char *text, size_t size);

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

/* A file that several processes fill: one creates it with all the bytes that it will have, which
 * a full disk refuses at once; each then opens it as it is and goes to where its bytes belong. */
int io_create_sized(const char *path, uint64_t size);
int io_writer_reopen(const char *path, IoWriter **out);
int io_writer_seek(IoWriter *writer, uint64_t offset);
int io_writer_close(IoWriter *writer, uint64_t *digest); /* frees; digest may be NULL */
void io_writer_abandon(IoWriter *writer);                /* closes and removes the file */

/* Locks an open file or folder for this process until it is closed. False: another process has
 * it, or had it and has removed it. On a file system without locks that cannot be known, which is
 * warned of once. */
bool io_lock(int file, const char *path);

int io_make_folders(const char *path); /* like mkdir -p */

/* Whether there can be a folder or a file with that name: ERR_INPUT that names what is in the way
 * of the folder, or which folder is missing for the file. */
int io_check_folder(const char *path);
int io_check_parent(const char *path);
int io_sync_folder(const char *path); /* makes renames inside it durable */
int io_remove_tree(const char *path); /* like rm -rf, links as links; a missing path is fine */
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

/* XXH3 64-bit hash; of bytes that come in pieces: new, add, end (which frees it). */
uint64_t io_hash(const void *data, size_t size);
typedef struct IoHash IoHash;
IoHash *io_hash_new(void);
void io_hash_add(IoHash *hash, const void *data, size_t size);
uint64_t io_hash_end(IoHash *hash);
