/* A Config's life, and the one way a value gets into it: look the option up, parse, store, note
 * where it came from. */
#include "config/config.h"
#include "config/internal.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void *option_field(Config *cfg, const Option *option)
{
    return (char *)cfg + option->offset;
}

const void *option_field_const(const Config *cfg, const Option *option)
{
    return (const char *)cfg + option->offset;
}

bool origin_is_given(OriginKind kind)
{
    return kind >= ORIGIN_RECORD;
}

static bool value_is_zero(const Option *option, OptionValue value)
{
    return option->type == OPTION_REAL ? value.real == 0 : value.whole == 0;
}

static void store(Config *cfg, const Option *option, OptionValue value)
{
    void *field = option_field(cfg, option);
    switch (option->type) {
    case OPTION_BOOL:
        *(bool *)field = value.flag;
        break;
    case OPTION_INT:
    case OPTION_BYTES:
        *(int64_t *)field = value.whole;
        break;
    case OPTION_REAL:
        *(double *)field = value.real;
        break;
    case OPTION_CHOICE:
        *(int *)field = value.choice;
        break;
    case OPTION_TEXT:
        mem_set_text(field, value.text);
        break;
    }
}

void option_reset(Config *cfg, const Option *option)
{
    OptionValue value;
    int code = value_parse(option, option->initial, &value);
    PACER_ASSERT(code == 0, "default of %s: %s", option->name, err_message());
    store(cfg, option, value);
    cfg->origin[option_index(option)] = (Origin){ORIGIN_DEFAULT, 0};
}

void config_init(Config *cfg, Command command)
{
    memset(cfg, 0, sizeof *cfg);
    cfg->command = command;
    for (const Option *option = config_options(); option->name != NULL; option++) {
        option_reset(cfg, option);
    }
}

void config_free(Config *cfg)
{
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (option->type == OPTION_TEXT) {
            free(*(char **)option_field(cfg, option));
        }
    }
    memset(cfg, 0, sizeof *cfg);
}

void config_copy(Config *to, const Config *from)
{
    *to = *from;
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (option->type == OPTION_TEXT) {
            char **field = option_field(to, option);
            *field = mem_strdup(*field);
        }
    }
}

Source option_source(const Config *cfg, const Option *option)
{
    Origin origin = cfg->origin[option_index(option)];
    return (Source){origin.kind, origin.kind == ORIGIN_FILE ? cfg->config : NULL, origin.line};
}

/* "FILE:LINE: --name" as far as these are known, then the message. */
static int place_error(Source source, const char *name, const char *format, va_list args)
{
    char message[2048], line[16] = "";
    vsnprintf(message, sizeof message, format, args);
    if (source.path == NULL) {
        const char *dashes = source.kind == ORIGIN_COMMAND_LINE ? "--" : "";
        return err_set(ERR_INPUT, "%s%s%s", dashes, name, message);
    }
    if (source.line > 0) {
        snprintf(line, sizeof line, ":%d", source.line);
    }
    return err_set(ERR_INPUT, "%s%s: %s%s", source.path, line, name, message);
}

int source_error(Source source, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int code = place_error(source, name, format, args);
    va_end(args);
    return code;
}

int option_error(const Config *cfg, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int code = place_error(option_source(cfg, config_find(name)), name, format, args);
    va_end(args);
    return code;
}

/* The commands that take it, with commas between. */
static const char *takers(const Option *option, char text[256])
{
    text[0] = '\0';
    for (int command = 0; command < COMMAND_COUNT; command++) {
        if (option_taken_by(option, (Command)command)) {
            size_t used = strlen(text);
            snprintf(text + used, 256 - used, "%s%s", used > 0 ? ", " : "",
                     command_words((Command)command));
        }
    }
    return text;
}

/* The option that was probably meant: one of the command's, or of another's. NULL: none is near. */
static const Option *probable_option(const Config *cfg, const char *name, Source source)
{
    const char *own[CONFIG_MAX_OPTIONS + 1], *others[CONFIG_MAX_OPTIONS + 1];
    size_t owned = 0, foreign = 0;
    for (const Option *option = config_options(); option->name != NULL; option++) {
        bool possible = source.kind == ORIGIN_COMMAND_LINE || !(option->flags & OPTION_NO_FILE);
        if (possible && option_taken_by(option, cfg->command)) {
            own[owned++] = option->name;
        } else {
            others[foreign++] = option->name;
        }
    }
    own[owned] = others[foreign] = NULL;
    const char *nearest = config_nearest(name, own);
    nearest = nearest != NULL ? nearest : config_nearest(name, others);
    return nearest != NULL ? config_find(nearest) : NULL;
}

static const Option *unknown_option(const Config *cfg, const char *name, Source source)
{
    const Option *meant = probable_option(cfg, name, source);
    const char *dashes = source.kind == ORIGIN_COMMAND_LINE ? "--" : "";
    char quoted[VALUE_QUOTE_SIZE], *shown = mem_format("%s%s", dashes, name), others[256];
    source = (Source){ORIGIN_PROGRAM, source.path, source.line};
    value_quote(shown, quoted);
    if (meant == NULL && dashes[0] != '\0') { /* where help is is said behind it */
        source_error(source, "", "unknown option %s", quoted);
    } else if (meant == NULL) {
        source_error(source, "", "unknown option %s; `pacer %s --help` lists them", quoted,
                     command_words(cfg->command));
    } else if (option_taken_by(meant, cfg->command)) {
        source_error(source, "", "unknown option %s; did you mean %s%s?", quoted, dashes,
                     meant->name);
    } else {
        source_error(source, "", "unknown option %s; %s%s belongs to: %s", quoted, dashes,
                     meant->name, takers(meant, others));
    }
    free(shown);
    return NULL;
}

static const Option *foreign_option(const Config *cfg, const Option *option, Source source)
{
    char text[256];
    source_error(source, option->name, " is not an option of %s; it belongs to: %s",
                 command_words(cfg->command), takers(option, text));
    return NULL;
}

const Option *option_lookup(const Config *cfg, const char *name, Source source)
{
    const Option *option = config_find(name);
    if (option == NULL) {
        return unknown_option(cfg, name, source);
    }
    if (!option_taken_by(option, cfg->command)) {
        return foreign_option(cfg, option, source);
    }
    if (source.kind == ORIGIN_FILE && (option->flags & OPTION_NO_FILE)) {
        source_error(source, name, " can be given on the command line only");
        return NULL;
    }
    return option;
}

int option_assign(Config *cfg, const Option *option, const char *text, Source source)
{
    OptionValue value;
    if (value_parse(option, text, &value) != 0) {
        char quoted[VALUE_QUOTE_SIZE], reason[1024];
        snprintf(reason, sizeof reason, "%s", err_message());
        return source_error(source, option->name, " %s: %s", value_quote(text, quoted), reason);
    }
    bool by_user = source.kind == ORIGIN_FILE || source.kind == ORIGIN_COMMAND_LINE;
    if (by_user && (option->flags & OPTION_UNSET) && value_is_zero(option, value)) {
        return source_error(source, option->name,
                            " 0: must be above 0; leave it out to not set it");
    }
    Origin *origin = &cfg->origin[option_index(option)];
    if (origin->kind == ORIGIN_COMMAND_LINE && source.kind == ORIGIN_FILE) {
        return 0;
    }
    store(cfg, option, value);
    *origin = (Origin){source.kind, source.line};
    return 0;
}

int config_set(Config *cfg, const char *name, const char *text)
{
    Source source = {ORIGIN_PROGRAM, NULL, 0};
    const Option *option = option_lookup(cfg, name, source);
    return option == NULL ? ERR_INPUT : option_assign(cfg, option, text, source);
}

int config_set_whole(Config *cfg, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return config_set(cfg, name, text);
}

int config_get(const Config *cfg, const char *name, char **text)
{
    const Option *option = option_lookup(cfg, name, (Source){ORIGIN_PROGRAM, NULL, 0});
    *text = option != NULL ? config_value_text(cfg, option) : NULL;
    return option != NULL ? 0 : ERR_INPUT;
}

int config_set_at(Config *cfg, const char *name, const char *text, const char *path, int line)
{
    if (strcmp(cfg->config, path) != 0) {
        mem_set_text(&cfg->config, path); /* origins are kept as lines of it */
    }
    Source source = {ORIGIN_FILE, path, line};
    const Option *option = option_lookup(cfg, name, source);
    return option == NULL ? ERR_INPUT : option_assign(cfg, option, text, source);
}

void config_inherit(Config *to, const Config *from)
{
    for (const Option *option = config_options(); option->name != NULL; option++) {
        Source source = option_source(from, option);
        if (option_taken_by(option, to->command) && origin_is_given(source.kind)) {
            char *text = config_value_text(from, option);
            int code = option_assign(to, option, text, source);
            PACER_ASSERT(code == 0, "%s %s: %s", option->name, text, err_message());
            free(text);
        }
    }
}

static const Option *known_option(const char *name)
{
    const Option *option = config_find(name);
    PACER_ASSERT(option != NULL, "there is no option %s", name);
    return option;
}

void config_derive(Config *cfg, const char *name, int choice)
{
    const Option *option = known_option(name);
    PACER_ASSERT(option->type == OPTION_CHOICE, "%s is not a choice", name);
    *(int *)option_field(cfg, option) = choice;
    cfg->origin[option_index(option)] = (Origin){ORIGIN_DERIVED, 0};
}

void config_settle(Config *cfg, const char *name, const char *text)
{
    int code = option_assign(cfg, known_option(name), text, (Source){.kind = ORIGIN_DERIVED});
    PACER_ASSERT(code == 0, "%s %s: %s", name, text, err_message());
}

bool config_is_set(const Config *cfg, const char *name)
{
    return origin_is_given(cfg->origin[option_index(known_option(name))].kind);
}

const char *config_origin(const Config *cfg, const char *name, char text[CONFIG_ORIGIN_SIZE])
{
    static const char *const words[] = {
        [ORIGIN_DEFAULT] = "default", [ORIGIN_DERIVED] = "derived",
        [ORIGIN_RECORD] = "record",   [ORIGIN_PROGRAM] = "set by pacer",
        [ORIGIN_FILE] = "file",       [ORIGIN_COMMAND_LINE] = "command line",
    };
    Source source = option_source(cfg, known_option(name));
    if (source.kind == ORIGIN_FILE) {
        snprintf(text, CONFIG_ORIGIN_SIZE, "%s:%d", source.path, source.line);
    } else {
        snprintf(text, CONFIG_ORIGIN_SIZE, "%s", words[source.kind]);
    }
    return text;
}

bool config_is_unset(const Option *option, const char *value)
{
    return option != NULL && (option->flags & OPTION_UNSET) != 0 && strcmp(value, "0") == 0;
}
