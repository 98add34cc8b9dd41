#include "data/source_internal.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/data_files.h"
#include "support/plain_documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The reader finds what the plain way finds. */
static void check_text(const char *path, const Text *text)
{
    data_files_write(path, text->bytes, text->size);
    PlainDocument *expected = mem_alloc((text->size + 1) * sizeof *expected);
    size_t count = plain_documents(text, expected);
    SourceFile file;
    char *objection;
    assert_int_equal(source_file_open(&file, path, NULL, &objection), 0);
    assert_null(objection);
    DocumentReader reader = {.file = &file, .at = file.start};
    SourceDocument document;
    bool found;
    for (size_t i = 0; i < count; i++) {
        const char *content = text->bytes + expected[i].offset;
        assert_int_equal(text_document_next(&reader, &document, &found), 0);
        assert_true(found);
        assert_int_equal(document.size, expected[i].size);
        assert_int_equal(document.offset, expected[i].offset);
        assert_int_equal(document.line, expected[i].line);
        assert_int_equal(document.hash, io_hash(content, expected[i].size));
        const uint8_t *bytes;
        size_t more;
        assert_int_equal(source_file_bytes(&file, document.offset, document.size, &bytes, &more),
                         0);
        assert_memory_equal(bytes, content, expected[i].size);
    }
    for (int again = 0; again < 2; again++) {
        assert_int_equal(text_document_next(&reader, &document, &found), 0);
        assert_false(found);
    }
    assert_int_equal(reader.at, text->size);
    source_file_close(&file);
    free(expected);
}

static void test_source_text__documents_by_separators(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "one",
        "one\n<|endoftext|>\ntwo\n",
        "one<|endoftext|>two",
        "one<|endoftext|>\ntwo",
        "one\n<|endoftext|>",
        "one\n<|endoftext|>\n",
        "one\r\n<|endoftext|>\r\ntwo\r\n<|endoftext|>\r",
        "<|endoftext|>\none",
        "<|endoftext|>\r\none",
        "<|endoftext|>\n<|endoftext|>\n\n<|endoftext|>\n",
        "<|endoftext|><|endoftext|>\nx",
        "a<|endoftext|>\nb <|endoftext|>\n <|endoftext|>\n<|endoftext|> \n<|endoftext|>c\nd",
        "<|endoftext|",
        "<|endoftext<|endoftext|>|>",
        "<|endoftext|>\r\r\nx\n<|endoftext|>\r\n",
        "\xef\xbb\xbfone\n\xff\xfe\n<|endoftext|>\ntwo",
        "\xef\xbb\xbf<|endoftext|>\r\n\xef\xbb\xbfone",
        "\xef\xbb\xbf",
    };
    /* The first rules once by hand, so that the plain way is not alone with itself. */
    PlainDocument by_hand[64];
    Text first = {0};
    text_add_line(&first, "one\n<|endoftext|>\r\ntwo<|endoftext|>\nthree");
    assert_int_equal(plain_documents(&first, by_hand), 3);
    assert_int_equal(by_hand[0].size, 4);
    assert_int_equal(by_hand[1].offset, 19);
    assert_int_equal(by_hand[1].size, 3);
    assert_int_equal(by_hand[2].size, 6);
    assert_int_equal(by_hand[2].line, 3);
    free(first.bytes);
    char *folder = data_files_folder(), *path = io_join(folder, "text");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Text text = {0};
        text_add_line(&text, texts[i]);
        check_text(path, &text);
        free(text.bytes);
    }
    free(path);
    data_files_remove(folder);
}

/* Random pieces, with separators whole, broken and doubled; and separators around the edge of what
 * is searched at a time. */
static void test_source_text__documents_across_edges(void **state)
{
    (void)state;
    static const char *const pieces[] = {"<|endoftext|>\n",
                                         "<|endoftext|>\r\n",
                                         "<|endo",
                                         "text|>\n",
                                         "\n",
                                         "a story of some length, in one line or two ...\n",
                                         "<|endoftext|>",
                                         "\r\n",
                                         "<|",
                                         "|>"};
    char *folder = data_files_folder(), *path = io_join(folder, "text");
    for (uint64_t round = 0; round < 400; round++) {
        Text text = {0};
        uint64_t count = 1 + rng_below(1, round, 0, 60);
        for (uint64_t i = 0; i < count; i++) {
            text_add_line(&text, pieces[rng_below(1, round, 1 + i, 10)]);
        }
        check_text(path, &text);
        free(text.bytes);
    }
    char *filler = memset(mem_alloc(3 << 20), 'x', 3 << 20);
    for (uint64_t round = 0; round < 18; round++) {
        Text text = {0};
        text_add(&text, filler, (1 << 20) - 17 + round);
        text_add_line(&text, round % 2 == 0 ? "\n" : "y");
        text_add_line(&text, "<|endoftext|>\r\nrest\n");
        text_add(&text, filler, round == 5 ? 3 << 20 : 0);
        check_text(path, &text);
        free(text.bytes);
    }
    free(filler);
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_text__documents_by_separators),
        cmocka_unit_test(test_source_text__documents_across_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
