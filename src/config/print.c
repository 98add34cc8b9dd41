/* Options for people: the options part of a command's help, and the values of a run. */
#include "config/config.h"
#include "config/internal.h"

#include "base/escape.h"
#include "base/mem.h"
#include "base/page.h"

#include <stdlib.h>
#include <string.h>

#define NARROW 60       /* columns from which text has room beside its label */
#define NARROW_INDENT 6 /* of text below its label */
#define HELP_INDENT 26
#define VALUE_INDENT 20

/* Starts a new group with its title when `option` is the first of one. */
static void print_group(const Option *option, const char **group, FILE *file)
{
    if (*group == NULL || strcmp(*group, option->group) != 0) {
        fprintf(file, "%s%s\n", *group == NULL ? "" : "\n", option->group);
        *group = option->group;
    }
}

/* Prints the words of text and then `tail`, which is kept together, from column `indent` on;
 * goes on in the next line, indented likewise, where the line ends. */
static void print_wrapped(const char *text, const char *tail, int indent, int width, FILE *file)
{
    int column = indent;
    while (*text != '\0' || *tail != '\0') {
        const char **from = *text != '\0' ? &text : &tail;
        int length = (int)(from == &text ? strcspn(text, " ") : strlen(tail));
        if (column > indent && column + 1 + length > width) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', file);
            column++;
        }
        fprintf(file, "%.*s", length, *from);
        column += length;
        *from += length;
        *from += strspn(*from, " ");
    }
    fputc('\n', file);
}

void config_print_paragraph(const char *text, int width, FILE *file)
{
    print_wrapped(text, "", 0, width, file);
}

void config_print_entry(const char *label, int indent, const char *text, const char *tail,
                        int width, FILE *file)
{
    bool narrow = width < NARROW;
    indent = narrow ? NARROW_INDENT : indent;
    if (narrow || (int)strlen(label) + 2 > indent) {
        fprintf(file, "%s\n%*s", label, indent, "");
    } else {
        fprintf(file, "%-*s", indent, label);
    }
    print_wrapped(text, tail, indent, width, file);
}

char *config_label(const Option *option)
{
    bool both = option->type == OPTION_BOOL && !(option->flags & OPTION_NO_FILE);
    return mem_format("--%s%s", both ? "[no-]" : "", option->name);
}

char *config_metavar(const Option *option)
{
    switch (option->type) {
    case OPTION_BOOL:
        return mem_strdup("");
    case OPTION_INT:
        return mem_strdup(" N");
    case OPTION_BYTES:
        return mem_strdup(" BYTES");
    case OPTION_REAL:
        return mem_strdup(" X");
    case OPTION_TEXT:
        return mem_format(" %s", option->metavar);
    case OPTION_CHOICE:
        break;
    }
    Page all = {0};
    for (int i = 0; option->choices[i] != NULL; i++) {
        page_put(&all, "%c%s", i > 0 ? '|' : ' ', option->choices[i]);
    }
    return page_end(&all);
}

/* What the command says of the option in place of its row; NULL: nothing. */
static const OptionHelp *help_elsewhere(const Option *option, Command command)
{
    const OptionHelp *other = option->elsewhere;
    while (other != NULL && other->commands != 0 && !(other->commands & 1u << command)) {
        other++;
    }
    return other != NULL && other->commands != 0 ? other : NULL;
}

char *config_limits(const Option *option, Command command)
{
    char low[VALUE_BRIEF_SIZE], high[VALUE_BRIEF_SIZE];
    const OptionHelp *other = help_elsewhere(option, command);
    const char *initial =
        other != NULL && other->initial != NULL ? other->initial : option->initial;
    if (option->required & 1u << command) {
        return mem_strdup("(required)");
    }
    if (initial[0] == '\0' || strcmp(option->name, "help") == 0) {
        return mem_strdup("");
    }
    if (option->type == OPTION_TEXT || option->type == OPTION_CHOICE ||
        option->type == OPTION_BOOL) {
        return mem_format("(default %s)", initial);
    }
    if (option->flags & OPTION_UNSET) {
        return mem_format("(at most %s)", value_brief(option->max, high));
    }
    return mem_format("(default %s; %s to %s)", initial, value_brief(option->min, low),
                      value_brief(option->max, high));
}

const char *config_help(const Option *option, Command command)
{
    const OptionHelp *other = help_elsewhere(option, command);
    return other != NULL ? other->help : option->help;
}

void config_print_help(Command command, int width, FILE *file)
{
    const char *group = NULL;
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (!option_taken_by(option, command)) {
            continue;
        }
        print_group(option, &group, file);
        char *metavar = config_metavar(option), *limits = config_limits(option, command);
        char *name = config_label(option), *label = mem_format("  %s%s", name, metavar);
        config_print_entry(label, HELP_INDENT, config_help(option, command), limits, width, file);
        free(label);
        free(name);
        free(limits);
        free(metavar);
    }
}

/* An option nobody gave whose default is to say nothing. */
static bool is_silent(const Option *option)
{
    const char *const nothing[] = {"", "0", "off", "none", "preset"};
    bool silent = false;
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        silent = silent || strcmp(option->initial, nothing[i]) == 0;
    }
    return silent;
}

void config_print_resolved(const Config *cfg, int width, FILE *file)
{
    Page others = {0};
    for (const Option *option = config_options(); option->name != NULL; option++) {
        bool given = cfg->origin[option_index(option)].kind != ORIGIN_DEFAULT;
        if (!option_taken_by(option, cfg->command) || (option->flags & OPTION_NO_RECORD) ||
            (!given && is_silent(option))) {
            continue;
        }
        char *value = config_value_text(cfg, option), origin[CONFIG_ORIGIN_SIZE];
        if (given) {
            fprintf(file, "  %-*s", VALUE_INDENT - 2, option->name);
            escape_printf(file, "%-16s * %s\n", value, config_origin(cfg, option->name, origin));
        } else {
            page_put(&others, "%s %s %s", others.size == 0 ? "Defaults:" : ",", option->name,
                     value);
        }
        free(value);
    }
    config_print_paragraph(others.size == 0 ? "Defaults:" : others.text, width, file);
    page_free(&others);
}
