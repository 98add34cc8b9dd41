/* The screen that shows a run: it holds at every size, tells what there is to tell, and draws
 * the curve as it is. */
#include "report/watch.h"

#include "base/io.h"
#include "base/mem.h"
#include "record/process.h"
#include "report/results.h"
#include "support/own_folder.h"
#include "support/run_record.h"
#include "support/watched_run.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Columns of a line by a count of its own: bytes that do not go on a character, escapes left
 * out. */
static int plain_columns(const char *line)
{
    int columns = 0;
    for (bool escape = false; *line != '\0'; line++) {
        if (*line == '\033') {
            escape = true;
        } else if (escape) {
            escape = *line != 'm';
        } else if (((unsigned char)*line & 0xc0) != 0x80) {
            assert_true((unsigned char)*line >= 0x20);
            columns++;
        }
    }
    return columns;
}

static void assert_fits(const WatchText *text, const WatchFlags *flags)
{
    assert_in_range(text->count, 1, flags->height);
    for (int i = 0; i < text->count; i++) {
        assert_true(plain_columns(text->lines[i].text) <= flags->width);
        for (const char *at = text->lines[i].text; !flags->utf8 && *at != '\0'; at++) {
            assert_true((unsigned char)*at < 0x80);
        }
        assert_true(flags->colour || strchr(text->lines[i].text, '\033') == NULL);
    }
}

/* --- the screen --- */

static void test_watch_view__every_size_holds(void **state)
{
    (void)state;
    static const int sizes[][2] = {{200, 60}, {80, 24}, {40, 12}, {20, 5}, {1, 1},
                                   {1, 60},   {200, 1}, {29, 7},  {31, 8}, {3, 3}};
    char *dir = watched_dir();
    run_record_write(dir, 2);
    watched_put(dir, "metrics.jsonl", "a", "{\"step\":100,\"val_loss\":2.5}\nbroken\n");
    WatchRun run;
    watch_open(&run, dir);
    watch_poll(&run);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int variant = 0; variant < 32; variant++) {
            for (int s = variant % 4; s < WATCH_STATE_COUNT; s += 4) {
                WatchFlags flags = watched_flags(sizes[i][0], sizes[i][1], variant & 1);
                flags.colour = variant & 2;
                flags.plot = (WatchPlot){variant & 4 ? 3 : 0, variant & 8, variant & 16};
                flags.help = variant & 8;
                flags.paused = variant & 4;
                run.state = s;
                WatchText text;
                watch_view(&run, &flags, &text);
                assert_fits(&text, &flags);
                watch_text_free(&text);
            }
        }
    }
    watch_close(&run);
    free(dir);
}

static void test_watch_view__a_finished_run_is_told_in_full(void **state)
{
    (void)state;
    char *dir = watched_dir();
    run_record_write(dir, 2);
    run_record_edit(dir, "run.json", "summary.checks",
                    "[{\"name\":\"a\",\"verdict\":\"pass\"},{\"name\":\"b\",\"verdict\":\"fail\","
                    "\"expected\":1,\"found\":2,\"rule\":\"as many\"}]");
    watched_put(dir, "metrics.jsonl", "a", "{\"step\":100,\"val_loss\":2.5}\n");
    WatchRun run;
    watch_open(&run, dir);
    watch_poll(&run);
    assert_int_equal(run.state, RUN_DONE);
    static const char *const words[] = {"finished",
                                        "100 %",
                                        "step 100",
                                        "loss ",
                                        "validation loss 2.5000 at step 100",
                                        "tokens/s",
                                        "median",
                                        "ms per step",
                                        "memory  planned",
                                        "peak",
                                        "forward",
                                        "1 pass",
                                        "1 fail",
                                        "fail b",
                                        "expected 1, found 2 (as many)",
                                        "rank 1",
                                        "gradient norm",
                                        "learning rate ",
                                        "elapsed 10.0 s"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        watched_assert_says(&run, watched_flags(160, 60, false), words[i]);
        watched_assert_says(&run, watched_flags(160, 60, true), words[i]);
    }
    watch_close(&run);
    free(dir);
}

/* A straight line down, from the upper left of the drawing to the lower right. */
static void test_watch_view__the_curve_has_its_shape(void **state)
{
    (void)state;
    WatchRun run;
    watch_open(&run, "x");
    char line[120];
    for (int step = 1; step <= 61; step++) {
        int size = snprintf(line, sizeof line, "{\"step\":%d,\"tokens\":%d,\"loss\":%g}", step,
                            1000 * step, 10 - 0.1 * step);
        assert_true(watch_add_line(&run, line, (size_t)size));
    }
    assert_true(watch_add_line(&run, "{\"step\":61,\"val_loss\":9.9}", 26));
    WatchText text;
    /* 40 columns and 10 rows within the axes */
    watch_text_init(&text, &(WatchFlags){.width = 49, .height = 11});
    watch_plot(&text, &run, 11);
    assert_int_equal(text.count, 11);
    int last = -1;
    for (int row = 0; row < 10; row++) {
        const char *drawn = text.lines[row].text;
        const char *first = strchr(drawn, '*'), *end = strrchr(drawn, '*');
        assert_non_null(first);
        assert_true((int)(first - drawn) > last);
        last = (int)(end - drawn);
        assert_true(abs((int)(first - drawn) - (9 + 4 * row)) <= 3);
    }
    assert_int_equal(last, 48);
    assert_ptr_equal(strchr(text.lines[0].text, 'o'), text.lines[0].text + 48);
    assert_non_null(strstr(text.lines[0].text, "9.90 |"));
    assert_non_null(strstr(text.lines[9].text, "3.90 |"));
    assert_non_null(strstr(text.lines[10].text, "step 61"));
    watch_text_free(&text);
    watch_text_init(&text, &(WatchFlags){.width = 80,
                                         .height = 11,
                                         .utf8 = true,
                                         .plot = {.by_tokens = true, .log_loss = true}});
    watch_plot(&text, &run, 11);
    assert_non_null(strstr(text.lines[10].text, "tokens 61.0k"));
    assert_non_null(strstr(text.lines[10].text, "loss, log"));
    assert_non_null(strstr(text.lines[0].text, "◆"));
    watch_text_free(&text);
    watch_close(&run);
}

static void test_watch_view__smoothing_is_a_mean_of_lines(void **state)
{
    (void)state;
    WatchRun run;
    watch_open(&run, "x");
    double values[800];
    char line[64];
    for (int step = 1; step <= 800; step++) {
        int size = snprintf(line, sizeof line, "{\"step\":%d,\"loss\":%d}", step, step % 2);
        watch_add_line(&run, line, (size_t)size);
    }
    watch_smooth(&run, 0, values);
    assert_true(values[700] == 1 && values[701] == 0);
    watch_smooth(&run, 6, values);
    assert_true(fabs(values[799] - 0.5) < 0.02 && values[0] == 1);
    watch_close(&run);
}

static void test_watch_view__records_cannot_steer_the_terminal(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    WatchText text;
    watch_text_init(&text, &(WatchFlags){.width = 10, .height = 2, .utf8 = true, .colour = true});
    watch_text_line(&text);
    watch_text_put(&text, INK_PLAIN, "%s", "\033[2J\x9b\a\xff\xe2\x80\xae");
    assert_string_equal(text.lines[0].text, "?[2J????");
    watch_text_line(&text);
    watch_text_put(&text, INK_RED, "%s", "日本語日本語"); /* two columns each */
    assert_string_equal(text.lines[1].text, "\033[31m日本語日本\033[0m");
    assert_false(watch_text_line(&text));
    watch_text_free(&text);
    watch_text_init(&text, &(WatchFlags){.width = 5, .height = 1});
    watch_text_line(&text);
    watch_text_put(&text, INK_RED, "%s", "aäb日c");
    assert_string_equal(text.lines[0].text, "a?b?c");
    watch_text_free(&text);
    setlocale(LC_CTYPE, "C");
}

static void test_watch_view__an_experiment_is_a_list(void **state)
{
    (void)state;
    char *dir = watched_dir(), *one = mem_format("%s/runs/a", dir),
         *two = mem_format("%s/runs/b", dir);
    assert_int_equal(io_make_folders(one), 0);
    assert_int_equal(io_make_folders(two), 0);
    run_record_write(one, 1);
    watched_put_running(two, process_describe(), watched_own_host());
    watched_put_lines(two, 1, 50, 5);
    watched_put(
        dir, "experiment.json", "w",
        "{\"format\":1,\"name\":\"batches\",\"runs\":["
        "{\"id\":\"a\",\"dir\":\"runs/a\",\"state\":\"done\",\"settings\":{\"batch\":\"8\"},"
        "\"seconds\":12.5,\"reason\":\"\"},"
        "{\"id\":\"b\",\"dir\":\"runs/b\",\"state\":\"running\",\"settings\":{\"batch\":\"16\"}},"
        "{\"id\":\"c\",\"dir\":\"runs/"
        "c\",\"state\":\"waiting\",\"settings\":{\"batch\":\"32\"}}]}");
    assert_true(results_is_experiment(dir));
    assert_false(results_is_experiment(one));
    WatchExperiment experiment;
    watch_experiment_open(&experiment, dir);
    watch_experiment_poll(&experiment);
    for (int size = 1; size < 60; size += 4) {
        WatchFlags flags = watched_flags(2 * size, size, size % 3 == 0);
        WatchText text;
        watch_experiment_view(&experiment, &flags, &text);
        assert_fits(&text, &flags);
        watch_text_free(&text);
    }
    WatchFlags flags = watched_flags(120, 40, false);
    WatchText text;
    watch_experiment_view(&experiment, &flags, &text);
    assert_non_null(strstr(text.lines[0].text, "batches  1 of 3 done, 1 waiting, 1 running"));
    assert_non_null(strstr(text.lines[1].text, "done     batch 8"));
    assert_non_null(strstr(text.lines[1].text, "12.5 s"));
    assert_non_null(strstr(text.lines[2].text, "running  batch 16"));
    assert_non_null(strstr(text.lines[5].text, "step 50 of 400"));
    watch_text_free(&text);
    watch_experiment_close(&experiment);
    free(one);
    free(two);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_watch_view__every_size_holds),
        cmocka_unit_test(test_watch_view__a_finished_run_is_told_in_full),
        cmocka_unit_test(test_watch_view__the_curve_has_its_shape),
        cmocka_unit_test(test_watch_view__smoothing_is_a_mean_of_lines),
        cmocka_unit_test(test_watch_view__records_cannot_steer_the_terminal),
        cmocka_unit_test(test_watch_view__an_experiment_is_a_list),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
