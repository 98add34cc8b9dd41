#include "base/io.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reading a page of a mapped file that is not there any more raises SIGBUS in the thread that
 * reads. The handler looks the address up here, puts zeros in place of the rest of the map, and
 * lets the thread go on; who reads finds out afterwards. Guards are reused but never freed, so
 * that the handler can walk them at any time. */
struct IoGuard {
    _Atomic(uintptr_t) start; /* 0: not in use */
    atomic_size_t size;
    atomic_bool broken;
    dev_t device;
    ino_t inode;
    struct IoGuard *next;
};

static _Atomic(struct IoGuard *) guards;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;
    for (struct IoGuard *guard = guards; guard != NULL; guard = guard->next) {
        uintptr_t start = guard->start;
        if (start == 0 || at < start || at - start >= guard->size) {
            continue;
        }
        uintptr_t page = at & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);
        guard->broken = true;
        int error = errno;
        void *zeros = mmap((void *)page, start + guard->size - page, PROT_READ,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        errno = error;
        if (zeros != MAP_FAILED) {
            return;
        }
    }
    /* Not of a map of ours: as if we were not there. */
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        sigaction(SIGBUS, &before, NULL); /* the same instruction meets it */
    }
}

void io_claim_bus_errors(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

static struct IoGuard *add_guard(const void *start, const struct stat *info)
{
    pthread_mutex_lock(&lock);
    struct IoGuard *guard = guards;
    while (guard != NULL && guard->start != 0) {
        guard = guard->next;
    }
    if (guard == NULL) {
        guard = mem_zalloc(1, sizeof *guard);
        guard->next = guards;
        guards = guard;
    }
    guard->broken = false;
    guard->device = info->st_dev;
    guard->inode = info->st_ino;
    guard->size = (size_t)info->st_size;
    guard->start = (uintptr_t)start;
    pthread_mutex_unlock(&lock);
    return guard;
}

int io_map(const char *path, IoMap *map)
{
    *map = (IoMap){0};
    int file;
    struct stat info;
    int code = io_open_regular(path, &file, &info);
    if (code != 0) {
        return code;
    }
    if (info.st_size > 0) {
        void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, file, 0);
        if (data == MAP_FAILED) {
            code = io_error(path, "read");
        } else {
            *map = (IoMap){data, (size_t)info.st_size, add_guard(data, &info)};
        }
    }
    close(file);
    return code;
}

void io_unmap(IoMap *map)
{
    if (map->data != NULL) {
        map->guard->start = 0;
        munmap((void *)map->data, map->size);
    }
    *map = (IoMap){0};
}

void io_map_forget(const IoMap *map)
{
    if (map->data != NULL) {
        madvise((void *)map->data, map->size, MADV_DONTNEED);
    }
}

int io_map_check(const IoMap *map, const char *path)
{
    if (map->data == NULL) {
        return 0;
    }
    /* Behind the end of a file its last page reads as zeros without a signal. A file that was
     * replaced by another is not meant: the map keeps the old one. */
    struct stat info;
    bool same = stat(path, &info) == 0 && info.st_dev == map->guard->device &&
                info.st_ino == map->guard->inode;
    if (!map->guard->broken && !(same && (size_t)info.st_size < map->size)) {
        return 0;
    }
    return err_set(
        ERR_INPUT,
        "%s: became shorter while it was being read, or cannot be read any more; make or "
        "copy it again",
        path);
}
