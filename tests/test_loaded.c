/* Models read back for use: the trainer's own logits, bf16, tokenizers, and what is said of
 * files that are wrong. */
#include "use/loaded.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "model/generate.h"
#include "support/own_folder.h"
#include "support/saved_run.h"
#include "support/small_tokenizer.h"
#include "support/says.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS 23

static const char *const presets[] = {"gpt2-124m", "llama-22m"};

static int open_with(LoadedModel *loaded, const char *path, const char *device, const char *dtype,
                     const char *tokenizer)
{
    Config cfg;
    config_init(&cfg, COMMAND_GENERATE);
    assert_int_equal(config_set(&cfg, "device", device), 0);
    assert_int_equal(config_set(&cfg, "dtype", dtype), 0);
    assert_int_equal(config_set(&cfg, "threads", "1"), 0);
    if (tokenizer != NULL) {
        assert_int_equal(config_set(&cfg, "tokenizer", tokenizer), 0);
    }
    int code = loaded_open(loaded, path, &cfg, NULL);
    config_free(&cfg);
    return code;
}

static void logits_of(Model *model, Backend *backend, float *out)
{
    Generator generator;
    int32_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)((i * 37 + i * i) % model->spec.vocab);
    }
    assert_int_equal(generator_open(&generator, model, backend, 1, true), 0);
    generator_begin(&generator, tokens, TOKENS);
    memcpy(out, generator_logits(&generator, 0), (size_t)model->spec.vocab * sizeof *out);
    generator_close(&generator);
}

static void expect_logits(SavedRun *saved, LoadedModel *loaded, double most)
{
    float want[300], got[300];
    int64_t vocab = saved->trainer.setup.spec.vocab;
    logits_of(&saved->trainer.model, saved->backend, want);
    logits_of(&loaded->model, loaded->backend, got);
    double largest = 0;
    for (int64_t i = 0; i < vocab; i++) {
        largest = fmax(largest, fabs(want[i]));
        if (!(fabs(want[i] - got[i]) <= most)) {
            fail_msg("logit %lld is %.9g, not %.9g", (long long)i, got[i], want[i]);
        }
    }
    assert_true(largest > 0.1);
}

static void test_loaded__a_run_and_its_checkpoint_give_the_trainers_logits(void **state)
{
    (void)state;
    for (int p = 0; p < 2; p++) {
        SavedRun saved;
        LoadedModel loaded;
        char *dir = io_join(own_folder, presets[p]), *checkpoint = io_join(dir, "ckpt/step-3");
        saved_run_make(&saved, dir, presets[p], 101);
        const char *const paths[] = {dir, checkpoint};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(open_with(&loaded, paths[i], "cpu", "auto", NULL), 0);
            assert_int_equal(loaded.step, SAVED_STEP);
            assert_non_null(loaded.run);
            assert_null(loaded.tokenizer);
            expect_logits(&saved, &loaded, 0);
            loaded_close(&loaded);
        }
        saved_run_free(&saved);
        free(checkpoint);
        free(dir);
    }
}

static void test_loaded__bf16_rounds_the_matrices_alone(void **state)
{
    (void)state;
    SavedRun saved;
    LoadedModel loaded;
    char *dir = io_join(own_folder, "low");
    saved_run_make(&saved, dir, "gpt2-124m", 101);
    const ParamTable *table = &saved.trainer.model.params;
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        float *values = mem_alloc((size_t)row->count * sizeof *values);
        trainer_read_state(&saved.trainer, STATE_PARAMS, row->offset, row->count, values);
        for (int64_t i = 0; row->decay && i < row->count; i++) {
            values[i] = f32_from_bf16(bf16_from_f32(values[i]));
        }
        trainer_write_state(&saved.trainer, STATE_PARAMS, row->offset, row->count, values);
        free(values);
    }
    assert_int_equal(open_with(&loaded, dir, "cpu", "bf16", NULL), 0);
    assert_int_equal(loaded.weights.dtype, DT_BF16);
    expect_logits(&saved, &loaded, 1e-5);
    loaded_close(&loaded);
    assert_int_equal(open_with(&loaded, dir, "ref", "bf16", NULL), 0);
    expect_logits(&saved, &loaded, 0.1);
    loaded_close(&loaded);
    saved_run_free(&saved);
    free(dir);
}

static void expect_refusal(const char *path, const char *tokenizer, const char *says)
{
    LoadedModel loaded;
    assert_int_equal(open_with(&loaded, path, "cpu", "f32", tokenizer), ERR_INPUT);
    assert_says(says);
    LoadedModel zeroed;
    memset(&zeroed, 0, sizeof zeroed);
    assert_null(loaded.path);
    assert_null(loaded.backend);
}

/* Changes a digit in the middle of a file, which is then another digit, or puts it back. */
static void turn_byte(const char *path)
{
    char *data;
    size_t size;
    assert_int_equal(io_read_all(path, 1 << 24, &data, &size), 0);
    size_t at = size / 2;
    while (data[at] < '0' || data[at] > '9') {
        at++;
    }
    data[at] ^= 1;
    assert_int_equal(io_write_atomic(path, data, size), 0);
    free(data);
}

static void test_loaded__names_the_file_that_is_wrong(void **state)
{
    (void)state;
    SavedRun saved;
    char *dir = io_join(own_folder, "damaged");
    saved_run_make(&saved, dir, "gpt2-124m", 101);
    saved_run_free(&saved);
    static const char *const files[] = {"model.safetensors", "state.json"};
    for (int i = 0; i < 2; i++) {
        char *path = mem_format("%s/ckpt/step-3/%s", dir, files[i]);
        turn_byte(path);
        expect_refusal(dir, NULL, files[i]);
        turn_byte(path);
        free(path);
    }
    LoadedModel loaded;
    assert_int_equal(open_with(&loaded, dir, "cpu", "f32", NULL), 0);
    loaded_close(&loaded);
    free(dir);
}

static void test_loaded__says_what_a_path_is_not(void **state)
{
    (void)state;
    char *none = io_join(own_folder, "none"), *empty = io_join(own_folder, "empty");
    char *begun = io_join(own_folder, "begun"), *record = io_join(begun, "run.json");
    expect_refusal(none, NULL, "none: ");
    assert_int_equal(io_make_folders(empty), 0);
    expect_refusal(empty, NULL, "neither a run directory");
    assert_int_equal(io_make_folders(begun), 0);
    assert_int_equal(io_write_atomic(record, "{}", 2), 0);
    expect_refusal(begun, NULL, "--save-every");
    free(none);
    free(empty);
    free(begun);
    free(record);
}

static void test_loaded__finds_the_tokenizer_and_compares_its_size(void **state)
{
    (void)state;
    SavedRun saved;
    LoadedModel loaded;
    char *dir = io_join(own_folder, "spoken"), *file = io_join(dir, "tokenizer.json");
    saved_run_make(&saved, dir, "llama-22m", 267);
    saved_run_free(&saved);
    Tokenizer *tokenizer = small_tokenizer();
    assert_int_equal(tokenizer_write_json(tokenizer, file), 0);
    assert_int_equal(open_with(&loaded, dir, "cpu", "f32", NULL), 0);
    assert_int_equal(loaded.tokenizer->hash, tokenizer->hash);
    loaded_close(&loaded);
    assert_int_equal(open_with(&loaded, dir, "cpu", "f32", "bytes"), 0);
    assert_int_equal(loaded.tokenizer->vocab, 257);
    loaded_close(&loaded);
    char *small = io_join(own_folder, "small");
    saved_run_make(&saved, small, "llama-22m", 101);
    saved_run_free(&saved);
    expect_refusal(small, file, "267 tokens");
    tokenizer_free(tokenizer);
    free(small);
    free(file);
    free(dir);
}

static void test_loaded__ttt_models_take_f32_on_the_cpu(void **state)
{
    (void)state;
    SavedRun saved;
    LoadedModel loaded;
    char *dir = io_join(own_folder, "ttt");
    saved_run_make(&saved, dir, "ttt-125m", 101);
    assert_int_equal(open_with(&loaded, dir, "cpu", "f32", NULL), 0);
    expect_logits(&saved, &loaded, 0);
    loaded_close(&loaded);
    assert_int_equal(open_with(&loaded, dir, "cpu", "bf16", NULL), ERR_INPUT);
    saved_run_free(&saved);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loaded__a_run_and_its_checkpoint_give_the_trainers_logits),
        cmocka_unit_test(test_loaded__bf16_rounds_the_matrices_alone),
        cmocka_unit_test(test_loaded__names_the_file_that_is_wrong),
        cmocka_unit_test(test_loaded__says_what_a_path_is_not),
        cmocka_unit_test(test_loaded__finds_the_tokenizer_and_compares_its_size),
        cmocka_unit_test(test_loaded__ttt_models_take_f32_on_the_cpu),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
