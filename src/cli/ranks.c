/* Being one of several ranks: how a command joins them, or has them started. */
#include "cli/ranks.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The ranks, and again as often as --restarts allows when they lose one: the run goes on from its
 * newest checkpoint by itself. */
static int launch_again(const Config *cfg, char *const *argv, JobEnd *end)
{
    char *why = NULL;
    int code = comm_launch((int)cfg->ranks, argv, NULL, end);
    for (int64_t i = 1; code == 0 && end->lost[0] != '\0' && i <= cfg->restarts; i++) {
        free(why);
        why = mem_strdup(end->lost);
        log_warn("%s; starting again, %lld of %lld restarts", why, (long long)i,
                 (long long)cfg->restarts);
        code = comm_launch((int)cfg->ranks, argv, why, end);
    }
    free(why);
    return code;
}

/* This process as so many ranks; returns only when they cannot be started. What they did is all
 * that the command does, and how they ended is its exit status. */
static int launch(const Config *cfg)
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
    JobEnd end = {0};
    int code = count > 0 ? launch_again(cfg, argv, &end)
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
        exit(end.status);
    }
    return code;
}

int ranks_enter(Config *cfg, const char *board, Comm **comm)
{
    *comm = NULL;
    if (comm_is_launched()) {
        return ranks_join(cfg, board, comm);
    }
    if (cfg->ranks == 1) {
        return cfg->restarts == 0
                   ? 0
                   : err_set(ERR_INPUT,
                             "--restarts: for ranks that are started here; give --ranks 2 "
                             "or more");
    }
    if (cfg->restarts > 0 && strcmp(cfg->resume, "auto") != 0) {
        return err_set(ERR_INPUT,
                       "--restarts go on from the run's newest checkpoint, which is "
                       "--resume auto, not --resume %s",
                       cfg->resume);
    }
    return launch(cfg);
}

bool ranks_lead(const Comm *comm)
{
    return comm == NULL || comm_rank(comm) == 0;
}
