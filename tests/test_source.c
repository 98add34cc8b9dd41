#include "data/source.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "data/stories.h"
#include "support/capture.h"
#include "support/data_files.h"
#include "support/plain_documents.h"
#include "support/says.h"
#include "support/story_text.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

/* All documents of a source, each followed by "|", and what it warned. */
typedef struct {
    int code;
    char *text, *warnings;
    uint64_t documents;
} Gathered;

static Gathered gather(SourceOptions options)
{
    Gathered gathered = {0};
    Text text = {0};
    capture_begin(STDERR_FILENO);
    TextSource *source;
    gathered.code = source_open(options, &source);
    uint64_t position = 0;
    while (gathered.code == 0) {
        SourceDocument document;
        bool found;
        gathered.code = source_next(source, &document, &found);
        if (gathered.code != 0 || !found) {
            break;
        }
        gathered.documents++;
        size_t before = text.size, size;
        const uint8_t *bytes;
        while ((gathered.code = source_chunk(source, &bytes, &size)) == 0 && size > 0) {
            text_add(&text, (const char *)bytes, size);
        }
        assert_int_equal(text.size - before, document.size);
        assert_int_equal(io_hash(text.bytes + before, text.size - before), document.hash);
        assert_true(source_position(source) >= position);
        position = source_position(source);
        text_add_line(&text, "|");
    }
    if (gathered.code == 0) {
        assert_int_equal(source_position(source), source_bytes(source));
    }
    source_close(source);
    gathered.warnings = capture_end();
    text_add(&text, "", 1);
    gathered.text = text.bytes;
    return gathered;
}

static void gathered_free(Gathered *gathered)
{
    free(gathered->text);
    free(gathered->warnings);
}

/* One input must give this text, or with a negative code this message. */
static void check_input(SourceOptions options, const char *input, int code, const char *expected)
{
    options.inputs = &input;
    options.input_count = 1;
    Gathered gathered = gather(options);
    assert_int_equal(gathered.code, code);
    if (code == 0) {
        assert_string_equal(gathered.text, expected);
    } else {
        assert_says(expected);
    }
    gathered_free(&gathered);
}

static void assert_contains(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" does not contain \"%s\"", text, part);
    }
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text++) {
        count++;
    }
    return count;
}

/* What is odd in a text is said once per file, and stays. */
static void test_source__odd_text_is_said_with_its_file(void **state)
{
    (void)state;
    static const struct {
        const char *name, *bytes, *text, *says; /* says NULL: nothing */
    } cases[] = {
        {"plain.txt", "caf\xc3\xa9\n\r x", "caf\xc3\xa9\n\r x|", NULL},
        {"latin.txt", "a\nb\ncaf\xe9 \xff\n", "a\nb\ncaf\xe9 \xff\n|",
         "latin.txt: 2 bytes are not UTF-8, the first on line 3 at byte 7 (kept"},
        {"later.txt", "a\n<|endoftext|>\n\xe9", "a\n|\xe9|",
         "later.txt: 1 byte is not UTF-8, the first on line 3 at byte 16 (kept"},
        {"dos.txt", "a\r\nb\r\n<|endoftext|>\r\nc\r\n", "a\r\nb\r\n|c\r\n|",
         "dos.txt: 3 lines end in CR LF (kept"},
        {"marked.txt", "\xef\xbb\xbfone", "one|",
         "marked.txt: the byte order mark at its start is left out"},
        {"all.txt", "\xef\xbb\xbf\xff\r\n", "\xff\r\n|",
         "all.txt: 1 byte is not UTF-8, the first on line 1 at byte 3 (kept; iconv converts other "
         "encodings); 1 line ends in CR LF (kept; tr -d '\\r' makes it LF); the byte order mark"},
        {"marked.jsonl", "\xef\xbb\xbf{\"text\": \"one\"}\r\n", "one|", "byte order mark"},
        {"odd.jsonl", "{\"text\": \"a\"}\r\n{\"text\": \"x\\ny\xe9\\r\\nz\"}\r\n",
         "a|x\ny\xe9\r\nz|",
         "odd.jsonl: 1 byte is not UTF-8, the first on line 2 (kept; iconv converts other "
         "encodings); 1 line ends"},
    };
    char *folder = data_files_folder();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = io_join(folder, cases[i].name);
        const char *inputs[] = {path};
        data_files_write(path, cases[i].bytes, strlen(cases[i].bytes));
        Gathered gathered = gather((SourceOptions){.inputs = inputs, .input_count = 1});
        assert_int_equal(gathered.code, 0);
        assert_string_equal(gathered.text, cases[i].text);
        assert_int_equal(count_of(gathered.warnings, "\n"), cases[i].says != NULL);
        assert_contains(gathered.warnings, cases[i].says != NULL ? cases[i].says : "");
        gathered_free(&gathered);
        free(path);
    }
    data_files_remove(folder);
}

/* A character or a line end may lie across what is looked at in one step. */
static void test_source__steps_hide_nothing_odd(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "long.txt");
    const char *inputs[] = {path};
    size_t step = (size_t)1 << 20, size = 3 * step;
    char *bytes = memset(mem_alloc(size), 'x', size);
    for (size_t around = 0; around < 4; around++) {
        memset(bytes, 'x', size);
        memcpy(bytes + step - around, "\xf0\x9f\x99\x82", 4);
        memcpy(bytes + 2 * step - around, "\r\n", 2);
        bytes[size - 1] = '\xff';
        data_files_write(path, bytes, size);
        Gathered gathered = gather((SourceOptions){.inputs = inputs, .input_count = 1});
        char *says = mem_format("1 byte is not UTF-8, the first on line 2 at byte %zu", size - 1);
        assert_contains(gathered.warnings, says);
        assert_contains(gathered.warnings, "1 line ends in CR LF");
        free(says);
        gathered_free(&gathered);
    }
    free(bytes);
    free(path);
    data_files_remove(folder);
}

static void test_source__many_odd_files_do_not_flood(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    const char *inputs[] = {folder};
    for (int i = 0; i < 12; i++) {
        char name[16];
        snprintf(name, sizeof name, "%02d.txt", i);
        char *path = io_join(folder, name);
        data_files_write(path, "\xff\xffx\r\n", 5);
        free(path);
    }
    Gathered gathered = gather((SourceOptions){.inputs = inputs, .input_count = 1});
    assert_int_equal(gathered.code, 0);
    assert_int_equal(count_of(gathered.warnings, "\n"), 6);
    assert_contains(gathered.warnings, "04.txt: 2 bytes");
    assert_contains(gathered.warnings, "in 7 more files: 14 bytes are not UTF-8 (kept");
    assert_contains(gathered.warnings, "7 lines end in CR LF");
    gathered_free(&gathered);
    data_files_remove(folder);
}

static void test_source__files_that_are_no_text(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        const char *says;
    } cases[] = {
        {"\x1f\x8b\x08rest", 7, "gzip -dc"},
        {"\x28\xb5\x2f\xfdrest", 8, "zstd -dc"},
        {"\xfd\x37zXZ\0rest", 10, "xz -dc"},
        {"BZh91AY&SYrest", 14, "bzip2 -dc"},
        {"PK\x03\x04rest", 8, "unzip -p"},
        {"PAR1rest", 8, "convert it to JSONL"},
        {"\xff\xfeh\0i\0", 6, "iconv -f UTF-16 -t UTF-8"},
        {"\xfe\xff\0h\0i", 6, "iconv -f UTF-16 -t UTF-8"},
        {"\xff\xfe\0\0h\0\0\0", 8, "iconv -f UTF-32 -t UTF-8"},
        {"some\0bytes", 10, "not text: byte 4 is 0"},
    };
    char *folder = data_files_folder(), *path = io_join(folder, "file");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        data_files_write(path, cases[i].bytes, cases[i].size);
        check_input((SourceOptions){0}, path, ERR_INPUT, cases[i].says);
        assert_says(path);
    }
    data_files_write(path, "BZh9 is how a text may begin", 28);
    check_input((SourceOptions){0}, path, 0, "BZh9 is how a text may begin|");
    Text late = {0};
    char *filler = memset(mem_alloc(70000), 'x', 70000);
    text_add(&late, filler, 65535);
    text_add(&late, "", 1);
    data_files_write(path, late.bytes, late.size);
    check_input((SourceOptions){0}, path, ERR_INPUT, "byte 65535 is 0");
    free(late.bytes);
    free(filler);
    char *absent = io_join(folder, "absent");
    check_input((SourceOptions){0}, absent, ERR_INPUT, "absent: cannot read: No such file");
    assert_int_equal(mkfifo(absent, 0600), 0);
    check_input((SourceOptions){0}, absent, ERR_INPUT, "not a regular file");
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0), 0);
        check_input((SourceOptions){0}, path, ERR_INPUT, "cannot read: Permission denied");
    }
    TextSource *source;
    assert_int_equal(source_open((SourceOptions){0}, &source), ERR_INPUT);
    assert_says("no input given");
    free(absent);
    free(path);
    data_files_remove(folder);
}

static void test_source__empty_files_are_left_out(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *empty = io_join(folder, "empty"),
         *text = io_join(folder, "text");
    data_files_write(empty, "", 0);
    data_files_write(text, "text", 4);
    check_input((SourceOptions){0}, empty, ERR_INPUT, "no text in the files given");
    data_files_write(empty, "<|endoftext|>\n", 14);
    const char *inputs[] = {empty, text, empty};
    Gathered gathered = gather((SourceOptions){.inputs = inputs, .input_count = 3});
    assert_int_equal(gathered.code, 0);
    assert_string_equal(gathered.text, "text|");
    assert_int_equal(count_of(gathered.warnings, "empty: no text in it; left out"), 2);
    gathered_free(&gathered);
    free(text);
    free(empty);
    data_files_remove(folder);
}

/* The file shrinks after it was measured: before it is opened again, and while it is read. */
static void test_source__files_that_become_shorter(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text");
    char *filler = memset(mem_alloc(5 << 20), 'x', 5 << 20);
    const char *input = path;
    for (int late = 0; late < 2; late++) {
        data_files_write(path, filler, 5 << 20);
        TextSource *source;
        SourceOptions options = {.inputs = &input, .input_count = 1};
        SourceDocument document;
        bool found;
        const uint8_t *bytes;
        size_t size = 1;
        assert_int_equal(source_open(options, &source), 0);
        int code = late ? source_next(source, &document, &found) : 0;
        assert_int_equal(code, 0);
        assert_int_equal(truncate(path, 2 << 20), 0);
        if (!late) {
            code = source_next(source, &document, &found);
        }
        while (late && code == 0 && size > 0) {
            code = source_chunk(source, &bytes, &size);
            assert_true(code != 0 || size == 0 || bytes[size - 1] == 'x');
        }
        assert_int_equal(code, ERR_INPUT);
        assert_says("became shorter while it was read");
        source_close(source);
    }
    free(filler);
    free(path);
    data_files_remove(folder);
}

static void write_in(const char *folder, const char *name, const char *text)
{
    char *path = io_join(folder, name);
    data_files_write(path, text, strlen(text));
    free(path);
}

static void test_source__folders(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *top = io_join(folder, "top"), *inner = io_join(top, "b"),
         *hidden = io_join(top, ".git"), *loop = io_join(inner, "loop"),
         *nowhere = io_join(top, "nowhere"), *pipe_path = io_join(top, "pipe"),
         *bare = io_join(folder, "bare");
    assert_int_equal(io_make_folders(inner), 0);
    assert_int_equal(io_make_folders(hidden), 0);
    assert_int_equal(io_make_folders(bare), 0);
    check_input((SourceOptions){0}, bare, ERR_INPUT, "bare: no text files in this folder");
    write_in(top, "b.txt", "b.txt");
    write_in(top, "a", "a1<|endoftext|>a2");
    write_in(top, "Z", "Z");
    write_in(top, "c.jsonl", "{\"text\": \"c\"}\n");
    write_in(top, ".hidden", "hidden");
    write_in(hidden, "x", "hidden");
    write_in(inner, "2", "b/2");
    write_in(inner, "10", "b/10");
    assert_int_equal(symlink("..", loop), 0);
    assert_int_equal(symlink("absent", nowhere), 0);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    for (int i = 0; i < 7; i++) {
        char name[24];
        snprintf(name, sizeof name, "d%d.gz", i);
        write_in(top, name, "\x1f\x8b");
    }
    const char *input = top;
    Gathered gathered = gather((SourceOptions){.inputs = &input, .input_count = 1});
    assert_int_equal(gathered.code, 0);
    assert_string_equal(gathered.text, "Z|a1|a2|b/10|b/2|b.txt|c|");
    assert_int_equal(count_of(gathered.warnings, "left out\n"), 5);
    assert_contains(gathered.warnings, "d4.gz: compressed (gzip)");
    assert_null(strstr(gathered.warnings, "d5.gz"));
    assert_contains(gathered.warnings, "9 files were left out in all");
    gathered_free(&gathered);
    free(bare);
    free(pipe_path);
    free(nowhere);
    free(loop);
    free(hidden);
    free(inner);
    free(top);
    data_files_remove(folder);
}

/* Standard input comes from the pipe that a child fills. */
static void feed(const char *bytes, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        while (size > 0) {
            ssize_t part = write(ends[1], bytes, size);
            part < 0 ? _exit(1) : 0;
            bytes += part;
            size -= (size_t)part;
        }
        _exit(0);
    }
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
}

static int always_interrupted(void)
{
    return ERR_INTERRUPTED;
}

static void test_source__standard_input(void **state)
{
    (void)state;
    int before = dup(STDIN_FILENO);
    feed("\xef\xbb\xbfone<|endoftext|>two", 22);
    check_input((SourceOptions){0}, "-", 0, "one|two|");
    feed("{\"text\": \"a\"}\n{\"text\": \"b\"}", 27);
    check_input((SourceOptions){.format = CONFIG_FORMAT_JSONL}, "-", 0, "a|b|");
    const char *input = "-", *twice[] = {"-", "-"};
    feed("{\"text\": \"a\"}\n", 14);
    Gathered gathered = gather((SourceOptions){.inputs = &input, .input_count = 1});
    assert_int_equal(gathered.code, 0);
    assert_contains(gathered.warnings, "--format jsonl");
    gathered_free(&gathered);
    feed("\x1f\x8b", 2);
    check_input((SourceOptions){0}, "-", ERR_INPUT, "standard input: compressed (gzip)");
    feed("", 0);
    check_input((SourceOptions){0}, "-", ERR_INPUT, "no text in the files given");
    feed("x", 1);
    gathered = gather((SourceOptions){.inputs = twice, .input_count = 2});
    assert_int_equal(gathered.code, ERR_INPUT);
    assert_says("only once");
    gathered_free(&gathered);
    Text text = {0}; /* more than a pipe holds */
    for (int i = 0; i < 100000; i++) {
        text_add_line(&text, "many words\n");
    }
    feed(text.bytes, text.size);
    text_add_line(&text, "|");
    text_add(&text, "", 1);
    check_input((SourceOptions){0}, "-", 0, text.bytes);
    free(text.bytes);
    feed("text", 4);
    check_input((SourceOptions){.interrupted = always_interrupted}, "-", ERR_INTERRUPTED,
                "interrupted while reading standard input");
    const char *folder = getenv("TMPDIR");
    char *kept = folder == NULL ? NULL : mem_strdup(folder);
    setenv("TMPDIR", "/nonexistent", 1);
    feed("text", 4);
    check_input((SourceOptions){0}, "-", ERR_FAILED, "cannot keep it in /nonexistent");
    kept != NULL ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR");
    free(kept);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit acts like a full disk */
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100000;
    char *filler = memset(mem_alloc(200000), 'x', 200000);
    feed(filler, 200000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    TextSource *source;
    int code = source_open((SourceOptions){.inputs = &input, .input_count = 1}, &source);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(code, ERR_FAILED);
    assert_says("set TMPDIR to a folder with enough room");
    free(filler);
    dup2(before, STDIN_FILENO);
    close(before);
}

/* The same documents as the file that holds the same bytes of stories. */
static void test_source__stories(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "stories");
    size_t bytes = 50000;
    char *text = mem_alloc(bytes);
    uint64_t next;
    size_t used = stories_fill(7, 0, text, bytes, &next);
    data_files_write(path, text, used);
    const char *inputs[] = {"builtin:stories:50k", path};
    Gathered made = gather((SourceOptions){.inputs = inputs, .input_count = 1, .stories_seed = 7});
    Gathered read = gather((SourceOptions){.inputs = inputs + 1, .input_count = 1});
    assert_int_equal(made.documents, next);
    assert_string_equal(made.text, read.text);
    gathered_free(&made);
    gathered_free(&read);
    check_input((SourceOptions){0}, "builtin:stories:many", ERR_INPUT, "builtin:stories:many");
    check_input((SourceOptions){0}, "builtin:random", ERR_INPUT, "builtin:stories:64M");
    check_input((SourceOptions){0}, "builtin:storiesque", ERR_INPUT, "builtin:stories:64M");
    check_input((SourceOptions){0}, "builtin:stories:3", ERR_INPUT, "no text");
    const char *plain = "builtin:stories";
    TextSource *source;
    assert_int_equal(source_open((SourceOptions){.inputs = &plain, .input_count = 1}, &source), 0);
    assert_int_equal(source_bytes(source), 16000000);
    source_close(source);
    free(text);
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source__odd_text_is_said_with_its_file),
        cmocka_unit_test(test_source__steps_hide_nothing_odd),
        cmocka_unit_test(test_source__many_odd_files_do_not_flood),
        cmocka_unit_test(test_source__files_that_are_no_text),
        cmocka_unit_test(test_source__empty_files_are_left_out),
        cmocka_unit_test(test_source__files_that_become_shorter),
        cmocka_unit_test(test_source__folders),
        cmocka_unit_test(test_source__standard_input),
        cmocka_unit_test(test_source__stories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
