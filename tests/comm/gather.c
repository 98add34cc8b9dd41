/* A program to be run as several ranks (test_ranks.sh): with zero1 the weights come back beside
 * the next forward pass, which waits for those it needs. In every update another rank is late,
 * so that the weights it keeps reach the others long after these have begun; losses and weights
 * are then, bit for bit, those of a run in which all weights are there before any rank goes on.
 * Exit status 0 when that holds. */
#include "base/clock.h"
#include "comm/rank.h"
#include "support/small_run.h"

#include <string.h>
#include <unistd.h>

#define UPDATES 5
#define MIDDLE 2   /* the update after which there is an evaluation */
#define LATE 60000 /* us: many times a forward pass of this model */
#define BATCH 2    /* sequences of a micro-step */
#define SEQUENCE 32

typedef struct {
    double losses[UPDATES], norms[UPDATES], evaluation;
    uint64_t checksum;
} Course;

/* Time inside of forward passes that was spent waiting for weights, as the trainer tells it. */
typedef struct {
    bool forward;
    double since, stalled_s;
} Listener;

static void listen(void *user, Phase phase, bool begins)
{
    Listener *l = user;
    if (phase == PHASE_FORWARD) {
        l->forward = begins;
    } else if (phase == PHASE_COMM_EXPOSED && begins) {
        l->since = clock_seconds();
    } else if (phase == PHASE_COMM_EXPOSED) {
        l->stalled_s += l->forward ? clock_seconds() - l->since : 0;
    }
}

/* Those that are in time wait for the one that is not, and say so. On a busy machine one that
 * should be in time may be late itself, but not in every update. */
static void note_stalled(Listener *listener, bool late, int *stalled)
{
    ChannelTimes times;
    CHECK(channel_take_times(channel, &times), "no times");
    double least = 0.1e-6 * LATE;
    *stalled += !late && listener->stalled_s > least && times.exposed_s > least;
    listener->stalled_s = 0;
}

static Course train(const TrainerSetup *setup, Backend *backend, bool settled)
{
    TrainPlan plan;
    Trainer t;
    Course course = {0};
    Listener listener = {0};
    ChannelTimes times;
    trainer_plan(setup, backend, &plan);
    must(trainer_open(&t, setup, backend, &plan));
    trainer_connect(&t, comm, channel);
    trainer_init_params(&t, 3);
    t.hook = listen;
    t.hook_user = &listener;
    int64_t each = setup->accum * BATCH;
    Tokens tokens = make_tokens(UPDATES * each * ranks, SEQUENCE, BATCH, setup->spec.vocab);
    channel_take_times(channel, &times);
    int stalled = 0; /* updates in which the forward pass has waited */
    for (int u = 0; u < UPDATES; u++) {
        bool late = !settled && u % ranks == me;
        must(comm_barrier(comm, "update"));
        if (late) {
            usleep(LATE);
        }
        for (int64_t micro = 0; micro < setup->accum; micro++) {
            int64_t at = ((u * ranks + me) * each + micro * BATCH) * SEQUENCE;
            trainer_micro_step(
                &t, (HostBatch){tokens.ids + at, tokens.targets + at, tokens.order + at, NULL},
                micro);
        }
        trainer_update(&t, 1e-2, u);
        trainer_post(&t);
        trainer_fetch(&t, &course.losses[u], &course.norms[u]);
        if (!settled) {
            note_stalled(&listener, late, &stalled);
        }
        if (settled || u == MIDDLE) {
            trainer_settle(&t);
        }
        if (u == MIDDLE) {
            course.evaluation =
                trainer_evaluate(&t, (HostBatch){tokens.ids, tokens.targets, NULL, NULL});
        }
    }
    CHECK(settled || stalled > 0, "rank %d never waited for the one that was late", me);
    course.checksum = trainer_checksum(&t);
    free_tokens(tokens);
    trainer_close(&t);
    return course;
}

static void compare(const char *preset, int64_t accum, bool recompute, int64_t bucket_bytes)
{
    Backend *backend = cpu_backend_open(1);
    TrainerSetup setup = small_setup(preset, BATCH, accum, SEQUENCE);
    setup.keep = recompute ? KEEP_INPUTS : KEEP_ALL;
    setup.ddp = (DdpSetup){.kind = DDP_ZERO1,
                           .rank = me,
                           .ranks = ranks,
                           .bucket_bytes = bucket_bytes,
                           .wire = DT_F32};
    must(channel_open(comm, backend, &channel));
    Course expected = train(&setup, backend, true), found = train(&setup, backend, false);
    for (int u = 0; u < UPDATES; u++) {
        CHECK(found.losses[u] == expected.losses[u] && found.norms[u] == expected.norms[u],
              "%s, update %d: loss %.9g, not %.9g; norm %.9g, not %.9g", preset, u, found.losses[u],
              expected.losses[u], found.norms[u], expected.norms[u]);
    }
    CHECK(found.losses[0] != found.losses[UPDATES - 1], "nothing was learnt");
    CHECK(found.evaluation == expected.evaluation, "%s: %.9g, not %.9g", preset, found.evaluation,
          expected.evaluation);
    CHECK(found.checksum == expected.checksum, "%s: other weights", preset);
    uint64_t all[64];
    must(comm_gather(comm, &found.checksum, sizeof found.checksum, all));
    for (int rank = 0; rank < ranks; rank++) {
        CHECK(all[rank] == found.checksum, "%s: rank %d has other weights", preset, rank);
    }
    channel_close(channel);
    backend->close(backend);
}

int main(void)
{
    if (comm_open((CommOptions){.timeout_s = 30}, &comm) != 0) {
        log_error("%s", err_message());
        return 1;
    }
    me = comm_rank(comm);
    ranks = comm_ranks(comm);
    CHECK(ranks > 1, "to be run as several ranks");
    compare("llama-22m", 1, false, 0); /* a head of its own; every layer a bucket */
    compare("gpt2-124m", 2, false, 0); /* tied, biases, learned positions */
    compare("llama-22m", 2, true, 1 << 20);
    comm_close(comm);
    return 0;
}
