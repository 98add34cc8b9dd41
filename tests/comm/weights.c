/* Run as several ranks: weights that are equal pass the comparison, and one changed bit on one
 * rank is found on every rank, which names it. Exit status 0 when that holds. */
#include "base/err.h"
#include "support/small_run.h"
#include "train/session.h"

#include <stdio.h>
#include <string.h>

#define ASTRAY 1 /* the rank whose weight is changed */

static int complain(const Session *s, const char *what)
{
    fprintf(stderr, "comm_weights: rank %d: %s: %s\n", s->rank, what, err_message());
    return 1;
}

static int compare(Session *s)
{
    if (session_verify_weights(s) != 0) {
        return complain(s, "equal weights differ");
    }
    if (s->rank == ASTRAY) {
        float weight;
        int64_t at = s->trainer.model.params.rows[2].offset + 3;
        uint32_t bits;
        trainer_read_state(&s->trainer, STATE_PARAMS, at, 1, &weight);
        memcpy(&bits, &weight, sizeof bits);
        bits ^= 1; /* the last bit of one weight */
        memcpy(&weight, &bits, sizeof bits);
        trainer_write_state(&s->trainer, STATE_PARAMS, at, 1, &weight);
    }
    char expected[128];
    snprintf(expected, sizeof expected, "weights of rank %d on %s differ", ASTRAY,
             comm_host(s->comm));
    if (session_verify_weights(s) != ERR_FAILED) {
        return complain(s, "a changed weight is not found");
    }
    return strstr(err_message(), expected) != NULL ? 0 : complain(s, "another rank is named");
}

int main(void)
{
    Session s = {0};
    if (comm_open((CommOptions){.timeout_s = 30}, &s.comm) != 0) {
        return complain(&s, "no ranks");
    }
    s.rank = comm_rank(s.comm);
    s.ranks = comm_ranks(s.comm);
    Backend *backend = cpu_backend_open(1);
    TrainerSetup setup = small_setup("llama-22m", 1, 1, 16);
    setup.ddp = (DdpSetup){.kind = DDP_OVERLAP, .rank = s.rank, .ranks = s.ranks, .wire = DT_F32};
    TrainPlan plan;
    trainer_plan(&setup, backend, &plan);
    if (trainer_open(&s.trainer, &setup, backend, &plan) != 0) {
        return complain(&s, "no trainer");
    }
    trainer_connect(&s.trainer, s.comm, NULL);
    trainer_init_params(&s.trainer, 1);
    int status = compare(&s);
    trainer_close(&s.trainer);
    backend->close(backend);
    comm_close(s.comm);
    return status;
}
