#pragma once
/* One run as a child process: `pacer train` with the run's options, or a peer's program
 * (peer.h), its output in a file beside the run directory. The child leads a process group of
 * its own, so that Ctrl-C at the terminal reaches it once, through us; and it is told to stop
 * (SIGTERM: it saves) when we die, whatever kills us. */
#include "experiment/experiment.h"

#include <sys/types.h>

typedef struct {
    pid_t pid;
    char *log;      /* path */
    long log_from;  /* bytes that were in it before */
    double started; /* clock_seconds */
    bool peer;
} Child;

/* ERR_FAILED when there is no process to be had. */
int child_start(Child *child, const Experiment *experiment, const ExperimentRun *run);

/* Whether it has ended; then *status is as of waitpid, and nothing is left but child_free. */
bool child_ended(Child *child, int *status);

void child_signal(const Child *child, int signal); /* to it, or to its ranks */

/* The last error that it wrote, without "pacer: error: "; "" when it wrote none. Caller frees. */
char *child_last_error(const Child *child);
void child_free(Child *child);
