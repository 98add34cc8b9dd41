/* src/comm as far as one process goes: one rank, the board, what is said of missed ranks, sums
 * in rank order, how a launched process is recognised. Several ranks: test_comm_ranks.sh. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "comm/internal.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const launch_variables[] = {
    "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",      "MV2_COMM_WORLD_SIZE", "PACER_LAUNCHED_RANKS",
    "SLURM_PROCID",         "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"};

static int forget_launcher(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof launch_variables / sizeof *launch_variables; i++) {
        unsetenv(launch_variables[i]);
    }
    return 0;
}

/* ---- launchers ---- */

static void test_comm__launched_by(void **state)
{
    assert_false(comm_is_launched());
    static const char *const alone_is_a_rank[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"};
    for (size_t i = 0; i < 2; i++) {
        setenv(alone_is_a_rank[i], "1", 1);
        assert_true(comm_is_launched());
        setenv(alone_is_a_rank[i], "16", 1);
        assert_true(comm_is_launched());
        forget_launcher(state);
    }
    /* Slurm: a script of sbatch is no step; an interactive shell is a step of one task. */
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    assert_false(comm_is_launched());
    setenv("SLURM_STEP_ID", "0", 1);
    assert_true(comm_is_launched());
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    assert_false(comm_is_launched());
    setenv("PMI_SIZE", "1", 1); /* srun --mpi=pmi2 says so to a shell, too */
    assert_false(comm_is_launched());
    setenv("PMI_SIZE", "4", 1);
    assert_true(comm_is_launched());
}

static void test_comm__launched_alone_needs_no_mpi(void **state)
{
    (void)state;
    Comm *comm;
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    setenv("PACER_MPI_MODULE", "/nowhere", 1);
    assert_int_equal(comm_open((CommOptions){0}, &comm), 0);
    assert_int_equal(comm_ranks(comm), 1);
    comm_close(comm);
    unsetenv("PACER_MPI_MODULE");
}

static void test_comm__missing_module_says_what_to_install(void **state)
{
    (void)state;
    Comm *comm;
    setenv("PMI_SIZE", "3", 1);
    setenv("PACER_MPI_MODULE", "/nowhere/pacer_mpi.so", 1);
    assert_int_equal(comm_open((CommOptions){0}, &comm), ERR_FAILED);
    assert_says("libopenmpi-dev");
    assert_says("/nowhere/pacer_mpi.so");
    char *argv[] = {"pacer", NULL};
    JobEnd end;
    assert_int_equal(comm_launch(2, argv, NULL, &end), ERR_FAILED);
    assert_says("libopenmpi-dev");
    unsetenv("PACER_MPI_MODULE");
}

/* ---- one rank ---- */

static void test_comm__one_rank(void **state)
{
    (void)state;
    Comm *comm;
    Channel *channel;
    Backend host = {.name = "host"};
    assert_int_equal(comm_open((CommOptions){.timeout_s = 1}, &comm), 0);
    assert_int_equal(comm_rank(comm), 0);
    assert_int_equal(comm_local_rank(comm), 0);
    assert_int_equal(comm_local_ranks(comm), 1);
    assert_string_equal(comm_library(comm), "none");
    assert_true(strlen(comm_host(comm)) > 0);
    double values[2] = {3, -4};
    int32_t seven = 7, all = 0;
    assert_int_equal(comm_barrier(comm, "here"), 0);
    assert_int_equal(comm_sum(comm, values, 2), 0);
    assert_int_equal(comm_max(comm, values, 2), 0);
    assert_true(values[0] == 3 && values[1] == -4);
    assert_int_equal(comm_broadcast(comm, &seven, sizeof seven, 0), 0);
    assert_int_equal(comm_gather(comm, &seven, sizeof seven, &all), 0);
    assert_int_equal(all, 7);

    assert_int_equal(channel_open(comm, &host, &channel), 0);
    float in[3] = {1, 2, 3}, out[4] = {0, 0, 0, 9};
    channel_all_reduce(channel, in, 3, DT_F32);
    channel_reduce_scatter(channel, in, out, 2, DT_F32);
    channel_wait(channel);
    assert_true(in[0] == 1 && in[2] == 3 && out[0] == 1 && out[1] == 2 && out[2] == 0);
    channel_all_gather(channel, in, out, 3, DT_F32);
    channel_all_gather(channel, out, out, 3, DT_F32);
    channel_all_reduce(channel, NULL, 0, DT_F32);
    channel_wait(channel);
    assert_true(out[2] == 3 && out[3] == 9);
    ChannelTimes times;
    assert_true(channel_take_times(channel, &times));
    assert_int_equal(times.calls, 5);
    assert_true(times.bytes == 4 * (3 + 2 + 3 + 3) && times.exposed_s == 0);
    assert_true(channel_take_times(channel, &times));
    assert_int_equal(times.calls, 0);
    channel_close(channel);
    comm_close(comm);
    comm_close(NULL);
    channel_close(NULL);
}

/* ---- sums ---- */

static void test_comm__sum_in_rank_order_rounds_once(void **state)
{
    (void)state;
    enum { COUNT = 1027 };
    static uint16_t halves[3][COUNT];
    static float floats[3][COUNT];
    static int32_t ints[3][COUNT];
    for (int i = 0; i < COUNT; i++) {
        /* 1 + 2^-8 + 2^-8 is a bf16; either half alone is lost when it is rounded after each
         * addition. */
        halves[0][i] = bf16_from_f32(1);
        halves[1][i] = halves[2][i] = bf16_from_f32(1.0F / 256);
        /* In this order the small one is lost; (1e8 - 1e8) + 1 would keep it. */
        floats[0][i] = 1e8F;
        floats[1][i] = 1;
        floats[2][i] = -1e8F;
        ints[0][i] = INT32_MAX;
        ints[1][i] = 1;
        ints[2][i] = -i;
    }
    const void *parts[3] = {halves[0], halves[1], halves[2]};
    sum_parts(halves[1], parts, 3, COUNT, DT_BF16); /* out is one of the parts */
    sum_parts(floats[0], (const void *[]){floats[0], floats[1], floats[2]}, 3, COUNT, DT_F32);
    sum_parts(ints[2], (const void *[]){ints[0], ints[1], ints[2]}, 3, COUNT, DT_I32);
    for (int i = 0; i < COUNT; i++) {
        assert_true(f32_from_bf16(halves[1][i]) == 1 + 1.0F / 128);
        assert_true(floats[0][i] == 0);
        assert_int_equal(ints[2][i], (int32_t)(UINT32_C(0x80000000) - (uint32_t)i));
    }
}

/* ---- board ---- */

enum { RANKS = 4 };

typedef struct {
    char *folder, *path;
    Board *boards[RANKS];
    BoardEntry first[RANKS], second[RANKS];
} Ranks;

static void ranks_open(Ranks *r)
{
    r->folder = data_files_folder();
    r->path = io_join(r->folder, "new/board");
    for (int i = 0; i < RANKS; i++) {
        char *host = mem_format("host-%d", i);
        assert_int_equal(board_open(r->path, 42, i, host, &r->boards[i]), 0);
        free(host);
        board_step(r->boards[i], 40);
    }
}

static void ranks_close(Ranks *r)
{
    for (int i = 0; i < RANKS; i++) {
        board_close(r->boards[i]);
    }
    free(r->path);
    data_files_remove(r->folder);
}

/* Both readings as rank 0 makes them; `silent` has no beat in between. */
static void ranks_read(Ranks *r, int silent)
{
    for (int i = 0; i < RANKS; i++) {
        board_read(r->boards[0], i, &r->first[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        if (i != silent) {
            board_beat(r->boards[i]);
        }
        board_read(r->boards[0], i, &r->second[i]);
    }
}

static void test_comm__board_is_read_as_written(void **state)
{
    (void)state;
    Ranks r;
    ranks_open(&r);
    char long_name[200];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    board_enter(r.boards[2], 17, "all-reduce");
    board_enter(r.boards[3], 18, long_name);
    board_leave(r.boards[3]);
    board_step(r.boards[3], 41);
    board_device(r.boards[3], 5);
    ranks_read(&r, 1);
    assert_true(r.second[0].there && r.second[0].number == 0 && !r.second[0].inside);
    assert_true(r.second[2].inside && r.second[2].number == 17 && r.second[2].step == 40);
    assert_string_equal(r.second[2].what, "all-reduce");
    assert_string_equal(r.second[2].host, "host-2");
    assert_int_equal(r.second[2].pid, getpid());
    assert_true(!r.second[3].inside && r.second[3].number == 18 && r.second[3].step == 41);
    assert_int_equal(r.second[3].device, 5);
    assert_int_equal(strlen(r.second[3].what), BOARD_NAME_SIZE - 1);
    assert_true(r.second[1].beats == r.first[1].beats && r.second[2].beats > r.first[2].beats);
    ranks_close(&r);
}

static void test_comm__boards_of_several_jobs_share_a_folder(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    Board *first, *mate, *second;
    BoardEntry entry;
    assert_int_equal(board_open(folder, 1, 1, "a", &first), 0);
    assert_int_equal(board_open(folder, 1, 0, "a", &mate), 0);
    board_step(first, 7);
    /* Another job's rank of the same number comes and goes. */
    assert_int_equal(board_open(folder, 2, 1, "a", &second), 0);
    board_read(second, 0, &entry);
    assert_false(entry.there);
    board_read(second, 1, &entry);
    assert_true(entry.there && entry.step == -1);
    board_close(second);
    board_read(mate, 1, &entry);
    assert_true(entry.there && entry.step == 7);
    board_close(first);
    board_close(mate);
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

static void test_comm__board_ignores_damage_and_removes_what_is_left(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    Board *own, *other;
    BoardEntry entry;
    assert_int_equal(board_open(folder, 2, 0, "a", &own), 0);
    board_read(own, 5, &entry);
    assert_false(entry.there);
    static const char noise[400] = "no board";
    char *path = io_join(folder, "rank-5-0000000000000002");
    data_files_write(path, noise, sizeof noise);
    board_read(own, 5, &entry);
    assert_false(entry.there);
    data_files_write(path, noise, 3);
    board_read(own, 5, &entry);
    assert_false(entry.there);
    assert_int_equal(board_open(path, 2, 0, "a", &other), ERR_INPUT);
    assert_says("rank-5");
    assert_int_equal(board_open(folder, 3, 0, "a", &other), 0);
    assert_false(io_exists(path)); /* whose rank does not live */
    free(path);
    board_close(own);
    board_close(other);
    data_files_remove(folder);
}

static void assert_explained(BoardWait wait, const char *expected)
{
    char text[BOARD_TEXT_SIZE], pid[32], *filled = mem_strdup(expected), *place;
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    while ((place = strstr(filled, "PID")) != NULL) {
        char *more = mem_format("%.*s%s%s", (int)(place - filled), filled, pid, place + 3);
        free(filled);
        filled = more;
    }
    board_explain(&wait, text);
    assert_string_equal(text, filled);
    free(filled);
}

static void test_comm__explains_who_is_behind(void **state)
{
    (void)state;
    Ranks r;
    ranks_open(&r);
    BoardWait wait = {0, RANKS, 17, "all-reduce", 60, false, r.first, r.second, 0};
    for (int i = 0; i < RANKS; i++) {
        board_enter(r.boards[i], 16, "all-reduce");
        board_leave(r.boards[i]);
        if (i != 2) {
            board_enter(r.boards[i], 17, "all-reduce");
        }
    }
    ranks_read(&r, -1);
    assert_explained(wait, "rank 2 on host host-2 (pid PID) is at step 40, before "
                           "all-reduce 17; ranks "
                           "0, 1, 3 have waited 60 s in all-reduce 17 for it");
    assert_int_equal(board_speaker(&wait), 0);
    wait.rank = 3;
    assert_int_equal(board_speaker(&wait), 0);
    ranks_read(&r, 0);
    assert_int_equal(board_speaker(&wait), 1);

    ranks_read(&r, 2);
    assert_explained(wait, "rank 2 on host host-2 (pid PID) is at step 40, before "
                           "all-reduce 17, and "
                           "shows no sign of life; ranks 0, 1, 3 have waited 60 s in "
                           "all-reduce 17 for it");
    board_enter(r.boards[1], 12, "barrier 'save'");
    board_step(r.boards[2], -1);
    ranks_read(&r, -1);
    assert_explained(wait, "rank 1 on host host-1 (pid PID) is at step 40, in barrier "
                           "'save' 12; rank 2 "
                           "on host host-2 (pid PID) is before its first step, before "
                           "all-reduce 17; "
                           "ranks 0, 3 have waited 60 s in all-reduce 17 for them");
    ranks_close(&r);
}

static void test_comm__explains_silence_and_ignorance(void **state)
{
    (void)state;
    Ranks r;
    ranks_open(&r);
    BoardWait wait = {3, RANKS, 9, "broadcast", 2.5, false, r.first, r.second, 0};
    for (int i = 0; i < RANKS; i++) {
        board_enter(r.boards[i], 9, "broadcast");
    }
    ranks_read(&r, 1);
    assert_explained(wait, "rank 1 on host host-1 (pid PID) is at step 40, in broadcast 9, and "
                           "shows no "
                           "sign of life; ranks 0, 2, 3 have waited 2.5 s in broadcast 9 for it");
    ranks_read(&r, -1);
    assert_explained(wait, "all 4 ranks are in broadcast 9 and alive, but it was not "
                           "finished within "
                           "2.5 s: the way between them is blocked");
    r.first[2] = r.second[2] = (BoardEntry){0};
    assert_explained(wait, "rank 2 has told nothing of itself; ranks 0, 1, 3 have waited 2.5 s in "
                           "broadcast 9 for it");
    char text[BOARD_TEXT_SIZE];
    board_explain_end(&wait, 2, &r.second[2], text);
    assert_string_equal(text, "rank 2 has ended; rank 3 waits for it in broadcast 9");
    memset(r.second, 0, sizeof r.second);
    assert_explained(wait, "broadcast 9 was not finished within 2.5 s: another rank is missing or "
                           "stopped");
    ranks_close(&r);
}

static void test_comm__explains_devices_by_their_own_count(void **state)
{
    (void)state;
    Ranks r;
    ranks_open(&r);
    BoardWait wait = {0, RANKS, 30, "GPU collective", 5, true, r.first, r.second, 0};
    for (int i = 0; i < RANKS; i++) {
        board_enter(r.boards[i], 4, "sum");
        board_device(r.boards[i], i == 3 ? 28 : 30);
    }
    ranks_read(&r, -1);
    assert_explained(wait, "rank 3 on host host-3 (pid PID) is at step 40, before "
                           "collective 29; ranks "
                           "0, 1, 2 have waited 5 s in GPU collective 30 for it");
    ranks_close(&r);
}

/* With hundreds of ranks the sentence stays one that can be read. */
static void test_comm__explains_many_ranks_in_few_words(void **state)
{
    (void)state;
    enum { MANY = 500 };
    static BoardEntry first[MANY], second[MANY];
    for (int i = 0; i < MANY; i++) {
        first[i] = (BoardEntry){.there = true, .pid = 1, .step = 3, .number = i < 100 ? 4 : 5};
        memset(first[i].host, 'h', BOARD_NAME_SIZE - 1);
        second[i] = first[i];
        second[i].beats = 1;
    }
    BoardWait wait = {400, MANY, 5, "sum", 1, false, first, second, 0};
    char text[BOARD_TEXT_SIZE];
    board_explain(&wait, text);
    assert_non_null(strstr(text, "; and 96 more; ranks 100, 101, 102, 103, 104, 105, 106, 107 and "
                                 "392 more have waited 1 s in sum 5 for them"));
}

/* The last rank may have come only when the others had waited for too long: all of them then wait
 * as long again, but no longer. */
static void test_comm__gives_up_on_who_is_missed(void **state)
{
    (void)state;
    Ranks r;
    ranks_open(&r);
    BoardWait wait = {3, RANKS, 9, "barrier 'record'", 12.5, false, r.first, r.second, 0};
    for (int i = 1; i < RANKS; i++) {
        board_enter(r.boards[i], 9, "barrier 'record'");
    }
    BoardMet met = {0};
    ranks_read(&r, -1);
    assert_true(board_gives_up(&wait, &met)); /* rank 0 is behind */
    assert_true(board_waited(&wait, &met) == 12.5);
    board_enter(r.boards[0], 9, "barrier 'record'");
    ranks_read(&r, 0);
    assert_true(board_gives_up(&wait, &met)); /* and now there, but silent */
    ranks_read(&r, -1);
    assert_false(board_gives_up(&wait, &met));
    wait.waited_s = 20;
    assert_true(board_waited(&wait, &met) == 7.5);
    wait.waited_s = 25;
    assert_true(board_waited(&wait, &met) == 12.5);
    assert_true(board_gives_up(&wait, &met));
    wait.number = 10; /* what was found of an earlier one says nothing of this */
    assert_true(board_waited(&wait, &met) == 25);
    ranks_close(&r);
}

/* A rank that is at its files is waited for, as long as it lives, within limits; and nobody takes
 * the way for blocked because it has just come. */
static void test_comm__waits_for_a_rank_at_its_files(void **state)
{
    (void)state;
    Ranks r;
    ranks_open(&r);
    BoardWait wait = {3, RANKS, 9, "gather", 5, false, r.first, r.second, 50};
    for (int i = 1; i < RANKS; i++) {
        board_enter(r.boards[i], 9, "gather");
    }
    board_at_files(r.boards[0], true);
    BoardMet met = {0};
    ranks_read(&r, 0);
    assert_true(board_gives_up(&wait, &met)); /* it is silent */
    for (; wait.waited_s < 50; wait.waited_s += 15) {
        ranks_read(&r, -1);
        assert_false(board_gives_up(&wait, &met));
        assert_true(board_waited(&wait, &met) == 0);
    }
    ranks_read(&r, -1);
    assert_true(board_gives_up(&wait, &met));
    char text[BOARD_TEXT_SIZE];
    board_explain(&wait, text);
    assert_non_null(strstr(text, ", at its files; "));
    wait.waited_s = 40;
    board_at_files(r.boards[0], false);
    board_enter(r.boards[0], 9, "gather");
    ranks_read(&r, -1);
    assert_false(board_gives_up(&wait, &met));
    assert_true(board_gives_up(&wait, &met));
    ranks_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_comm__launched_by, forget_launcher, forget_launcher),
        cmocka_unit_test_setup_teardown(test_comm__launched_alone_needs_no_mpi, forget_launcher,
                                        forget_launcher),
        cmocka_unit_test_setup_teardown(test_comm__missing_module_says_what_to_install,
                                        forget_launcher, forget_launcher),
        cmocka_unit_test_setup(test_comm__one_rank, forget_launcher),
        cmocka_unit_test(test_comm__sum_in_rank_order_rounds_once),
        cmocka_unit_test(test_comm__board_is_read_as_written),
        cmocka_unit_test(test_comm__boards_of_several_jobs_share_a_folder),
        cmocka_unit_test(test_comm__board_ignores_damage_and_removes_what_is_left),
        cmocka_unit_test(test_comm__explains_who_is_behind),
        cmocka_unit_test(test_comm__explains_silence_and_ignorance),
        cmocka_unit_test(test_comm__gives_up_on_who_is_missed),
        cmocka_unit_test(test_comm__waits_for_a_rank_at_its_files),
        cmocka_unit_test(test_comm__explains_devices_by_their_own_count),
        cmocka_unit_test(test_comm__explains_many_ranks_in_few_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
