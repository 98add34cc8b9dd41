#include "api/internal.h"

#include "base/err.h"
#include "base/log.h"

#include <stdio.h>

int ranks_join(Config *cfg, const char *board, Comm **comm)
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
    log_set_rank(comm_rank(*comm), ranks);
    return code;
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
