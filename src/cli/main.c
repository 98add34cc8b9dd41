/* The front door: finds the command, has its options parsed, runs it, and turns its answer into an
 * exit status. Help goes to stdout, errors and hints to stderr. */
#include "cli/commands.h"
#include "cli/screen.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/signals.h"
#include "base/version.h"
#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

/* --- help --- */

#define SUMMARY_INDENT 20

static void print_summary(const char *words, const char *summary, FILE *file)
{
    char label[64];
    snprintf(label, sizeof label, "  %s", words);
    config_print_entry(label, SUMMARY_INDENT, summary, "", screen_text_width(), file);
}

static void print_overview(FILE *file)
{
    config_print_paragraph(
        "pacer trains language models from scratch and accounts for every second and byte.",
        screen_text_width(), file);
    fputs("\nUsage: pacer COMMAND [OPTIONS]\n\nCommands\n", file);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        print_summary(command_words(c), command_rows[c].summary, file);
    }
    print_summary("version", "release, commit and what this program was built with", file);
    print_summary("help", "this text; `pacer help COMMAND` is `pacer COMMAND --help`", file);
    fputs("\nFirst steps\n"
          "  pacer demo\n"
          "  pacer train --data builtin:stories --steps 200\n"
          "  pacer train --help\n",
          file);
}

static void print_command_help(Command command)
{
    const CommandRow *row = &command_rows[command];
    int width = screen_text_width();
    printf("Usage: pacer %s [OPTIONS]%s\n\n", command_words(command), row->arguments);
    config_print_paragraph(row->description, width, stdout);
    putchar('\n');
    config_print_help(command, width, stdout);
    putchar('\n');
    config_print_paragraph("Numbers take k, M, G, T (powers of 1000) and Ki, Mi, Gi, Ti (of 1024).",
                           width, stdout);
    fputs("\nExamples\n", stdout);
    const char *line = row->examples;
    for (char *example; (example = manual_next_example(&line)) != NULL; free(example)) {
        printf("  %s\n", example);
    }
}

/* Whether the command is one of those with this first word and a second. */
static bool is_in_group(Command command, const char *group)
{
    const char *words = command_words(command);
    size_t length = strlen(group);
    return strncmp(words, group, length) == 0 && words[length] == ' ';
}

static void print_group_help(const char *group)
{
    printf("Usage: pacer %s COMMAND [OPTIONS]\n\nCommands\n", group);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        if (is_in_group(c, group)) {
            print_summary(command_words(c), command_rows[c].summary, stdout);
        }
    }
    printf("\n`pacer %s COMMAND --help` explains one of them.\n", group);
}

/* --- finding the command --- */

/* The words that may stand first (group NULL) or behind `group`. They live until the next call. */
static const char *const *candidates(const char *group)
{
    static char first[COMMAND_COUNT][32];
    static const char *names[COMMAND_COUNT + 3];
    int used = 0;
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        const char *words = command_words(c);
        if (group == NULL) {
            snprintf(first[c], sizeof first[c], "%.*s", (int)strcspn(words, " "), words);
            names[used++] = first[c];
        } else if (is_in_group(c, group)) {
            names[used++] = words + strlen(group) + 1;
        }
    }
    if (group == NULL) {
        names[used++] = "help";
        names[used++] = "version";
    }
    names[used] = NULL;
    return names;
}

static int unknown_command(const char *group, const char *word)
{
    const char *nearest = config_nearest(word, candidates(group));
    const char *before = group != NULL ? group : "", *space = group != NULL ? " " : "";
    return nearest != NULL ? err_set(ERR_INPUT, "unknown command '%s%s%.60s'; did you mean %s%s%s?",
                                     before, space, word, before, space, nearest)
                           : err_set(ERR_INPUT, "unknown command '%s%s%.60s'", before, space, word);
}

static int missing_subcommand(const char *group)
{
    char all[256] = "";
    const char *const *names = candidates(group);
    for (int i = 0; names[i] != NULL; i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    return err_set(ERR_INPUT, "%s needs a command behind it: %s", group, all);
}

/* How many of the words in argv (without "pacer") name the command; 0 when the first is the first
 * word of several, and nothing follows; or ERR_INPUT with the message set. */
static int find_command(int argc, char **argv, Command *command)
{
    bool group = false;
    for (*command = 0; *command < COMMAND_COUNT; ++*command) {
        const char *words = command_words(*command), *space = strchr(words, ' ');
        bool inside = is_in_group(*command, argv[0]);
        group |= inside;
        if (inside ? argc > 1 && strcmp(argv[1], space + 1) == 0
                   : space == NULL && strcmp(argv[0], words) == 0) {
            return inside ? 2 : 1;
        }
    }
    if (group && (argc < 2 || argv[1][0] == '-')) {
        return 0;
    }
    return unknown_command(group ? argv[0] : NULL, argv[group ? 1 : 0]);
}

/* --- running --- */

/* Says what went wrong and where help is, and gives the exit status. */
static int fail(int code, const char *words)
{
    log_error("%s", err_message());
    fprintf(stderr, "try: pacer %s%s--help\n", words, words[0] != '\0' ? " " : "");
    return err_exit_status(code);
}

/* By the row's text: those in brackets may be left out, dots allow any number. */
static int check_arguments(const Config *cfg)
{
    const char *arguments = command_rows[cfg->command].arguments;
    const char *words = command_words(cfg->command);
    int least = 0, most = 0;
    for (const char *at = arguments; (at = strchr(at, ' ')) != NULL; at++) {
        least += at[1] != '[';
        most++;
    }
    if (cfg->argc < least) {
        return err_set(ERR_INPUT, "%s needs an argument: pacer %s [OPTIONS]%s", words, words,
                       arguments);
    }
    for (int i = 0; i < cfg->argc; i++) {
        if (cfg->argv[i][0] == '\0') {
            return err_set(ERR_INPUT, "%s: an argument is empty, as of a variable that is not set",
                           words);
        }
    }
    if (cfg->argc > most && strstr(arguments, "...") == NULL) {
        const char *extra = cfg->argv[most], *end = strrchr(extra, '.');
        bool file = end != NULL && (strcmp(end, ".yaml") == 0 || strcmp(end, ".yml") == 0);
        return err_set(ERR_INPUT, "%s: unexpected argument '%.60s'%s", words, extra,
                       config_find(extra) != NULL ? "; options start with two dashes"
                       : file                     ? "; a file of options is given by --config FILE"
                              : "; options are written --name value or --name=value");
    }
    return 0;
}

/* What is in the way of --json and --out is told before the work. */
static int check_places(const Config *cfg)
{
    static const bool plain[COMMAND_COUNT] = {
        [COMMAND_TOKENIZER_TRAIN] = true,  [COMMAND_TOKENIZER_ENCODE] = true,
        [COMMAND_TOKENIZER_DECODE] = true, [COMMAND_DATA_STORIES] = true,
        [COMMAND_PROFILE] = true,
    };
    bool gguf = cfg->command == COMMAND_EXPORT && cfg->format == CONFIG_FORMAT_GGUF;
    int code = output_check(cfg->json);
    if (code != 0) {
        return err_wrap(code, "--json");
    }
    if (cfg->out[0] == '\0' || cfg->command == COMMAND_PLAN) {
        return 0;
    }
    code = plain[cfg->command] || gguf ? output_check(cfg->out) : io_check_folder(cfg->out);
    return code != 0 ? err_wrap(code, "--out") : 0;
}

static int run_command(Command command, int argc, char **argv)
{
    Config cfg;
    config_init(&cfg, command);
    int code = config_parse(&cfg, argc, argv);
    if (code == 0 && cfg.help) {
        config_free(&cfg);
        print_command_help(command);
        return 0;
    }
    code = code != 0 ? code : check_arguments(&cfg);
    code = code != 0 ? code : config_check_required(&cfg);
    code = code != 0 ? code : check_places(&cfg);
    if (code != 0) {
        config_free(&cfg);
        return fail(code, command_words(command));
    }
    log_setup(cfg.quiet ? LOG_WARN : cfg.verbose ? LOG_DEBUG : LOG_INFO, 0, 1);
    code = command_rows[command].run(&cfg);
    if (code == ERR_INTERRUPTED || code == ERR_TERMINATED) {
        log_info("%s", err_message());
    } else if (code < 0 && code != ERR_PIPE) {
        log_error("%s", err_message());
    }
    config_free(&cfg);
    return code > 0 ? code : err_exit_status(code);
}

/* `help --man [COMMAND]` and `help --man-pages FOLDER`, which the installation calls. */
static int help_as_manual(int argc, char **argv)
{
    if (strcmp(argv[0], "--man-pages") == 0) {
        int code = argc == 2 ? manual_write_all(argv[1])
                             : err_set(ERR_INPUT, "help --man-pages needs a folder");
        return code == 0 ? 0 : fail(code, "");
    }
    Command command;
    if (argc == 1) {
        manual_print_overview(stdout);
        return 0;
    }
    if (find_command(argc - 1, argv + 1, &command) == argc - 1) {
        manual_print_command(command, stdout);
        return 0;
    }
    return fail(err_set(ERR_INPUT, "help --man: there is a page for each command, and one without"),
                "");
}

static int help_for(int argc, char **argv)
{
    if (argc == 0) {
        print_overview(stdout);
        return 0;
    }
    if (strncmp(argv[0], "--man", 5) == 0) {
        return help_as_manual(argc, argv);
    }
    Command command;
    int used = find_command(argc, argv, &command), most = used > 0 ? used : 1;
    if (used >= 0 && argc > most) {
        used = err_set(ERR_INPUT, "help: unexpected argument '%.60s'", argv[most]);
    }
    if (used < 0) {
        return fail(used, "");
    }
    if (used == 0) {
        print_group_help(argv[0]);
    } else {
        print_command_help(command);
    }
    return 0;
}

static int dispatch(int argc, char **argv)
{
    if (argc == 0) {
        print_overview(stdout);
        return err_exit_status(ERR_INPUT);
    }
    const char *word = argv[0];
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        bool listing = argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
        return listing ? help_for(0, argv) : help_for(argc - 1, argv + 1);
    }
    if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0) {
        if (argc > 1) {
            return fail(err_set(ERR_INPUT, "version: unexpected argument '%.60s'", argv[1]), "");
        }
        printf("pacer %s (%s)\n%s\n", version_string(), version_commit(), version_build_features());
        return 0;
    }
    if (word[0] == '-') {
        return fail(
            err_set(ERR_INPUT, "'%.60s' stands before the command; options come behind it", word),
            "");
    }
    Command command;
    int used = find_command(argc, argv, &command);
    if (used > 0) {
        return run_command(command, argc - used, argv + used);
    }
    if (used < 0) {
        return fail(used, "");
    }
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        print_group_help(word);
        return 0;
    }
    return fail(missing_subcommand(word), word);
}

int main(int argc, char **argv)
{
    restart_with_settings(argv); /* before signals and threads: it starts anew */
    signals_claim();
    mem_claim_json();
    int status = dispatch(argc > 0 ? argc - 1 : 0, argv + 1);
    int written = output_check_stdout(), lost = err_exit_status(written);
    if (lost != 0 && status != lost) { /* else it was told */
        log_error("%s", err_message());
        status = status != 0 ? status : lost;
    }
    return comm_end_rank(status);
}
