/* What the ranks of a run do together besides sending gradients. */
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "train/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int session_agree(Session *s, int code)
{
    int agreed = comm_agree(s->comm, code);
    s->all_failed = s->all_failed || agreed != 0;
    return agreed;
}

int session_exchange(Session *s, bool save, StepNews *news)
{
    double any[] = {-signals_pending(), session_tells(s), save};
    int code = s->ranks > 1 ? comm_max(s->comm, any, 3) : 0;
    *news = (StepNews){.signal = -(int)any[0], .tells = any[1] != 0, .save = any[2] != 0};
    return code;
}

typedef struct {
    uint64_t sum;
    char host[64];
} WeightSum;

/* The checksum that most ranks have; of equally many, the lowest rank's. */
static uint64_t common_sum(const WeightSum *all, int ranks)
{
    int best = 0, most = 0;
    for (int i = 0; i < ranks; i++) {
        int same = 0;
        for (int k = 0; k < ranks; k++) {
            same += all[k].sum == all[i].sum;
        }
        if (same > most) {
            most = same;
            best = i;
        }
    }
    return all[best].sum;
}

int session_verify_weights(Session *s)
{
    if (s->ranks <= 1) {
        return 0;
    }
    WeightSum mine = {.sum = trainer_checksum(&s->trainer)};
    snprintf(mine.host, sizeof mine.host, "%.63s", comm_host(s->comm));
    WeightSum *all = mem_zalloc((size_t)s->ranks, sizeof *all);
    int code = comm_gather(s->comm, &mine, sizeof mine, all);
    uint64_t common = common_sum(all, s->ranks);
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; code == 0 && i < s->ranks; i++) {
        if (all[i].sum != common && used < sizeof names - 1) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%srank %d on %s",
                                     used > 0 ? ", " : "", i, all[i].host);
        }
    }
    free(all);
    if (code == 0 && names[0] != '\0') {
        code =
            err_set(ERR_FAILED,
                    "the weights of %s differ from those of the other ranks at step %lld: memory "
                    "or a device is faulty; the last checkpoint is from before the comparison",
                    names, (long long)s->state.step);
    }
    return code;
}

void session_fail_alone(Session *s, int code)
{
    log_error("rank %d on %s: %s", s->rank, comm_host(s->comm), err_message());
    fflush(NULL);
    comm_abort(s->comm, err_exit_status(code));
}
