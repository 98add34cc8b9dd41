#include "base/io.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#include <xxhash.h>

#define WRITER_BUFFER ((size_t)1 << 20)

/* A place that is not there or not for us is a wrong option (ERR_INPUT); a full or broken disk
 * is a failure. */
static int kind_of(int error)
{
    static const int wrong_place[] = {EACCES, EPERM,  EROFS, ENOTDIR, ENOENT,
                                      EISDIR, EEXIST, ELOOP, ENXIO,   ENAMETOOLONG};
    for (size_t i = 0; i < sizeof wrong_place / sizeof wrong_place[0]; i++) {
        if (error == wrong_place[i]) {
            return ERR_INPUT;
        }
    }
    return error == ENOMEM ? ERR_MEMORY : ERR_FAILED;
}

int io_error(const char *path, const char *what)
{
    int error = errno;
    return err_set(kind_of(error), "%s: cannot %s: %s", path, what, strerror(error));
}

static int read_error(const char *path)
{
    return io_error(path, "read");
}

static int write_error(const char *path)
{
    return io_error(path, "write");
}

/* A pipe without a name, as the shell's <(command) hands it over: it ends with the process that
 * writes to it. */
static bool is_handed_over(int file, const struct stat *info)
{
    struct statfs place;
    return S_ISFIFO(info->st_mode) && fstatfs(file, &place) == 0 && place.f_type == PIPEFS_MAGIC &&
           fcntl(file, F_SETFL, 0) == 0; /* it may be waited for */
}

static int open_file(const char *path, bool piped, int *file, struct stat *info)
{
    /* Without O_NONBLOCK the open of a pipe that nobody writes to would wait for ever. */
    *file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (*file < 0) {
        return read_error(path);
    }
    int code = fstat(*file, info) == 0 ? 0 : read_error(path);
    if (code == 0 && !S_ISREG(info->st_mode) && !(piped && is_handed_over(*file, info))) {
        code = err_set(ERR_INPUT, "%s: not a regular file", path);
    }
    if (code != 0) {
        close(*file);
        *file = -1;
    }
    return code;
}

int io_open_regular(const char *path, int *file, struct stat *info)
{
    return open_file(path, false, file, info);
}

int io_read_all(const char *path, size_t limit, char **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    int file;
    struct stat info;
    int code = open_file(path, true, &file, &info);
    if (code != 0) {
        return code;
    }
    /* The size is where to begin; a file may grow meanwhile, and those of /proc have none. */
    size_t used = 0, capacity = info.st_size > 0 ? (size_t)info.st_size + 2 : 4096;
    capacity = capacity > limit ? limit + 2 : capacity;
    char *bytes = mem_alloc(capacity);
    for (ssize_t part = 1; code == 0 && part != 0;) {
        part = read(file, bytes + used, capacity - used - 1);
        if (part < 0 && errno != EINTR) {
            code = read_error(path);
        }
        used += part > 0 ? (size_t)part : 0;
        if (code == 0 && used > limit) {
            code = err_set(ERR_INPUT, "%s: larger than the %zu bytes allowed here", path, limit);
        } else if (code == 0 && used == capacity - 1) {
            capacity *= 2;
            bytes = mem_realloc(bytes, capacity, 1);
        }
    }
    close(file);
    if (code != 0) {
        free(bytes);
        return code;
    }
    bytes[used] = '\0';
    *data = bytes;
    *size = used;
    return 0;
}

size_t io_read_start(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t got = file != NULL ? fread(text, 1, size - 1, file) : 0;
    text[got] = '\0';
    if (file != NULL) {
        fclose(file);
    }
    return got;
}

static int write_fully(int file, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t done = write(file, data, size);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return -1;
        }
        data += done;
        size -= (size_t)done;
    }
    return 0;
}

struct IoWriter {
    char *path;
    char *target; /* what path is renamed to when it is complete; NULL: it has its name */
    int file, code;
    size_t used;       /* of buffer */
    uint64_t position; /* in the file, of what is put next */
    IoHash *hash;
    uint8_t buffer[WRITER_BUFFER];
};

/* Takes path and target. */
static IoWriter *writer_of(int file, char *path, char *target)
{
    IoWriter *writer = mem_alloc(sizeof *writer);
    writer->path = path;
    writer->target = target;
    writer->file = file;
    writer->code = 0;
    writer->used = 0;
    writer->position = 0;
    writer->hash = io_hash_new();
    return writer;
}

static int open_writer(const char *path, int how, IoWriter **out)
{
    *out = NULL;
    int file = open(path, O_WRONLY | O_CLOEXEC | how, 0644);
    if (file < 0) {
        return write_error(path);
    }
    *out = writer_of(file, mem_strdup(path), NULL);
    return 0;
}

int io_writer_open(const char *path, IoWriter **out)
{
    return open_writer(path, O_CREAT | O_TRUNC, out);
}

int io_writer_reopen(const char *path, IoWriter **out)
{
    return open_writer(path, 0, out);
}

int io_create_sized(const char *path, uint64_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) {
        return write_error(path);
    }
    int result = fallocate(file, 0, 0, (off_t)size);
    if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
        result = ftruncate(file, (off_t)size); /* a full disk is then met later */
    }
    int code = result == 0 ? 0 : write_error(path);
    if (close(file) != 0 && code == 0) {
        code = write_error(path);
    }
    return code;
}

static int lock(int file, int how)
{
    int result;
    do {
        result = flock(file, how);
    } while (result != 0 && errno == EINTR);
    return result;
}

/* Opens the temporary file `name`, empty and locked by this process until it is closed. What a
 * killed process left under that name is used again; one that is at work is waited for.
 * *lockless: the file system has no locks, and nothing was opened. */
static int open_temporary(const char *name, int *out, bool *lockless)
{
    for (*lockless = false;;) {
        int file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
        if (file < 0) {
            return write_error(name);
        }
        struct stat opened, named;
        int code = fstat(file, &opened) == 0 ? 0 : write_error(name);
        if (code == 0 && (!S_ISREG(opened.st_mode) || opened.st_nlink > 1)) {
            code = err_set(ERR_INPUT,
                           "%s: is in the way, and no temporary file of pacer's; remove it", name);
        }
        *lockless = code == 0 && lock(file, LOCK_EX) != 0;
        /* The process that was waited for has given the file its final name, or removed it. */
        bool current = code == 0 && !*lockless && lstat(name, &named) == 0 &&
                       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
        if (current && ftruncate(file, 0) != 0) {
            code = write_error(name);
        }
        if (current && code == 0) {
            *out = file;
            return 0;
        }
        close(file);
        if (code != 0 || *lockless) {
            return code;
        }
    }
}

int io_replace_open(const char *path, IoWriter **out)
{
    *out = NULL;
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        return err_set(ERR_INPUT, "%s: cannot write: a device or a pipe, which is not replaced",
                       path);
    }
    char *name = mem_format("%s" IO_TEMPORARY, path);
    int file = -1;
    bool lockless = false;
    int code = io_check_parent(path);
    code = code != 0 ? code : open_temporary(name, &file, &lockless);
    if (code == 0 && lockless) { /* then a name that no other process has */
        unlink(name);
        free(name);
        name = mem_format("%s.%ld" IO_TEMPORARY, path, (long)getpid());
        file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
        code = file >= 0 ? 0 : write_error(name);
    }
    if (code != 0) {
        free(name);
        return code;
    }
    *out = writer_of(file, name, mem_strdup(path));
    return 0;
}

static int flush(IoWriter *writer)
{
    if (writer->code == 0 && write_fully(writer->file, writer->buffer, writer->used) != 0) {
        writer->code = write_error(writer->path);
    }
    writer->used = 0;
    return writer->code;
}

int io_writer_put(IoWriter *writer, const void *data, size_t size)
{
    io_hash_add(writer->hash, data, size);
    writer->position += size;
    if (size > WRITER_BUFFER - writer->used) {
        flush(writer);
    }
    if (size > WRITER_BUFFER) {
        if (writer->code == 0 && write_fully(writer->file, data, size) != 0) {
            writer->code = write_error(writer->path);
        }
    } else if (size > 0) {
        memcpy(writer->buffer + writer->used, data, size);
        writer->used += size;
    }
    return writer->code;
}

int io_writer_seek(IoWriter *writer, uint64_t offset)
{
    if (offset != writer->position && flush(writer) == 0 &&
        lseek(writer->file, (off_t)offset, SEEK_SET) < 0) {
        writer->code = write_error(writer->path);
    }
    writer->position = offset;
    return writer->code;
}

/* Returns the digest. */
static uint64_t writer_free(IoWriter *writer)
{
    uint64_t digest = io_hash_end(writer->hash);
    free(writer->path);
    free(writer->target);
    free(writer);
    return digest;
}

int io_writer_close(IoWriter *writer, uint64_t *digest)
{
    int code = flush(writer);
    if (code == 0 && fsync(writer->file) != 0) {
        code = write_error(writer->path);
    }
    /* Before the close, which ends the lock: nobody else may open it under its temporary name. */
    bool renamed = code == 0 && writer->target != NULL && rename(writer->path, writer->target) == 0;
    if (code == 0 && writer->target != NULL && !renamed) {
        code = write_error(writer->target);
    }
    if (code != 0 && writer->target != NULL) {
        unlink(writer->path);
    }
    if (close(writer->file) != 0 && code == 0) {
        code = write_error(writer->path);
    }
    if (renamed) {
        char *folder = io_parent(writer->target);
        int synced = io_sync_folder(folder);
        code = code != 0 ? code : synced;
        free(folder);
    }
    uint64_t hash = writer_free(writer);
    if (digest != NULL) {
        *digest = hash;
    }
    return code;
}

void io_writer_abandon(IoWriter *writer)
{
    struct stat info;
    if (fstat(writer->file, &info) == 0 && S_ISREG(info.st_mode)) {
        unlink(writer->path);
    }
    close(writer->file);
    writer_free(writer);
}

int io_write_atomic(const char *path, const void *data, size_t size)
{
    IoWriter *writer;
    int code = io_replace_open(path, &writer);
    if (code == 0) {
        io_writer_put(writer, data, size);
        code = io_writer_close(writer, NULL);
    }
    return code;
}

bool io_lock(int file, const char *path)
{
    static atomic_bool told;
    struct stat info;
    int result = lock(file, LOCK_EX | LOCK_NB);
    if (result == 0 && fstat(file, &info) == 0 && info.st_nlink == 0) {
        return false; /* removed since it was opened: nobody else would see this lock */
    }
    if (result != 0 && errno == EWOULDBLOCK) {
        return false;
    }
    if (result != 0 && !atomic_exchange(&told, true)) {
        log_warn("%s: this file system has no locks (%s): take care that no other pacer writes "
                 "there",
                 path, strerror(errno));
    }
    return true;
}

void io_remove_temporaries(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        size_t length = strlen(name), suffix = strlen(IO_TEMPORARY);
        if (length <= suffix || strcmp(name + length - suffix, IO_TEMPORARY) != 0) {
            continue;
        }
        int file = openat(dirfd(folder), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        struct stat info;
        bool stale = file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
                     info.st_nlink == 1 && flock(file, LOCK_EX | LOCK_NB) == 0;
        if (stale) {
            unlinkat(dirfd(folder), name, 0);
        }
        if (file >= 0) {
            close(file);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

int io_sync_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return write_error(path);
    }
    /* Some file systems cannot fsync a folder and say EINVAL; there is nothing more to do then. */
    int code = fsync(folder) == 0 || errno == EINVAL ? 0 : write_error(path);
    close(folder);
    return code;
}

static int no_folder(const char *path)
{
    return err_set(ERR_INPUT, "%s: is a file, where a folder is to be; move it, or name another",
                   path);
}

int io_check_folder(const char *path)
{
    char *at = mem_strdup(path);
    while (!io_exists(at) && strcmp(at, ".") != 0) {
        char *parent = io_parent(at);
        free(at);
        at = parent;
    }
    int code = io_exists(at) && !io_is_folder(at) ? no_folder(at) : 0;
    free(at);
    return code;
}

int io_check_parent(const char *path)
{
    char *folder = io_parent(path);
    int code = io_check_folder(folder);
    if (code == 0 && !io_is_folder(folder)) {
        code = err_set(ERR_INPUT, "%s: cannot write: there is no folder %s", path, folder);
    }
    free(folder);
    return code;
}

int io_make_folders(const char *path)
{
    char *partial = mem_strdup(path);
    int code = 0;
    for (char *at = partial + 1; code == 0; at++) {
        if (*at == '/' || *at == '\0') {
            char kept = *at;
            *at = '\0';
            if (mkdir(partial, 0755) != 0 && !(errno == EEXIST && io_is_folder(partial))) {
                code = errno == EEXIST ? no_folder(partial) : write_error(partial);
            }
            *at = kept;
            if (kept == '\0') {
                break;
            }
        }
    }
    free(partial);
    return code;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

int io_remove_tree(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) {
        return errno == ENOENT ? 0 : write_error(path);
    }
    return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : write_error(path);
}

bool io_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool io_has(const char *folder, const char *name)
{
    char *path = io_join(folder, name);
    bool found = io_exists(path);
    free(path);
    return found;
}

bool io_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

char *io_join(const char *folder, const char *name)
{
    size_t length = strlen(folder);
    bool slash = length > 0 && folder[length - 1] == '/';
    return mem_format("%s%s%s", folder, slash ? "" : "/", name);
}

char *io_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash == path ? 1 : slash != NULL ? (size_t)(slash - path) : 0;
    return length > 0 ? mem_format("%.*s", (int)length, path) : mem_strdup(".");
}

char *io_program_folder(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || path[0] != '/') {
        return mem_strdup(".");
    }
    path[length] = '\0';
    return io_parent(path);
}

char *io_find_from(char *folder, const char *const *places, const char *name)
{
    char *found = NULL;
    for (size_t i = 0; places[i] != NULL && found == NULL; i++) {
        char *path = mem_format("%s/%s/%s", folder, places[i], name);
        if (io_exists(path)) {
            found = path;
        } else {
            free(path);
        }
    }
    free(folder);
    return found;
}

char *io_library_folder(void)
{
    /* Of a program, the loader only knows the name it was started under. */
    Dl_info info;
    static const char here;
    bool found = dladdr(&here, &info) != 0 && info.dli_fname != NULL && info.dli_fname[0] == '/';
    return found ? io_parent(info.dli_fname) : io_program_folder();
}

uint64_t io_hash(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

/* An IoHash is XXH3's own state under another name. */
IoHash *io_hash_new(void)
{
    XXH3_state_t *state = mem_checked(XXH3_createState(), sizeof(XXH3_state_t *));
    XXH3_64bits_reset(state);
    return (IoHash *)state;
}

void io_hash_add(IoHash *hash, const void *data, size_t size)
{
    XXH3_64bits_update((XXH3_state_t *)hash, data, size);
}

uint64_t io_hash_end(IoHash *hash)
{
    uint64_t digest = XXH3_64bits_digest((XXH3_state_t *)hash);
    XXH3_freeState((XXH3_state_t *)hash);
    return digest;
}
