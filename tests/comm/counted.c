/* A program to be run as several ranks (test_ranks.sh): an update's gradient is that of the mean
 * over the tokens that count on all ranks, however many of them each rank has, one has none
 * included. Weights after some updates are those of one rank that makes all micro-steps itself.
 * In f64 on ref. Exit status 0 when that holds. */
#include "comm/rank.h"
#include "support/small_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define UPDATES 3
#define BATCH 2
#define SEQUENCE 5

/* Of sequence s in all, token i: rank 1 of an update's first has nothing. */
static bool counts(int64_t s, int64_t i)
{
    return s / BATCH % 5 != 1 && (s + i * i) % 3 != 0;
}

typedef struct {
    double losses[UPDATES], norms[UPDATES], counted[UPDATES], *params;
    int64_t count;
} Course;

/* Micro-steps [first, first + accum) of the `all` that each update has. */
static Course train(const TrainerSetup *setup, Backend *backend, int64_t first, int64_t all)
{
    TrainPlan plan;
    Trainer t;
    Course course = {0};
    trainer_plan(setup, backend, &plan);
    must(trainer_open(&t, setup, backend, &plan));
    if (setup->ddp.ranks > 1) {
        trainer_connect(&t, comm, channel);
    }
    fill_params(&t);
    Tokens tokens = make_tokens(UPDATES * all * BATCH, SEQUENCE, BATCH, setup->spec.vocab);
    for (int64_t i = 0; i < UPDATES * all * BATCH * SEQUENCE; i++) {
        tokens.targets[i] = counts(i / SEQUENCE, i % SEQUENCE) ? tokens.targets[i] : -1;
    }
    for (int u = 0; u < UPDATES; u++) {
        for (int64_t micro = 0; micro < setup->accum; micro++) {
            int64_t at = (u * all + first + micro) * BATCH * SEQUENCE;
            trainer_micro_step(
                &t, (HostBatch){tokens.ids + at, tokens.targets + at, tokens.order + at, NULL},
                micro);
        }
        trainer_update(&t, 1e-2, u);
        trainer_post(&t);
        trainer_fetch(&t, &course.losses[u], &course.norms[u]);
        course.counted[u] = t.fetched_counted;
    }
    trainer_settle(&t);
    course.count = t.model.params.flat;
    course.params = malloc((size_t)course.count * sizeof *course.params);
    memcpy(course.params, trainer_weights(&t).data, (size_t)course.count * sizeof *course.params);
    free_tokens(tokens);
    trainer_close(&t);
    return course;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-11 * fmax(1, fabs(b));
}

static void compare(DdpKind kind, int64_t accum)
{
    Backend *backend = ref_backend_open();
    TrainerSetup setup = small_setup("llama-22m", BATCH, accum * ranks, SEQUENCE);
    SpecOverrides o = {.layers = 2, .width = 12, .heads = 2, .ffn = 10, .vocab = 17, .context = 9};
    must(spec_resolve("llama-22m", &o, 0, &setup.spec));
    setup.dtype = DT_F64;
    setup.optimizer.id = OPTIMIZER_SGD;
    Course expected = train(&setup, backend, 0, accum * ranks);
    setup.accum = accum;
    setup.ddp = (DdpSetup){.kind = kind, .rank = me, .ranks = ranks, .wire = DT_F64};
    must(channel_open(comm, backend, &channel));
    Course found = train(&setup, backend, me * accum, accum * ranks);
    for (int u = 0; u < UPDATES; u++) {
        CHECK(near(found.losses[u], expected.losses[u]) && near(found.norms[u], expected.norms[u]),
              "%s, update %d: loss %.15g, not %.15g; norm %.15g, not %.15g", ddp_kind_name(kind), u,
              found.losses[u], expected.losses[u], found.norms[u], expected.norms[u]);
        double tokens = (double)(BATCH * SEQUENCE * accum * ranks);
        CHECK(found.counted[u] == expected.counted[u] && found.counted[u] < tokens, "%g count",
              found.counted[u]);
    }
    for (int64_t i = 0; i < found.count; i++) {
        CHECK(near(found.params[i], expected.params[i]), "%s: weight %lld is %.15g, not %.15g",
              ddp_kind_name(kind), (long long)i, found.params[i], expected.params[i]);
    }
    free(found.params);
    free(expected.params);
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
    for (int64_t accum = 1; accum <= 4; accum += 3) {
        compare(DDP_NAIVE, accum);
        compare(DDP_FLAT, accum);
        compare(DDP_OVERLAP, accum);
        compare(DDP_ZERO1, accum);
    }
    comm_close(comm);
    return 0;
}
