#include "data/prepare.h"

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "support/data_files.h"
#include "support/preparation.h"
#include "text/decode.h"
#include "text/encode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A shard's own account: its text is what its tokens decode to, less the ends. */
static void check_shard(const Shard *shard, const Tokenizer *tokenizer, uint32_t end)
{
    uint64_t documents = 0, bytes = 0;
    for (uint64_t i = 0; i < shard->tokens; i++) {
        uint32_t token = shard_token(shard, i);
        size_t size;
        assert_non_null(tokenizer_bytes(tokenizer, token, &size));
        documents += token == end;
        bytes += token == end ? 0 : size;
    }
    assert_int_equal(shard->documents, documents);
    assert_int_equal(shard->text_bytes, bytes);
}

/* Both streams decode to the documents in the order of the text, each with its end; a document
 * is in validation exactly when its hash is in the lowest part of all hashes. */
static void check_dataset(const char *folder, const Text *text, double val_fraction, int which)
{
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, folder, (DatasetOptions){.verify = true}), 0);
    Tokenizer *tokenizer;
    assert_int_equal(dataset_tokenizer(&dataset, &tokenizer), 0);
    assert_int_equal(tokenizer->hash, tokenizers[which]->hash);
    assert_int_equal(dataset.vocab, tokenizers[which]->vocab);
    assert_string_equal(dataset.tokenizer, tokenizer_names[which]);
    PlainDocument *documents = mem_alloc((text->size + 1) * sizeof *documents);
    size_t count = plain_documents(text, documents);
    Text expected[2] = {{0}, {0}};
    uint64_t counts[2] = {0}, bytes[2] = {0};
    for (size_t d = 0; d < count; d++) {
        const char *content = text->bytes + documents[d].offset;
        int split = (double)io_hash(content, documents[d].size) < val_fraction * 0x1p64;
        text_add(&expected[split], content, documents[d].size);
        text_add_line(&expected[split], TOKENIZER_END);
        counts[split]++;
        bytes[split] += documents[d].size;
    }
    assert_true(counts[0] > 0 && (val_fraction == 0 || counts[1] > 0));
    const Split *splits[] = {&dataset.train, &dataset.validation};
    for (int i = 0; i < 2; i++) {
        size_t tokens = (size_t)splits[i]->tokens;
        assert_int_equal(splits[i]->documents, counts[i]);
        assert_int_equal(splits[i]->text_bytes, bytes[i]);
        assert_int_equal(splits[i]->shard_count,
                         (tokens + PREPARATION_SHARD - 1) / PREPARATION_SHARD);
        int32_t *ids = mem_alloc((tokens + 1) * sizeof *ids);
        split_read(splits[i], 0, tokens, ids);
        ByteList decoded = {0};
        assert_int_equal(tokenizer_decode(tokenizer, (const uint32_t *)ids, tokens, &decoded), 0);
        assert_int_equal(decoded.size, expected[i].size);
        if (decoded.size > 0) {
            assert_memory_equal(decoded.bytes, expected[i].bytes, decoded.size);
        }
        for (int s = 0; s < splits[i]->shard_count; s++) {
            check_shard(&splits[i]->shards[s], tokenizer, tokenizer_ends[which]);
        }
        byte_list_free(&decoded);
        free(ids);
        free(expected[i].bytes);
    }
    free(documents);
    tokenizer_free(tokenizer);
    dataset_close(&dataset);
}

static void test_prepare__streams_are_the_documents(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *inputs[] = {path};
    Text text = random_text(3, 120);
    data_files_write(path, text.bytes, text.size);
    for (int which = 0; which < 2; which++) {
        PrepareOptions options = preparation(out, inputs, 1, which);
        assert_int_equal(prepare_quietly(&options, NULL), 0);
        check_dataset(out, &text, 0.2, which);
        options.val_fraction = 0;
        options.threads = 1;
        assert_int_equal(prepare_quietly(&options, NULL), 0);
        check_dataset(out, &text, 0, which);
    }
    free(text.bytes);
    free(out);
    free(path);
    data_files_remove(folder);
}

/* The ids of each document are those that it has alone. */
static void test_prepare__ids_are_those_of_the_encoder(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *inputs[] = {path};
    Text text = random_text(8, 40);
    data_files_write(path, text.bytes, text.size);
    PrepareOptions options = preparation(out, inputs, 1, 1);
    options.val_fraction = 0;
    assert_int_equal(prepare_quietly(&options, NULL), 0);
    PlainDocument *documents = mem_alloc((text.size + 1) * sizeof *documents);
    size_t count = plain_documents(&text, documents);
    Encoder *encoder = encoder_open(tokenizers[1]);
    TokenList expected = {0};
    for (size_t d = 0; d < count; d++) {
        encoder_run(encoder, (const uint8_t *)text.bytes + documents[d].offset, documents[d].size,
                    &expected);
        token_list_add(&expected, &tokenizer_ends[1], 1);
    }
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){.verify = true}), 0);
    assert_int_equal(dataset.train.tokens, expected.count);
    assert_true(expected.count < text.size * 3 / 4); /* merges took place */
    int32_t *ids = mem_alloc(expected.count * sizeof *ids);
    split_read(&dataset.train, 0, expected.count, ids);
    assert_memory_equal(ids, expected.ids, expected.count * sizeof *ids);
    free(ids);
    dataset_close(&dataset);
    token_list_free(&expected);
    encoder_close(encoder);
    free(documents);
    free(text.bytes);
    free(out);
    free(path);
    data_files_remove(folder);
}

/* A document longer than every buffer on its way, and one file after the other. */
static void test_prepare__long_documents(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *inputs[] = {path, path};
    const size_t size = 3000001;
    Text text = {0};
    for (uint64_t i = 0; text.size < size; i++) { /* no part is like another */
        char word[24];
        snprintf(word, sizeof word, " %llu", (unsigned long long)rng_below(6, 0, i, 1000000));
        text_add(&text, word, text.size + strlen(word) > size ? 1 : strlen(word));
    }
    data_files_write(path, text.bytes, size);
    for (int which = 0; which < 2; which++) {
        for (int files = 1; files <= 2; files++) {
            PrepareOptions options = preparation(out, inputs, files, which);
            options.val_fraction = 0;
            options.shard_tokens = 1000000;
            assert_int_equal(prepare_dataset(&options), 0);
            Dataset dataset;
            assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){.verify = true}), 0);
            assert_int_equal(dataset.train.documents, files);
            assert_int_equal(dataset.train.text_bytes, (size_t)files * size);
            size_t tokens = (size_t)dataset.train.tokens;
            int32_t *ids = mem_alloc(tokens * sizeof *ids);
            split_read(&dataset.train, 0, tokens, ids);
            ByteList all = {0};
            assert_int_equal(
                tokenizer_decode(tokenizers[which], (const uint32_t *)ids, tokens, &all), 0);
            assert_int_equal(all.size, (size_t)files * (size + 13));
            for (int f = 0; f < files; f++) {
                assert_memory_equal(all.bytes + (size_t)f * (size + 13), text.bytes, size);
            }
            byte_list_free(&all);
            free(ids);
            dataset_close(&dataset);
        }
    }
    free(text.bytes);
    free(out);
    free(path);
    data_files_remove(folder);
}

/* Where a tokenizer rewrites text its tokens may be longer than that: "▁" of three bytes for a
 * space, one before the text. */
static void test_prepare__documents_across_shards_have_their_bytes(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *inputs[] = {path};
    const char text[] = " a b \xe6\xbc\xa2";
    data_files_write(path, text, sizeof text - 1);
    PrepareOptions options = preparation(out, inputs, 1, 0);
    Tokenizer *tokenizer;
    assert_int_equal(tokenizer_open(PACER_GOLD_DIR "/tokenizers/llama2.json", &tokenizer), 0);
    options.tokenizer = tokenizer;
    options.tokenizer_name = "llama2.json";
    options.end = 2;
    options.val_fraction = 0;
    for (options.shard_tokens = 1; options.shard_tokens < 12; options.shard_tokens++) {
        assert_int_equal(prepare_quietly(&options, NULL), 0);
        Dataset dataset;
        assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){.verify = true}), 0);
        assert_int_equal(dataset.train.text_bytes, sizeof text - 1);
        for (int s = 0; s < dataset.train.shard_count; s++) {
            assert_true(dataset.train.shards[s].text_bytes < sizeof text);
        }
        dataset_close(&dataset);
    }
    tokenizer_free(tokenizer);
    free(out);
    free(path);
    data_files_remove(folder);
}

static void test_prepare__split_is_stable_under_appending(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *inputs[] = {path};
    Text text = random_text(4, 60), more = random_text(5, 60);
    PrepareOptions options = preparation(out, inputs, 1, 1);
    data_files_write(path, text.bytes, text.size);
    assert_int_equal(prepare_quietly(&options, NULL), 0);
    Dataset before, after;
    assert_int_equal(dataset_open(&before, out, (DatasetOptions){0}), 0); /* stays mapped below */
    text_add(&text, more.bytes, more.size);
    data_files_write(path, text.bytes, text.size);
    assert_int_equal(prepare_quietly(&options, NULL), 0);
    check_dataset(out, &text, 0.2, 1);
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

/* The same documents from other files in another order, and as JSONL: the same splits. */
static void test_prepare__split_is_stable_under_reordering(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "a"),
         *second = io_join(folder, "b"), *json = io_join(folder, "c.jsonl"),
         *out = io_join(folder, "out");
    Text a = {0}, b = {0}, lines = {0};
    for (int i = 0; i < 200; i++) {
        char document[64];
        snprintf(document, sizeof document, "document %d", i);
        text_add_line(i % 3 == 0 ? &a : &b, document);
        text_add_line(i % 3 == 0 ? &a : &b, "<|endoftext|>");
        text_add_line(&lines, "{\"text\": \"");
        text_add_line(&lines, document);
        text_add_line(&lines, "\"}\n");
    }
    data_files_write(path, a.bytes, a.size);
    data_files_write(second, b.bytes, b.size);
    data_files_write(json, lines.bytes, lines.size);
    const char *inputs[] = {path, second, path, json};
    static const int first[] = {0, 1, 3}, counts[] = {2, 2, 1};
    uint64_t documents = 0, bytes = 0;
    for (int i = 0; i < 3; i++) {
        PrepareOptions options = preparation(out, inputs + first[i], counts[i], 0);
        assert_int_equal(prepare_dataset(&options), 0);
        Dataset dataset;
        assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){.verify = true}), 0);
        assert_int_equal(dataset.train.documents + dataset.validation.documents, 200);
        assert_int_equal(dataset.train.text_bytes + dataset.validation.text_bytes,
                         a.size + b.size - 200 * 13);
        if (i > 0) {
            assert_int_equal(dataset.validation.documents, documents);
            assert_int_equal(dataset.validation.text_bytes, bytes);
        }
        documents = dataset.validation.documents;
        bytes = dataset.validation.text_bytes;
        dataset_close(&dataset);
    }
    assert_true(documents > 10 && documents < 90);
    free(lines.bytes);
    free(b.bytes);
    free(a.bytes);
    free(out);
    free(json);
    free(second);
    free(path);
    data_files_remove(folder);
}

static void test_prepare__bytes_that_are_not_utf8_are_kept(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out"), *said;
    const char *inputs[] = {path};
    Text text = {0};
    text_add_line(&text, "caf\xe9 caf\xc3\xa9 \xed\xa0\x80 \xff");
    data_files_write(path, text.bytes, text.size);
    for (int which = 0; which < 2; which++) {
        PrepareOptions options = preparation(out, inputs, 1, which);
        options.val_fraction = 0;
        assert_int_equal(prepare_quietly(&options, &said), 0);
        check_dataset(out, &text, 0, which);
        assert_true(strstr(said, "text: 5 bytes are not UTF-8, the first on line 1 at byte 3") !=
                    NULL);
        free(said);
    }
    free(text.bytes);
    free(out);
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepare__streams_are_the_documents),
        cmocka_unit_test(test_prepare__ids_are_those_of_the_encoder),
        cmocka_unit_test(test_prepare__long_documents),
        cmocka_unit_test(test_prepare__documents_across_shards_have_their_bytes),
        cmocka_unit_test(test_prepare__split_is_stable_under_appending),
        cmocka_unit_test(test_prepare__split_is_stable_under_reordering),
        cmocka_unit_test(test_prepare__bytes_that_are_not_utf8_are_kept),
    };
    return cmocka_run_group_tests(tests, open_tokenizers, close_tokenizers);
}
