/* How long OpenMP threads spin for each other before they sleep. The runtime's own choice,
 * milliseconds, is ruinous on a machine that others use: a thread spins out its share of the
 * processor for a partner that is not running, and the partner waits for that processor. */
#include "cli/commands.h"

#include "base/clock.h"

#include <limits.h>
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
#define MARK "PACER_RESTARTED_AS" /* the process that set these for itself */

/* Any of these is the user's own choice. */
static const char *const choices[] = {"OMP_WAIT_POLICY", SPINS, BLOCKTIME, "KMP_LIBRARY"};

static bool is_chosen(void)
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

void wait_policy_set(char **argv)
{
    char own[24], count[24], program[PATH_MAX];
    snprintf(own, sizeof own, "%ld", (long)getpid());
    const char *mark = getenv(MARK);
    bool restarted = mark != NULL && strcmp(mark, own) == 0;
    if (!restarted && !is_chosen() && can_restart()) {
        snprintf(count, sizeof count, "%ld", spins_in(SPIN_SECONDS));
        setenv(SPINS, count, 1);
        setenv(BLOCKTIME, "0", 1);
        setenv(MARK, own, 1);
        /* By its name: what is started as /proc/self/exe is called "exe" in lists of processes. */
        ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        if (length > 0) {
            program[length] = '\0';
            execv(program, argv);
        }
        restarted = true; /* in vain: go on without */
    }
    if (restarted) {
        unsetenv(SPINS);
        unsetenv(BLOCKTIME);
    }
    unsetenv(MARK);
}
