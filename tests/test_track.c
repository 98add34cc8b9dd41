/* Lines of a run as a table that stays small: what is kept of them, what a reader gets, and a long
 * record that is read in pieces. */
#include "base/io.h"
#include "serve/follow.h"
#include "support/own_folder.h"
#include "support/watched_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static TrackRow row_at(double step, double loss)
{
    return (TrackRow){.value = {step, 100 * step, step / 10, loss, loss, 1000, 1e-3, 2}};
}

static void test_track__keeps_extremes_and_means(void **state)
{
    (void)state;
    Track track = {0};
    enum { LINES = 100003 };
    double sum = 0;
    for (int i = 1; i <= LINES; i++) {
        double loss = i == 77777 ? 50 : i == 33333 ? -3 : 2 + (i * 37 % 101) / 101.0;
        TrackRow row = row_at(i, loss);
        track_add(&track, &row);
        sum += loss;
    }
    assert_true(track.count <= TRACK_MOST && track.count >= TRACK_MOST / 2 - 2);
    double least = INFINITY, most = -INFINITY, mean = 0, last = 0;
    for (size_t i = 0; i < track.count; i++) {
        const double *value = track.rows[i].value;
        assert_true(value[COLUMN_STEP] > last);
        assert_true(value[COLUMN_TOKENS] == 100 * value[COLUMN_STEP]); /* a row is of one line */
        last = value[COLUMN_STEP];
        least = fmin(least, value[COLUMN_LOSS]);
        most = fmax(most, value[COLUMN_LOSS]);
        bool open = track.filled < track.lines && i + 2 >= track.count;
        mean += value[COLUMN_MEAN] * (double)(open ? track.filled : track.lines) / 2;
    }
    assert_true(least == -3 && most == 50);
    assert_true(fabs(mean - sum) < 1e-6 * sum);
    track_free(&track);
}

static void test_track__cursors(void **state)
{
    (void)state;
    Track track = {0};
    char cursor[TRACK_CURSOR_SIZE];
    for (int i = 1; i <= 9; i++) {
        TrackRow row = row_at(i, i == 4 ? NAN : 1);
        track_add(&track, &row);
    }
    track_cursor(&track, cursor);
    assert_int_equal(track_from(&track, cursor), 8); /* the ninth may yet change */
    static const char *const wrong[] = {
        "", ".", "1.2", "x", "-1.-1", "1.2.3", "99999999999999999999999.1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(track_from(&track, wrong[i]), 0);
    }
    assert_int_equal(track_from(&track, NULL), 0);
    TrackRow row = row_at(5, 3); /* resumed */
    track_add(&track, &row);
    assert_int_equal(track.count, 5);
    assert_int_equal(track_from(&track, cursor), 0);
    Page page = {0};
    track_put(&page, &track, 3, COLUMN_LOSS + 1, 0);
    assert_string_equal(page.text,
                        "{\"at\":3,\"step\":[4,5],\"tokens\":[400,500],\"seconds\":[0.4,0.5],"
                        "\"loss\":[null,3]}");
    page_free(&page);
    track_free(&track);
}

static void test_follow__a_long_record_is_read_in_pieces(void **state)
{
    (void)state;
    char *dir = watched_dir();
    char *path = io_join(dir, "metrics.jsonl");
    FILE *file = fopen(path, "w");
    enum { LINES = 60000 };
    for (int i = 1; i <= LINES; i++) {
        fprintf(file,
                "{\"step\":%d,\"tokens\":%d,\"loss\":2.5,\"ms\":20,\"tok_s\":5000,\"pad\":\"%"
                "0120d\"}\n",
                i, 100 * i, i);
    }
    assert_int_equal(fclose(file), 0);
    FollowTable table;
    follow_open(&table);
    Followed *run = follow_take(&table, dir);
    assert_true(run->watch.behind);
    assert_true(run->watch.last.step > 0 && run->watch.last.step < LINES);
    follow_give(&table, run);
    for (int i = 0; i < 20; i++) {
        run = follow_take(&table, dir);
        bool behind = run->watch.behind;
        follow_give(&table, run);
        if (!behind) {
            break;
        }
    }
    assert_int_equal(run->watch.last.step, LINES);
    assert_true(run->train.count <= TRACK_MOST);
    double seconds = run->train.rows[run->train.count - 1].value[COLUMN_SECONDS];
    assert_true(fabs(seconds - 0.02 * LINES) < 2);
    follow_close(&table);
    free(path);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_track__keeps_extremes_and_means),
        cmocka_unit_test(test_track__cursors),
        cmocka_unit_test(test_follow__a_long_record_is_read_in_pieces),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
