/* From a text file to a model for Hugging Face, with pacer alone: a tokenizer, shards, a training
 * with its validation losses, the model's logits, what it is worth, and an export.
 *
 *     cc -o from_text from_text.c $(pkg-config --cflags --libs pacer) -lm
 *     ./from_text book.txt work
 *
 * The first argument is a text, or builtin:stories:BYTES; the second a folder, which is made. */
#include <pacer.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SEQ 32

/* The first of the codes that is no success ends the program. */
static void check(int code)
{
    if (code != PACER_OK) {
        fprintf(stderr, "from_text: %s\n", pacer_error());
        exit(-code);
    }
}

/* Options of a command by pairs of name and value, up to a NULL; "@name" is in the folder. */
static pacer_options *options_of(const char *command, const char *folder,
                                 const char *const *settings)
{
    pacer_options *options;
    check(pacer_options_new(command, &options));
    for (; settings[0] != NULL; settings += 2) {
        char path[4096];
        const char *value = settings[1];
        if (value[0] == '@') {
            snprintf(path, sizeof path, "%s/%s", folder, value + 1);
            value = path;
        }
        check(pacer_options_set(options, settings[0], value));
    }
    return options;
}

static int on_validation(const pacer_validation *validation, void *user)
{
    (void)user;
    printf("step %lld of %lld: validation loss %.4f\n", (long long)validation->step,
           (long long)validation->steps, validation->loss);
    return 0; /* anything else would end the training here */
}

/* Mean of -log p(next token) over a batch, from the logits alone. */
static double loss_of(const float *logits, const int32_t *tokens, size_t batch, size_t vocab)
{
    double sum = 0;
    for (size_t row = 0; row < batch * SEQ; row++, logits += vocab) {
        int32_t next = tokens[row / SEQ * (SEQ + 1) + row % SEQ + 1];
        double most = logits[0], total = 0;
        for (size_t i = 1; i < vocab; i++) {
            most = logits[i] > most ? logits[i] : most;
        }
        for (size_t i = 0; i < vocab; i++) {
            total += exp(logits[i] - most);
        }
        sum += log(total) + most - logits[next];
    }
    return sum / (double)(batch * SEQ);
}

/* The beginning of a text as a batch of two: ids, logits, loss. */
static void show_logits(pacer_model *model, const char *text)
{
    enum { BATCH = 2 };
    int32_t *ids, inputs[BATCH * SEQ];
    size_t count, vocab = (size_t)pacer_model_number(model, "vocab");
    check(pacer_tokenize(pacer_model_tokenizer(model), text, strlen(text), &ids, &count));
    if (count < BATCH * (SEQ + 1)) {
        fprintf(stderr, "from_text: %zu tokens are too few for a batch\n", count);
        exit(2);
    }
    for (size_t b = 0; b < BATCH; b++) {
        memcpy(inputs + b * SEQ, ids + b * (SEQ + 1), SEQ * sizeof *inputs);
    }
    float *logits = malloc(BATCH * SEQ * vocab * sizeof *logits);
    if (logits == NULL) {
        exit(3);
    }
    check(pacer_model_forward(model, inputs, BATCH, SEQ, logits));
    printf("logits of %d x %d x %zu: loss %.4f\n", BATCH, SEQ, vocab,
           loss_of(logits, ids, BATCH, vocab));
    free(logits);
    pacer_free(ids);
}

static void make_tokenizer(const char *const *texts, const char *folder)
{
    pacer_result *result;
    pacer_options *options =
        options_of("tokenizer train", folder,
                   (const char *[]){"vocab", "512", "out", "@tokenizer.json", NULL});
    check(pacer_tokenizer_train(options, texts, 1, &result));
    printf("tokenizer: %.0f entries from %.0f bytes\n", pacer_result_number(result, "vocab"),
           pacer_result_number(result, "bytes"));
    pacer_result_free(result);
    pacer_options_free(options);
}

static void make_data(const char *const *texts, const char *folder)
{
    pacer_result *result;
    pacer_options *options =
        options_of("data prepare", folder,
                   (const char *[]){"tokenizer", "@tokenizer.json", "val-fraction", "0.1", "out",
                                    "@shards", NULL});
    check(pacer_prepare(options, texts, 1, &result));
    printf("data: %.0f tokens to train on, %.0f for validation\n",
           pacer_result_number(result, "train_tokens"), pacer_result_number(result, "val_tokens"));
    pacer_result_free(result);
    pacer_options_free(options);
}

/* The outcome, to be freed, knows the run's directory. */
static pacer_result *train(const char *folder)
{
    pacer_result *result;
    pacer_options *options =
        options_of("train", folder,
                   (const char *[]){"data",       "@shards", "out",     "@run", "steps", "60",
                                    "layers",     "2",       "d-model", "64",   "heads", "4",
                                    "context",    "64",      "batch",   "8",    "lr",    "3e-3",
                                    "eval-every", "20",      "device",  "cpu",  NULL});
    pacer_options_on_validation(options, on_validation, NULL);
    int code = pacer_train(options, NULL, NULL, &result);
    if (code != PACER_CHECK) { /* trained, but two numbers of its record do not agree */
        check(code);
    }
    pacer_options_free(options);
    return result;
}

/* The validation losses again, from the run's record. */
static void show_record(const char *run)
{
    int64_t *steps;
    double *losses;
    size_t count;
    check(pacer_run_curve(run, "val_loss", &steps, &losses, &count));
    for (size_t i = 0; i < count; i++) {
        printf("recorded: %.4f after step %lld\n", losses[i], (long long)steps[i]);
    }
    pacer_free(steps);
    pacer_free(losses);
}

static void use(const char *run)
{
    pacer_model *model;
    pacer_result *result;
    check(pacer_model_open(run, NULL, &model));
    check(pacer_evaluate(model, NULL, NULL, 0, &result)); /* on the run's own validation data */
    printf("evaluated: loss %.4f, perplexity %.2f, %.4f bits per byte, %.0f tokens\n",
           pacer_result_number(result, "loss"), pacer_result_number(result, "perplexity"),
           pacer_result_number(result, "bits_per_byte"), pacer_result_number(result, "tokens"));
    pacer_result_free(result);
    show_logits(model, "Once upon a time there was a little girl who lived near the woods. Every "
                       "morning she went out to see what the birds were doing, and every evening "
                       "she came back with something to tell. One day the birds were gone, and "
                       "she asked the old man at the well where they might be.");
    pacer_model_close(model);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: from_text TEXT FOLDER\n");
        return 2;
    }
    const char *const texts[] = {argv[1]}, *folder = argv[2];
    mkdir(folder, 0777);
    make_tokenizer(texts, folder);
    make_data(texts, folder);
    pacer_result *result = train(folder);
    const char *run = pacer_result_directory(result);
    printf("%s: validation loss %.4f\n", run, pacer_result_number(result, "val_loss"));
    show_record(run);
    use(run);
    pacer_options *options = options_of("export", folder, (const char *[]){"out", "@hf", NULL});
    check(pacer_export(run, options));
    printf("exported: %s/hf\n", folder);
    pacer_options_free(options);
    pacer_result_free(result);
    return 0;
}
