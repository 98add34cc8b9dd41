#pragma once
/* The commands. Each takes the parsed options and the arguments that are no options (as many as its
 * row below allows), and returns 0 or an ErrCode with its message set; main prints the message
 * and turns the code into the exit status. A positive number is an exit status of the command's
 * own: an answer, not a failure. */
#include "config/config.h"

#include <stdio.h>

int cmd_train(Config *cfg);
int cmd_plan(Config *cfg);
int cmd_models(Config *cfg);
int cmd_tokenizer_train(Config *cfg);
int cmd_tokenizer_encode(Config *cfg);
int cmd_tokenizer_decode(Config *cfg);
int cmd_tokenizer_info(Config *cfg);
int cmd_data_prepare(Config *cfg);
int cmd_data_info(Config *cfg);
int cmd_data_stories(Config *cfg);
int cmd_bench(Config *cfg); /* COMMAND_BENCH_STEP and _OPS */
int cmd_bench_attention(Config *cfg);
int cmd_bench_machine(Config *cfg);
int cmd_bench_comm(Config *cfg);
int cmd_profile(Config *cfg);
int cmd_report(Config *cfg);
int cmd_check(Config *cfg);
int cmd_sweep(Config *cfg);
int check_starts_runs(const Config *cfg, const char *what); /* of sweep and duel: before any */
int cmd_duel(Config *cfg);
int cmd_watch(Config *cfg);
int cmd_serve(Config *cfg);
void serve_offer(const char *folder); /* how to look at it in a browser, on a terminal */
int cmd_generate(Config *cfg);
int cmd_eval(Config *cfg);
int cmd_export(Config *cfg);
int cmd_import(Config *cfg);
int cmd_completion(Config *cfg);
int cmd_demo(Config *cfg);

/* What is said of a command, and its function; one row each, in command_rows.c. */
typedef struct {
    int (*run)(Config *cfg);
    const char *summary;
    const char *arguments; /* " MODEL [TEXT...]": in brackets what may be left out; "": none */
    const char *description;
    const char *examples; /* one per line, without "pacer " */
} CommandRow;

extern const CommandRow command_rows[COMMAND_COUNT];

/* Manual pages, as text for man (manual.c), from the same tables as --help. */
void manual_print_overview(FILE *file);                 /* pacer(1) */
void manual_print_command(Command command, FILE *file); /* pacer-train(1), pacer-data-info(1) */

/* All of them, NAME.1 each, into a folder that exists. */
int manual_write_all(const char *folder);

/* The example that *line begins with, as it is typed, with pacer in front; moves *line behind
 * it. NULL at the end; caller frees. */
char *manual_next_example(const char **line);

/* Sets in the environment what libraries read before main and were not told by the user: OpenMP
 * threads spin for each other for tens of microseconds before they sleep, and OpenBLAS takes
 * kernels that suit the processor (restart.c says why). Where something is to be set, this executes
 * the program anew, once, with the same arguments, process id and open files; to be called first in
 * main, while there is one thread and nothing is changed. Programs that pacer starts find the
 * environment as it was. Without effect where that is impossible. */
void restart_with_settings(char **argv);
