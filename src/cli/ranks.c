/* Being one of several ranks: how a command joins them, or has them started. */
#include "cli/ranks.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* Becomes mpirun with the arguments of this process; returns only when that fails. */
static int launch(int ranks)
{
    FILE *file = fopen("/proc/self/cmdline", "rb");
    char **argv = NULL, *word = NULL;
    size_t count = 0, room = 0;
    while (file != NULL && getdelim(&word, &room, '\0', file) > 0) {
        argv = mem_realloc(argv, count + 2, sizeof *argv);
        argv[count++] = mem_strdup(word);
        argv[count] = NULL;
    }
    int code = count > 0 ? comm_launch(ranks, argv)
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
    return code;
}

/* Joins the ranks that this process was started among; cfg then has their number. */
static int join(Config *cfg, const char *board, Comm **comm)
{
    CommOptions options = {
        .timeout_s = cfg->comm_timeout, .board = board, .shared_gpus = cfg->oversubscribe};
    int code = comm_open(options, comm);
    if (code != 0) {
        return code;
    }
    int ranks = comm_ranks(*comm);
    if (config_is_set(cfg, "ranks") && cfg->ranks != ranks) {
        return err_set(ERR_INPUT, "--ranks %lld, but this job has %d; leave the option out",
                       (long long)cfg->ranks, ranks);
    }
    char text[16];
    snprintf(text, sizeof text, "%d", ranks);
    code = config_set(cfg, "ranks", text);
    if (code == 0) {
        code = config_check(cfg);
    }
    log_setup(comm_rank(*comm) == 0 ? (cfg->quiet     ? LOG_WARN
                                       : cfg->verbose ? LOG_DEBUG
                                                      : LOG_INFO)
                                    : LOG_WARN,
              comm_rank(*comm), ranks);
    return code;
}

int ranks_enter(Config *cfg, const char *board, Comm **comm)
{
    *comm = NULL;
    if (comm_is_launched()) {
        return join(cfg, board, comm);
    }
    return cfg->ranks > 1 ? launch((int)cfg->ranks) : 0;
}

void ranks_fail(Comm *comm, int code)
{
    bool broken = code == ERR_FAILED || code == ERR_INPUT || code == ERR_MEMORY;
    if (broken && comm != NULL && comm_ranks(comm) > 1) {
        log_error("%s", err_message()); /* the other ranks may not know */
        comm_abort(comm, err_exit_status(code));
    }
}

int ranks_leave(Comm *comm, int code)
{
    ranks_fail(comm, code);
    comm_close(comm);
    return code;
}
