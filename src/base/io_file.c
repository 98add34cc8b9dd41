/* Files are read, not mapped: reading a page of a map whose file has become shorter is a signal,
 * which a library has no right to handle. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A dataset may have more shards than a process may have open files: those beyond so many, or a
 * quarter of what the process may have, are opened for each reading. */
#define MOST_KEPT 200

#define SHORTER (-1)

struct IoFile {
    char *path;
    int descriptor; /* -1: opened for each reading */
    bool counted;   /* among those that are kept open */
    uint64_t size;
    dev_t device;
    ino_t inode;
    atomic_int lost; /* errno of a reading that failed, or SHORTER; 0: none did */
};

static atomic_int kept;

static IoFile *file_of(const char *path, int descriptor, const struct stat *info)
{
    IoFile *file = mem_zalloc(1, sizeof *file);
    file->path = mem_strdup(path);
    file->descriptor = descriptor;
    file->size = (uint64_t)info->st_size;
    file->device = info->st_dev;
    file->inode = info->st_ino;
    return file;
}

static int most_kept(void)
{
    struct rlimit limit;
    bool tight = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < MOST_KEPT;
    return tight ? (int)(limit.rlim_cur / 4) : MOST_KEPT;
}

int io_file_open(const char *path, IoFile **out)
{
    *out = NULL;
    int descriptor;
    struct stat info;
    int code = io_open_regular(path, &descriptor, &info);
    if (code != 0) {
        return code;
    }
    *out = file_of(path, descriptor, &info);
    (*out)->counted = atomic_fetch_add(&kept, 1) < most_kept();
    if (!(*out)->counted) {
        atomic_fetch_sub(&kept, 1);
        close(descriptor);
        (*out)->descriptor = -1;
    }
    return 0;
}

int io_file_adopt(int descriptor, const char *name, IoFile **out)
{
    struct stat info;
    *out = NULL;
    if (fstat(descriptor, &info) != 0) {
        return io_error(name, "read");
    }
    *out = file_of(name, descriptor, &info);
    return 0;
}

void io_file_close(IoFile *file)
{
    if (file != NULL) {
        if (file->descriptor >= 0) {
            close(file->descriptor);
        }
        if (file->counted) {
            atomic_fetch_sub(&kept, 1);
        }
        free(file->path);
        free(file);
    }
}

uint64_t io_file_size(const IoFile *file)
{
    return file->size;
}

/* The file that was opened, and not one that has taken its name; -1: with errno. */
static int open_again(const IoFile *file)
{
    struct stat info;
    int descriptor = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor >= 0 && (fstat(descriptor, &info) != 0 || info.st_dev != file->device ||
                            info.st_ino != file->inode)) {
        close(descriptor);
        errno = ESTALE;
        return -1;
    }
    return descriptor;
}

int io_file_read(IoFile *file, uint64_t offset, void *to, size_t size)
{
    char *at = to;
    int descriptor = file->descriptor >= 0 ? file->descriptor : open_again(file);
    int cause = descriptor >= 0 ? SHORTER : errno;
    while (descriptor >= 0 && size > 0) {
        ssize_t part = pread(descriptor, at, size, (off_t)offset);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            cause = part < 0 ? errno : SHORTER;
            break;
        }
        at += part;
        offset += (uint64_t)part;
        size -= (size_t)part;
    }
    if (descriptor >= 0 && descriptor != file->descriptor) {
        close(descriptor);
    }
    if (size > 0) {
        memset(at, 0, size);
        file->lost = cause;
    }
    return size == 0 ? 0 : io_file_check(file);
}

int io_file_check(const IoFile *file)
{
    int cause = file->lost;
    if (cause == SHORTER) {
        return err_set(ERR_INPUT, "%s: became shorter while it was read; make or copy it again",
                       file->path);
    }
    return cause == 0
               ? 0
               : err_set(ERR_INPUT, "%s: cannot be read any more: %s", file->path, strerror(cause));
}
