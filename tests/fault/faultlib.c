/* A library to be loaded before a program (LD_PRELOAD), in which one system call fails, or is the
 * last.
 *
 *   FAULT_STATE=FILE   counters, shared by all processes that have the same file (the first one
 *                      makes it): 64-bit numbers in the order of KINDS, then how many calls were
 *                      made to fail
 *   FAULT_CALL=NAME    the kind of call that fails, a name of KINDS; none: calls are only
 *                      counted
 *   FAULT_AT=N         the N-th of them fails, from 1
 *   FAULT_ERRNO=N      with this error; else the kind's own
 *   FAULT_STICKY=1     and so do all after it, as on a full disk
 *   FAULT_KILL=1       the call does not fail: the process is killed before it
 *   FAULT_FIRST=1      in the first process alone
 *   FAULT_SITES=FILE   a line "N HASH" for each call of the kind: calls of the same hash came
 *                      the same way (its last places)
 *   FAULT_FAST=1       clocks run fast, the machine has little memory and disks are not waited
 *                      for, to save time
 *
 * Counted is what the program itself asks for, directly or through libraries that work on its
 * behalf (JSON, YAML, regular expressions, the C library), not what the loader, OpenMP or BLAS
 * need, and nothing before main: constructors, such as those that register a GPU's kernels, have
 * no way to fail. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* X(name, error) */
#define KINDS(X)      \
    X(write, ENOSPC)  \
    X(fsync, EIO)     \
    X(rename, EIO)    \
    X(open, EMFILE)   \
    X(close, EIO)     \
    X(flock, ENOLCK)  \
    X(malloc, ENOMEM) \
    X(mkdir, ENOSPC)  \
    X(unlink, EIO)    \
    X(read, EIO)      \
    X(fallocate, ENOSPC)

typedef enum {
#define X(name, error) KIND_##name,
    KINDS(X)
#undef X
        KIND_COUNT
} Kind;

static const char *const kind_names[] = {
#define X(name, error) #name,
    KINDS(X)
#undef X
};

static const int kind_errors[] = {
#define X(name, error) error,
    KINDS(X)
#undef X
};

#define RANGES 16
#define SITE_DEPTH 6 /* innermost places in counted code that tell a call from others */
#define FAST 50      /* times the speed of a clock */

static struct {
    uintptr_t first, last;
} ranges[RANGES]; /* code whose calls count */
static int range_count;
static uint64_t *counters; /* KIND_COUNT, and how many failed; NULL: off */
static uint64_t *prepared; /* the same, before main */
static int failing = -1;   /* a Kind */
static uint64_t at;
static bool sticky;
static int error_number;
static bool kills, fast;
static int sites = -1; /* file */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int add_ranges(struct dl_phdr_info *info, size_t size, void *user)
{
    static const char *const libraries[] = {"libcjson", "libyaml", "libpcre2", "libxxhash",
                                            "libc.so"};
    int *seen = user;
    bool ours = (*seen)++ == 0; /* the program comes first */
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        ours = ours || strstr(info->dlpi_name, libraries[i]) != NULL;
    }
    (void)size;
    for (int i = 0; ours && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 && range_count < RANGES) {
            ranges[range_count].first = info->dlpi_addr + part->p_vaddr;
            ranges[range_count++].last = info->dlpi_addr + part->p_vaddr + part->p_memsz;
        }
    }
    return 0;
}

static const char *setting(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? text : "";
}

static bool is_set(const char *name)
{
    return setting(name)[0] != '\0';
}

__attribute__((constructor)) static void start(void)
{
    const char *state = setting("FAULT_STATE");
    fast = is_set("FAULT_FAST");
    if (state[0] == '\0') {
        return;
    }
    int file = open(state, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0 && is_set("FAULT_FIRST")) {
        return; /* not the first */
    }
    file = file >= 0 ? file : open(state, O_RDWR | O_CLOEXEC);
    size_t bytes = (KIND_COUNT + 1) * sizeof *counters;
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        return;
    }
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        if (strcmp(setting("FAULT_CALL"), kind_names[kind]) == 0) {
            failing = kind;
            error_number = atoi(setting("FAULT_ERRNO"));
            error_number = error_number > 0 ? error_number : kind_errors[kind];
        }
    }
    at = strtoull(setting("FAULT_AT"), NULL, 10);
    sticky = is_set("FAULT_STICKY");
    kills = is_set("FAULT_KILL");
    if (is_set("FAULT_SITES")) {
        void *frames[2];
        backtrace(frames, 2); /* which allocates, the first time */
        sites = open(setting("FAULT_SITES"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    int seen = 0;
    dl_iterate_phdr(add_ranges, &seen);
    prepared = map != MAP_FAILED ? map : NULL;
}

/* --- main --- */

typedef int Main(int argc, char **argv, char **environment);
static Main *real_main;

static int counted_main(int argc, char **argv, char **environment)
{
    counters = prepared;
    return real_main(argc, argv, environment);
}

typedef int StartMain(Main *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
StartMain __libc_start_main;

/* What the program's start calls; with a main of ours in place of its own. */
int __libc_start_main(Main *program, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    real_main = program;
    StartMain *next = (StartMain *)dlsym(RTLD_NEXT, "__libc_start_main");
    return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}

/* The range that holds the address, or -1. */
static int range_of(const void *address)
{
    for (int i = 0; i < range_count; i++) {
        if ((uintptr_t)address >= ranges[i].first && (uintptr_t)address < ranges[i].last) {
            return i;
        }
    }
    return -1;
}

/* By the places in counted code that led here, relative to where it was loaded. */
static void note_site(uint64_t number)
{
    static _Thread_local bool within; /* the walk may allocate */
    void *frames[24];
    char line[64];
    if (within) {
        return;
    }
    within = true;
    int count = backtrace(frames, 24);
    uint64_t hash = 14695981039346656037u;
    for (int i = 0, used = 0; i < count && used < SITE_DEPTH; i++) {
        int range = range_of(frames[i]);
        if (range >= 0) {
            used++;
            hash = (hash ^ ((uintptr_t)frames[i] - ranges[range].first)) * 1099511628211u;
        }
    }
    int size = snprintf(line, sizeof line, "%llu %016llx\n", (unsigned long long)number,
                        (unsigned long long)hash);
    syscall(SYS_write, sites, line, (size_t)size);
    within = false;
}

/* Whether this call is to fail; sets errno then. */
static bool fails(Kind kind, const void *caller)
{
    if (counters == NULL || range_of(caller) < 0) {
        return false;
    }
    uint64_t number = __atomic_add_fetch(&counters[kind], 1, __ATOMIC_RELAXED);
    if ((int)kind == failing && sites >= 0) {
        note_site(number);
    }
    if ((int)kind != failing || (sticky ? number < at : number != at)) {
        return false;
    }
    __atomic_add_fetch(&counters[KIND_COUNT], 1, __ATOMIC_RELAXED);
    if (kills) {
        kill(getpid(), SIGKILL);
    }
    errno = error_number;
    return true;
}

#define CALLER __builtin_return_address(0)
/* The function of that name behind this library. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* --- memory --- */

void *malloc(size_t size)
{
    return fails(KIND_malloc, CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails(KIND_malloc, CALLER) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
    return fails(KIND_malloc, CALLER) ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(KIND_malloc, CALLER) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *memory = fails(KIND_malloc, CALLER) ? NULL : __libc_memalign(alignment, size);
    *out = memory != NULL ? memory : *out;
    return memory != NULL ? 0 : ENOMEM;
}

/* --- files --- */

static mode_t mode_of(int flags, va_list args)
{
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails(KIND_open, CALLER) ? -1 : NEXT(open)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return fails(KIND_open, CALLER) ? -1 : NEXT(openat)(folder, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    static char little[] = "MemAvailable: 131072 kB\n";
    if (fast && strcmp(path, "/proc/meminfo") == 0) {
        return fmemopen(little, sizeof little - 1, "r");
    }
    return fails(KIND_open, CALLER) ? NULL : NEXT(fopen)(path, mode);
}

DIR *opendir(const char *path)
{
    return fails(KIND_open, CALLER) ? NULL : NEXT(opendir)(path);
}

/* A close that fails has closed the file all the same. */
int close(int file)
{
    int result = NEXT(close)(file);
    return fails(KIND_close, CALLER) ? -1 : result;
}

ssize_t read(int file, void *to, size_t size)
{
    return fails(KIND_read, CALLER) ? -1 : NEXT(read)(file, to, size);
}

ssize_t pread(int file, void *to, size_t size, off_t offset)
{
    return fails(KIND_read, CALLER) ? -1 : NEXT(pread)(file, to, size, offset);
}

/* As on a disk that becomes full, half of the bytes may still go through: every second failure. */
ssize_t write(int file, const void *data, size_t size)
{
    if (!fails(KIND_write, CALLER)) {
        return NEXT(write)(file, data, size);
    }
    int error = errno;
    if (at % 2 == 0 && size > 1 && !sticky) {
        ssize_t done = NEXT(write)(file, data, size / 2);
        (void)done;
    }
    errno = error;
    return -1;
}

ssize_t pwrite(int file, const void *data, size_t size, off_t offset)
{
    return fails(KIND_write, CALLER) ? -1 : NEXT(pwrite)(file, data, size, offset);
}

int ftruncate(int file, off_t size)
{
    return fails(KIND_write, CALLER) ? -1 : NEXT(ftruncate)(file, size);
}

int fallocate(int file, int mode, off_t offset, off_t size)
{
    return fails(KIND_fallocate, CALLER) ? -1 : NEXT(fallocate)(file, mode, offset, size);
}

int fsync(int file)
{
    return fails(KIND_fsync, CALLER) ? -1 : fast ? 0 : NEXT(fsync)(file);
}

int flock(int file, int operation)
{
    return fails(KIND_flock, CALLER) ? -1 : NEXT(flock)(file, operation);
}

int rename(const char *from, const char *to)
{
    return fails(KIND_rename, CALLER) ? -1 : NEXT(rename)(from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return fails(KIND_rename, CALLER) ? -1
                                      : NEXT(renameat2)(from_folder, from, to_folder, to, flags);
}

int symlink(const char *target, const char *path)
{
    return fails(KIND_rename, CALLER) ? -1 : NEXT(symlink)(target, path);
}

int mkdir(const char *path, mode_t mode)
{
    return fails(KIND_mkdir, CALLER) ? -1 : NEXT(mkdir)(path, mode);
}

int unlink(const char *path)
{
    return fails(KIND_unlink, CALLER) ? -1 : NEXT(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    return fails(KIND_unlink, CALLER) ? -1 : NEXT(unlinkat)(folder, path, flags);
}

int rmdir(const char *path)
{
    return fails(KIND_unlink, CALLER) ? -1 : NEXT(rmdir)(path);
}

/* Files and folders alike. */
int remove(const char *path)
{
    return fails(KIND_unlink, CALLER) ? -1 : NEXT(remove)(path);
}

/* --- time --- */

int clock_gettime(clockid_t id, struct timespec *time)
{
    static __typeof__(&clock_gettime) next;
    next = next != NULL ? next : NEXT(clock_gettime);
    int result = next(id, time);
    if (result == 0 && id == CLOCK_MONOTONIC && fast) {
        static int64_t first;
        int64_t now = (int64_t)time->tv_sec * 1000000000 + time->tv_nsec, none = 0;
        __atomic_compare_exchange_n(&first, &none, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
        now = first + (now - first) * FAST;
        time->tv_sec = (time_t)(now / 1000000000);
        time->tv_nsec = (long)(now % 1000000000);
    }
    return result;
}
