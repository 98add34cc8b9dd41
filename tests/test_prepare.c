#include "data/prepare.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/bytes.h"
#include "data/dataset.h"
#include "data/documents.h"
#include "data/out_folder.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* A growing text. */
typedef struct {
    char *bytes;
    size_t size;
} Text;

static void add(Text *text, const char *bytes, size_t size)
{
    text->bytes = mem_realloc(text->bytes, text->size + size, 1);
    if (size > 0) {
        memcpy(text->bytes + text->size, bytes, size);
    }
    text->size += size;
}

static void add_line(Text *text, const char *line)
{
    add(text, line, strlen(line));
}

/* The documents of a text, found the plain way: whole lines, one after the other, in memory. Returns
 * their number; out holds offset and size of each. */
static size_t plain_documents(const Text *text, Document *out)
{
    size_t count = 0, begin = 0, at = 0;
    while (at < text->size) {
        size_t end = at;
        while (end < text->size && text->bytes[end] != '\n') {
            end++;
        }
        size_t next = end < text->size ? end + 1 : end;
        size_t length = end > at && text->bytes[end - 1] == '\r' ? end - at - 1 : end - at;
        if (length == 13 && memcmp(text->bytes + at, "<|endoftext|>", 13) == 0) {
            if (at > begin) {
                out[count++] = (Document){begin, at - begin};
            }
            begin = next;
        }
        at = next;
    }
    if (text->size > begin) {
        out[count++] = (Document){begin, text->size - begin};
    }
    return count;
}

static void check_documents(const char *path, const Text *text)
{
    data_files_write(path, text->bytes, text->size);
    Document *expected = mem_alloc((text->size + 1) * sizeof *expected);
    size_t count = plain_documents(text, expected);
    Documents *documents;
    assert_int_equal(documents_open(path, &documents), 0);
    assert_int_equal(documents_bytes(documents), text->size);
    Document document;
    bool found;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(documents_next(documents, &document, &found), 0);
        assert_true(found);
        assert_int_equal(document.offset, expected[i].offset);
        assert_int_equal(document.size, expected[i].size);
    }
    for (int again = 0; again < 2; again++) {
        assert_int_equal(documents_next(documents, &document, &found), 0);
        assert_false(found);
    }
    documents_close(documents);
    free(expected);
}

static void test_prepare__documents_by_separator_lines(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "one",
        "one\n",
        "one\n<|endoftext|>\ntwo\n",
        "one\n<|endoftext|>\ntwo",
        "one\n<|endoftext|>",
        "one\n<|endoftext|>\n",
        "one\r\n<|endoftext|>\r\ntwo\r\n<|endoftext|>\r",
        "<|endoftext|>\none",
        "<|endoftext|>\n<|endoftext|>\n\n<|endoftext|>\n",
        "a<|endoftext|>\nb <|endoftext|>\n <|endoftext|>\n<|endoftext|> \n<|endoftext|>c\nd",
        "<|endoftext|",
        "<|endoftext|>\r\r\nx\n<|endoftext|>\r\n",
        "\xef\xbb\xbfone\n\xff\xfe\n<|endoftext|>\ntwo",
    };
    char *folder = data_files_folder(), *path = io_join(folder, "text");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Text text = {0};
        add_line(&text, texts[i]);
        check_documents(path, &text);
        free(text.bytes);
    }
    free(path);
    data_files_remove(folder);
}

/* Random pieces, with lines far longer than the buffer, and separators at every place around its
 * end. */
static void test_prepare__documents_across_buffers(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "<|endoftext|>\n", "<|endoftext|>\r\n", "<|endo", "text|>\n", "\n",
        "a story\n",       "<|endoftext|>",     "\r\n"};
    char *folder = data_files_folder(), *path = io_join(folder, "text");
    char *filler = memset(mem_alloc(3 << 20), 'x', 3 << 20);
    for (uint64_t round = 0; round < 24; round++) {
        Text text = {0};
        add(&text, filler, (1 << 20) - 20 + round);
        add_line(&text, "\n<|endoftext|>\r\nrest\n");
        for (uint64_t i = 0; i < 200; i++) {
            add_line(&text, pieces[rng_below(1, round, i, 8)]);
        }
        if (round == 5) {
            add(&text, filler, 3 << 20);
        }
        check_documents(path, &text);
        free(text.bytes);
    }
    free(filler);
    free(path);
    data_files_remove(folder);
}

/* Documents of random bytes (any value), 0 to 300 each; every tenth one is long. */
static Text random_text(uint64_t seed, int documents)
{
    Text text = {0};
    for (int d = 0; d < documents; d++) {
        uint64_t size = 1 + rng_below(seed, (uint64_t)d, 0, d % 10 == 9 ? 5000 : 300);
        char *bytes = mem_alloc((size_t)size);
        for (uint64_t i = 0; i < size; i++) {
            bytes[i] = (char)rng_below(seed, (uint64_t)d, 1 + i, 256);
        }
        add(&text, bytes, (size_t)size);
        free(bytes);
        add_line(&text, "\n" BYTES_SEPARATOR "\n");
    }
    return text;
}

static PrepareOptions options_for(const char *out, const char *const *files, int count)
{
    return (PrepareOptions){.out = out,
                            .files = files,
                            .file_count = count,
                            .tokenizer = "bytes",
                            .val_fraction = 0.2,
                            .shard_tokens = 1000};
}

/* Both streams must be, document by document in the order of the text, its bytes and an end; a
 * document is in validation exactly when its hash is in the lowest part of all hashes. */
static void check_dataset(const char *folder, const Text *text, double val_fraction)
{
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, folder, (DatasetOptions){.verify = true}), 0);
    assert_int_equal(dataset.vocab, 257);
    assert_string_equal(dataset.tokenizer, "bytes");
    Document *documents = mem_alloc((text->size + 1) * sizeof *documents);
    size_t count = plain_documents(text, documents);
    Split *splits[] = {&dataset.train, &dataset.validation};
    uint64_t at[2] = {0}, counts[2] = {0}, bytes[2] = {0};
    for (size_t d = 0; d < count; d++) {
        const char *content = text->bytes + documents[d].offset;
        uint64_t size = documents[d].size;
        int which = (double)io_hash(content, (size_t)size) < val_fraction * 0x1p64;
        assert_true(splits[which]->tokens - at[which] > size);
        int32_t *tokens = mem_alloc((size_t)(size + 1) * sizeof *tokens);
        split_read(splits[which], at[which], size + 1, tokens);
        for (uint64_t i = 0; i < size; i++) {
            assert_int_equal(tokens[i], (unsigned char)content[i]);
        }
        assert_int_equal(tokens[size], 256);
        free(tokens);
        at[which] += size + 1;
        bytes[which] += size;
        counts[which]++;
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(splits[i]->tokens, at[i]);
        assert_int_equal(splits[i]->documents, counts[i]);
        assert_int_equal(splits[i]->text_bytes, bytes[i]);
        assert_int_equal(splits[i]->shard_count, (at[i] + 999) / 1000);
    }
    assert_true(counts[0] > 0 && (val_fraction == 0 || counts[1] > 0));
    free(documents);
    dataset_close(&dataset);
}

static void test_prepare__streams_are_the_documents(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *files[] = {path};
    Text text = random_text(3, 120);
    data_files_write(path, text.bytes, text.size);
    PrepareOptions options = options_for(out, files, 1);
    assert_int_equal(prepare_dataset(&options), 0);
    check_dataset(out, &text, 0.2);
    options.val_fraction = 0;
    assert_int_equal(prepare_dataset(&options), 0);
    check_dataset(out, &text, 0);
    free(text.bytes);
    free(out);
    free(path);
    data_files_remove(folder);
}

/* A document longer than the chunk it is read in. */
static void test_prepare__long_documents(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *files[] = {path, path};
    Text text = {0};
    char *long_one = mem_alloc(700001);
    for (int i = 0; i < 700001; i++) {
        long_one[i] = (char)rng_below(6, 0, (uint64_t)i, 256); /* no chunk is like another */
    }
    add(&text, long_one, 700001);
    free(long_one);
    data_files_write(path, text.bytes, text.size);
    PrepareOptions options = options_for(out, files, 1);
    options.val_fraction = 0;
    options.shard_tokens = 1000000;
    assert_int_equal(prepare_dataset(&options), 0);
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){.verify = true}), 0);
    assert_int_equal(dataset.train.tokens, 700002);
    int32_t *tokens = mem_alloc(700002 * sizeof *tokens);
    split_read(&dataset.train, 0, 700002, tokens);
    for (int i = 0; i < 700001; i++) {
        assert_int_equal(tokens[i], (unsigned char)text.bytes[i]);
    }
    assert_int_equal(tokens[700001], 256);
    dataset_close(&dataset);
    options.file_count = 2; /* a file ends a document */
    assert_int_equal(prepare_dataset(&options), 0);
    assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){.verify = true}), 0);
    assert_int_equal(dataset.train.tokens, 2 * 700002);
    assert_int_equal(dataset.train.documents, 2);
    assert_int_equal(dataset.train.shard_count, 2);
    dataset_close(&dataset);
    free(tokens);
    free(text.bytes);
    free(out);
    free(path);
    data_files_remove(folder);
}

static void test_prepare__split_is_stable_under_appending(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *files[] = {path};
    Text text = random_text(4, 60), more = random_text(5, 60);
    PrepareOptions options = options_for(out, files, 1);
    data_files_write(path, text.bytes, text.size);
    assert_int_equal(prepare_dataset(&options), 0);
    Dataset before, after;
    assert_int_equal(dataset_open(&before, out, (DatasetOptions){0}), 0); /* stays mapped below */
    add(&text, more.bytes, more.size);
    data_files_write(path, text.bytes, text.size);
    assert_int_equal(prepare_dataset(&options), 0);
    check_dataset(out, &text, 0.2);
    assert_int_equal(dataset_open(&after, out, (DatasetOptions){0}), 0);
    const Split *old[] = {&before.train, &before.validation},
                *grown[] = {&after.train, &after.validation};
    for (int i = 0; i < 2; i++) { /* what was there is the beginning of what is there now */
        assert_true(grown[i]->tokens > old[i]->tokens && old[i]->tokens > 0);
        size_t size = (size_t)old[i]->tokens;
        int32_t *a = mem_alloc(2 * size * sizeof *a);
        split_read(old[i], 0, size, a);
        split_read(grown[i], 0, size, a + size);
        assert_memory_equal(a, a + size, size * sizeof *a);
        free(a);
    }
    dataset_close(&before);
    dataset_close(&after);
    free(text.bytes);
    free(more.bytes);
    free(out);
    free(path);
    data_files_remove(folder);
}

static void test_prepare__bad_input_is_named(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out"), *missing = io_join(folder, "missing");
    const char *files[] = {path, missing};
    data_files_write(path, "", 0);
    PrepareOptions options = options_for(out, files, 1);
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("no text in the files");
    data_files_write(path, "a\n", 2);
    options.file_count = 2;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("missing: cannot read");
    files[1] = folder;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("not a regular file");
    options.file_count = 1;
    options.tokenizer = "tok.json";
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("only \"bytes\"");
    options.tokenizer = "bytes";
    options.val_fraction = 0.999999;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("--val-fraction 0");
    options.val_fraction = 1;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("--val-fraction 1");
    options.val_fraction = 0;
    options.shard_tokens = 1;
    char *long_text = memset(mem_alloc(30000), 'a', 30000);
    data_files_write(path, long_text, 30000);
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("more than 20000 shards");
    assert_int_equal(rmdir(out), 0); /* the failures left nothing in it */
    free(long_text);
    free(missing);
    free(out);
    free(path);
    data_files_remove(folder);
}

static void test_prepare__foreign_folders_are_refused(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out"), *note = io_join(out, "note"),
         *manifest = io_join(out, "manifest.json"),
         *rest = io_join(out, "train-00000.shard.tmp-123"),
         *orphan = io_join(out, "train-00007-0123456789abcdef.shard");
    const char *files[] = {path};
    data_files_write(path, "some text\n", 10);
    assert_int_equal(io_make_folders(out), 0);
    data_files_write(note, "mine", 4);
    PrepareOptions options = options_for(out, files, 1);
    options.val_fraction = 0;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("holds other files (note)");
    data_files_write(manifest, "{\"name\": \"an app\"}", 18);
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("not the manifest of a pacer dataset");
    unlink(manifest);
    unlink(note);
    data_files_write(rest, "x", 1); /* what a killed preparation leaves is no obstacle */
    data_files_write(orphan, "x", 1);
    assert_int_equal(prepare_dataset(&options), 0);
    assert_false(io_exists(rest));
    assert_false(io_exists(orphan));
    data_files_write(note, "mine", 4); /* in a dataset, a foreign file is kept */
    data_files_write(orphan, "x", 1);
    data_files_write(path, "other text\n", 11);
    assert_int_equal(prepare_dataset(&options), 0);
    assert_true(io_exists(note));
    assert_false(io_exists(orphan));
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){.verify = true}), 0);
    assert_int_equal(dataset.train.tokens, 12);
    dataset_close(&dataset);
    OutFolder locked;
    assert_int_equal(out_folder_open(&locked, out), 0);
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    data_assert_says("another pacer is preparing");
    out_folder_close(&locked);
    assert_int_equal(prepare_dataset(&options), 0);
    free(orphan);
    free(rest);
    free(manifest);
    free(note);
    free(out);
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepare__documents_by_separator_lines),
        cmocka_unit_test(test_prepare__documents_across_buffers),
        cmocka_unit_test(test_prepare__streams_are_the_documents),
        cmocka_unit_test(test_prepare__long_documents),
        cmocka_unit_test(test_prepare__split_is_stable_under_appending),
        cmocka_unit_test(test_prepare__bad_input_is_named),
        cmocka_unit_test(test_prepare__foreign_folders_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
