/* Manual pages in the man macros, for what man-db and mandoc both read. The pages carry a
 * version and no date: the same source gives the same bytes. */
#include "cli/commands.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/version.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Text as it is read: a dash that may be typed, a backslash, and nothing that begins a line as a
 * request does. */
static void put_text(const char *text, FILE *file)
{
    if (text[0] == '.' || text[0] == '\'') {
        fputs("\\&", file);
    }
    for (; *text != '\0'; text++) {
        if (*text == '\\') {
            fputs("\\e", file);
        } else if (*text == '-') {
            fputs("\\-", file);
        } else {
            fputc(*text, file);
        }
    }
}

static void put_line(const char *text, FILE *file)
{
    put_text(text, file);
    fputc('\n', file);
}

/* "pacer-data-info"; caller frees. */
static char *page_name(Command command)
{
    char *name = mem_format("pacer-%s", command_words(command));
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == ' ' ? '-' : *c;
    }
    return name;
}

static void put_head(const char *name, const char *summary, FILE *file)
{
    char *title = mem_strdup(name);
    for (char *c = title; *c != '\0'; c++) {
        *c = (char)toupper((unsigned char)*c);
    }
    fputs(".TH ", file);
    put_text(title, file);
    fprintf(file, " 1 \"\" \"pacer %s\" \"pacer manual\"\n.SH NAME\n", version_string());
    put_text(name, file);
    fputs(" \\- ", file);
    put_line(summary, file);
    free(title);
}

char *manual_next_example(const char **line)
{
    int length = (int)strcspn(*line, "\n");
    if (length == 0) {
        return NULL;
    }
    /* A line with a pipe names pacer itself. */
    bool whole = memmem(*line, (size_t)length, "pacer ", 6) != NULL;
    char *example = mem_format("%s%.*s", whole ? "" : "pacer ", length, *line);
    *line += length + ((*line)[length] == '\n');
    return example;
}

static void put_options(Command command, FILE *file)
{
    const char *group = "";
    fputs(".SH OPTIONS\n", file);
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (!(option->commands & 1u << command)) {
            continue;
        }
        if (strcmp(group, option->group) != 0) {
            group = option->group;
            fprintf(file, ".SS %s\n", group);
        }
        char *metavar = config_metavar(option), *limits = config_limits(option, command);
        fputs(".TP\n\\fB", file);
        char *name = config_label(option);
        put_text(name, file);
        fputs("\\fR\\fI", file);
        put_text(metavar, file);
        fputs("\\fR\n", file);
        put_line(config_help(option, command), file);
        if (limits[0] != '\0') {
            put_line(limits, file);
        }
        free(name);
        free(limits);
        free(metavar);
    }
    fputs(".PP\nNumbers take k, M, G, T (powers of 1000) and Ki, Mi, Gi, Ti (of 1024).\n"
          "A switch is written \\fB\\-\\-name\\fR, \\fB\\-\\-no\\-name\\fR, or with on or off "
          "behind it.\n",
          file);
}

void manual_print_command(Command command, FILE *file)
{
    const CommandRow *row = &command_rows[command];
    char *name = page_name(command);
    put_head(name, row->summary, file);
    fprintf(file, ".SH SYNOPSIS\n\\fBpacer %s\\fR [OPTIONS]", command_words(command));
    put_line(row->arguments, file);
    fputs(".SH DESCRIPTION\n", file);
    put_line(row->description, file);
    put_options(command, file);
    fputs(".SH EXAMPLES\n.nf\n", file);
    const char *line = row->examples;
    for (char *example; (example = manual_next_example(&line)) != NULL; free(example)) {
        put_line(example, file);
    }
    fputs(".fi\n.SH SEE ALSO\n\\fBpacer\\fR(1)\n", file);
    free(name);
}

void manual_print_overview(FILE *file)
{
    put_head("pacer", "train language models and account for every second and byte", file);
    fputs(".SH SYNOPSIS\n\\fBpacer\\fR COMMAND [OPTIONS]\n.SH COMMANDS\n", file);
    for (Command c = 0; c < COMMAND_COUNT; c++) {
        char *name = page_name(c);
        fputs(".TP\n\\fB", file);
        put_text(name, file);
        fputs("\\fR(1)\n", file);
        put_line(command_rows[c].summary, file);
        free(name);
    }
    fputs(
        ".PP\n\\fBpacer COMMAND \\-\\-help\\fR says the same as the page of a command, and\n"
        "\\fBpacer version\\fR what the program was built with.\n"
        ".SH EXIT STATUS\n"
        ".TP\n0\ndone\n"
        ".TP\n1\nfailed: a full disk, an I/O error, a loss that became NaN\n"
        ".TP\n2\nwrong use or bad input\n"
        ".TP\n3\ndoes not fit in memory\n"
        ".TP\n4\na self\\-check failed\n"
        ".TP\n130, 143\nstopped by Ctrl\\-C or SIGTERM, after saving\n"
        ".SH ENVIRONMENT\n"
        ".TP\nOMP_NUM_THREADS\nthreads of the processor, where \\fB\\-\\-threads\\fR is not given\n"
        ".TP\nXDG_CACHE_HOME\nwhere measurements of this machine are kept, in a folder pacer;\n"
        "without it ~/.cache\n"
        ".TP\nPACER_MPI_MODULE\npacer_mpi.so, where it is not found beside the program or in\n"
        "lib/pacer\n"
        ".TP\nPACER_MPI_LAUNCHER\nmpirun that \\fB\\-\\-ranks\\fR starts, in place of the one of\n"
        "the MPI that pacer was built with\n"
        ".SH EXAMPLES\n.nf\npacer demo\n"
        "pacer train \\-\\-data builtin:stories \\-\\-steps 200\n.fi\n",
        file);
}

static int write_page(const char *folder, const char *name, int command)
{
    char *file_name = mem_format("%s.1", name), *path = io_join(folder, file_name);
    FILE *file = fopen(path, "w");
    int code = 0;
    if (file == NULL) {
        code = err_set(ERR_INPUT, "%s: cannot be written", path);
    } else {
        if (command < 0) {
            manual_print_overview(file);
        } else {
            manual_print_command((Command)command, file);
        }
        bool failed = ferror(file) != 0;
        if (fclose(file) != 0 || failed) {
            code = err_set(ERR_FAILED, "%s: cannot be written", path);
        }
    }
    free(path);
    free(file_name);
    return code;
}

int manual_write_all(const char *folder)
{
    int code = write_page(folder, "pacer", -1);
    for (int i = 0; i < COMMAND_COUNT && code == 0; i++) {
        char *name = page_name((Command)i);
        code = write_page(folder, name, i);
        free(name);
    }
    return code;
}
