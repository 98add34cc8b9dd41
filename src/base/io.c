#include "base/io.h"

#include "base/err.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define WRITER_BUFFER ((size_t)1 << 20)

/* Reading fails because of what the user named (ERR_INPUT), writing because of the disk. */
static int read_error(const char *path)
{
    return err_set(ERR_INPUT, "%s: cannot read: %s", path, strerror(errno));
}

/* An unwritable place is a wrong option (ERR_INPUT); a full or broken disk is a failure. */
static int write_error(const char *path)
{
    bool denied = errno == EACCES || errno == EPERM || errno == EROFS || errno == ENOTDIR ||
                  errno == ENOENT || errno == EISDIR || errno == EEXIST;
    return err_set(denied ? ERR_INPUT : ERR_FAILED, "%s: cannot write: %s", path, strerror(errno));
}

int io_map(const char *path, IoMap *map)
{
    *map = (IoMap){0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return read_error(path);
    }
    struct stat info;
    int code = fstat(file, &info) == 0 ? 0 : read_error(path);
    if (code == 0 && !S_ISREG(info.st_mode)) {
        code = err_set(ERR_INPUT, "%s: not a regular file", path);
    }
    if (code == 0 && info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, file, 0);
        if (data == MAP_FAILED) {
            code = read_error(path);
        } else {
            *map = (IoMap){data, (size_t)info.st_size};
        }
    }
    close(file);
    return code;
}

void io_unmap(IoMap *map)
{
    if (map->data != NULL) {
        munmap((void *)map->data, map->size);
    }
    *map = (IoMap){0};
}

int io_read_all(const char *path, size_t limit, char **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return read_error(path);
    }
    size_t used = 0, capacity = 4096;
    char *bytes = mem_alloc(capacity);
    int code = 0;
    while (code == 0) {
        used += fread(bytes + used, 1, capacity - used - 1, file);
        if (ferror(file)) {
            code = read_error(path);
        } else if (used > limit) {
            code = err_set(ERR_INPUT, "%s: larger than the %zu bytes allowed here", path, limit);
        } else if (feof(file)) {
            break;
        } else {
            capacity *= 2;
            bytes = mem_realloc(bytes, capacity, 1);
        }
    }
    fclose(file);
    if (code != 0) {
        free(bytes);
        return code;
    }
    bytes[used] = '\0';
    *data = bytes;
    *size = used;
    return 0;
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
    int file, code;
    size_t used;
    XXH3_state_t *hash;
    uint8_t buffer[WRITER_BUFFER];
};

int io_writer_open(const char *path, IoWriter **out)
{
    *out = NULL;
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) {
        return write_error(path);
    }
    IoWriter *writer = mem_alloc(sizeof *writer);
    writer->path = mem_strdup(path);
    writer->file = file;
    writer->code = 0;
    writer->used = 0;
    writer->hash = XXH3_createState();
    XXH3_64bits_reset(writer->hash);
    *out = writer;
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
    XXH3_64bits_update(writer->hash, data, size);
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

static void writer_free(IoWriter *writer)
{
    XXH3_freeState(writer->hash);
    free(writer->path);
    free(writer);
}

int io_writer_close(IoWriter *writer, uint64_t *digest)
{
    int code = flush(writer);
    if (code == 0 && fsync(writer->file) != 0) {
        code = write_error(writer->path);
    }
    if (close(writer->file) != 0 && code == 0) {
        code = write_error(writer->path);
    }
    if (digest != NULL) {
        *digest = XXH3_64bits_digest(writer->hash);
    }
    writer_free(writer);
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

static char *parent_of(const char *path)
{
    char *folder = mem_strdup(path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        strcpy(folder, ".");
    } else if (slash == folder) {
        slash[1] = '\0';
    } else {
        *slash = '\0';
    }
    return folder;
}

int io_write_atomic(const char *path, const void *data, size_t size)
{
    char *temporary = mem_format("%s.tmp-%ld", path, (long)getpid());
    IoWriter *writer;
    int code = io_writer_open(temporary, &writer);
    if (code == 0) {
        io_writer_put(writer, data, size);
        code = io_writer_close(writer, NULL);
        if (code == 0 && rename(temporary, path) != 0) {
            code = write_error(path);
        }
        if (code != 0) {
            unlink(temporary);
        }
    }
    free(temporary);
    if (code == 0) {
        char *folder = parent_of(path);
        code = io_sync_folder(folder);
        free(folder);
    }
    return code;
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

int io_make_folders(const char *path)
{
    char *partial = mem_strdup(path);
    int code = 0;
    for (char *at = partial + 1; code == 0; at++) {
        if (*at == '/' || *at == '\0') {
            char kept = *at;
            *at = '\0';
            if (mkdir(partial, 0755) != 0 && !(errno == EEXIST && io_is_folder(partial))) {
                code = write_error(partial);
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

/* Up to the last slash of an absolute path. */
static char *folder_of(const char *path)
{
    return mem_format("%.*s", (int)(strrchr(path, '/') - path), path);
}

char *io_program_folder(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0 || path[0] != '/') {
        return mem_strdup(".");
    }
    path[length] = '\0';
    return folder_of(path);
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
    return found ? folder_of(info.dli_fname) : io_program_folder();
}

uint64_t io_hash(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}
