/* Runs a fuzz target where there is no libFuzzer: every given file or every file of a given folder
 * first, then changed ones for a while.
 *
 *     fuzz_NAME [--seconds N] [--seed N] [--limit SECONDS] [--keep FOLDER] FILE|FOLDER...
 *
 * The target runs in a child process. Its input lies in memory that the parent shares, so
 * whatever ends the child (an assertion, a sanitizer, a signal, exit, lack of time or memory),
 * the parent has the input, writes it to a file in FOLDER, names it, and ends with status 1. */
#include "fuzz/fuzz.h"
#include "fuzz/mutate.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_INPUT ((size_t)1 << 18)
#define MOST_CHANGED ((size_t)1 << 15)
#define MEMORY_LIMIT ((size_t)2 << 30)

typedef struct {
    uint64_t executions;
    bool leaked, finished; /* finished: every input is through */
    bool too_large;
    size_t size;
    uint8_t input[MOST_INPUT];
} Shared;

typedef struct {
    double seconds;
    uint64_t seed;
    unsigned limit_s; /* per input */
    const char *keep;
    const char *name; /* of the program */
} Settings;

/* The sanitizers' own interface, where they are linked. */
extern int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void *, size_t),
                                                     void (*)(const volatile void *))
    __attribute__((weak));
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "max_allocation_size_mb=2048";
}

static volatile int64_t live; /* blocks allocated and not freed since the input began */

static void on_malloc(const volatile void *block, size_t size)
{
    (void)size;
    __atomic_fetch_add(&live, block != NULL, __ATOMIC_RELAXED);
}

static void on_free(const volatile void *block)
{
    __atomic_fetch_sub(&live, block != NULL, __ATOMIC_RELAXED);
}

/* Runs the input from a block of exactly its size, so that reading past its end is seen. */
static void run_once(const Shared *shared)
{
    uint8_t *exact = malloc(shared->size > 0 ? shared->size : 1);
    memcpy(exact, shared->input, shared->size);
    live = 0;
    LLVMFuzzerTestOneInput(exact, shared->size);
    int64_t left = live;
    free(exact);
    live = left;
}

/* A target may keep what it made the first time; what grows the second time too may be a leak, and
 * the leak checker, which is slow, is asked. */
static void run_input(Shared *shared, const Settings *settings)
{
    alarm(settings->limit_s);
    run_once(shared);
    if (live > 0 && __lsan_do_recoverable_leak_check != NULL) {
        run_once(shared);
        if (live > 0 && __lsan_do_recoverable_leak_check() != 0) {
            shared->leaked = true;
            _exit(1);
        }
    }
    shared->executions++;
}

static int child(Shared *shared, const Settings *settings, Mutator *mutator)
{
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (__sanitizer_install_malloc_and_free_hooks != NULL) {
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    }
    for (size_t i = 0; i < mutator->seed_count; i++) {
        shared->size = mutator->seeds[i].size;
        memcpy(shared->input, mutator->seeds[i].data, shared->size);
        run_input(shared, settings);
    }
    double end = clock_seconds() + settings->seconds;
    for (uint64_t round = 0; clock_seconds() < end; round++) {
        shared->size = mutator_make(mutator, settings->seed, round, shared->input, MOST_CHANGED);
        run_input(shared, settings);
    }
    alarm(0);
    mutator_free(mutator);
    shared->finished = true;
    return 0;
}

static void add_seed(Input **seeds, size_t *count, const char *path)
{
    char *data;
    size_t size;
    if (io_read_all(path, MOST_INPUT, &data, &size) != 0) {
        fprintf(stderr, "%s\n", err_message());
        exit(2);
    }
    *seeds = mem_realloc(*seeds, *count + 1, sizeof **seeds);
    (*seeds)[(*count)++] = (Input){(uint8_t *)data, size};
}

/* A file, or the files of a folder in the order of their names. */
static void add_seeds(Input **seeds, size_t *count, const char *path)
{
    struct dirent **entries;
    int entry_count = io_is_folder(path) ? scandir(path, &entries, NULL, alphasort) : -1;
    if (entry_count < 0) {
        add_seed(seeds, count, path);
        return;
    }
    for (int i = 0; i < entry_count; i++) {
        if (entries[i]->d_name[0] != '.') {
            char *file = io_join(path, entries[i]->d_name);
            add_seed(seeds, count, file);
            free(file);
        }
        free(entries[i]);
    }
    free(entries);
}

/* Keeps the input that ended the child, and says why it ended. */
static void report(const Shared *shared, const Settings *settings, int status)
{
    char name[64];
    snprintf(name, sizeof name, "crash-%s-%016" PRIx64, settings->name,
             io_hash(shared->input, shared->size));
    char *path = io_join(settings->keep, name);
    if (io_write_atomic(path, shared->input, shared->size) != 0) {
        fprintf(stderr, "%s\n", err_message());
    }
    const char *why = "a failure, see above";
    if (shared->leaked) {
        why = "memory leaked, see above";
    } else if (shared->too_large) {
        why = "too much memory";
    } else if (WIFSIGNALED(status)) {
        why = WTERMSIG(status) == SIGALRM ? "too slow" : strsignal(WTERMSIG(status));
    }
    fprintf(stderr, "%s: input %" PRIu64 " of %zu bytes: %s\n  kept in %s; again: %s %s\n",
            settings->name, shared->executions, shared->size, why, path, settings->name, path);
    free(path);
}

static size_t resident_bytes(pid_t pid)
{
    char path[64];
    size_t pages = 0;
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%*u %zu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Waits for the child's end, and brings it about when it grows too large. Returns its status. */
static int wait_for(pid_t pid, Shared *shared)
{
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
        if (resident_bytes(pid) > MEMORY_LIMIT) {
            shared->too_large = true;
            kill(pid, SIGKILL);
        }
        usleep(20000);
    }
    return ended == pid ? status : 1;
}

static int run(const Settings *settings, Mutator *mutator)
{
    Shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fuzz_folder(); /* here, so that it goes even when the child dies */
    pid_t pid = shared != MAP_FAILED ? fork() : -1;
    if (pid < 0) {
        fprintf(stderr, "%s: cannot start: %s\n", settings->name, strerror(errno));
        return 2;
    }
    if (pid == 0) {
        exit(child(shared, settings, mutator));
    }
    int status = wait_for(pid, shared);
    size_t seeds = mutator->seed_count;
    mutator_free(mutator);
    if (!shared->finished) {
        report(shared, settings, status);
    } else {
        printf("%s: %zu seeds, %" PRIu64 " inputs, seed %" PRIu64 "%s\n", settings->name, seeds,
               shared->executions, settings->seed, status != 0 ? ", but failed at its end" : "");
    }
    int code = shared->finished && status == 0 ? 0 : 1;
    munmap(shared, sizeof *shared);
    return code;
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    Settings settings = {.seed = 1, .limit_s = 10, .keep = "."};
    settings.name = slash != NULL ? slash + 1 : argv[0];
    Input *seeds = NULL;
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        bool option = true;
        if (strcmp(argv[i], "--seconds") == 0) {
            settings.seconds = strtod(value, NULL);
        } else if (strcmp(argv[i], "--seed") == 0) {
            settings.seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--limit") == 0) {
            settings.limit_s = (unsigned)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--keep") == 0) {
            settings.keep = value;
        } else {
            add_seeds(&seeds, &count, argv[i]);
            option = false;
        }
        i += option;
    }
    if (count == 0) {
        fprintf(stderr,
                "%s [--seconds N] [--seed N] [--limit SECONDS] [--keep FOLDER] "
                "FILE|FOLDER...\n",
                settings.name);
        return 2;
    }
    Mutator mutator;
    mutator_init(&mutator, seeds, count);
    return run(&settings, &mutator);
}
