/* Following a run's files as they grow, are cut, replaced and resumed; and how a run that goes
 * on is told from a dead one. */
#include "report/watch.h"

#include "base/io.h"
#include "base/mem.h"
#include "record/process.h"
#include "support/own_folder.h"
#include "support/watched_run.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* --- reading --- */

static void test_watch__lines_are_read_as_they_come(void **state)
{
    (void)state;
    char *dir = watched_dir();
    WatchRun run;
    watch_open(&run, dir);
    watch_poll(&run);
    assert_int_equal(run.state, RUN_WAITING);
    watched_put_lines(dir, 1, 3, 5);
    watch_poll(&run);
    assert_int_equal(run.last.step, 3);
    assert_int_equal(run.curve.train.count, 3);

    /* Half a line is not taken for a line, nor for a damaged one. */
    watched_put(dir, "metrics.jsonl", "a", "{\"step\":4,\"tokens\":400,\"lo");
    watch_poll(&run);
    assert_int_equal(run.last.step, 3);
    watched_put(dir, "metrics.jsonl", "a", "ss\":2.5,\"ms\":20}\n");
    watch_poll(&run);
    assert_int_equal(run.last.step, 4);
    assert_true(run.last.loss == 2.5);
    assert_int_equal(run.odd_lines, 0);

    watched_put(dir, "metrics.jsonl", "a", "{\"step\":4,\"val_loss\":3.5}\nnonsense\n[1]\n");
    watched_put(dir, "metrics.jsonl", "a", "{\"step\":5,\"loss\":null,\"note\":\"loss is NaN\"}\n");
    watch_poll(&run);
    assert_int_equal(run.odd_lines, 2);
    assert_int_equal(run.not_finite, 1);
    assert_int_equal(run.last.step, 5);
    assert_true(isnan(run.last.loss));
    assert_int_equal(run.curve.train.count, 4); /* NaN is no point */
    assert_true(run.val_loss == 3.5 && run.best_val_loss == 3.5);
    watch_close(&run);
    free(dir);
}

static void test_watch__a_file_cut_or_replaced_is_read_anew(void **state)
{
    (void)state;
    char *dir = watched_dir(), *path = io_join(dir, "metrics.jsonl");
    WatchRun run;
    watch_open(&run, dir);
    watched_put_lines(dir, 1, 20, 5);
    watch_poll(&run);
    assert_int_equal(run.curve.train.count, 20);
    assert_int_equal(truncate(path, 0), 0);
    watch_poll(&run);
    assert_int_equal(run.curve.train.count, 0);
    watched_put_lines(dir, 1, 2, 4);
    watch_poll(&run);
    assert_int_equal(run.curve.train.count, 2);

    /* Cut, and longer than before by the time of the next look: its size and inode say nothing. */
    assert_int_equal(truncate(path, 0), 0);
    watched_put_lines(dir, 1, 5, 3);
    watch_poll(&run);
    assert_int_equal(run.curve.train.count, 5);
    assert_true(fabs(run.curve.train.points[0].loss - 2.999) < 1e-9);

    /* Another file under the name, as a resume leaves it. */
    char *other = watched_dir(), *replacement = io_join(other, "metrics.jsonl");
    watched_put_lines(other, 1, 9, 2);
    assert_int_equal(rename(replacement, path), 0);
    watch_poll(&run);
    assert_int_equal(run.curve.train.count, 9);
    assert_true(fabs(run.curve.train.points[0].loss - 1.999) < 1e-9);
    assert_int_equal(unlink(path), 0);
    watch_poll(&run);
    assert_int_equal(run.curve.train.count, 0);
    watch_close(&run);
    free(replacement);
    free(other);
    free(path);
    free(dir);
}

static void test_watch__steps_that_come_again_are_the_newest(void **state)
{
    (void)state;
    char *dir = watched_dir();
    WatchRun run;
    watch_open(&run, dir);
    watched_put_lines(dir, 1, 10, 5);
    watched_put(dir, "metrics.jsonl", "a", "{\"step\":10,\"val_loss\":1.5}\n");
    watch_poll(&run);
    watched_put_lines(dir, 7, 8, 3);
    watch_poll(&run);
    assert_int_equal(run.last.step, 8);
    assert_int_equal(run.curve.train.count, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(run.curve.train.points[i].step, (int64_t)i + 1);
        double loss = (i < 6 ? 5 : 3) - 1e-3 * (double)(i + 1);
        assert_true(fabs(run.curve.train.points[i].loss - loss) < 1e-9);
    }
    assert_true(isnan(run.best_val_loss)); /* of a step that is no more */
    assert_true(fabs(watch_session_seconds(&run) - 8 * 0.02) < 1e-9);
    watch_close(&run);
    free(dir);
}

static void test_watch__memory_is_bounded(void **state)
{
    (void)state;
    WatchRun run;
    watch_open(&run, own_folder);
    char line[160];
    enum { LINES = 100000 };
    for (int step = 1; step <= LINES; step++) {
        int size = snprintf(line, sizeof line,
                            "{\"step\":%d,\"tokens\":%d,\"loss\":%d,\"ms\":1,\"tok_s\":7}", step,
                            10 * step, step % 2 + step / 50000);
        assert_true(watch_add_line(&run, line, (size_t)size));
    }
    assert_true(run.curve.train.count <= WATCH_POINTS && run.curve.train.count > WATCH_POINTS / 4);
    assert_true(run.curve.mark_count <= WATCH_POINTS);
    /* 0 and 1 in turn have the mean 0.5 wherever two lines or more make a point. */
    assert_true(fabs(run.curve.train.points[10].loss - 0.5) < 1e-9);
    assert_true(fabs(run.curve.train.points[run.curve.train.count - 2].loss - 1.5) < 1e-9);
    assert_int_equal(run.curve.train.points[run.curve.train.count - 1].step, LINES);
    assert_true(curve_tokens(&run.curve, LINES) == 10.0 * LINES);
    assert_true(fabs(watch_session_seconds(&run) - 1e-3 * LINES) < 1e-6);
    assert_true(watch_median(&run, run.recent_tok_s) == 7);
    watch_close(&run);
}

static void test_watch__a_line_without_end_is_passed_over(void **state)
{
    (void)state;
    char *dir = watched_dir(), *long_line = mem_alloc(700001);
    memset(long_line, 'x', 700000);
    long_line[700000] = '\0';
    WatchRun run;
    watch_open(&run, dir);
    watched_put_lines(dir, 1, 2, 5);
    watched_put(dir, "metrics.jsonl", "a", long_line);
    watch_poll(&run);
    watched_put(dir, "metrics.jsonl", "a", long_line);
    watch_poll(&run);
    watched_put(dir, "metrics.jsonl", "a", "\n");
    watched_put_lines(dir, 3, 4, 5);
    watch_poll(&run);
    assert_int_equal(run.odd_lines, 1);
    assert_int_equal(run.last.step, 4);
    watch_close(&run);
    free(long_line);
    free(dir);
}

/* --- running or dead --- */

static void test_watch__a_live_process_is_running(void **state)
{
    (void)state;
    char *dir = watched_dir();
    WatchRun run;
    watch_open(&run, dir);
    watched_put_running(dir, process_describe(), watched_own_host());
    watched_put_lines(dir, 1, 100, 5);
    watch_poll(&run);
    assert_int_equal(run.state, RUN_RUNNING);
    assert_true(run.resident_now > 0 && run.resident_most >= run.resident_now);
    assert_true(fabs(watch_seconds_left(&run) - 300 * 0.02) < 1e-9);

    /* The same number, but another process: one that began at another time. */
    cJSON *process = process_describe();
    cJSON_SetNumberValue(cJSON_GetObjectItem(process, "start"), 12345);
    watched_put_running(dir, process, watched_own_host());
    watch_poll(&run);
    assert_int_equal(run.state, WATCH_DEAD);
    watch_close(&run);
    free(dir);
}

static void test_watch__an_ended_process_is_dead(void **state)
{
    (void)state;
    char *dir = watched_dir();
    pid_t child = fork();
    if (child == 0) {
        watched_put_running(dir, process_describe(), watched_own_host());
        _exit(0);
    }
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    WatchRun run;
    watch_open(&run, dir);
    watched_put_lines(dir, 1, 3, 5);
    watch_poll(&run);
    assert_int_equal(run.state, WATCH_DEAD); /* a zombie */
    assert_int_equal(waitpid(child, NULL, 0), child);
    watch_poll(&run);
    assert_int_equal(run.state, WATCH_DEAD);
    watched_assert_says(&run, watched_flags(100, 30, false), "Dead: process");
    watched_assert_says(&run, watched_flags(100, 30, false), "no checkpoint");
    watched_assert_says(&run, watched_flags(100, 30, false), "last line at 20");

    char *ckpt = io_join(dir, "ckpt"), *latest = io_join(dir, "ckpt/latest");
    assert_int_equal(io_make_folders(ckpt), 0);
    assert_int_equal(symlink("step-2", latest), 0);
    watch_poll(&run);
    watched_assert_says(&run, watched_flags(100, 30, false),
                        "resume from the checkpoint of step 2: pacer train");
    free(latest);
    free(ckpt);
    watch_close(&run);
    free(dir);
}

static void test_watch__elsewhere_silence_decides(void **state)
{
    (void)state;
    char *dir = watched_dir(), *path = io_join(dir, "metrics.jsonl");
    WatchRun run;
    watch_open(&run, dir);
    watched_put_running(dir, process_describe(), "another-host");
    watched_put_lines(dir, 1, 3, 5);
    watch_poll(&run);
    assert_int_equal(run.state, RUN_RUNNING);
    struct timespec old[2] = {{.tv_sec = time(NULL) - 50}, {.tv_sec = time(NULL) - 50}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    watch_poll(&run);
    assert_int_equal(run.state, RUN_RUNNING);
    old[0].tv_sec = old[1].tv_sec = time(NULL) - 75;
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    watch_poll(&run);
    assert_int_equal(run.state, WATCH_SILENT);
    watched_assert_says(&run, watched_flags(100, 30, false), "Silent for 1 min 1");
    watched_put_lines(dir, 4, 4, 5);
    watch_poll(&run);
    assert_int_equal(run.state, RUN_RUNNING);
    watch_close(&run);
    free(path);
    free(dir);
}

static void test_watch__the_command_to_go_on_has_what_was_given(void **state)
{
    (void)state;
    WatchRun run;
    watch_open(&run, "my runs/x");
    run.run = cJSON_Parse("{\"config\":{\"model\":\"gpt2-124m\",\"data\":\"it's\",\"steps\":40,"
                          "\"batch\":4,\"graph\":false,\"resume\":\"auto\"}}");
    char *command = watch_resume_command(&run);
    assert_string_equal(command,
                        "pacer train --model gpt2-124m --data 'it'\\''s' --batch 4 --steps 40 "
                        "--graph=off --out 'my runs/x'");
    free(command);
    watch_close(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch__lines_are_read_as_they_come),
        cmocka_unit_test(test_watch__a_file_cut_or_replaced_is_read_anew),
        cmocka_unit_test(test_watch__steps_that_come_again_are_the_newest),
        cmocka_unit_test(test_watch__memory_is_bounded),
        cmocka_unit_test(test_watch__a_line_without_end_is_passed_over),
        cmocka_unit_test(test_watch__a_live_process_is_running),
        cmocka_unit_test(test_watch__an_ended_process_is_dead),
        cmocka_unit_test(test_watch__elsewhere_silence_decides),
        cmocka_unit_test(test_watch__the_command_to_go_on_has_what_was_given),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
