/* The library as a program of somebody else sees it: pacer.h alone. Options by name, a training
 * with its calls and its end on request, the record's numbers, tokenizers, a model token by
 * token and as text; and that the host program's signals, output and threads stay its own. */
#include <pacer.h>

#include "base/io.h"
#include "support/own_folder.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

static char *run_folder;  /* made by the first training test, read by those of models */
static int output_before; /* stderr as it was */

static pacer_options *small_training(const char *out, const char *steps)
{
    static const char *const settings[][2] = {
        {"data", "builtin:bytes"}, {"layers", "1"}, {"d-model", "16"},  {"heads", "2"},
        {"context", "32"},         {"batch", "2"},  {"log-every", "1"}, {"threads", "1"},
        {"device", "cpu"}};
    pacer_options *options;
    assert_int_equal(pacer_options_new("train", &options), 0);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        assert_int_equal(pacer_options_set(options, settings[i][0], settings[i][1]), 0);
    }
    assert_int_equal(pacer_options_set(options, "steps", steps), 0);
    char *path = out[0] == '/' ? strdup(out) : io_join(own_folder, out);
    assert_int_equal(pacer_options_set(options, "out", path), 0);
    free(path);
    return options;
}

/* --- options --- */

static void test_api__options_are_those_of_the_command_line(void **state)
{
    (void)state;
    pacer_options *options;
    char *value;
    assert_int_equal(pacer_options_new("trian", &options), PACER_INPUT);
    assert_null(options);
    assert_non_null(strstr(pacer_error(), "train"));
    assert_int_equal(pacer_options_new("train", &options), 0);
    assert_int_equal(pacer_options_set(options, "tokens", "2M"), 0);
    assert_int_equal(pacer_options_get(options, "tokens", &value), 0);
    assert_int_equal(strtol(value, NULL, 10), 2000000);
    pacer_free(value);
    assert_int_equal(pacer_options_set(options, "batch", "zero"), PACER_INPUT);
    assert_non_null(strstr(pacer_error(), "batch"));
    assert_int_equal(pacer_options_get(options, "batch", &value), 0);
    assert_string_equal(value, "auto");
    pacer_free(value);
    assert_int_equal(pacer_options_set(options, "temperature", "1"), PACER_INPUT);
    assert_non_null(strstr(pacer_error(), "generate"));
    assert_int_equal(pacer_options_get(options, "no-such", &value), PACER_INPUT);
    assert_null(value);
    pacer_options_free(options);
    pacer_options_free(NULL);
}

static void test_api__options_come_from_a_file_once(void **state)
{
    (void)state;
    pacer_options *options;
    char *value;
    const char *text = "batch: 3\nlr: 1e-3\n";
    assert_int_equal(io_write_atomic(own_file, text, strlen(text)), 0);
    assert_int_equal(pacer_options_new("train", &options), 0);
    assert_int_equal(pacer_options_set(options, "lr", "1"), 0);
    assert_int_equal(pacer_options_load(options, own_file), 0);
    assert_int_equal(pacer_options_set(options, "batch", "4"), 0);
    assert_int_equal(pacer_options_get(options, "batch", &value), 0);
    assert_string_equal(value, "4");
    pacer_free(value);
    assert_int_equal(pacer_options_get(options, "lr", &value), 0);
    assert_string_equal(value, "0.001");
    pacer_free(value);
    assert_int_equal(pacer_options_load(options, own_file), PACER_INPUT);
    pacer_options_free(options);
}

static void test_api__trainings_that_cannot_begin_say_why(void **state)
{
    (void)state;
    pacer_options *options;
    pacer_result *result = (pacer_result *)&options;
    assert_int_equal(pacer_options_new("train", &options), 0);
    assert_int_equal(pacer_train(options, NULL, NULL, &result), PACER_INPUT);
    assert_null(result);
    assert_non_null(strstr(pacer_error(), "data"));
    pacer_options_free(options);
    assert_int_equal(pacer_options_new("eval", &options), 0);
    assert_int_equal(pacer_train(options, NULL, NULL, NULL), PACER_INPUT);
    assert_non_null(strstr(pacer_error(), "train"));
    pacer_options_free(options);
    options = small_training("never", "1");
    assert_int_equal(pacer_options_set(options, "ranks", "2"), 0);
    assert_int_equal(pacer_train(options, NULL, NULL, NULL), PACER_INPUT);
    assert_non_null(strstr(pacer_error(), "mpirun"));
    pacer_options_free(options);
}

/* --- training --- */

typedef struct {
    int calls;
    int64_t last, stop_at;
    double loss;
    int second; /* what a training within the training says */
} Watched;

static int watch(const pacer_step *step, void *user)
{
    Watched *watched = user;
    assert_true(step->size >= sizeof *step);
    assert_int_equal(step->step, watched->last + 1);
    assert_int_equal(step->tokens, step->step * 2 * 32);
    assert_true(isfinite(step->loss) && step->lr > 0 && step->tok_s > 0);
    watched->calls++;
    watched->last = step->step;
    watched->loss = step->loss;
    if (watched->calls == 1) {
        pacer_options *options = small_training("inner", "1");
        watched->second = pacer_train(options, NULL, NULL, NULL);
        pacer_options_free(options);
    }
    return step->step == watched->stop_at;
}

static double recorded(const char *folder, const char *name)
{
    char *path = io_join(folder, "run.json"), *text;
    size_t size;
    assert_int_equal(io_read_all(path, 1 << 22, &text, &size), 0);
    cJSON *record = cJSON_Parse(text);
    const cJSON *summary = cJSON_GetObjectItem(record, "summary");
    double number = cJSON_GetNumberValue(cJSON_GetObjectItem(summary, name));
    cJSON_Delete(record);
    free(text);
    free(path);
    return number;
}

static void test_api__a_training_stops_when_told_and_goes_on(void **state)
{
    (void)state;
    struct sigaction before, after;
    assert_int_equal(sigaction(SIGINT, NULL, &before), 0);
    pacer_options *options = small_training(run_folder, "4");
    Watched watched = {.stop_at = 2};
    pacer_result *result;
    assert_int_equal(pacer_train(options, watch, &watched, &result), PACER_STOPPED);
    assert_int_equal(watched.calls, 2);
    assert_int_equal(watched.second, PACER_INPUT);
    assert_true(pacer_result_number(result, "steps") == 2);
    pacer_result_free(result);

    watched.stop_at = 0;
    assert_int_equal(pacer_train(options, watch, &watched, &result), 0);
    assert_int_equal(watched.last, 4);
    assert_string_equal(pacer_result_directory(result), run_folder);
    assert_true(pacer_result_number(result, "train_loss") == watched.loss);
    assert_true(pacer_result_number(result, "val_loss") == recorded(run_folder, "val_loss"));
    assert_true(pacer_result_number(result, "val_loss") > 4);
    assert_true(isnan(pacer_result_number(result, "no-such")));
    pacer_result_free(result);
    pacer_options_free(options);
    assert_int_equal(sigaction(SIGINT, NULL, &after), 0);
    assert_true(before.sa_handler == after.sa_handler);
}

static void *fail_in_a_thread(void *user)
{
    (void)user;
    pacer_options *options;
    int code = pacer_options_new("thread", &options);
    return code == PACER_INPUT && strstr(pacer_error(), "thread") != NULL ? run_folder : NULL;
}

/* --- signals of the host program --- */

static atomic_int taken_by; /* thread in which the host's handler ran last; 0: it did not */

static void take(int number)
{
    (void)number;
    atomic_store(&taken_by, (int)gettid());
}

/* In the thread that computes: it takes no signals, but the process does. */
static int send_signal(const pacer_step *step, void *user)
{
    (void)step;
    sigset_t mask;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
    static const int blocked[] = {SIGINT, SIGTERM, SIGALRM, SIGPROF, SIGUSR1, SIGTSTP};
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
    for (size_t i = 0; i < sizeof blocked / sizeof blocked[0]; i++) {
        assert_int_equal(sigismember(&mask, blocked[i]), 1);
    }
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
        assert_int_equal(sigismember(&mask, open[i]), 0);
    }
    atomic_store(&taken_by, 0);
    assert_int_equal(kill(getpid(), *(const int *)user), 0);
    while (atomic_load(&taken_by) == 0) {
        usleep(1000);
    }
    assert_int_not_equal(atomic_load(&taken_by), (int)gettid());
    return 0;
}

static void test_api__signals_reach_the_host_and_no_thread_that_computes(void **state)
{
    (void)state;
    static const int numbers[] = {SIGALRM, SIGPROF, SIGINT, SIGTERM};
    sigset_t before, after;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction action = {.sa_handler = take}, old;
        int number = numbers[i];
        char out[32];
        assert_int_equal(sigaction(number, &action, &old), 0);
        snprintf(out, sizeof out, "signals-%d", number);
        pacer_options *options = small_training(out, "2");
        assert_int_equal(pacer_train(options, send_signal, &number, NULL), 0);
        pacer_options_free(options);
        assert_int_equal(sigaction(number, &old, &action), 0);
        assert_ptr_equal(action.sa_handler, take); /* it stayed the host's */
    }
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    for (int number = 1; number < 32; number++) {
        assert_int_equal(sigismember(&after, number), sigismember(&before, number));
    }
}

/* Losses of a few steps whose products are large enough for any library's own kernels. */
static int keep_loss(const pacer_step *step, void *user)
{
    ((double *)user)[step->step - 1] = step->loss;
    return 0;
}

static void train_products(const char *out, double losses[4])
{
    static const char *const larger[][2] = {
        {"d-model", "256"}, {"heads", "4"}, {"ffn", "512"}, {"context", "128"}, {"threads", "2"}};
    pacer_options *options = small_training(out, "4");
    for (size_t i = 0; i < sizeof larger / sizeof *larger; i++) {
        assert_int_equal(pacer_options_set(options, larger[i][0], larger[i][1]), 0);
    }
    assert_int_equal(pacer_train(options, keep_loss, losses, NULL), 0);
    pacer_options_free(options);
}

static void test_api__a_storm_of_signals_changes_no_bit(void **state)
{
    (void)state;
    static const int numbers[] = {SIGALRM, SIGPROF, SIGVTALRM};
    static const int timers[] = {ITIMER_REAL, ITIMER_PROF, ITIMER_VIRTUAL};
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {0};
    double calm[4] = {0}, stormy[4] = {0};
    train_products("calm", calm);
    assert_true(calm[0] > 1 && calm[3] > 1);
    atomic_store(&taken_by, 0);
    struct sigaction action = {.sa_handler = take, .sa_flags = SA_RESTART}, old[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sigaction(numbers[i], &action, &old[i]), 0);
        assert_int_equal(setitimer((__itimer_which_t)timers[i], &often, NULL), 0);
    }
    train_products("stormy", stormy);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(setitimer((__itimer_which_t)timers[i], &never, NULL), 0);
        assert_int_equal(sigaction(numbers[i], &old[i], NULL), 0);
    }
    assert_int_not_equal(atomic_load(&taken_by), 0);
    assert_memory_equal(calm, stormy, sizeof calm);
}

static void test_api__each_thread_has_its_message(void **state)
{
    (void)state;
    pacer_options *options;
    pthread_t thread;
    void *seen;
    assert_int_equal(pacer_options_new("mine", &options), PACER_INPUT);
    assert_int_equal(pthread_create(&thread, NULL, fail_in_a_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &seen), 0);
    assert_non_null(seen);
    assert_non_null(strstr(pacer_error(), "'mine'"));
}

/* --- tokenizers --- */

static void test_api__text_comes_back_from_its_ids(void **state)
{
    (void)state;
    const char text[] = "a\0\xff\xc3\xa4 <|endoftext|>b";
    size_t size = sizeof text - 1, count, back_size;
    pacer_tokenizer *tokenizer;
    int32_t *ids;
    char *back;
    assert_int_equal(pacer_tokenizer_open("/nowhere/tokenizer.json", &tokenizer), PACER_INPUT);
    assert_null(tokenizer);
    assert_int_equal(pacer_tokenizer_open("bytes", &tokenizer), 0);
    assert_int_equal(pacer_tokenizer_vocab(tokenizer), 257);
    assert_int_equal(pacer_tokenize(tokenizer, text, size, &ids, &count), 0);
    assert_int_equal(count, 6 + 1 + 1); /* six bytes, the end of a document, b */
    assert_int_equal(ids[2], 0xff);
    assert_int_equal(ids[6], 256);
    assert_int_equal(pacer_detokenize(tokenizer, ids, count, &back, &back_size), 0);
    assert_int_equal(back_size, size);
    assert_memory_equal(back, text, size);
    pacer_free(back);
    ids[0] = -1;
    assert_int_equal(pacer_detokenize(tokenizer, ids, count, &back, &back_size), PACER_INPUT);
    pacer_free(ids);
    assert_int_equal(pacer_tokenize(tokenizer, "", 0, &ids, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(pacer_detokenize(tokenizer, ids, 0, &back, &back_size), 0);
    assert_string_equal(back, "");
    pacer_free(ids);
    pacer_free(back);
    pacer_tokenizer_close(tokenizer);
}

/* --- models --- */

static pacer_model *open_model(void)
{
    pacer_model *model;
    pacer_options *options;
    assert_int_equal(pacer_options_new("generate", &options), 0);
    assert_int_equal(pacer_options_set(options, "device", "cpu"), 0);
    assert_int_equal(pacer_options_set(options, "threads", "1"), 0);
    if (pacer_model_open(run_folder, options, &model) != 0) {
        fail_msg("%s", pacer_error());
    }
    pacer_options_free(options);
    return model;
}

static void test_api__a_model_gives_logits_token_by_token(void **state)
{
    (void)state;
    pacer_model *model;
    assert_int_equal(pacer_model_open("/nowhere", NULL, &model), PACER_INPUT);
    assert_null(model);
    model = open_model();
    assert_true(pacer_model_number(model, "step") == 4);
    assert_true(pacer_model_number(model, "context") == 32);
    assert_true(pacer_model_number(model, "layers") == 1);
    assert_true(pacer_model_number(model, "parameters") > 257 * 16);
    assert_true(isnan(pacer_model_number(model, "no-such")));

    const float *logits;
    size_t vocab, again;
    const int32_t tokens[] = {256, 'O', 'n', 'c', 'e'};
    assert_int_equal(pacer_model_logits(model, &logits, &vocab), PACER_INPUT);
    assert_int_equal(pacer_model_append(model, 1), PACER_INPUT);
    assert_int_equal(pacer_model_begin(model, tokens, 0), PACER_INPUT);
    assert_int_equal(pacer_model_begin(model, tokens, 5), 0);
    assert_int_equal(pacer_model_logits(model, &logits, &vocab), 0);
    assert_true((double)vocab == pacer_model_number(model, "vocab"));
    float *whole = malloc(vocab * sizeof *whole);
    memcpy(whole, logits, vocab * sizeof *whole);
    assert_int_equal(pacer_model_begin(model, tokens, 2), 0);
    for (int i = 2; i < 5; i++) {
        assert_int_equal(pacer_model_append(model, tokens[i]), 0);
    }
    assert_int_equal(pacer_model_append(model, (int32_t)vocab), PACER_INPUT);
    assert_int_equal(pacer_model_logits(model, &logits, &again), 0);
    assert_int_equal(again, vocab);
    for (size_t i = 0; i < vocab; i++) {
        assert_true(fabsf(logits[i] - whole[i]) < 1e-4F);
    }
    free(whole);
    pacer_model_close(model);
}

typedef struct {
    char text[512];
    size_t size;
    int calls, stop_at;
} Told;

static int take_text(const char *text, size_t size, int64_t sample, void *user)
{
    Told *told = user;
    assert_int_equal(sample, 0);
    assert_true(told->size + size < sizeof told->text);
    memcpy(told->text + told->size, text, size);
    told->size += size;
    return ++told->calls == told->stop_at;
}

static void test_api__a_model_writes_text(void **state)
{
    (void)state;
    pacer_model *model = open_model();
    pacer_options *options;
    pacer_result *result;
    assert_int_equal(pacer_options_new("generate", &options), 0);
    assert_int_equal(pacer_options_set(options, "max-tokens", "20"), 0);
    Told once = {0}, twice = {0}, some = {.stop_at = 3};
    assert_int_equal(pacer_generate(model, options, "Once", 4, take_text, &once, &result), 0);
    assert_true(pacer_result_number(result, "prompt_tokens") ==
                5); /* the end of a document first */
    assert_true(once.size > 0 && pacer_result_number(result, "tokens") <= 20);
    assert_string_equal(pacer_result_directory(result), "");
    pacer_result_free(result);
    assert_int_equal(pacer_options_set(options, "prompt", "Once"), 0);
    assert_int_equal(pacer_generate(model, options, NULL, 0, take_text, &twice, NULL), 0);
    assert_int_equal(once.size, twice.size);
    assert_memory_equal(once.text, twice.text, once.size);
    assert_int_equal(pacer_generate(model, options, NULL, 0, take_text, &some, &result),
                     PACER_STOPPED);
    assert_true(some.size < once.size && pacer_result_number(result, "tokens") < 20);
    pacer_result_free(result);

    /* The model's tokenizer is its own, and reads what it writes. */
    int32_t *ids;
    size_t count;
    assert_int_equal(
        pacer_tokenize(pacer_model_tokenizer(model), once.text, once.size, &ids, &count), 0);
    pacer_free(ids);
    pacer_options_free(options);
    pacer_model_close(model);
}

static void test_api__a_model_is_evaluated_as_in_training(void **state)
{
    (void)state;
    pacer_model *model = open_model();
    pacer_options *options;
    pacer_result *result;
    /* The run's own validation data, as many batches as its record is of. */
    assert_int_equal(pacer_options_new("eval", &options), 0);
    assert_int_equal(pacer_options_set(options, "batches", "20"), 0);
    assert_int_equal(pacer_evaluate(model, options, NULL, 0, &result), 0);
    assert_true(pacer_result_number(result, "tokens") == 20 * 2 * 32);
    double loss = pacer_result_number(result, "loss"), trained = recorded(run_folder, "val_loss");
    assert_true(fabs(loss - trained) < 1e-5 * trained);
    /* The same bits, but for the last ones, which a number in JSON may lose. */
    double mean = pacer_result_number(result, "mean_of_batches");
    assert_true(fabs(mean - trained) <= DBL_EPSILON * trained);
    assert_true(fabs(pacer_result_number(result, "perplexity") / exp(loss) - 1) < 1e-12);
    pacer_result_free(result);
    pacer_options_free(options);

    /* Eleven bytes and the end behind them; every token is a byte. */
    const char *text = "Once a time", *const inputs[] = {own_file};
    assert_int_equal(io_write_atomic(own_file, text, strlen(text)), 0);
    assert_int_equal(pacer_evaluate(model, NULL, inputs, 1, &result), 0);
    assert_true(pacer_result_number(result, "documents") == 1);
    assert_true(pacer_result_number(result, "tokens") == 12);
    assert_true(pacer_result_number(result, "bytes") == 11);
    double bits = pacer_result_number(result, "loss") * 12 / 11 / log(2);
    assert_true(fabs(pacer_result_number(result, "bits_per_byte") - bits) < 1e-9 * bits);
    pacer_result_free(result);
    const char *const nowhere[] = {"/nowhere.txt"};
    assert_int_equal(pacer_evaluate(model, NULL, nowhere, 1, &result), PACER_INPUT);
    assert_null(result);
    pacer_model_close(model);
}

static void test_api__nothing_was_written_to_stderr(void **state)
{
    (void)state;
    assert_int_equal(lseek(STDERR_FILENO, 0, SEEK_CUR), 0);
    assert_int_equal(pacer_api_version(), PACER_API_VERSION);
    assert_true(pacer_version()[0] >= '0' && pacer_version()[0] <= '9');
    pacer_log(PACER_LOG_INFO);
    pacer_options *options = small_training("never", "1");
    assert_int_equal(pacer_options_set(options, "data", "/nowhere"), 0);
    assert_int_equal(pacer_train(options, NULL, NULL, NULL), PACER_INPUT);
    pacer_options_free(options);
    pacer_log(PACER_LOG_NONE);
}

/* Stderr goes to a file, so that its length tells whether the library wrote. */
static int begin(void **state)
{
    int code = own_folder_make(state);
    run_folder = io_join(own_folder, "run");
    char *path = io_join(own_folder, "stderr");
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    free(path);
    output_before = dup(STDERR_FILENO);
    return code != 0 || file < 0 || dup2(file, STDERR_FILENO) < 0 || close(file) != 0;
}

/* What came there in spite of all is shown: cmocka's words on a test that failed are among it. */
static int end(void **state)
{
    dup2(output_before, STDERR_FILENO);
    close(output_before);
    char *path = io_join(own_folder, "stderr"), *text = NULL;
    size_t size;
    if (io_read_all(path, 1 << 22, &text, &size) == 0) {
        fputs(text, stderr);
    }
    free(text);
    free(path);
    free(run_folder);
    return own_folder_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_api__options_are_those_of_the_command_line),
        cmocka_unit_test(test_api__options_come_from_a_file_once),
        cmocka_unit_test(test_api__trainings_that_cannot_begin_say_why),
        cmocka_unit_test(test_api__a_training_stops_when_told_and_goes_on),
        cmocka_unit_test(test_api__signals_reach_the_host_and_no_thread_that_computes),
        cmocka_unit_test(test_api__a_storm_of_signals_changes_no_bit),
        cmocka_unit_test(test_api__each_thread_has_its_message),
        cmocka_unit_test(test_api__text_comes_back_from_its_ids),
        cmocka_unit_test(test_api__a_model_gives_logits_token_by_token),
        cmocka_unit_test(test_api__a_model_writes_text),
        cmocka_unit_test(test_api__a_model_is_evaluated_as_in_training),
        cmocka_unit_test(test_api__nothing_was_written_to_stderr),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
