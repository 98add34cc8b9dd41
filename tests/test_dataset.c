#include "data/dataset.h"
#include "data/manifest.h"
#include "data/stories.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/data_files.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FUZZ_ROUNDS 4000

static const DatasetOptions verified = {.verify = true};

static void assert_data_fails(const char *data, const char *part)
{
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, data, verified), ERR_INPUT);
    assert_says(part);
}

static void check_split(const Split *split, uint32_t first, uint64_t tokens, int shards)
{
    assert_int_equal(split->tokens, tokens);
    assert_int_equal(split->shard_count, shards);
    int32_t *read = mem_alloc((size_t)tokens * sizeof *read);
    split_read(split, 0, tokens, read);
    for (uint64_t i = 0; i < tokens; i++) {
        assert_int_equal(read[i], first + i);
    }
    free(read);
}

static void test_dataset__foreign_files_are_named(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    char *text = io_join(folder, "input.txt"), *binary = io_join(folder, "tokens.bin"),
         *empty = io_join(folder, "empty.bin"), *eval = io_join(folder, "hellaswag_val.bin");
    data_files_write(text, "Once upon a time\n", 17);
    assert_data_fails(text, "pacer data prepare --out DIR");
    data_files_raw(binary, 0, 100);
    assert_data_fails(binary, "neither a pacer shard nor an llm.c");
    data_files_write(empty, "", 0);
    assert_data_fails(empty, "empty");
    const uint32_t header[256] = {20240522, 1, 3};
    data_files_write(eval, header, sizeof header);
    assert_data_fails(eval, "evaluation file");
    assert_data_fails(folder, "evaluation file"); /* found as NAME_val.bin */
    assert_data_fails("/nonexistent/place", "no such file or folder");
    assert_data_fails("builtin:poems", "builtin:stories");
    free(text);
    free(binary);
    free(empty);
    free(eval);
    data_files_remove(folder);
}

/* The documents of both splits are the stories, in order, and nothing else: as bytes, and as tokens
 * that the dataset's own tokenizer reads back. */
static void test_dataset__builtin_stories_are_the_stories(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        uint64_t vocab, sizes[2];
    } kinds[] = {{"builtin:bytes", 257, {4000000, 200000}},
                 {"builtin:stories", 2048, {8000000, 400000}}};
    const uint64_t firsts[] = {0, UINT64_C(1) << 40};
    for (int k = 0; k < 2; k++) {
        Dataset dataset;
        Tokenizer *tokenizer;
        uint32_t end;
        assert_int_equal(dataset_open(&dataset, kinds[k].source, (DatasetOptions){.seed = 77}), 0);
        assert_int_equal(dataset.vocab, kinds[k].vocab);
        assert_int_equal(dataset_tokenizer(&dataset, &tokenizer), 0);
        assert_int_equal(tokenizer->hash, dataset.tokenizer_hash);
        assert_int_equal(tokenizer_end(tokenizer, NULL, &end), 0);
        const Split *splits[] = {&dataset.train, &dataset.validation};
        for (int s = 0; s < 2; s++) {
            const Split *split = splits[s];
            assert_in_range(split->text_bytes + split->documents,
                            kinds[k].sizes[s] - STORY_MAX_BYTES, kinds[k].sizes[s]);
            int32_t *tokens = mem_alloc((size_t)split->tokens * sizeof *tokens);
            split_read(split, 0, split->tokens, tokens);
            uint64_t at = 0;
            for (uint64_t d = 0; d < split->documents; d++) {
                char story[STORY_MAX_BYTES];
                size_t length = story_write(1, firsts[s] + d, story, sizeof story), read = 0;
                bool same = true;
                for (; at < split->tokens && (uint32_t)tokens[at] != end; at++) {
                    size_t size;
                    const uint8_t *bytes = tokenizer_bytes(tokenizer, (uint32_t)tokens[at], &size);
                    same = same && read + size <= length && memcmp(story + read, bytes, size) == 0;
                    read += size;
                }
                assert_true(same && read == length && at < split->tokens);
                at++;
            }
            assert_int_equal(at, split->tokens);
            free(tokens);
        }
        tokenizer_free(tokenizer);
        dataset_close(&dataset);
    }
}

static void test_dataset__unfinished_shard_is_no_data(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    ShardWriter *writer;
    assert_int_equal(shard_writer_open(folder, "train-00000", 257, 1, &writer), 0);
    uint32_t token = 3;
    assert_int_equal(shard_writer_put(writer, &token, 1), 0);
    assert_data_fails(folder, "not finished"); /* and it is no data while it is written */
    shard_writer_abandon(writer);
    assert_data_fails(folder, "no data");
    data_files_remove(folder);
}

static void test_dataset__reads_llmc_files(void **state)
{
    (void)state;
    for (int width = 2; width <= 4; width += 2) {
        char *folder = data_files_folder(), *prefix = io_join(folder, "fine web[1]");
        char *names[] = {mem_format("%s_train_000001.bin", prefix),
                         mem_format("%s_train_000002.bin", prefix),
                         mem_format("%s_val_000000.bin", prefix)};
        data_files_llmc(names[1], 300, 200, width);
        data_files_llmc(names[0], 0, 300, width);
        data_files_llmc(names[2], 40000, 50, width);
        char *pattern = mem_format("%s/fine*.bin", folder);
        const char *ways[] = {folder, prefix, pattern};
        for (int way = 0; way < 3; way++) {
            Dataset dataset;
            assert_int_equal(dataset_open(&dataset, ways[way], verified), 0);
            check_split(&dataset.train, 0, 500, 2);
            check_split(&dataset.validation, 40000, 50, 1);
            assert_int_equal(dataset.vocab, 0);
            assert_int_equal(dataset_least_vocab(&dataset), 40050);
            assert_int_equal(dataset_check_vocab(&dataset, 40050), 0);
            assert_int_equal(dataset_check_vocab(&dataset, 40049), ERR_INPUT);
            assert_says("_val_000000.bin: token 40049 at position 49");
            assert_int_equal(dataset_check_vocab(&dataset, 400), ERR_INPUT);
            assert_says("_train_000002.bin: token 400 at position 100");
            assert_says("--vocab 40050");
            dataset_close(&dataset);
        }
        Dataset dataset; /* one file: all train */
        assert_int_equal(dataset_open(&dataset, names[2], verified), 0);
        check_split(&dataset.train, 40000, 50, 1);
        assert_int_equal(dataset.validation.tokens, 0);
        dataset_close(&dataset);
        for (int i = 0; i < 3; i++) {
            free(names[i]);
        }
        free(pattern);
        free(prefix);
        data_files_remove(folder);
    }
}

/* Whatever order the folder gives them in. */
static void test_dataset__files_follow_their_names(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    for (uint32_t i = 0; i < 40; i++) {
        uint32_t number = i * 23 % 40;
        char *path = mem_format("%s/x_train_%06u.bin", folder, number);
        data_files_llmc(path, number * 7, 7, 2);
        free(path);
    }
    char *both = mem_format("%s/x_train_set_val_1.bin", folder); /* never in both splits */
    data_files_llmc(both, 0, 5, 2);
    free(both);
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, folder, verified), 0);
    check_split(&dataset.train, 0, 280, 40);
    check_split(&dataset.validation, 0, 5, 1);
    dataset_close(&dataset);
    data_files_remove(folder);
}

static void test_dataset__bad_llmc_files_are_refused(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "x_train.bin");
    for (int width = 2; width <= 4; width += 2) {
        data_files_llmc(path, 0, 30, width);
        size_t size;
        uint8_t *bytes = data_files_read(path, &size);
        for (size_t at = 0; at < 12; at++) { /* magic, version and count; the rest has no meaning */
            bytes[at] ^= 0x41;
            data_files_write(path, bytes, size);
            bytes[at] ^= 0x41;
            assert_data_fails(path, "x_train.bin");
        }
        data_files_write(path, bytes, size - 1);
        assert_data_fails(path, "truncated");
        data_files_write(path, bytes, 500);
        assert_data_fails(path, "truncated");
        memset(bytes + 8, 0xff, 4);
        data_files_write(path, bytes, size);
        assert_data_fails(path, "-1 tokens");
        free(bytes);
    }
    free(path);
    data_files_remove(folder);
}

static void test_dataset__reads_nanogpt_files(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    char *train = io_join(folder, "train.bin"), *val = io_join(folder, "val.bin");
    data_files_raw(train, 0, 1001);
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, folder, verified), 0);
    assert_int_equal(dataset.validation.tokens, 0);
    dataset_close(&dataset);
    data_files_raw(val, 65000, 536);
    assert_int_equal(dataset_open(&dataset, folder, (DatasetOptions){0}), 0);
    check_split(&dataset.train, 0, 1001, 1);
    check_split(&dataset.validation, 65000, 536, 1);
    assert_int_equal(dataset_least_vocab(&dataset), 65536);
    assert_int_equal(dataset_check_vocab(&dataset, 50257),
                     ERR_INPUT); /* scanned although not asked */
    assert_says("val.bin: token 65000 at position 0");
    dataset_close(&dataset);
    data_files_write(val, "odd", 3);
    assert_data_fails(folder, "3 bytes are no whole number");
    free(train);
    free(val);
    data_files_remove(folder);
}

/* Writes a dataset of two train shards and a validation shard; positions are tokens. */
static void make_dataset(const char *folder)
{
    Manifest manifest;
    manifest_init(&manifest, "positions", 7, 70000);
    const uint64_t first[] = {0, 3000, 69000}, count[] = {3000, 1001, 500};
    for (int i = 0; i < 3; i++) {
        char stem[32];
        snprintf(stem, sizeof stem, "%s-0000%d", i < 2 ? "train" : "validation", i % 2);
        char *path = data_files_shard(folder, stem, first[i], count[i], 70000);
        Shard shard;
        assert_int_equal(shard_open(&shard, path, false), 0);
        manifest_add(&manifest, i == 2,
                     (ShardInfo){.file = mem_strdup(strrchr(path, '/') + 1),
                                 .tokens = shard.tokens,
                                 .documents = shard.documents,
                                 .text_bytes = shard.text_bytes,
                                 .hash = shard.hash});
        shard_close(&shard);
        free(path);
    }
    assert_int_equal(manifest_write(&manifest, folder), 0);
    manifest_free(&manifest);
}

static void test_dataset__manifest_round_trips(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    make_dataset(folder);
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, folder, verified), 0);
    check_split(&dataset.train, 0, 4001, 2);
    check_split(&dataset.validation, 69000, 500, 1);
    assert_int_equal(dataset.vocab, 70000);
    assert_int_equal(dataset.tokenizer_hash, 7);
    assert_string_equal(dataset.tokenizer, "positions");
    assert_int_equal(dataset.train.documents, 2);
    assert_int_equal(dataset.train.text_bytes, 4001);
    assert_int_equal(dataset_check_vocab(&dataset, 70000), 0);
    assert_int_equal(dataset_check_vocab(&dataset, 69500), 0); /* by the tokens that are there */
    assert_int_equal(dataset_check_vocab(&dataset, 69499), ERR_INPUT);
    dataset_close(&dataset);
    assert_int_equal(dataset_open(&dataset, folder, (DatasetOptions){0}), 0);
    assert_int_equal(dataset_check_vocab(&dataset, 69500), 0); /* looks when it must */
    assert_int_equal(dataset_check_vocab(&dataset, 69499), ERR_INPUT);
    dataset_close(&dataset);
    data_files_remove(folder);
}

/* Replaces `from` by `to` in the manifest, opens the dataset, and puts the manifest back. */
static void check_manifest_edit(const char *folder, const char *from, const char *to,
                                const char *says)
{
    char *path = io_join(folder, MANIFEST_FILE);
    size_t size;
    char *text = (char *)data_files_read(path, &size), *at = strstr(text, from);
    assert_non_null(at);
    char *edited = mem_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    data_files_write(path, edited, strlen(edited));
    assert_data_fails(folder, says);
    data_files_write(path, text, size);
    free(edited);
    free(text);
    free(path);
}

static void test_dataset__bad_manifests_are_refused(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    make_dataset(folder);
    check_manifest_edit(folder, "pacer-dataset", "other-dataset", "not the manifest of a pacer");
    check_manifest_edit(folder, "\"version\":\t1", "\"version\": 9", "version 9");
    check_manifest_edit(folder, "3000", "2999", "not the shard that manifest.json");
    check_manifest_edit(folder, "70000", "70001", "not the shard that manifest.json");
    check_manifest_edit(folder, "70000", "7e300", "\"vocab\" must be");
    check_manifest_edit(folder, "3000", "3000.5", "shard 0: \"tokens\" must be a whole number");
    check_manifest_edit(folder, "3000", "-1", "shard 0: \"tokens\"");
    check_manifest_edit(folder, "3000", "\"3000\"", "shard 0: \"tokens\"");
    check_manifest_edit(folder, "\"split\":\t\"train\"", "\"split\": \"test\"",
                        "shard 0: \"split\"");
    check_manifest_edit(folder, "train-00001-", "../train-00001-", "shard 1: \"file\"");
    check_manifest_edit(folder, "train-00001-", "train-00007-", "cannot read");
    check_manifest_edit(folder, "\"positions\"", "null", "\"tokenizer\" must be a string");
    check_manifest_edit(folder, "\"vocab\"", "\"tokenizer_file\": 1, \"vocab\"",
                        "\"tokenizer_file\" must be a string");
    check_manifest_edit(folder, "\"vocab\"", "\"tokenizer_file\": \"../t.json\", \"vocab\"",
                        "\"tokenizer_file\" must be the name of a file beside the manifest");
    check_manifest_edit(folder, "\"shards\"", "\"shard\"", "\"shards\" must be a list");
    check_manifest_edit(folder, "\"vocab\"", "vocab", "manifest.json:6: not valid JSON");
    data_files_remove(folder);
}

static void test_dataset__shard_of_another_set_is_refused(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    make_dataset(folder);
    Manifest manifest;
    assert_int_equal(manifest_read(&manifest, folder), 0);
    char *victim = io_join(folder, manifest.shards[1].info.file);
    char *other = data_files_shard(folder, "train-00001", 1, 1001, 70000);
    assert_int_equal(rename(other, victim), 0);
    assert_data_fails(folder, "not the shard that manifest.json");
    free(other);
    free(victim);
    manifest_free(&manifest);
    data_files_remove(folder);
}

static void test_dataset__fuzzed_manifests_never_crash(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    make_dataset(folder);
    char *path = io_join(folder, MANIFEST_FILE);
    size_t size, accepted = 0;
    uint8_t *text = data_files_read(path, &size);
    for (uint64_t round = 0; round < FUZZ_ROUNDS; round++) {
        size_t capacity = size + 256;
        uint8_t *changed = memcpy(mem_alloc(capacity), text, size);
        size_t used = data_files_mutate(changed, size, capacity, round);
        char *exact = memcpy(mem_alloc(used), changed, used); /* so that reading past it is seen */
        Manifest manifest;
        int code = manifest_parse(&manifest, "m", exact, used);
        assert_true(code == 0 || code == ERR_INPUT);
        accepted += code == 0;
        if (code == 0) {
            assert_true(manifest.vocab > 0 && manifest.vocab <= INT32_MAX);
            for (int i = 0; i < manifest.shard_count; i++) {
                assert_null(strchr(manifest.shards[i].info.file, '/'));
            }
        } else {
            assert_true(strncmp(err_message(), "m:", 2) == 0);
        }
        manifest_free(&manifest);
        free(exact);
        free(changed);
    }
    assert_true(accepted > 0 && accepted < FUZZ_ROUNDS); /* both ways were taken */
    free(text);
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset__foreign_files_are_named),
        cmocka_unit_test(test_dataset__builtin_stories_are_the_stories),
        cmocka_unit_test(test_dataset__unfinished_shard_is_no_data),
        cmocka_unit_test(test_dataset__reads_llmc_files),
        cmocka_unit_test(test_dataset__files_follow_their_names),
        cmocka_unit_test(test_dataset__bad_llmc_files_are_refused),
        cmocka_unit_test(test_dataset__reads_nanogpt_files),
        cmocka_unit_test(test_dataset__manifest_round_trips),
        cmocka_unit_test(test_dataset__bad_manifests_are_refused),
        cmocka_unit_test(test_dataset__shard_of_another_set_is_refused),
        cmocka_unit_test(test_dataset__fuzzed_manifests_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
