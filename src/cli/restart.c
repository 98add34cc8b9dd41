/* Settings that libraries read when they are loaded, before main: the program sets them and
 * executes itself anew.
 * How long OpenMP threads spin for each other before they sleep. The runtime's own choice,
 * milliseconds, is ruinous on a machine that others use: a thread spins out its share of the
 * processor for a partner that is not running, and the partner waits for that processor.
 * Which kernels OpenBLAS takes, and that it starts no threads. */
#include "cli/commands.h"

#include "base/clock.h"
#include "base/process.h"
#include "cpu/sgemm.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Threads of a step meet after microseconds when all of them are running: parts of a loop are
 * equal, and what lies between two loops is short. Whoever is not there by then is not running.
 * Measured in docs/speedlog.md: with less, steps of small models are slower alone; with
 * more, slower in company. */
#define SPIN_SECONDS 25e-6

#define SPINS "GOMP_SPINCOUNT"    /* of gcc's runtime, in turns of its loop */
#define BLOCKTIME "KMP_BLOCKTIME" /* of LLVM's, in whole milliseconds: even one is too long */
#define CORE "OPENBLAS_CORETYPE"
#define BLAS_THREADS "OPENBLAS_NUM_THREADS"
#define MARK "PACER_RESTARTED_AS" /* the process that set others for itself, and which it set */

/* Any of these is the user's own choice of how threads wait. */
static const char *const choices[] = {"OMP_WAIT_POLICY", SPINS, BLOCKTIME, "KMP_LIBRARY"};

static bool waiting_is_chosen(void)
{
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        if (getenv(choices[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* Not under valgrind: without --trace-children the new program runs outside it. Not when
 * somebody started the dynamic loader with pacer as its argument: /proc/self/exe is then the
 * loader, and the kernel has no other to name in AT_BASE. */
static bool can_restart(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    bool in_valgrind = preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
    return !in_valgrind && getauxval(AT_BASE) != 0;
}

/* Turns of the runtime's loop in so many seconds: a pause takes 4 to 140 cycles, depending on the
 * processor. The fastest of several trials is one without an interruption. */
static long spins_in(double seconds)
{
    enum { TRIALS = 5, TURNS = 500 };
    atomic_int word = 0;
    double least = 1;
    for (int trial = 0; trial < TRIALS; trial++) {
        double start = clock_seconds();
        for (int i = 0; i < TURNS && atomic_load_explicit(&word, memory_order_relaxed) == 0; i++) {
#if defined(__x86_64__) || defined(__i386__)
            __builtin_ia32_pause();
#endif
        }
        double took = clock_seconds() - start;
        least = took < least ? took : least;
    }
    return (long)(seconds * TURNS / (least > 1e-9 ? least : 1e-9));
}

static void set(const char *name, const char *value, char *mark, size_t size)
{
    setenv(name, value, 1);
    size_t used = strlen(mark);
    snprintf(mark + used, size - used, " %s", name);
}

/* Sets what is better than what the libraries found, and adds the names to mark; whether there was
 * any. */
static bool set_better(char *mark, size_t size)
{
    size_t before = strlen(mark);
    const char *core = getenv(CORE) == NULL ? sgemm_better_core() : NULL;
    if (core != NULL) {
        set(CORE, core, mark, size);
    }
    if (sgemm_starts_threads() && getenv(BLAS_THREADS) == NULL) {
        set(BLAS_THREADS, "1", mark, size);
    }
    if (!waiting_is_chosen()) {
        char count[24];
        snprintf(count, sizeof count, "%ld", spins_in(SPIN_SECONDS));
        set(SPINS, count, mark, size);
        set(BLOCKTIME, "0", mark, size);
    }
    return mark[before] != '\0';
}

/* Takes away what mark names, so that programs started by this one find the user's environment. */
static void unset_marked(const char *mark)
{
    const char *const all[] = {CORE, BLAS_THREADS, SPINS, BLOCKTIME};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strstr(mark, all[i]) != NULL) {
            unsetenv(all[i]);
        }
    }
    unsetenv(MARK);
}

void restart_with_settings(char **argv)
{
    char own[160], program[PATH_MAX];
    int digits = snprintf(own, sizeof own, "%ld", (long)getpid());
    const char *found = getenv(MARK);
    char mark[160] = "";
    bool restarted = found != NULL && strncmp(found, own, (size_t)digits) == 0 &&
                     (found[digits] == ' ' || found[digits] == '\0');
    if (restarted) {
        snprintf(mark, sizeof mark, "%s", found);
        if (strstr(mark, CORE) != NULL) {
            sgemm_core_was_chosen();
        }
    } else if (can_restart() && set_better(own, sizeof own)) {
        setenv(MARK, own, 1);
        /* By its name: what is started as /proc/self/exe is called "exe" in lists of processes. */
        if (process_program(program)) {
            execv(program, argv);
        }
        snprintf(mark, sizeof mark, "%s", own); /* in vain: go on without */
    }
    unset_marked(mark);
}
