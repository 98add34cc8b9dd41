/* The command line: --name value, --name=value; a switch as --flag, --no-flag, --flag on, --flag
 * off or with =; and -- before arguments that start with dashes. */
#include "config/config.h"
#include "config/internal.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static const Source command_line = {ORIGIN_COMMAND_LINE, NULL, 0};

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

static int missing_value(const Option *option)
{
    if (option->type == OPTION_TEXT) {
        return source_error(command_line, option->name, " needs a value: %s", option->metavar);
    }
    if (option->type == OPTION_CHOICE) {
        return source_error(command_line, option->name, " needs a value, such as %s",
                            option->choices[0]);
    }
    char low[VALUE_BRIEF_SIZE], high[VALUE_BRIEF_SIZE];
    return source_error(command_line, option->name, " needs a value: a number, %s to %s",
                        value_brief(option->min, low), value_brief(option->max, high));
}

/* Reads the option at argv[*at] and its value, and moves *at to the last argument it used. */
static int parse_option(Config *cfg, int argc, char **argv, int *at)
{
    const char *argument = argv[*at] + 2;
    const char *equals = strchr(argument, '=');
    size_t length = equals != NULL ? (size_t)(equals - argument) : strlen(argument);
    char *name = mem_format("%.*s", (int)length, argument);
    const Option *turned_off = strncmp(name, "no-", 3) == 0 ? config_find(name + 3) : NULL;
    bool off = turned_off != NULL && turned_off->type == OPTION_BOOL;
    const Option *option = option_lookup(cfg, off ? name + 3 : name, command_line);
    free(name);
    if (option == NULL) {
        return ERR_INPUT;
    }
    if (off && equals != NULL) {
        return source_error(command_line, option->name, " is turned off by --no-%s alone",
                            option->name);
    }
    bool again = cfg->origin[option_index(option)].kind == ORIGIN_COMMAND_LINE;
    if (again && !(option->flags & OPTION_LIST)) {
        return source_error(command_line, option->name, " is given twice");
    }
    const char *text, *next = *at + 1 < argc ? argv[*at + 1] : "";
    if (equals != NULL) {
        text = equals + 1;
    } else if (off) {
        text = "off";
    } else if (option->type == OPTION_BOOL) {
        bool told = strcmp(next, "on") == 0 || strcmp(next, "off") == 0;
        text = told ? argv[++*at] : "on";
    } else if (*at + 1 < argc && strncmp(next, "--", 2) != 0) {
        text = argv[++*at];
    } else {
        return missing_value(option);
    }
    if (!again) {
        return option_assign(cfg, option, text, command_line);
    }
    char *lines = mem_format("%s\n%s", *(char **)option_field(cfg, option), text);
    int code = option_assign(cfg, option, lines, command_line);
    free(lines);
    return code;
}

static int single_dash(const Config *cfg, const char *argument)
{
    const Option *option = config_find(argument + 1);
    char quoted[VALUE_QUOTE_SIZE];
    if (option != NULL && option_taken_by(option, cfg->command)) {
        return err_set(ERR_INPUT, "unknown option %s; did you mean -%s?",
                       value_quote(argument, quoted), argument);
    }
    return err_set(ERR_INPUT, "unknown option %s; options start with two dashes",
                   value_quote(argument, quoted));
}

int config_check_required(const Config *cfg)
{
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if ((option->required & 1u << cfg->command) && !config_is_set(cfg, option->name)) {
            return err_set(ERR_INPUT, "%s needs --%s %s: %s", command_words(cfg->command),
                           option->name, option->metavar, config_help(option, cfg->command));
        }
    }
    return 0;
}

/* What was asked for and will not happen is said aloud. */
static void warn_of_no_effect(const Config *cfg)
{
    if (config_is_set(cfg, "wsd-decay") && cfg->schedule != SCHEDULE_WSD) {
        log_warn("wsd-decay has no effect: schedule is not wsd");
    }
    if (config_is_set(cfg, "min-lr") && cfg->schedule == SCHEDULE_CONSTANT) {
        log_warn("min-lr has no effect: schedule is constant");
    }
    static const char *const adamw[] = {"beta1", "beta2", "eps"};
    for (size_t i = 0; i < sizeof adamw / sizeof adamw[0]; i++) {
        if (config_is_set(cfg, adamw[i]) && cfg->optimizer == OPTIMIZER_SGD) {
            log_warn("%s has no effect: optimizer is not adamw", adamw[i]);
        }
    }
    if (config_is_set(cfg, "momentum") && cfg->optimizer == OPTIMIZER_ADAMW) {
        log_warn("momentum has no effect: optimizer is not sgd or muon");
    }
    if (config_is_set(cfg, "muon-steps") && cfg->optimizer != OPTIMIZER_MUON) {
        log_warn("muon-steps has no effect: optimizer is not muon");
    }
    static const char *const mup[] = {"mup-base", "mup-base-ffn", "mup-base-head-dim"};
    for (size_t i = 0; i < sizeof mup / sizeof mup[0]; i++) {
        if (config_is_set(cfg, mup[i]) && cfg->parametrization != CONFIG_PARAMETRIZATION_MUP) {
            log_warn("%s has no effect: parametrization is not mup", mup[i]);
        }
    }
    if (config_is_set(cfg, "eval-batches") && cfg->eval_every == 0) {
        log_warn("eval-batches has no effect: eval-every is 0");
    }
}

static int load_file(Config *cfg)
{
    if (cfg->config[0] == '\0') {
        return source_error(command_line, "config", " needs the name of a file");
    }
    char *path = mem_strdup(cfg->config);
    int code = config_load_yaml(cfg, path);
    free(path);
    return code;
}

int config_parse(Config *cfg, int argc, char **argv)
{
    cfg->argc = 0;
    cfg->argv = argv;
    if (asks_for_help(argc, argv)) {
        cfg->help = true;
        return 0;
    }
    bool ended = false;
    int code = 0;
    for (int i = 0; i < argc && code == 0; i++) {
        char *argument = argv[i];
        if (ended || argument[0] != '-' || argument[1] == '\0') {
            argv[cfg->argc++] = argument;
        } else if (strcmp(argument, "--") == 0) {
            ended = true;
        } else if (argument[1] != '-') {
            code = single_dash(cfg, argument);
        } else {
            code = parse_option(cfg, argc, argv, &i);
        }
    }
    if (code == 0 && config_is_set(cfg, "config")) {
        code = load_file(cfg);
    }
    code = code != 0 ? code : config_check(cfg);
    if (code == 0) {
        warn_of_no_effect(cfg);
    }
    return code;
}
