/* Saving behind training in one process: what is saved is the state of the moment when the save was
 * started, however it changes while the thread writes; failures are told by saver_finish; the copy
 * has the bytes that the plan says. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/own_folder.h"
#include "support/small_run.h"
#include "train/checkpoint_parts.h"
#include "train/saver.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SAVES 6

static Backend *backend;
static Trainer trainer;
static TrainPlan plan;

static void fill(float value)
{
    for (int r = 0; r < trainer.model.params.count; r++) {
        const Param *row = &trainer.model.params.rows[r];
        float *values = mem_alloc((size_t)row->count * sizeof *values);
        for (int which = STATE_PARAMS; which < 2; which++) {
            for (int64_t i = 0; i < row->count; i++) {
                values[i] = value + (float)which;
            }
            trainer_write_state(&trainer, which, row->offset, row->count, values);
        }
        free(values);
    }
}

static bool holds(float value)
{
    bool same = true;
    for (int r = 0; r < trainer.model.params.count; r++) {
        const Param *row = &trainer.model.params.rows[r];
        float *values = mem_alloc((size_t)row->count * sizeof *values);
        for (int which = STATE_PARAMS; which < 2; which++) {
            assert_int_equal(trainer_read_state(&trainer, which, row->offset, row->count, values),
                             0);
            for (int64_t i = 0; i < row->count; i++) {
                same = same && values[i] == value + (float)which;
            }
        }
        free(values);
    }
    return same;
}

static TrainState state_of(int64_t step)
{
    return (TrainState){.step = step, .first_loss = NAN, .best_val_loss = NAN};
}

static Saver *open_saver(int64_t keep)
{
    Saver *saver;
    SaverSetup setup = {.run = own_folder, .keep = keep, .trainer = &trainer, .behind = true};
    assert_int_equal(saver_open(&setup, &saver), 0);
    assert_false(saver_is_under_way(saver));
    return saver;
}

static void test_state_of_the_moment(void **unused)
{
    (void)unused;
    Saver *saver = open_saver(0);
    for (int step = 1; step <= SAVES; step++) {
        TrainState state = state_of(step);
        fill((float)step);
        assert_int_equal(saver_start(saver, &state, NULL), 0);
        assert_true(saver_is_under_way(saver));
        do { /* training goes on */
            fill(-1);
        } while (saver_is_busy(saver));
        if (step % 2 == 0) {
            bool ended;
            assert_int_equal(saver_advance(saver, &ended), 0);
            assert_false(ended);
            fill(-2);
        }
        assert_int_equal(saver_finish(saver), 0);
        assert_false(saver_is_under_way(saver));
    }
    assert_int_equal(saver_finish(saver), 0);
    saver_close(saver);
    for (int step = 1; step <= SAVES; step++) {
        char *path = mem_format("%s/ckpt/step-%d", own_folder, step);
        TrainState state;
        assert_int_equal(checkpoint_load(path, &trainer, &state), 0);
        assert_int_equal(state.step, step);
        assert_true(holds((float)step));
        free(path);
    }
}

/* A folder that cannot be given its name: the save before it stays the newest. */
static void test_failure(void **unused)
{
    (void)unused;
    Saver *saver = open_saver(1);
    TrainState state = state_of(20);
    fill(20);
    assert_int_equal(saver_start(saver, &state, NULL), 0);
    assert_int_equal(saver_finish(saver), 0);
    char *way = mem_format("%s/ckpt/step-21", own_folder);
    assert_int_equal(io_make_folders(way), 0);
    state = state_of(21);
    assert_int_equal(saver_start(saver, &state, NULL), 0);
    assert_int_equal(saver_finish(saver), ERR_FAILED);
    assert_non_null(strstr(err_message(), "step-21: is in the way"));
    assert_false(io_has(own_folder, "ckpt/tmp-step-21"));
    assert_int_equal(io_remove_tree(way), 0);
    char *latest = io_join(own_folder, "ckpt/latest");
    assert_int_equal(checkpoint_load(latest, &trainer, &state), 0);
    assert_int_equal(state.step, 20);
    /* Given up: nothing of it is left, and why is still told. */
    state = state_of(22);
    assert_int_equal(saver_start(saver, &state, NULL), 0);
    err_set(ERR_FAILED, "the weights differ");
    saver_close(saver);
    assert_string_equal(err_message(), "the weights differ");
    assert_false(io_has(own_folder, "ckpt/tmp-step-22"));
    assert_false(io_has(own_folder, "ckpt/step-22"));
    free(latest);
    free(way);
}

/* Master weights and two moments in f32, each once. */
static void test_plan(void **unused)
{
    (void)unused;
    int64_t elements = 0;
    for (int r = 0; r < trainer.model.params.count; r++) {
        elements += trainer.model.params.rows[r].count;
    }
    assert_int_equal(plan.save_copy, 3 * 4 * elements);
    assert_int_equal(plan.total, plan.blocks + plan.loader + plan.save_copy);
    size_t all = 0;
    for (int rank = 0; rank < 3; rank++) {
        TrainerSetup setup = trainer.setup;
        TrainPlan part;
        setup.ddp = (DdpSetup){.kind = DDP_ZERO1, .rank = rank, .ranks = 3, .bucket_bytes = 30000};
        trainer_plan(&setup, backend, &part);
        all += part.save_copy;
    }
    assert_int_equal(all, 3 * 4 * elements);
}

int main(void)
{
    backend = cpu_backend_open(1);
    TrainerSetup setup = small_setup("llama-22m", 1, 1, 16);
    setup.save_copy = true;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&trainer, &setup, backend, &plan), 0);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_plan),
                                       cmocka_unit_test(test_state_of_the_moment),
                                       cmocka_unit_test(test_failure)};
    int failed = cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
    trainer_close(&trainer);
    backend->close(backend);
    return failed;
}
