/* The library from texts to numbers: a tokenizer, shards, validation losses of a training, logits
 * of batches, Hugging Face folders. Held against what the program writes for the same options,
 * against transformers' logits (tests/gold), and against each other. */
#include <pacer.h>

#include "base/io.h"
#include "base/mem.h"
#include "support/exchange_files.h"
#include "support/own_folder.h"
#include "support/safe_values.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT "builtin:stories:200k"

static const char *const stories[] = {TEXT};

static char *in_folder(const char *name)
{
    return io_join(own_folder, name);
}

static void set(pacer_options *options, const char *name, const char *value)
{
    if (pacer_options_set(options, name, value) != 0) {
        fail_msg("%s", pacer_error());
    }
}

static pacer_options *options_to(const char *command, const char *out)
{
    pacer_options *options;
    char *path = in_folder(out);
    assert_int_equal(pacer_options_new(command, &options), 0);
    set(options, "out", path);
    free(path);
    return options;
}

static void done(int code)
{
    if (code != 0) {
        fail_msg("%s", pacer_error());
    }
}

static void run_program(const char *arguments)
{
    char *command =
        mem_format("cd '%s' && '%s' %s >/dev/null 2>&1", own_folder, PACER_BINARY, arguments);
    assert_int_equal(system(command), 0);
    free(command);
}

static void assert_same_file(const char *a, const char *b)
{
    char *paths[] = {in_folder(a), in_folder(b)}, *texts[2];
    size_t sizes[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(io_read_all(paths[i], 1 << 24, &texts[i], &sizes[i]), 0);
    }
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(texts[0], texts[1], sizes[0]);
    for (int i = 0; i < 2; i++) {
        free(texts[i]);
        free(paths[i]);
    }
}

/* --- tokenizer and data --- */

static void test_chain__a_tokenizer_is_that_of_the_program(void **state)
{
    (void)state;
    pacer_options *options = options_to("tokenizer train", "own.json");
    pacer_result *result;
    set(options, "vocab", "300");
    done(pacer_tokenizer_train(options, stories, 1, &result));
    assert_true(pacer_result_number(result, "vocab") == 300);
    assert_true(pacer_result_number(result, "merges") == 300 - 256 - 1); /* <|endoftext|> */
    assert_true(pacer_result_number(result, "bytes") == 200000);
    assert_true(pacer_result_number(result, "dropped_pieces") == 0);
    pacer_result_free(result);
    run_program("tokenizer train --vocab 300 --out program.json " TEXT);
    assert_same_file("own.json", "program.json");

    const char *const nowhere[] = {"/nowhere.txt"};
    result = (pacer_result *)&options;
    assert_int_equal(pacer_tokenizer_train(options, nowhere, 1, &result), PACER_INPUT);
    assert_null(result);
    assert_non_null(strstr(pacer_error(), "/nowhere.txt"));
    assert_int_equal(pacer_tokenizer_train(options, NULL, 0, NULL), PACER_INPUT);
    assert_int_equal(pacer_tokenizer_train(NULL, stories, 1, NULL), PACER_INPUT);
    assert_non_null(strstr(pacer_error(), "out"));
    pacer_options_free(options);
}

static void test_chain__prepared_data_are_those_of_the_program(void **state)
{
    (void)state;
    pacer_options *options = options_to("data prepare", "own-shards");
    pacer_result *result;
    char *tokenizer = in_folder("own.json"), *folder = in_folder("own-shards");
    set(options, "tokenizer", tokenizer);
    set(options, "val-fraction", "0.1");
    done(pacer_prepare(options, stories, 1, &result));
    assert_string_equal(pacer_result_directory(result), folder);
    assert_true(pacer_result_number(result, "vocab") == 300);
    double tokens = pacer_result_number(result, "train_tokens");
    assert_true(tokens > 1e4 && pacer_result_number(result, "val_tokens") > 100);
    assert_true(pacer_result_number(result, "val_shards") == 1);
    pacer_result_free(result);
    run_program("data prepare --tokenizer own.json --val-fraction 0.1 --out shards " TEXT);
    assert_same_file("own-shards/manifest.json", "shards/manifest.json");

    /* Every byte a token, and one behind each document. */
    const char *text = "one<|endoftext|>three\n<|endoftext|>\nsix more", *const inputs[] = {
                                                                             own_file};
    done(io_write_atomic(own_file, text, strlen(text)));
    set(options, "tokenizer", "bytes");
    set(options, "val-fraction", "0");
    free(folder);
    folder = in_folder("byte-shards");
    set(options, "out", folder);
    done(pacer_prepare(options, inputs, 1, &result));
    assert_true(pacer_result_number(result, "train_documents") == 3);
    assert_true(pacer_result_number(result, "train_bytes") == 3 + 6 + 8);
    assert_true(pacer_result_number(result, "train_tokens") == 3 + 6 + 8 + 3);
    assert_true(pacer_result_number(result, "val_tokens") == 0);
    pacer_result_free(result);
    set(options, "tokenizer", "/nowhere.json");
    assert_int_equal(pacer_prepare(options, inputs, 1, &result), PACER_INPUT);
    assert_null(result);
    free(tokenizer);
    free(folder);
    pacer_options_free(options);
}

static void on_alarm(int number)
{
    (void)number;
    pacer_stop();
}

/* Of texts that would take minutes, with an end asked for again and again. */
static void test_chain__long_work_ends_when_asked(void **state)
{
    (void)state;
    static const char *const much[] = {"builtin:stories:4G"};
    static const char *const commands[] = {"tokenizer train", "data prepare"};
    const struct itimerval often = {{0, 10000}, {0, 10000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, old;
    assert_int_equal(sigaction(SIGALRM, &action, &old), 0);
    for (int i = 0; i < 2; i++) {
        pacer_options *options = options_to(commands[i], "stopped");
        char *out = in_folder("stopped");
        pacer_result *result = (pacer_result *)&options;
        assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
        int code = i == 0 ? pacer_tokenizer_train(options, much, 1, &result)
                          : pacer_prepare(options, much, 1, &result);
        assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
        assert_int_equal(code, PACER_STOPPED);
        assert_null(result);
        assert_false(io_has(out, "manifest.json") || (i == 0 && io_exists(out)));
        free(out);
        pacer_options_free(options);
    }
    assert_int_equal(sigaction(SIGALRM, &old, NULL), 0);
}

/* --- validation losses of a training --- */

typedef struct {
    int64_t steps[8];
    double losses[8];
    size_t count;
    int64_t stop_at;
} Heard;

static int hear(const pacer_validation *validation, void *user)
{
    Heard *heard = user;
    assert_true(validation->size >= sizeof *validation);
    assert_int_equal(validation->steps, 5);
    assert_true(heard->count < 8);
    heard->steps[heard->count] = validation->step;
    heard->losses[heard->count] = validation->loss;
    heard->count++;
    for (size_t i = 0; i < heard->count; i++) {
        assert_true(validation->best <= heard->losses[i]);
    }
    return validation->step == heard->stop_at;
}

static pacer_options *training(void)
{
    static const char *const settings[][2] = {
        {"layers", "1"},   {"d-model", "16"}, {"heads", "2"},      {"context", "32"},
        {"batch", "2"},    {"steps", "5"},    {"eval-every", "2"}, {"threads", "1"},
        {"device", "cpu"}, {"log-every", "1"}};
    pacer_options *options = options_to("train", "run");
    char *data = in_folder("own-shards");
    set(options, "data", data);
    free(data);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        set(options, settings[i][0], settings[i][1]);
    }
    return options;
}

static void test_chain__validation_losses_are_told_and_recorded(void **state)
{
    (void)state;
    pacer_options *options = training();
    Heard heard = {.stop_at = 2};
    pacer_result *result;
    pacer_options_on_validation(options, hear, &heard);
    assert_int_equal(pacer_train(options, NULL, NULL, &result), PACER_STOPPED);
    assert_int_equal(heard.count, 1);
    assert_true(pacer_result_number(result, "steps") == 2);
    pacer_result_free(result);
    heard.stop_at = 0;
    done(pacer_train(options, NULL, NULL, &result));
    pacer_options_free(options);
    assert_int_equal(heard.count, 3); /* steps 2 and 4, and the end */
    assert_int_equal(heard.steps[0], 2);
    assert_int_equal(heard.steps[1], 4);
    assert_int_equal(heard.steps[2], 5);
    assert_true(pacer_result_number(result, "val_loss") == heard.losses[2]);

    int64_t *steps;
    double *losses;
    size_t count;
    done(pacer_run_curve(pacer_result_directory(result), "val_loss", &steps, &losses, &count));
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(steps[i], heard.steps[i]);
        assert_true(fabs(losses[i] / heard.losses[i] - 1) < 1e-12);
    }
    pacer_free(steps);
    pacer_free(losses);
    done(pacer_run_curve(pacer_result_directory(result), "loss", &steps, &losses, &count));
    assert_int_equal(count, 5);
    pacer_free(steps);
    pacer_free(losses);
    done(pacer_run_curve(pacer_result_directory(result), "no-such", &steps, &losses, &count));
    assert_int_equal(count, 0);
    pacer_free(steps);
    pacer_free(losses);
    pacer_result_free(result);
    assert_int_equal(pacer_run_curve("/nowhere", "loss", &steps, &losses, &count), PACER_INPUT);
}

/* The shards become shorter under the training: its error, and not the end of this process. */
static int cut_shards(const pacer_step *step, void *user)
{
    char *command = mem_format("truncate -s 300 '%s'/*.shard", (const char *)user);
    assert_int_equal(step->step > 1 ? 0 : system(command), 0);
    free(command);
    return 0;
}

static void test_chain__files_that_become_shorter_end_no_process(void **state)
{
    (void)state;
    char *data = in_folder("cut-shards"), *out = in_folder("cut-run");
    char *copy = mem_format("cp -r '%s/own-shards' '%s'", own_folder, data);
    assert_int_equal(system(copy), 0);
    pacer_options *options = training();
    set(options, "data", data);
    set(options, "out", out);
    set(options, "steps", "5000");
    assert_int_equal(pacer_train(options, cut_shards, data, NULL), PACER_INPUT);
    assert_non_null(strstr(pacer_error(), "became shorter"));
    assert_non_null(strstr(pacer_error(), ".shard"));
    pacer_options_free(options);
    free(copy);
    free(out);
    free(data);
}

/* --- logits of batches --- */

/* In f32; NULL: there is no such device. */
static pacer_model *open_on(const char *path, const char *device)
{
    pacer_options *options;
    pacer_model *model;
    assert_int_equal(pacer_options_new("generate", &options), 0);
    set(options, "device", device);
    set(options, "dtype", "f32");
    set(options, "threads", "2");
    (void)pacer_model_open(path, options, &model);
    pacer_options_free(options);
    return model;
}

static pacer_model *open_model(const char *path)
{
    pacer_model *model = open_on(path, "cpu");
    done(model != NULL ? 0 : PACER_INPUT);
    return model;
}

static void compare_with_gold(const char *name, const char *device)
{
    char *path = exchange_fixture(name), *file = io_join(path, "expected.safetensors");
    SafeFile expected;
    done(safetensors_open(file, &expected));
    const SafeTensor *ids = safetensors_find(&expected, "ids");
    const SafeTensor *want = safetensors_find(&expected, "logits");
    int32_t *tokens = safe_values(ids);
    float *values = safe_values(want), *logits = mem_alloc(want->bytes);
    pacer_model *model = open_on(path, device);
    assert_non_null(model);
    size_t vocab = (size_t)pacer_model_number(model, "vocab");
    size_t batch = (size_t)ids->dim[0], seq = (size_t)ids->dim[1];
    assert_int_equal(want->bytes, batch * seq * vocab * sizeof(float));
    done(pacer_model_forward(model, tokens, batch, seq, logits));
    for (size_t i = 0; i < batch * seq * vocab; i++) {
        assert_true(fabsf(logits[i] - values[i]) <= 1e-4F);
    }
    free(logits);
    free(values);
    free(tokens);
    pacer_model_close(model);
    safetensors_close(&expected);
    free(file);
    free(path);
}

static void test_chain__logits_of_a_batch_are_those_of_transformers(void **state)
{
    (void)state;
    static const char *const names[] = {"hf_gpt2", "hf_llama", "hf_llama_tied", "hf_sharded"};
    char *path = exchange_fixture(names[0]);
    pacer_model *model = open_on(path, "cuda");
    bool gpu = model != NULL;
    pacer_model_close(model);
    free(path);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        compare_with_gold(names[i], "cpu");
        compare_with_gold(names[i], "ref");
        if (gpu) {
            compare_with_gold(names[i], "cuda");
        }
    }
}

/* -log p of a token. */
static double nats(const float *logits, size_t vocab, int32_t token)
{
    double total = 0;
    for (size_t i = 0; i < vocab; i++) {
        total += exp((double)logits[i] - (double)logits[token]);
    }
    return log(total);
}

static void test_chain__logits_give_the_loss_that_eval_gives(void **state)
{
    (void)state;
    char *run = in_folder("run"), text[] = "Once upon a time a fox met a hen.";
    const char *const inputs[] = {own_file};
    pacer_model *model = open_model(run);
    pacer_result *result;
    size_t vocab = (size_t)pacer_model_number(model, "vocab"), count;
    done(io_write_atomic(own_file, text, strlen(text)));
    done(pacer_evaluate(model, NULL, inputs, 1, &result));
    double loss = pacer_result_number(result, "loss");
    double tokens = pacer_result_number(result, "tokens");
    pacer_result_free(result);

    int32_t *ids, *row = NULL;
    done(pacer_tokenize(pacer_model_tokenizer(model), text, strlen(text), &ids, &count));
    assert_true(count > 8 && count < 32 && tokens == (double)(count + 1));
    row = mem_zalloc(count + 2, sizeof *row); /* <|endoftext|> is token 0, before and behind */
    memcpy(row + 1, ids, count * sizeof *ids);
    float *logits = mem_alloc((count + 1) * vocab * sizeof *logits);
    done(pacer_model_forward(model, row, 1, count + 1, logits));
    double sum = 0;
    for (size_t t = 0; t <= count; t++) {
        sum += nats(logits + t * vocab, vocab, row[t + 1]);
    }
    assert_true(fabs(sum / tokens - loss) < 1e-5 * loss);
    free(logits);
    free(row);
    pacer_free(ids);
    pacer_model_close(model);
    free(run);
}

/* More texts than go through the model at once, of an odd length; the same tokens give the same
 * logits wherever they stand, and a text begun token by token is not disturbed. */
static void test_chain__large_batches_go_in_parts(void **state)
{
    (void)state;
    enum { BATCH = 300, SEQ = 31 };
    char *run = in_folder("run");
    pacer_model *model = open_model(run);
    size_t vocab = (size_t)pacer_model_number(model, "vocab"), count;
    int32_t *tokens = mem_alloc(sizeof(int32_t) * BATCH * SEQ);
    for (int i = 0; i < BATCH * SEQ; i++) {
        tokens[i] =
            (int32_t)((unsigned)(i / SEQ % 7 + 1) * 2654435761U * (unsigned)(i % SEQ + 1) % vocab);
    }
    const float *next;
    done(pacer_model_begin(model, tokens, SEQ));
    float *logits = mem_alloc(sizeof(float) * BATCH * SEQ * vocab);
    done(pacer_model_forward(model, tokens, BATCH, SEQ, logits));
    for (size_t b = 7; b < BATCH; b++) {
        for (size_t i = 0; i < SEQ * vocab; i++) {
            assert_true(fabsf(logits[b * SEQ * vocab + i] - logits[b % 7 * SEQ * vocab + i]) <
                        1e-4F);
        }
    }
    done(pacer_model_logits(model, &next, &count));
    for (size_t i = 0; i < vocab; i++) {
        assert_true(fabsf(next[i] - logits[(SEQ - 1) * vocab + i]) < 1e-4F);
    }
    float *few = mem_alloc(sizeof(float) * 2 * 3 * vocab);
    done(pacer_model_forward(model, tokens, 2, 3, few)); /* tokens 3 to 5 begin the second text */
    for (size_t i = 0; i < 3 * vocab; i++) {
        assert_true(fabsf(few[i] - logits[i]) < 1e-4F);
    }
    assert_int_equal(pacer_model_forward(model, tokens, 1, 33, logits), PACER_INPUT);
    assert_non_null(strstr(pacer_error(), "context"));
    assert_int_equal(pacer_model_forward(model, tokens, 0, 3, logits), PACER_INPUT);
    assert_int_equal(pacer_model_forward(model, tokens, SIZE_MAX / 2, 3, logits), PACER_INPUT);
    tokens[4] = (int32_t)vocab;
    assert_int_equal(pacer_model_forward(model, tokens, 2, 3, few), PACER_INPUT);
    free(few);
    free(logits);
    free(tokens);
    pacer_model_close(model);
    free(run);
}

/* --- Hugging Face --- */

/* Logits of a few tokens by what lies at the path. */
static float *logits_of(const char *path, size_t *vocab)
{
    static const int32_t tokens[] = {1, 2, 3, 5, 8, 13};
    pacer_model *model = open_model(path);
    *vocab = (size_t)pacer_model_number(model, "vocab");
    float *logits = mem_alloc(6 * *vocab * sizeof *logits);
    done(pacer_model_forward(model, tokens, 2, 3, logits));
    pacer_model_close(model);
    return logits;
}

static void test_chain__models_go_to_hugging_face_and_back(void **state)
{
    (void)state;
    char *run = in_folder("run"), *out = in_folder("hf"), *back = in_folder("back");
    pacer_options *options = options_to("export", "hf");
    done(pacer_export(run, options));
    assert_int_equal(pacer_export(run, options), PACER_INPUT); /* it is there already */
    set(options, "format", "csv");
    assert_int_equal(pacer_export(run, options), PACER_INPUT);
    assert_int_equal(pacer_export("/nowhere", NULL), PACER_INPUT);
    pacer_options_free(options);
    options = options_to("import", "back");
    done(pacer_import(out, options));
    assert_int_equal(pacer_import(run, options), PACER_INPUT);
    pacer_options_free(options);
    size_t vocab, again;
    float *trained = logits_of(run, &vocab), *exported = logits_of(out, &again);
    float *imported = logits_of(back, &again);
    assert_int_equal(vocab, again);
    assert_memory_equal(trained, exported, 6 * vocab * sizeof *trained);
    assert_memory_equal(trained, imported, 6 * vocab * sizeof *trained);
    free(trained);
    free(exported);
    free(imported);
    free(run);
    free(out);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain__a_tokenizer_is_that_of_the_program),
        cmocka_unit_test(test_chain__prepared_data_are_those_of_the_program),
        cmocka_unit_test(test_chain__long_work_ends_when_asked),
        cmocka_unit_test(test_chain__validation_losses_are_told_and_recorded),
        cmocka_unit_test(test_chain__files_that_become_shorter_end_no_process),
        cmocka_unit_test(test_chain__logits_of_a_batch_are_those_of_transformers),
        cmocka_unit_test(test_chain__logits_give_the_loss_that_eval_gives),
        cmocka_unit_test(test_chain__large_batches_go_in_parts),
        cmocka_unit_test(test_chain__models_go_to_hugging_face_and_back),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
