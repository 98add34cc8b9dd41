/* Run as several ranks (test_saving.sh): comm_save DIR KIND OPTIMIZER DTYPE [FROM].
 * Fills weights and optimizer state with numbers that follow from their place, and saves them into
 * DIR/sync and, behind what a training would do next, into DIR/async; loads the checkpoint FROM,
 * finds these numbers there, and saves them into DIR/again. The script compares every byte with
 * that of one rank. DIR/apart is a folder of each rank's own, as on hosts that share none: no
 * checkpoint comes of it. Exit status 0 when all holds. */
#include "base/io.h"
#include "base/mem.h"
#include "comm/rank.h"
#include "support/small_run.h"
#include "train/saver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP 5

static float number(int which, int64_t offset)
{
    return (float)(offset + 1) + 0.25f * (float)(which + 1);
}

/* Of every row of a state: puts its numbers there, or finds them. */
static void visit(Trainer *t, int which, bool find)
{
    for (int r = 0; r < t->model.params.count; r++) {
        const Param *row = &t->model.params.rows[r];
        const UpdateRule *rule = optimizer_rule(t->optimizer.kind, row);
        if (which >= rule->states) {
            continue;
        }
        float *values = mem_alloc((size_t)row->count * sizeof *values);
        for (int64_t i = 0; i < row->count; i++) {
            values[i] = number(which, row->offset + i);
        }
        if (!find) {
            trainer_write_state(t, which, row->offset, row->count, values);
        } else {
            must(trainer_read_state(t, which, row->offset, row->count, values));
        }
        for (int64_t i = 0; i < row->count; i++) {
            CHECK(values[i] == number(which, row->offset + i), "state %d, row %d, element %lld: %f",
                  which, r, (long long)i, (double)values[i]);
        }
        free(values);
    }
}

static void visit_all(Trainer *t, bool find)
{
    for (int which = STATE_PARAMS; which < optimizer_states(t->optimizer.kind); which++) {
        visit(t, which, find);
    }
}

/* Behind training, the state changes as soon as the save was started. */
static void save(Trainer *t, const char *dir, const char *name, bool behind)
{
    TrainState state = {.step = STEP, .first_loss = NAN, .best_val_loss = NAN};
    SaverSetup setup = {.run = io_join(dir, name), .trainer = t, .comm = comm, .behind = behind};
    Saver *saver;
    must(saver_open(&setup, &saver));
    must(saver_start(saver, &state, NULL));
    CHECK(saver_is_under_way(saver) == behind, "%s", name);
    for (int r = 0; behind && r < t->model.params.count; r++) {
        const Param *row = &t->model.params.rows[r];
        float *zeros = mem_zalloc((size_t)row->count, sizeof *zeros);
        trainer_write_state(t, STATE_PARAMS, row->offset, row->count, zeros);
        free(zeros);
    }
    must(saver_finish(saver));
    saver_close(saver);
    free((char *)setup.run);
}

/* In a folder that only looks the same, as the bytes tell. */
static void save_apart(Trainer *t, const char *dir)
{
    TrainState state = {.step = STEP, .first_loss = NAN, .best_val_loss = NAN};
    char *own = mem_format("%s/apart-%d", dir, me), *folder = checkpoint_temporary(own, STEP);
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    must(io_make_folders(folder));
    for (int i = 0; i < 2; i++) {
        char *path = io_join(folder, names[i]);
        must(io_create_sized(path, 1));
        free(path);
    }
    Saver *saver;
    must(saver_open(&(SaverSetup){.run = own, .trainer = t, .comm = comm}, &saver));
    CHECK(saver_start(saver, &state, NULL) == ERR_FAILED, "saved");
    CHECK(strstr(err_message(), "must be one folder for all hosts") != NULL &&
              strstr(err_message(), "what rank 1 on host") != NULL,
          "%s", err_message());
    CHECK(me > 0 || !io_exists(folder), "%s is left", folder);
    saver_close(saver);
    free(folder);
    free(own);
}

static int index_of(const char *const *words, const char *word)
{
    int i = 0;
    while (words[i] != NULL && strcmp(words[i], word) != 0) {
        i++;
    }
    CHECK(words[i] != NULL, "%s", word);
    return i;
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {DDP_CHOICES(CHOICE_WORD) NULL};
    static const char *const optimizers[] = {OPTIMIZER_CHOICES(CHOICE_WORD) NULL};
    must(comm_open((CommOptions){.timeout_s = 30}, &comm));
    me = comm_rank(comm);
    ranks = comm_ranks(comm);
    CHECK(argc >= 5, "arguments");
    Backend *backend = cpu_backend_open(1);
    TrainerSetup setup = small_setup("gpt2-124m", 1, 1, 16);
    setup.dtype = strcmp(argv[4], "bf16") == 0 ? DT_BF16 : DT_F32;
    setup.optimizer.id = (OptimizerId)index_of(optimizers, argv[3]);
    setup.ddp = (DdpSetup){.kind = (DdpKind)index_of(kinds, argv[2]),
                           .rank = me,
                           .ranks = ranks,
                           .bucket_bytes = 40000,
                           .wire = DT_F32};
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    must(trainer_open(&t, &setup, backend, &plan));
    if (ranks > 1) {
        must(channel_open(comm, backend, &channel));
    }
    trainer_connect(&t, comm, channel);
    visit_all(&t, false);
    save(&t, argv[1], "sync", false);
    save(&t, argv[1], "async", true);
    if (argc > 5) {
        TrainState state;
        must(checkpoint_load(argv[5], &t, &state));
        CHECK(state.step == STEP, "step %lld", (long long)state.step);
        visit_all(&t, true);
        save(&t, argv[1], "again", false);
    }
    if (ranks > 1) {
        save_apart(&t, argv[1]);
    }
    trainer_close(&t);
    channel_close(channel);
    backend->close(backend);
    comm_close(comm);
    return 0;
}
