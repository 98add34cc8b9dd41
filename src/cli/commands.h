#pragma once
/* The commands. Each takes the parsed options and the arguments that are no options (as many as its
 * row below allows), and returns 0 or an ErrCode with its message set; main prints the message
 * and turns the code into the exit status. cfg->command tells subcommands apart. */
#include "config/config.h"

int cmd_train(Config *cfg, int argc, char **argv);
int cmd_plan(Config *cfg, int argc, char **argv);
int cmd_models(Config *cfg, int argc, char **argv);
int cmd_tokenizer(Config *cfg, int argc, char **argv); /* COMMAND_TOKENIZER_* */
int cmd_data(Config *cfg, int argc, char **argv);      /* COMMAND_DATA_* */
int cmd_bench(Config *cfg, int argc, char **argv);     /* COMMAND_BENCH_STEP and _OPS */
int cmd_profile(Config *cfg, int argc, char **argv);
int cmd_bench_attention(Config *cfg, int argc, char **argv);
int cmd_bench_machine(Config *cfg, int argc, char **argv);
int bench_link(Config *cfg); /* bench_link.c: bench machine as one of several ranks */
int cmd_report(Config *cfg, int argc, char **argv);
int cmd_check(Config *cfg, int argc, char **argv);
int cmd_sweep(Config *cfg, int argc, char **argv);
int cmd_watch(Config *cfg, int argc, char **argv);
int cmd_generate(Config *cfg, int argc, char **argv);
int cmd_eval(Config *cfg, int argc, char **argv);
int cmd_export(Config *cfg, int argc, char **argv);
int cmd_import(Config *cfg, int argc, char **argv);
int cmd_completion(Config *cfg, int argc, char **argv);
int cmd_demo(Config *cfg, int argc, char **argv);

/* What is said of a command, and its function; one row each, in command_rows.c. */
typedef struct {
    const char *summary;
    const char *arguments; /* behind the words, "" if none */
    int min_arguments, max_arguments;
    const char *description;
    const char *examples; /* one per line, without "pacer " */
    int (*run)(Config *cfg, int argc, char **argv);
} CommandRow;

extern const CommandRow command_rows[COMMAND_COUNT];
