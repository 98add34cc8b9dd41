/* The first minutes with pacer: the commands that take text to a trained model, one after the
 * other, shown as a user would type them. Nothing is left outside the demo's folder, and run
 * again it goes on where it was. */
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/signals.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/screen.h"
#include "report/report.h"
#include "report/watch.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "use/writer.h"

#include <stdlib.h>
#include <string.h>

#define PROMPT "Once upon a time"
#define SAMPLE_TOKENS 220 /* of a story, at most */
#define NOISE_TOKENS 60   /* of what a model says that knows nothing */
#define CURVE_COLUMNS 73
#define CURVE_ROWS 10

typedef struct {
    char *folder, *text, *tokenizer, *shards, *run, *report;
} Paths;

static void paths_init(Paths *paths, const char *out)
{
    paths->folder = mem_strdup(out[0] != '\0' ? out : "demo");
    paths->text = io_join(paths->folder, "stories.txt");
    paths->tokenizer = io_join(paths->folder, "tokenizer.json");
    paths->shards = io_join(paths->folder, "shards");
    paths->run = io_join(paths->folder, "run");
    paths->report = io_join(paths->folder, "report");
}

static void paths_free(Paths *paths)
{
    free(paths->folder);
    free(paths->text);
    free(paths->tokenizer);
    free(paths->shards);
    free(paths->run);
    free(paths->report);
}

/* Names and values of options in turn, then NULL. */
static int set_options(Config *cfg, const Config *given, const char *const *options)
{
    int code = 0;
    for (int i = 0; code == 0 && options[i] != NULL; i += 2) {
        code = config_set(cfg, options[i], options[i + 1]);
    }
    if (code == 0) {
        char *out = mem_strdup(cfg->out);
        config_inherit(cfg, given);
        code = config_set(cfg, "out", out); /* --out of the demo is its folder */
        free(out);
    }
    return code != 0 ? code : config_check(cfg);
}

static void print_command(Command command, const char *const *options, const char *input)
{
    printf("\n$ pacer %s", command_words(command));
    for (int i = 0; options[i] != NULL; i += 2) {
        char *value = escape_shell_path(options[i + 1]);
        printf(" --%s %s", options[i], value);
        free(value);
    }
    char *argument = escape_shell_path(input != NULL ? input : "");
    printf("%s%s\n", input != NULL ? " " : "", input != NULL ? argument : "");
    free(argument);
    fflush(stdout);
}

static int run_command(Command command, const Config *given, const char *const *options,
                       char *input)
{
    Config cfg;
    config_init(&cfg, command);
    cfg.argc = input != NULL;
    cfg.argv = &input;
    print_command(command, options, input);
    int code = set_options(&cfg, given, options);
    code = code != 0 ? code : command_rows[command].run(&cfg);
    config_free(&cfg);
    return code;
}

/* --- samples --- */

/* Prints text as it comes, broken into lines at blanks. */
typedef struct {
    int column, breaks; /* breaks: line breaks that wait for text behind them */
    uint8_t word[256];
    size_t size;
} Teller;

static void tell_word(Teller *teller)
{
    for (; teller->size > 0 && teller->breaks > 0; teller->breaks--) {
        fputs(teller->breaks > 1 ? "\n" : "\n  ", stdout);
        teller->column = 0;
    }
    if (teller->column + (int)teller->size > screen_text_width() - 4) {
        fputs("\n  ", stdout);
        teller->column = 0;
        size_t blank = teller->size > 0 && teller->word[0] == ' ';
        memmove(teller->word, teller->word + blank, teller->size - blank);
        teller->size -= blank;
    }
    escape_write(stdout, teller->word, teller->size, false);
    teller->column += (int)teller->size;
    teller->size = 0;
    fflush(stdout);
}

static int tell(void *user, int64_t sample, const uint8_t *bytes, size_t size)
{
    (void)sample;
    Teller *teller = user;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] == ' ' || bytes[i] == '\n' || teller->size == sizeof teller->word) {
            tell_word(teller);
        }
        if (bytes[i] == '\n') {
            teller->breaks++;
        } else {
            teller->word[teller->size++] = bytes[i];
        }
    }
    return 0;
}

/* Continues the prompt with the model's weights, up to the end of the story or `most` tokens. */
static int tell_story(const Trainer *trainer, Backend *backend, Tokenizer *tokenizer, int64_t most)
{
    LoadedModel loaded = {.backend = backend, .model = trainer->model, .tokenizer = tokenizer};
    TokenList prompt = {0};
    Written written = {0};
    const uint8_t *text = (const uint8_t *)PROMPT;
    int code = writer_prompt(&loaded, text, strlen(PROMPT), &prompt);
    if (code == 0) {
        Teller teller = {.column = 0};
        WriterSettings settings = {.sampling = {.temperature = 0.6, .top_k = 40, .seed = 7},
                                   .samples = 1,
                                   .max_tokens = most - (int64_t)prompt.count,
                                   .cached = true,
                                   .stops = (const char *const[]){NULL},
                                   .tell = tell,
                                   .user = &teller};
        fputs("  ", stdout);
        tell(&teller, 0, text, strlen(PROMPT));
        code = writer_run(&loaded, &prompt, &settings, &written);
        tell_word(&teller);
        fputs("\n", stdout);
    }
    written_free(&written);
    token_list_free(&prompt);
    return code;
}

/* A story from fresh weights, or from the run's last checkpoint. */
static int sample(Config *train, const char *run_dir)
{
    Bench bench;
    TrainState state;
    Tokenizer *tokenizer = NULL;
    char *checkpoint = NULL;
    int code = bench_open(&bench, train, NULL);
    code = code != 0 ? code : dataset_tokenizer(&bench.run.data, &tokenizer);
    if (code == 0 && run_dir != NULL) {
        code = checkpoint_find(run_dir, &checkpoint);
    }
    if (code == 0 && checkpoint != NULL) {
        code = checkpoint_load(checkpoint, &bench.trainer, &state);
    }
    code = code != 0 ? code
                     : tell_story(&bench.trainer, bench.run.backend, tokenizer,
                                  run_dir == NULL ? NOISE_TOKENS : SAMPLE_TOKENS);
    free(checkpoint);
    tokenizer_free(tokenizer);
    bench_close(&bench);
    return code;
}

/* --- the steps --- */

static int make_data(const Config *given, const Paths *paths)
{
    const char *const stories[] = {"bytes", "24M", "out", paths->text, NULL};
    const char *const learn[] = {"vocab", "4096", "out", paths->tokenizer, NULL};
    const char *const prepare[] = {"tokenizer", paths->tokenizer, "out", paths->shards, NULL};
    int code = io_make_folders(paths->folder);
    code = code != 0 ? code : run_command(COMMAND_DATA_STORIES, given, stories, NULL);
    code = code != 0 ? code : run_command(COMMAND_TOKENIZER_TRAIN, given, learn, paths->text);
    return code != 0 ? code : run_command(COMMAND_DATA_PREPARE, given, prepare, paths->text);
}

static int show_result(Config *train, const TrainResult *result, const Paths *paths)
{
    WatchRun run;
    WatchText text;
    int width = screen_text_width();
    watch_open(&run, result->dir);
    watch_poll(&run);
    watch_text_init(&text, &(WatchFlags){.width = width < CURVE_COLUMNS ? width : CURVE_COLUMNS,
                                         .height = CURVE_ROWS,
                                         .utf8 = screen_has_utf8(),
                                         .colour = screen_has_colour()});
    watch_plot(&text, &run, CURVE_ROWS);
    fputc('\n', stdout);
    for (int i = 0; i < text.count; i++) {
        puts(text.lines[i].text);
    }
    watch_text_free(&text);
    watch_close(&run);
    printf("\nThe same model after %lld steps continues \"" PROMPT "\":\n\n",
           (long long)train->steps);
    int code = sample(train, result->dir);
    code = code != 0 ? code : run_report(result->dir, paths->report);
    if (code == 0) {
        char *chart = io_join(paths->report, "loss.svg");
        bool drawn = io_exists(chart);
        escape_printf(stdout, "\nThe report is %s/report.html%s%s, the run's record %s.\n\n",
                      paths->report, drawn ? ", its loss curve " : "", drawn ? chart : "",
                      result->dir);
        free(chart);
        char *folder = escape_shell_path(result->dir);
        printf("What to try next\n"
               "  pacer generate %s --prompt 'The little fox'\n"
               "  pacer serve %s                          the run in a browser\n",
               folder, folder);
        free(folder);
        fputs("  pacer tokenizer train --vocab 4096 --out tok.json yourtext.txt     your own text\n"
              "  pacer data prepare --tokenizer tok.json --out shards yourtext.txt\n"
              "  pacer train --model tiny --data shards --steps 2000\n"
              "  pacer plan --model gpt2-124m --batch 8                   what a bigger model "
              "takes\n",
              stdout);
    }
    return code;
}

int cmd_demo(Config *cfg)
{
    Paths paths;
    paths_init(&paths, cfg->out);
    /* A GPU's timings, which otherwise stay in the user's cache for all runs. */
    char *timings = io_join(paths.folder, "gpu-timings.txt");
    setenv("PACER_TUNE_CACHE", timings, 0);
    free(timings);
    const char *const options[] = {
        "model",      "tiny", "layers",    "1",    "data",   paths.shards, "batch",      "8",
        "steps",      "2400", "lr",        "3e-3", "warmup", "60",         "eval-every", "600",
        "save-every", "600",  "log-every", "20",   "out",    paths.run,    NULL};
    Config train;
    TrainResult result = {0};
    config_init(&train, COMMAND_TRAIN);
    int code = make_data(cfg, &paths);
    code = code != 0 ? code : set_options(&train, cfg, options);
    code = code != 0 ? code : run_resolve(&train);
    if (code == 0) {
        puts("\nA model that knows nothing continues \"" PROMPT "\":\n");
        code = sample(&train, NULL);
    }
    if (code == 0) {
        print_command(COMMAND_TRAIN, options, NULL);
        signals_install();
        code = train_run(&train, NULL, NULL, &result);
    }
    code = code != 0 ? code : show_result(&train, &result, &paths);
    free(result.dir);
    config_free(&train);
    paths_free(&paths);
    return code;
}
