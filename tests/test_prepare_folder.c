#include "data/prepare.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "data/out_folder.h"
#include "support/data_files.h"
#include "support/preparation.h"
#include "support/says.h"

#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static void test_prepare_folder__bad_input_is_named(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out"), *missing = io_join(folder, "missing");
    const char *inputs[] = {path, missing};
    data_files_write(path, "", 0);
    PrepareOptions options = preparation(out, inputs, 1, 0);
    assert_int_equal(prepare_quietly(&options, NULL), ERR_INPUT);
    assert_says("no text in the files");
    data_files_write(path, "a\n", 2);
    options.source.input_count = 2;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    assert_says("missing: cannot read");
    options.source.input_count = 1;
    options.val_fraction = 0.999999;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    assert_says("--val-fraction 0");
    options.val_fraction = 1;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    assert_says("--val-fraction 1");
    options.val_fraction = 0;
    options.shard_tokens = 1;
    char *long_text = memset(mem_alloc(30000), 'a', 30000);
    data_files_write(path, long_text, 30000);
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    assert_says("more than 20000 shards");
    options.shard_tokens = PREPARATION_SHARD;
    static const char lines[] = "{\"text\": \"a\"}\n{\"tex\": 1}\n";
    data_files_write(path, lines, sizeof lines - 1);
    options.source.format = CONFIG_FORMAT_JSONL;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    assert_says("text:2: no field \"text\"; there is: tex");
    assert_false(io_exists(out)); /* the failures left nothing */
    options.source.skip_bad = true;
    assert_int_equal(prepare_quietly(&options, NULL), 0);
    free(long_text);
    free(missing);
    free(out);
    free(path);
    data_files_remove(folder);
}

/* The folder carries the tokenizer; a changed one is noticed, an old folder has none. */
static void test_prepare_folder__the_tokenizer_is_in_the_folder(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out"), *mine = io_join(out, "tokenizer.json");
    const char *inputs[] = {path};
    data_files_write(path, "the other world\n", 16);
    PrepareOptions options = preparation(out, inputs, 1, 1);
    options.val_fraction = 0;
    assert_int_equal(prepare_dataset(&options), 0);
    data_files_write(mine, "mine", 4);
    Dataset dataset;
    assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){0}), 0);
    char *first = mem_strdup(dataset.tokenizer_path);
    Tokenizer *tokenizer;
    assert_int_equal(dataset_tokenizer(&dataset, &tokenizer), 0);
    tokenizer_free(tokenizer);
    assert_int_equal(tokenizer_write_json(tokenizers[0], first), 0);
    assert_int_equal(dataset_tokenizer(&dataset, &tokenizer), ERR_INPUT);
    assert_says("not the tokenizer that made the shards");
    assert_null(tokenizer);
    unlink(first);
    assert_int_equal(dataset_tokenizer(&dataset, &tokenizer), ERR_INPUT);
    dataset_close(&dataset);
    assert_int_equal(prepare_dataset(&options), 0); /* and it is back */
    assert_true(io_exists(first));
    options = preparation(out, inputs, 1, 0);
    options.val_fraction = 0;
    assert_int_equal(prepare_dataset(&options), 0);
    assert_false(io_exists(first)); /* that of the dataset before */
    assert_true(io_exists(mine));
    Manifest manifest; /* as it was before tokenizers were written */
    assert_int_equal(manifest_read(&manifest, out), 0);
    free(manifest.tokenizer_file);
    manifest.tokenizer_file = NULL;
    assert_int_equal(manifest_write(&manifest, out), 0);
    manifest_free(&manifest);
    assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){0}), 0);
    assert_null(dataset.tokenizer_path);
    assert_int_equal(dataset_tokenizer(&dataset, &tokenizer), 0);
    assert_int_equal(tokenizer->vocab, 257);
    tokenizer_free(tokenizer);
    dataset.tokenizer_hash++;
    assert_int_equal(dataset_tokenizer(&dataset, &tokenizer), ERR_INPUT);
    assert_says("comes without its tokenizer");
    dataset_close(&dataset);
    free(first);
    free(mine);
    free(out);
    free(path);
    data_files_remove(folder);
}

static void test_prepare_folder__foreign_folders_are_refused(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out"), *note = io_join(out, "note"),
         *manifest = io_join(out, "manifest.json"),
         *rest = io_join(out, "train-00000.shard.pacer-tmp"),
         *orphan = io_join(out, "train-00007-0123456789abcdef.shard"),
         *stale = io_join(out, "tokenizer-0123456789abcdef.json.77.pacer-tmp");
    const char *files[] = {path};
    data_files_write(path, "some text\n", 10);
    assert_int_equal(io_make_folders(out), 0);
    data_files_write(note, "mine", 4);
    PrepareOptions options = preparation(out, files, 1, 0);
    options.val_fraction = 0;
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    assert_says("holds other files (note)");
    data_files_write(manifest, "{\"name\": \"an app\"}", 18);
    assert_int_equal(prepare_dataset(&options), ERR_INPUT);
    assert_says("not the manifest of a pacer dataset");
    unlink(manifest);
    unlink(note);
    data_files_write(rest, "x", 1); /* what a killed preparation leaves is no obstacle */
    data_files_write(orphan, "x", 1);
    data_files_write(stale, "x", 1);
    assert_int_equal(prepare_dataset(&options), 0);
    assert_false(io_exists(stale));
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
    assert_says("another pacer is preparing");
    out_folder_close(&locked);
    assert_int_equal(prepare_dataset(&options), 0);
    free(stale);
    free(orphan);
    free(rest);
    free(manifest);
    free(note);
    free(out);
    free(path);
    data_files_remove(folder);
}

/* The files of a folder, each as its name and hash, in any order: XOR of all. */
static uint64_t fingerprint(const char *folder)
{
    uint64_t all = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    const struct dirent *entry;
    while ((entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] != '.') {
            char *path = io_join(folder, entry->d_name);
            size_t size;
            uint8_t *bytes = data_files_read(path, &size);
            all ^= io_hash(entry->d_name, strlen(entry->d_name)) * 3 + io_hash(bytes, size);
            free(bytes);
            free(path);
        }
    }
    closedir(entries);
    return all;
}

static int calls_left;

static int interrupted_later(void)
{
    return calls_left-- > 0 ? 0 : ERR_INTERRUPTED;
}

/* Stopped wherever it asks: the old dataset is there, file for file; or the new one, at the end. */
static void test_prepare_folder__interrupted_anywhere(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *path = io_join(folder, "text"),
         *out = io_join(folder, "out");
    const char *inputs[] = {path};
    Text text = random_text(11, 30);
    data_files_write(path, "the old one\n", 12);
    PrepareOptions options = preparation(out, inputs, 1, 0);
    options.val_fraction = 0;
    assert_int_equal(prepare_dataset(&options), 0);
    uint64_t before = fingerprint(out);
    options.tokenizer = tokenizers[1];
    options.end = tokenizer_ends[1];
    options.shard_tokens = 2000;
    options.source.interrupted = interrupted_later;
    data_files_write(path, text.bytes, text.size);
    int code = ERR_INTERRUPTED, calls = 0;
    for (; code != 0; calls++) {
        assert_int_equal(code, ERR_INTERRUPTED);
        assert_int_equal(fingerprint(out), before);
        if (calls > 0) {
            assert_says("is as it was before");
        }
        calls_left = calls;
        code = prepare_quietly(&options, NULL);
    }
    assert_true(calls > 30); /* once a document at least */
    assert_true(fingerprint(out) != before);
    free(text.bytes);
    free(out);
    free(path);
    data_files_remove(folder);
}

/* Killed at random moments: the old dataset or the new one, whole. */
static void test_prepare_folder__killed_anywhere(void **state)
{
    (void)state;
    char *folder = data_files_folder(), *out = io_join(folder, "out");
    const char *old = "builtin:stories:50k", *new = "builtin:stories:400k";
    int replaced = 0;
    for (uint64_t round = 0; round < 10; round++) {
        PrepareOptions options = preparation(out, &old, 1, 1);
        options.threads = 1; /* the child must not need the threads that its parent has */
        assert_int_equal(prepare_quietly(&options, NULL), 0);
        options.source.inputs = &new;
        options.shard_tokens = 20000;
        pid_t child = fork();
        if (child == 0) {
            _exit(prepare_dataset(&options) != 0);
        }
        usleep((useconds_t)rng_below(12, 0, round, 20000ull << (round % 5)));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        Dataset dataset;
        assert_int_equal(dataset_open(&dataset, out, (DatasetOptions){.verify = true}), 0);
        uint64_t bytes = dataset.train.text_bytes + dataset.validation.text_bytes;
        assert_true((bytes > 45000 && bytes < 50000) || (bytes > 380000 && bytes < 400000));
        replaced += bytes > 50000;
        dataset_close(&dataset);
    }
    print_message("%d of 10 had finished\n", replaced);
    free(out);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prepare_folder__bad_input_is_named),
        cmocka_unit_test(test_prepare_folder__the_tokenizer_is_in_the_folder),
        cmocka_unit_test(test_prepare_folder__foreign_folders_are_refused),
        cmocka_unit_test(test_prepare_folder__interrupted_anywhere),
        cmocka_unit_test(test_prepare_folder__killed_anywhere),
    };
    return cmocka_run_group_tests(tests, open_tokenizers, close_tokenizers);
}
