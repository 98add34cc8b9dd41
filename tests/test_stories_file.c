#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "data/stories.h"
#include "support/capture.h"
#include "support/data_files.h"
#include "support/says.h"
#include "support/story_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static int calls_left;

static int interrupted_later(void)
{
    return calls_left-- > 0 ? 0 : ERR_INTERRUPTED;
}

/* The bytes of stories_fill, for any number of threads, with the last story at or around the
 * end. */
static void test_stories_file__the_stories_in_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {3000, 100000, 262143, 1234567, 5000000};
    char *folder = data_files_folder(), *path = io_join(folder, "stories");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *expected = mem_alloc(sizes[i]);
        uint64_t next;
        size_t used = stories_fill(9, 0, expected, sizes[i], &next);
        for (int threads = 1; threads <= 3; threads += 2) {
            for (int exact = 0; exact < 2; exact++) {
                assert_int_equal(stories_write(path, exact ? used : sizes[i], 9, threads, NULL), 0);
                size_t size;
                uint8_t *bytes = data_files_read(path, &size);
                assert_int_equal(size, used);
                assert_memory_equal(bytes, expected, used);
                free(bytes);
            }
        }
        assert_int_equal(stories_write(path, used - 1, 9, 2, NULL), 0); /* one byte short */
        size_t size;
        uint8_t *bytes = data_files_read(path, &size);
        assert_true(size < used);
        assert_memory_equal(bytes, expected, size);
        assert_memory_equal(bytes + size - 14, "<|endoftext|>\n", 14);
        free(bytes);
        free(expected);
    }
    free(path);
    data_files_remove(folder);
}

static void test_stories_file__standard_output(void **state)
{
    (void)state;
    char *expected = mem_alloc(50001);
    uint64_t next;
    expected[stories_fill(3, 0, expected, 50000, &next)] = '\0';
    capture_begin(STDOUT_FILENO);
    int code = stories_write("-", 50000, 3, 2, NULL);
    char *said = capture_end();
    assert_int_equal(code, 0);
    assert_string_equal(said, expected);
    free(said);
    free(expected);
}

/* An old file stays as it was, and nothing stays beside it. */
static void test_stories_file__failures_leave_the_old_file(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "stories"),
         *below = io_join(path, "x");
    assert_int_equal(stories_write(path, 3000, 1, 2, NULL), 0);
    size_t old_size, size;
    uint8_t *old = data_files_read(path, &old_size);
    calls_left = 1;
    assert_int_equal(stories_write(path, 1000000000, 1, 2, interrupted_later), ERR_INTERRUPTED);
    assert_int_equal(stories_write(path, 10, 1, 2, NULL), ERR_INPUT);
    assert_says("hold no story");
    assert_int_equal(stories_write(below, 10000, 1, 2, NULL), ERR_INPUT);
    assert_says("is a file, where a folder is to be");
    assert_int_equal(stories_write(folder, 10000, 1, 2, NULL), ERR_INPUT);
    assert_says("is a folder");
    uint8_t *bytes = data_files_read(path, &size);
    assert_int_equal(size, old_size);
    assert_memory_equal(bytes, old, size);
    free(bytes);
    free(old);
    unlink(path);
    assert_int_equal(rmdir(folder), 0); /* nothing else was in it */
    free(below);
    free(path);
    free(folder);
}

/* Only stories of the seed, or of the usual one, make room for others. */
static void test_stories_file__a_file_of_another_kind_stays(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "stories");
    static const char *const others[] = {"old", "Once upon a time.\n<|endoftext|>\n"};
    size_t size;
    for (size_t i = 0; i < 2; i++) {
        data_files_write(path, others[i], strlen(others[i]));
        assert_int_equal(stories_write(path, 10000, 1, 2, NULL), ERR_INPUT);
        assert_says("choose another --out");
        uint8_t *bytes = data_files_read(path, &size);
        assert_int_equal(size, strlen(others[i]));
        assert_memory_equal(bytes, others[i], size);
        free(bytes);
    }
    data_files_write(path, "", 0);
    static const uint64_t seeds[] = {1, 1, 7, 7};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(stories_write(path, 10000 * (i + 1), seeds[i], 2, NULL), 0);
    }
    assert_int_equal(stories_write(path, 10000, 8, 2, NULL), ERR_INPUT);
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stories_file__the_stories_in_order),
        cmocka_unit_test(test_stories_file__standard_output),
        cmocka_unit_test(test_stories_file__failures_leave_the_old_file),
        cmocka_unit_test(test_stories_file__a_file_of_another_kind_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
