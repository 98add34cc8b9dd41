/* The first minutes with pacer: a tiny Llama-style model learns the built-in stories byte by byte, and
 * tells one before and after. */
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "cli/commands.h"
#include "data/bytes.h"
#include "model/generate.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/setup.h"

#include <stdlib.h>
#include <string.h>

#define PROMPT "Once upon a time"
#define SAMPLE_BYTES 400

static const struct {
    const char *name, *value;
} settings[] = {
    {"model", "tiny"},     {"data", "builtin:stories"},
    {"batch", "8"},        {"steps", "1600"},
    {"lr", "4e-3"},        {"warmup", "60"},
    {"eval-every", "400"}, {"eval-batches", "10"},
    {"save-every", "400"}, {"out", "demo/run"},
};

static int demo_config(Config *train, const Config *cfg)
{
    config_init(train, COMMAND_TRAIN);
    int code = 0;
    for (size_t i = 0; code == 0 && i < sizeof settings / sizeof settings[0]; i++) {
        code = config_set(train, settings[i].name, settings[i].value);
    }
    if (code == 0) {
        config_inherit(train, cfg);
        code = config_check(train);
    }
    return code;
}

/* Continues the prompt with the model's weights, up to the end of the story. */
static int tell(Trainer *trainer, Backend *backend)
{
    Generator generator;
    int code = generator_open(&generator, &trainer->model, backend);
    if (code != 0) {
        return code;
    }
    int32_t tokens[SAMPLE_BYTES];
    int64_t count = 0;
    for (const char *at = PROMPT; *at != '\0'; at++) {
        tokens[count++] = (unsigned char)*at;
    }
    fputs("  " PROMPT, stdout);
    SampleSettings sampling = {.temperature = 0.6, .top_k = 40, .seed = 7};
    while (count < SAMPLE_BYTES) {
        int32_t token = generator_next(&generator, tokens, count, &sampling);
        if (token == (int32_t)BYTES_END) {
            break;
        }
        tokens[count++] = token;
        bool printable = (token >= ' ' && token < 127) || token == '\n';
        fputs(token == '\n' ? "\n  " : (printable ? (char[]){(char)token, '\0'} : "."), stdout);
        fflush(stdout);
    }
    fputs("\n\n", stdout);
    generator_close(&generator);
    return 0;
}

/* A sample from fresh weights, or from the run's last checkpoint. */
static int sample(const Config *train, const char *run_dir)
{
    Run run;
    int code = run_open(&run, train, DATA_REQUIRED);
    if (code != 0) {
        return code;
    }
    Trainer trainer = {0};
    TrainState state;
    char *checkpoint = NULL;
    code = trainer_open(&trainer, &run.setup, run.backend, &run.plan);
    if (code == 0 && run_dir == NULL) {
        trainer_init_params(&trainer, (uint64_t)train->seed);
    } else if (code == 0) {
        code = checkpoint_find(run_dir, &checkpoint);
        if (code == 0 && checkpoint != NULL) {
            code = checkpoint_load(checkpoint, &trainer, &state);
        }
    }
    if (code == 0) {
        code = tell(&trainer, run.backend);
    }
    free(checkpoint);
    trainer_close(&trainer);
    run_close(&run);
    return code;
}

int cmd_demo(Config *cfg, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    Config train;
    TrainResult result = {0};
    int code = demo_config(&train, cfg);
    if (code == 0) {
        puts("A model that knows nothing continues \"" PROMPT "\":\n");
        code = sample(&train, NULL);
    }
    if (code == 0) {
        puts("Now it reads the built-in stories, letter by letter.\n");
        fflush(stdout);
        code = train_run(&train, &result);
    }
    if (code == 0) {
        printf("\nThe same model after %lld steps, validation loss %.3f:\n\n",
               (long long)train.steps, result.val_loss);
        code = sample(&train, result.dir);
    }
    if (code == 0) {
        printf(
            "Everything about the run is in %s (run.json, metrics.jsonl, ckpt/).\n\nWhat to try "
            "next:\n"
            "  pacer demo                                        nothing to do: it goes on where "
            "it was\n"
            "  pacer data prepare --out shards yourtext.txt      your own text\n"
            "  pacer train --model tiny --data shards --steps 2000\n"
            "  pacer plan --model gpt2-124m --batch 8            what a bigger model would take\n",
            result.dir);
    }
    free(result.dir);
    config_free(&train);
    return code;
}
