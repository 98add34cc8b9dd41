/* Lines on a full disk: a limit of the file's size stands for it. */
#include "base/err.h"
#include "base/io.h"
#include "record/lines.h"
#include "support/own_folder.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static void set_limit(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void expect_file(const char *path, const char *text)
{
    char *found;
    size_t size;
    assert_int_equal(io_read_all(path, SIZE_MAX / 2, &found, &size), 0);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(found, text, size);
    free(found);
}

/* Lines of 10 bytes where there is room for 25, for 38, for all. */
static void test_lines__wait_in_order_until_there_is_room(void **state)
{
    (void)state;
    char *path = io_join(own_folder, "some.jsonl");
    LineFile lines;
    assert_int_equal(lines_open(&lines, io_join(own_folder, "some.jsonl"), true), 0);
    set_limit(25);
    assert_int_equal(lines_append(&lines, "line four\n"), 0);
    assert_int_equal(lines_append(&lines, "line five\n"), 0);
    assert_int_equal(lines_append(&lines, "line nine\n"), 0);
    expect_file(path, "line four\nline five\n");
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines_catch_up(&lines), ERR_FAILED);
    assert_non_null(strstr(err_message(), "some.jsonl"));
    assert_int_equal(lines_append(&lines, "line zero\n"), 0);
    assert_int_equal(lines.count, 2);
    set_limit(38); /* for one of the two; they go together */
    assert_int_equal(lines_append(&lines, "\n"), 0);
    expect_file(path, "line four\nline five\n");
    set_limit(RLIM_INFINITY);
    assert_int_equal(lines_append(&lines, "line last\n"), 0);
    assert_int_equal(lines.count, 0);
    expect_file(path, "line four\nline five\nline nine\nline zero\n\nline last\n");
    lines_close(&lines);

    assert_int_equal(lines_open(&lines, io_join(own_folder, "some.jsonl"), false), 0);
    set_limit(55);
    assert_int_equal(lines_append(&lines, "behind\n"), 0);
    set_limit(RLIM_INFINITY);
    assert_int_equal(lines_catch_up(&lines), 0);
    assert_int_equal(lines_catch_up(&lines), 0);
    expect_file(path, "line four\nline five\nline nine\nline zero\n\nline last\nbehind\n");
    lines_close(&lines);
    free(path);
}

/* As open leaves it where a disk has no room for one more file. */
static void test_lines__make_a_file_with_its_first_line(void **state)
{
    (void)state;
    char *path = io_join(own_folder, "late.jsonl");
    LineFile lines = {.path = io_join(own_folder, "late.jsonl"), .file = -1, .written = -1};
    assert_int_equal(lines_catch_up(&lines), 0);
    assert_false(io_exists(path));
    assert_int_equal(lines_append(&lines, "line one\n"), 0);
    assert_int_equal(lines_append(&lines, "line two\n"), 0);
    expect_file(path, "line one\nline two\n");
    lines_close(&lines);
    free(path);
}

/* Memory is not without end, and other errors are not waited for. */
static void test_lines__end_in_an_error_that_is_told(void **state)
{
    (void)state;
    LineFile lines;
    char line[1001];
    memset(line, 'x', 999);
    line[999] = '\n';
    line[1000] = '\0';
    assert_int_equal(lines_open(&lines, io_join(own_folder, "long.jsonl"), true), 0);
    set_limit(0);
    int64_t count = 0;
    while (count < 1000000 && lines_append(&lines, line) == 0) {
        count++;
    }
    set_limit(RLIM_INFINITY);
    assert_int_equal(count, (4 << 20) / 1000);
    assert_non_null(strstr(err_message(), "4194 lines wait in memory"));
    assert_non_null(strstr(err_message(), "long.jsonl"));
    lines_close(&lines);

    assert_int_equal(lines_open(&lines, io_join(own_folder, "long.jsonl"), true), 0);
    close(lines.file);
    assert_int_equal(lines_append(&lines, line), ERR_FAILED);
    lines.file = -1;
    lines_close(&lines);
    assert_int_not_equal(lines_open(&lines, io_join(own_folder, "nowhere/some.jsonl"), true), 0);
    lines_close(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines__wait_in_order_until_there_is_room),
        cmocka_unit_test(test_lines__make_a_file_with_its_first_line),
        cmocka_unit_test(test_lines__end_in_an_error_that_is_told),
    };
    signal(SIGXFSZ, SIG_IGN);
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
