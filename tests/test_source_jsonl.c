#include "data/source_internal.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/source.h"
#include "support/capture.h"
#include "support/data_files.h"
#include "support/plain_documents.h"
#include "support/says.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MAX_LINE ((size_t)1 << 28)

/* Reads a file of these bytes, as the reader is told to. All documents as "LINE:TEXT|" in *out,
 * which the caller frees. */
static int read_jsonl(const char *bytes, size_t size, DocumentReader reader, char **out)
{
    char *folder = data_files_folder(), *path = io_join(folder, "x.jsonl");
    data_files_write(path, bytes, size);
    SourceFile file;
    char *objection;
    assert_int_equal(source_file_open(&file, path, NULL, &objection), 0);
    free(objection);
    reader.file = &file;
    reader.field = reader.field == NULL ? "text" : reader.field;
    reader.max_line = reader.max_line == 0 ? MAX_LINE : reader.max_line;
    Text text = {0};
    bool found = true;
    int code = 0;
    while (code == 0 && found) {
        SourceDocument document;
        code = jsonl_document_next(&reader, &document, &found);
        if (code == 0 && found) {
            assert_int_equal(document.hash, io_hash(document.bytes, (size_t)document.size));
            char line[32];
            snprintf(line, sizeof line, "%" PRIu64 ":", document.line);
            text_add_line(&text, line);
            text_add(&text, (const char *)document.bytes, (size_t)document.size);
            text_add_line(&text, "|");
        }
    }
    if (code == 0) {
        assert_int_equal(reader.at, size);
    }
    text_add(&text, "", 1);
    *out = text.bytes;
    cJSON_Delete(reader.root);
    source_file_close(&file);
    free(path);
    data_files_remove(folder);
    return code;
}

static void check(const char *text, DocumentReader options, const char *expected)
{
    char *got;
    int code = read_jsonl(text, strlen(text), options, &got);
    if (code != 0) {
        fail_msg("%s: %s", text, err_message());
    }
    assert_string_equal(got, expected);
    free(got);
}

/* The line is the second of a file; the message must name it. */
static void check_wrong(const char *line, size_t size, DocumentReader options, const char *says)
{
    Text text = {0};
    text_add_line(&text, "{\"text\": \"fine\", \"body\": \"fine\"}\n");
    text_add(&text, line, size);
    text_add_line(&text, "\n{\"text\": \"last\", \"body\": \"last\"}\n");
    char *got;
    assert_int_equal(read_jsonl(text.bytes, text.size, options, &got), ERR_INPUT);
    assert_string_equal(got, "1:fine|");
    assert_says("x.jsonl:2: ");
    assert_says(says);
    free(got);
    BadLines bad = {0}; /* and with it left out, the rest is there */
    options.bad = &bad;
    assert_int_equal(read_jsonl(text.bytes, text.size, options, &got), 0);
    assert_string_equal(got, "1:fine|3:last|");
    assert_int_equal(bad.count, 1);
    assert_non_null(strstr(bad.first, says));
    free(bad.first);
    free(got);
    free(text.bytes);
}

static void test_source_jsonl__texts_are_decoded(void **state)
{
    (void)state;
    DocumentReader plain = {0}, body = {.field = "body"};
    check("", plain, "");
    check("{\"text\": \"a\"}\n{\"text\":\"b\"}\n", plain, "1:a|2:b|");
    check("{\"text\": \"a\"}\r\n\r\n \t\n{\"text\":\"b\"} \r", plain, "1:a|4:b|");
    check("{\"id\": 1, \"text\": \"a\", \"more\": {\"text\": [1, 2]}}", plain, "1:a|");
    check("{\"text\": 3, \"body\": \"b\"}", body, "1:b|");
    check("{\"text\": \"\"}\n{\"text\": \"x\"}\n", plain, "2:x|");
    check("{\"text\": \"\\\"\\\\\\/\\b\\f\\n\\r\\t\"}", plain, "1:\"\\/\b\f\n\r\t|");
    check("{\"text\": \"\\u0041\\u00e9\\u4e2d\\ud83d\\ude00 \xc3\xa9\"}", plain,
          "1:A\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80 \xc3\xa9|");
    check("{\"text\": \"no \\\\u0000 zero\"}", plain, "1:no \\u0000 zero|");
    check("{\"other\": \"\\u0000\", \"text\": \"a\"}", plain, "1:a|");
    check("{\"text\": \"a<|endoftext|>b\"}", plain, "1:a<|endoftext|>b|");
    check("{\"text\": \"\xff latin\"}", plain, "1:\xff latin|");
}

static void test_source_jsonl__wrong_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"nonsense", "not valid JSON (at byte 1 of the line)"},
        {"{\"text\": \"a\"", "not valid JSON"},
        {"{\"text\": \"a\"} x", "not valid JSON (at byte 15 of the line)"},
        {"{\"text\": \"a\"} {\"text\": \"b\"}", "not valid JSON (at byte 15"},
        {"{\"text\": \"\\ud83d\"}", "not valid JSON"},
        {"[\"text\"]", "a list, not a JSON object"},
        {"\"text\"", "a string, not a JSON object"},
        {"{}", "no field \"text\", nor any other"},
        {"{\"Text\": \"a\", \"id\": 3}", "no field \"text\"; there is: Text, id (choose one"},
        {"{\"\\u001b[1m\": \"a\"}", "there is: \\x1b[1m (choose"},
        {"{\"text\": 3}", "field \"text\" is a number, not a string"},
        {"{\"text\": null}", "field \"text\" is null, not a string"},
        {"{\"text\": true}", "field \"text\" is true or false, not a string"},
        {"{\"text\": [\"a\"]}", "field \"text\" is a list, not a string"},
        {"{\"text\": {\"a\": 1}}", "field \"text\" is an object, not a string"},
        {"{\"text\": \"a\\u0000b\"}", "has \\u0000 in it"},
        {"{\"text\": \"\\u0000\"}", "has \\u0000 in it"},
        {"{\"text\": \"\\\\\\u0000\"}", "has \\u0000 in it"},
        {"{\"text\\u0000more\": \"a\"}", "no field \"text\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_wrong(cases[i].line, strlen(cases[i].line), (DocumentReader){0}, cases[i].says);
    }
    check_wrong("{\"text\": \"a\0b\"}", 15, (DocumentReader){0},
                "not valid JSON (a byte of it is 0)");
    Text many = {0};
    text_add_line(&many, "{");
    for (int i = 0; i < 100; i++) {
        char field[32];
        snprintf(field, sizeof field, "%s\"field%d\": 1", i > 0 ? ", " : "", i);
        text_add_line(&many, field);
    }
    text_add_line(&many, "}");
    check_wrong(many.bytes, many.size, (DocumentReader){0}, "field0, field1, ");
    free(many.bytes);
}

/* Lines longer than what is searched at a time; and than what is allowed. */
static void test_source_jsonl__long_lines(void **state)
{
    (void)state;
    size_t size = ((size_t)5 << 20) + 3;
    char *filler = memset(mem_alloc(size), 'x', size), *got;
    Text text = {0};
    text_add_line(&text, "{\"text\": \"a\"}\n{\"text\": \"");
    text_add(&text, filler, size);
    text_add_line(&text, "\"}\n{\"text\": \"b\"}");
    assert_int_equal(read_jsonl(text.bytes, text.size, (DocumentReader){0}, &got), 0);
    assert_int_equal(strlen(got), 4 + 2 + size + 1 + 4);
    assert_memory_equal(got + 6, filler, size);
    assert_string_equal(got + 6 + size, "|3:b|");
    free(got);
    BadLines bad = {0};
    DocumentReader options = {.max_line = (size_t)2 << 20, .bad = &bad};
    assert_int_equal(read_jsonl(text.bytes, text.size, options, &got), 0);
    assert_string_equal(got, "1:a|3:b|");
    assert_non_null(strstr(bad.first, "x.jsonl:2: longer than 2097152 bytes"));
    free(bad.first);
    free(got);
    options.bad = NULL;
    assert_int_equal(read_jsonl(text.bytes, text.size, options, &got), ERR_INPUT);
    assert_says("x.jsonl:2: longer than 2097152 bytes");
    free(got);
    check_wrong(filler, 100, (DocumentReader){.max_line = 64}, "longer than 64 bytes");
    free(text.bytes);
    free(filler);
}

/* Random lines of random text, against the text itself. */
static void test_source_jsonl__random_texts(void **state)
{
    (void)state;
    Text text = {0}, expected = {0};
    uint64_t draw = 0;
    for (int line = 1; text.size < (3 << 20); line++) {
        char number[32];
        snprintf(number, sizeof number, "%d:", line);
        text_add_line(&text, "{\"text\": \"");
        text_add_line(&expected, number);
        uint64_t length = 1 + rng_below(2, 0, draw++, line % 50 == 0 ? 200000 : 400);
        for (uint64_t i = 0; i < length; i++) {
            uint32_t character = 1 + (uint32_t)rng_below(2, 1, draw++, 127);
            char escaped[16], plain[2] = {(char)character, '\0'};
            bool escape =
                character < 32 || strchr("\"\\", plain[0]) != NULL || rng_below(2, 2, draw, 8) == 0;
            snprintf(escaped, sizeof escaped, "\\u%04X", character);
            text_add_line(&text, escape ? escaped : plain);
            text_add_line(&expected, plain);
        }
        text_add_line(&text, "\"}\n");
        text_add_line(&expected, "|");
    }
    char *got;
    assert_int_equal(read_jsonl(text.bytes, text.size, (DocumentReader){0}, &got), 0);
    assert_int_equal(strlen(got), expected.size);
    assert_memory_equal(got, expected.bytes, expected.size);
    free(got);
    free(text.bytes);
    free(expected.bytes);
}

/* Whatever the bytes are: a document, an error or a line left out, never anything else. */
static void test_source_jsonl__damaged_lines(void **state)
{
    (void)state;
    static const char good[] =
        "{\"text\": \"a\\u00e9\\u0000\\ud83d\\ude00\", \"n\": [1, {\"x\": null}]}\n"
        "{\"text\": \"b\\\\\", \"text\": \"c\"}\n\n{\"text\": \"\"}\n";
    for (uint64_t round = 0; round < 600; round++) {
        uint8_t bytes[512];
        memcpy(bytes, good, sizeof good - 1);
        size_t size = data_files_mutate(bytes, sizeof good - 1, sizeof bytes, round);
        BadLines bad = {0};
        char *got;
        assert_int_equal(read_jsonl((const char *)bytes, size, (DocumentReader){.bad = &bad}, &got),
                         0);
        free(bad.first);
        free(got);
    }
}

/* The format is chosen by name or by option; skip_bad warns once, over all files. */
static void test_source_jsonl__as_a_source(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *a = io_join(folder, "a.NDJSON"),
         *b = io_join(folder, "b.txt");
    static const char good[] = "\xef\xbb\xbf{\"body\": \"one\"}\nbad\n",
                      bad[] = "worse\n{\"body\": \"two\"}";
    data_files_write(a, good, sizeof good - 1);
    data_files_write(b, bad, sizeof bad - 1);
    const char *inputs[] = {a, b};
    SourceOptions options = {.inputs = inputs,
                             .input_count = 2,
                             .format = CONFIG_FORMAT_JSONL,
                             .field = "body",
                             .skip_bad = true};

    for (int format = 0; format < 2; format++) {
        options.format = format == 0 ? CONFIG_FORMAT_JSONL : CONFIG_FORMAT_AUTO;
        capture_begin(STDERR_FILENO);
        TextSource *source;
        SourceDocument document;
        bool found;
        assert_int_equal(source_open(options, &source), 0);
        assert_int_equal(source_next(source, &document, &found), 0);
        assert_int_equal(document.size, 3);
        assert_int_equal(document.line, 1);
        assert_string_equal(document.file, a);
        assert_int_equal(source_next(source, &document, &found), 0);
        assert_int_equal(document.size, format == 0 ? 3 : sizeof bad - 1);
        assert_int_equal(document.line, format == 0 ? 2 : 1);
        assert_int_equal(source_next(source, &document, &found), 0);
        assert_false(found);
        source_close(source);
        char *warnings = capture_end();
        assert_non_null(strstr(warnings, format == 0 ? "2 bad lines were left out; the first: "
                                                     : "1 bad line was left out; the first: "));
        assert_non_null(strstr(warnings, "a.NDJSON:2: not valid JSON"));
        free(warnings);
    }
    options.skip_bad = false;
    options.format = CONFIG_FORMAT_TEXT;
    TextSource *source;
    SourceDocument document;
    bool found;
    assert_int_equal(source_open(options, &source), 0);
    assert_int_equal(source_next(source, &document, &found), 0);
    assert_int_equal(document.size, sizeof good - 1 - 3);
    source_close(source);
    free(b);
    free(a);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_jsonl__texts_are_decoded),
        cmocka_unit_test(test_source_jsonl__wrong_lines),
        cmocka_unit_test(test_source_jsonl__long_lines),
        cmocka_unit_test(test_source_jsonl__random_texts),
        cmocka_unit_test(test_source_jsonl__damaged_lines),
        cmocka_unit_test(test_source_jsonl__as_a_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
