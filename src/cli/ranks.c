/* Being one of several ranks: how a command joins them, or has them started. */
#include "cli/ranks.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* This process as so many ranks; returns only when they cannot be started. What they did is all
 * that the command does, and how they ended is its exit status. */
static int launch(int ranks)
{
    FILE *file = fopen("/proc/self/cmdline", "rb");
    char **argv = NULL, *word = NULL;
    size_t count = 0, room = 0;
    errno = 0;
    while (file != NULL && getdelim(&word, &room, '\0', file) > 0) {
        argv = mem_realloc(argv, count + 2, sizeof *argv);
        argv[count++] = mem_strdup(word);
        argv[count] = NULL;
    }
    mem_checked(errno != ENOMEM ? &room : NULL, room); /* else arguments are missing */
    int status = 0;
    int code = count > 0 ? comm_launch(ranks, argv, &status)
                         : err_set(ERR_FAILED, "--ranks: /proc/self/cmdline cannot be read; start "
                                               "pacer through mpirun yourself");
    for (size_t i = 0; i < count; i++) {
        free(argv[i]);
    }
    free(argv);
    free(word);
    if (file != NULL) {
        fclose(file);
    }
    if (code == 0) {
        exit(status);
    }
    return code;
}

int ranks_enter(Config *cfg, const char *board, Comm **comm)
{
    *comm = NULL;
    if (comm_is_launched()) {
        return ranks_join(cfg, board, comm);
    }
    return cfg->ranks > 1 ? launch((int)cfg->ranks) : 0;
}

bool ranks_lead(const Comm *comm)
{
    return comm == NULL || comm_rank(comm) == 0;
}
