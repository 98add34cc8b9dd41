/* Files: what is on disk after success and after failure. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/own_folder.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void assert_content(const char *path, const void *expected, size_t expected_size)
{
    char *data;
    size_t size;
    assert_int_equal(io_read_all(path, 1 << 24, &data, &size), 0);
    assert_int_equal(size, expected_size);
    assert_memory_equal(data, expected, size);
    assert_int_equal(data[size], 0);
    free(data);
}

static int entries_below(const char *folder)
{
    char *command = mem_format("find '%s' -mindepth 1 | wc -l", folder);
    FILE *pipe = popen(command, "r");
    int count = -1;
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%d", &count), 1);
    pclose(pipe);
    free(command);
    return count;
}

static void test_io__write_atomic_replaces_the_file(void **state)
{
    char *path = io_join(*state, "file");
    assert_int_equal(io_write_atomic(path, "old", 3), 0);
    assert_content(path, "old", 3);
    assert_int_equal(io_write_atomic(path, "longer than before", 18), 0);
    assert_content(path, "longer than before", 18);
    assert_int_equal(io_write_atomic(path, NULL, 0), 0);
    assert_content(path, "", 0);
    assert_int_equal(entries_below(*state), 1);
    free(path);
}

/* The disk is "full" after 4096 bytes: a limit on the size of files fails writes for root too. */
static void test_io__write_atomic_keeps_the_old_file_when_the_disk_is_full(void **state)
{
    char *path = io_join(*state, "file");
    assert_int_equal(io_write_atomic(path, "old", 3), 0);

    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){4096, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    char *bytes = mem_zalloc(3 << 20, 1);
    int code = io_write_atomic(path, bytes, 3 << 20);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);

    assert_int_equal(code, ERR_FAILED);
    assert_non_null(strstr(err_message(), path));
    assert_content(path, "old", 3);
    assert_int_equal(entries_below(*state), 1); /* the temporary file is gone */
    free(bytes);
    free(path);
}

static void test_io__write_atomic_into_a_missing_folder_names_the_path(void **state)
{
    char *path = io_join(*state, "missing/file");
    assert_int_equal(io_write_atomic(path, "x", 1), ERR_INPUT);
    assert_non_null(strstr(err_message(), path));
    assert_int_equal(entries_below(*state), 0);
    free(path);
}

static void test_io__write_atomic_does_not_replace_a_folder(void **state)
{
    char *path = io_join(*state, "folder"), *inside = io_join(*state, "folder/kept");
    assert_int_equal(io_make_folders(path), 0);
    assert_int_equal(io_write_atomic(inside, "kept", 4), 0);
    assert_int_equal(io_write_atomic(path, "x", 1), ERR_INPUT);
    assert_content(inside, "kept", 4);
    assert_int_equal(entries_below(*state), 2);
    free(inside);
    free(path);
}

/* Nor a link to one: as root, /dev/stdout itself would be gone. */
static void test_io__write_atomic_does_not_replace_a_pipe(void **state)
{
    char *path = io_join(*state, "pipe"), *link = io_join(*state, "link");
    struct stat info;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(io_write_atomic(path, "x", 1), ERR_INPUT);
    assert_int_equal(io_write_atomic(link, "x", 1), ERR_INPUT);
    assert_non_null(strstr(err_message(), link));
    assert_true(stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
    assert_true(lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    assert_int_equal(entries_below(*state), 2);
    free(link);
    free(path);
}

static void test_io__write_atomic_in_an_unwritable_folder_keeps_the_old_file(void **state)
{
    if (geteuid() == 0) {
        skip(); /* permissions do not stop root */
    }
    char *path = io_join(*state, "file");
    assert_int_equal(io_write_atomic(path, "old", 3), 0);
    assert_int_equal(chmod(*state, 0500), 0);
    int code = io_write_atomic(path, "new", 3);
    assert_int_equal(chmod(*state, 0700), 0);
    assert_int_equal(code, ERR_INPUT);
    assert_content(path, "old", 3);
    free(path);
}

/* Pieces below, at and above the writer's buffer of 1 MiB, the digest over all of them. */
static void test_io__writer_digest_is_the_hash_of_the_file(void **state)
{
    static const size_t pieces[] = {1, 0, 1000, (1 << 20) - 1001, 1, 1 << 20, (1 << 20) + 7, 5};
    char *path = io_join(*state, "file");
    uint8_t *bytes = mem_alloc(8 << 20);
    for (size_t i = 0; i < 8 << 20; i++) {
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    IoWriter *writer;
    assert_int_equal(io_writer_open(path, &writer), 0);
    size_t size = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        assert_int_equal(io_writer_put(writer, bytes + size, pieces[i]), 0);
        size += pieces[i];
    }
    uint64_t digest = 0;
    assert_int_equal(io_writer_close(writer, &digest), 0);
    assert_content(path, bytes, size);
    assert_true(digest == io_hash(bytes, size));
    assert_true(digest != io_hash(bytes, size - 1));
    free(bytes);
    free(path);
}

/* Published by xxHash: XXH3, 64 bits, seed 0, of no bytes. */
static void test_io__hash_is_xxh3(void **state)
{
    (void)state;
    assert_true(io_hash("", 0) == 0x2d06800538d394c2);
}

static void test_io__writer_error_sticks(void **state)
{
    (void)state;
    IoWriter *writer;
    assert_int_equal(io_writer_open("/dev/full", &writer), 0);
    char *bytes = mem_zalloc(2 << 20, 1);
    assert_int_equal(io_writer_put(writer, bytes, 2 << 20), ERR_FAILED);
    assert_non_null(strstr(err_message(), "/dev/full"));
    assert_int_equal(io_writer_put(writer, bytes, 1), ERR_FAILED);
    assert_int_equal(io_writer_close(writer, NULL), ERR_FAILED);
    free(bytes);
}

static void test_io__writer_abandon_removes_the_file(void **state)
{
    char *path = io_join(*state, "file");
    IoWriter *writer;
    assert_int_equal(io_writer_open(path, &writer), 0);
    assert_int_equal(io_writer_put(writer, "half", 4), 0);
    assert_true(io_exists(path));
    io_writer_abandon(writer);
    assert_false(io_exists(path));
    free(path);
}

static void test_io__make_folders_and_remove_tree(void **state)
{
    char *deep = io_join(*state, "a/b/c"), *top = io_join(*state, "a");
    char *slash = io_join(*state, "a/b/c/"), *file = io_join(*state, "a/b/c/file");
    assert_int_equal(io_make_folders(deep), 0);
    assert_true(io_is_folder(deep));
    assert_int_equal(io_make_folders(deep), 0); /* again is fine */
    assert_int_equal(io_make_folders(slash), 0);
    assert_int_equal(io_write_atomic(file, "x", 1), 0);
    assert_false(io_is_folder(file));

    char *below_file = io_join(file, "no");
    assert_int_equal(io_make_folders(file), ERR_INPUT); /* a file is in the way */
    assert_int_equal(io_make_folders(below_file), ERR_INPUT);
    assert_content(file, "x", 1);

    /* A link is removed, not followed. */
    char *outside = io_join(*state, "outside"), *kept = io_join(*state, "outside/kept");
    char *link = io_join(*state, "a/link");
    assert_int_equal(io_make_folders(outside), 0);
    assert_int_equal(io_write_atomic(kept, "k", 1), 0);
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(io_remove_tree(top), 0);
    assert_false(io_exists(top));
    assert_content(kept, "k", 1);
    assert_int_equal(io_remove_tree(top), 0); /* missing is fine */
    free(link), free(kept), free(outside), free(below_file);
    free(file), free(slash), free(top), free(deep);
}

static void test_io__read_all_keeps_to_its_limit(void **state)
{
    char *path = io_join(*state, "file"), *data;
    size_t size;
    char *bytes = mem_alloc(10000);
    memset(bytes, 'x', 10000);
    assert_int_equal(io_write_atomic(path, bytes, 10000), 0);

    assert_int_equal(io_read_all(path, 10000, &data, &size), 0);
    assert_int_equal(size, 10000);
    free(data);
    assert_int_equal(io_read_all(path, 9999, &data, &size), ERR_INPUT);
    assert_null(data);
    assert_int_equal(size, 0);
    assert_non_null(strstr(err_message(), path));
    assert_non_null(strstr(err_message(), "9999"));

    assert_int_equal(io_read_all(*state, 10000, &data, &size), ERR_INPUT); /* a folder */
    assert_int_equal(io_read_all("/no/such/file", 10000, &data, &size), ERR_INPUT);
    assert_non_null(strstr(err_message(), "/no/such/file"));
    free(bytes);
    free(path);
}

static void test_io__files_are_read_from_any_place(void **state)
{
    char *path = io_join(*state, "file"), bytes[8] = "";
    IoFile *file;
    assert_int_equal(io_write_atomic(path, "some text", 9), 0);
    assert_int_equal(io_file_open(path, &file), 0);
    assert_int_equal(io_file_size(file), 9);
    assert_int_equal(io_file_read(file, 5, bytes, 4), 0);
    assert_string_equal(bytes, "text");
    assert_int_equal(io_file_read(file, 9, bytes, 0), 0);
    assert_int_equal(io_file_check(file), 0);
    io_file_close(file);
    io_file_close(NULL);
    assert_int_equal(io_write_atomic(path, "", 0), 0);
    assert_int_equal(io_file_open(path, &file), 0);
    assert_int_equal(io_file_size(file), 0);
    io_file_close(file);
    assert_int_equal(io_file_open(*state, &file), ERR_INPUT);
    assert_null(file);
    assert_int_equal(io_file_open("/no/such/file", &file), ERR_INPUT);
    free(path);
}

/* What is no regular file could keep its reader waiting for ever: the alarm ends a test that
 * waits. */
static void test_io__pipes_are_refused(void **state)
{
    char *path = io_join(*state, "pipe"), *data;
    size_t size;
    IoFile *file;
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(60);
    assert_int_equal(io_read_all(path, 100, &data, &size), ERR_INPUT);
    assert_non_null(strstr(err_message(), "not a regular file"));
    assert_int_equal(io_file_open(path, &file), ERR_INPUT);
    assert_non_null(strstr(err_message(), path));
    alarm(0);
    free(path);
}

#define LENGTH ((size_t)3 << 12)

/* How many bytes of a file of ones are still there; the others read as zeros. */
static size_t count_left(IoFile *file, int *code)
{
    uint8_t bytes[LENGTH];
    size_t left = 0;
    memset(bytes, 7, sizeof bytes);
    *code = io_file_read(file, 0, bytes, sizeof bytes);
    for (size_t i = 0; i < LENGTH; i++) {
        assert_in_range(bytes[i], 0, 1);
        left += bytes[i];
    }
    return left;
}

/* More files than are kept open: the last ones are opened for each reading. */
#define MANY_FILES 203

static void test_io__a_file_cut_short_while_it_is_read_is_an_error(void **state)
{
    static const size_t lengths[] = {LENGTH - 1, LENGTH / 2, 7, 0};
    char *path = io_join(*state, "file"), *bytes = mem_alloc(LENGTH);
    IoFile *files[MANY_FILES];
    int code;
    memset(bytes, 1, LENGTH);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        assert_int_equal(io_write_atomic(path, bytes, LENGTH), 0);
        for (int k = 0; k < MANY_FILES; k++) {
            assert_int_equal(io_file_open(path, &files[k]), 0);
            assert_int_equal(count_left(files[k], &code), LENGTH);
            assert_int_equal(code, 0);
        }
        assert_int_equal(truncate(path, (off_t)lengths[i]), 0);
        for (int k = 0; k < MANY_FILES; k++) {
            assert_int_equal(io_file_check(files[k]), 0); /* what was read was there */
            assert_int_equal(count_left(files[k], &code), lengths[i]);
            assert_int_equal(code, ERR_INPUT);
            assert_int_equal(io_file_check(files[k]), ERR_INPUT);
            assert_non_null(strstr(err_message(), path));
            io_file_close(files[k]);
        }
    }
    free(bytes);
    free(path);
}

/* Another file that takes its name is not read in its place: the old one is, where it was kept
 * open, and else it is gone. */
static void test_io__a_file_that_was_replaced_is_not_mistaken(void **state)
{
    char *path = io_join(*state, "file"), *bytes = mem_alloc(LENGTH);
    IoFile *files[MANY_FILES];
    memset(bytes, 1, LENGTH);
    assert_int_equal(io_write_atomic(path, bytes, LENGTH), 0);
    for (int k = 0; k < MANY_FILES; k++) {
        assert_int_equal(io_file_open(path, &files[k]), 0);
    }
    memset(bytes, 0, LENGTH);
    assert_int_equal(io_write_atomic(path, bytes, LENGTH), 0);
    int code;
    assert_int_equal(count_left(files[0], &code), LENGTH);
    assert_int_equal(code, 0);
    count_left(files[MANY_FILES - 1], &code);
    assert_int_equal(code, ERR_INPUT);
    for (int k = 0; k < MANY_FILES; k++) {
        io_file_close(files[k]);
    }
    free(bytes);
    free(path);
}

static void test_io__a_temporary_file_that_was_left_is_used_again(void **state)
{
    char *path = io_join(*state, "file"), *left = mem_format("%s" IO_TEMPORARY, path);
    FILE *file = fopen(left, "w");
    assert_non_null(file);
    fputs("what a killed process had written, longer than what comes", file);
    fclose(file);
    assert_int_equal(io_write_atomic(path, "new", 3), 0);
    assert_content(path, "new", 3);
    assert_int_equal(entries_below(*state), 1);
    free(left);
    free(path);
}

static void test_io__a_temporary_name_never_leads_elsewhere(void **state)
{
    char *path = io_join(*state, "file"), *other = io_join(*state, "other");
    char *temporary = mem_format("%s" IO_TEMPORARY, path);
    assert_int_equal(io_write_atomic(other, "kept", 4), 0);
    assert_int_equal(symlink(other, temporary), 0);
    assert_int_equal(io_write_atomic(path, "new", 3), ERR_INPUT);
    assert_content(other, "kept", 4);
    assert_int_equal(unlink(temporary), 0);
    assert_int_equal(link(other, temporary), 0); /* a second name of that file */
    assert_int_equal(io_write_atomic(path, "new", 3), ERR_INPUT);
    assert_non_null(strstr(err_message(), "is in the way"));
    assert_content(other, "kept", 4);
    assert_false(io_exists(path));
    free(temporary);
    free(other);
    free(path);
}

/* Processes that replace the same file at the same time: it always is one of theirs, and whole. */
static void test_io__writers_of_one_file_take_turns(void **state)
{
    enum { PROCESSES = 4, TIMES = 25, SIZE = 100000 };
    char *path = io_join(*state, "file"), *bytes = mem_alloc(SIZE);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        for (int time = 0; child == 0 && time < TIMES; time++) {
            memset(bytes, 'a' + i, SIZE);
            if (io_write_atomic(path, bytes, SIZE) != 0) {
                _exit(1);
            }
        }
        if (child == 0) {
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    char *data;
    size_t size;
    assert_int_equal(io_read_all(path, SIZE, &data, &size), 0);
    assert_int_equal(size, SIZE);
    memset(bytes, data[0], SIZE);
    assert_memory_equal(data, bytes, SIZE);
    assert_int_equal(entries_below(*state), 1);
    free(data);
    free(bytes);
    free(path);
}

static void test_io__temporary_files_that_nobody_writes_are_removed(void **state)
{
    char *stale = io_join(*state, "a" IO_TEMPORARY), *used = io_join(*state, "b");
    char *kept = io_join(*state, "c.tmp");
    IoWriter *writer;
    assert_int_equal(io_write_atomic(kept, "x", 1), 0);
    assert_int_equal(io_writer_open(stale, &writer), 0);
    assert_int_equal(io_writer_close(writer, NULL), 0);
    assert_int_equal(io_replace_open(used, &writer), 0);
    io_remove_temporaries(*state);
    assert_false(io_exists(stale));
    assert_int_equal(entries_below(*state), 2);
    io_writer_put(writer, "whole", 5);
    assert_int_equal(io_writer_close(writer, NULL), 0);
    assert_content(used, "whole", 5);
    free(kept);
    free(used);
    free(stale);
}

/* Who had the lock may remove the file before it lets go. */
static void test_io__a_removed_file_locks_nothing(void **state)
{
    char *path = io_join(*state, "lock");
    int first = open(path, O_RDWR | O_CREAT, 0644), second = open(path, O_RDWR);
    assert_true(first >= 0 && second >= 0);
    assert_true(io_lock(first, path));
    assert_false(io_lock(second, path));
    unlink(path);
    close(first);
    assert_false(io_lock(second, path));
    close(second);
    int anew = open(path, O_RDWR | O_CREAT, 0644);
    assert_true(anew >= 0 && io_lock(anew, path));
    close(anew);
    free(path);
}

static void test_io__join_has_one_slash(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *joined = io_join(cases[i][0], cases[i][1]);
        assert_string_equal(joined, cases[i][2]);
        free(joined);
    }
}

/* Most cases work in a fresh folder, *state. */
#define FILE_TEST(test) cmocka_unit_test_setup_teardown(test, own_folder_make, own_folder_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_io__write_atomic_replaces_the_file),
        FILE_TEST(test_io__write_atomic_keeps_the_old_file_when_the_disk_is_full),
        FILE_TEST(test_io__write_atomic_into_a_missing_folder_names_the_path),
        FILE_TEST(test_io__write_atomic_does_not_replace_a_folder),
        FILE_TEST(test_io__write_atomic_does_not_replace_a_pipe),
        FILE_TEST(test_io__write_atomic_in_an_unwritable_folder_keeps_the_old_file),
        FILE_TEST(test_io__writer_digest_is_the_hash_of_the_file),
        cmocka_unit_test(test_io__hash_is_xxh3),
        cmocka_unit_test(test_io__writer_error_sticks),
        FILE_TEST(test_io__writer_abandon_removes_the_file),
        FILE_TEST(test_io__make_folders_and_remove_tree),
        FILE_TEST(test_io__read_all_keeps_to_its_limit),
        FILE_TEST(test_io__files_are_read_from_any_place),
        FILE_TEST(test_io__pipes_are_refused),
        FILE_TEST(test_io__a_file_cut_short_while_it_is_read_is_an_error),
        FILE_TEST(test_io__a_file_that_was_replaced_is_not_mistaken),
        FILE_TEST(test_io__a_temporary_file_that_was_left_is_used_again),
        FILE_TEST(test_io__a_temporary_name_never_leads_elsewhere),
        FILE_TEST(test_io__writers_of_one_file_take_turns),
        FILE_TEST(test_io__temporary_files_that_nobody_writes_are_removed),
        FILE_TEST(test_io__a_removed_file_locks_nothing),
        cmocka_unit_test(test_io__join_has_one_slash),
    };
    return cmocka_run_group_tests_name("io", tests, NULL, NULL);
}
