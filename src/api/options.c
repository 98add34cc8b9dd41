#include "api/internal.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int pacer_options_new(const char *command, pacer_options **out)
{
    api_enter();
    *out = NULL;
    const char *names[COMMAND_COUNT + 1];
    for (int i = 0; i < COMMAND_COUNT; i++) {
        names[i] = command_words((Command)i);
        if (strcmp(command, names[i]) == 0) {
            *out = mem_zalloc(1, sizeof **out);
            config_init(&(*out)->config, (Command)i);
            return 0;
        }
    }
    names[COMMAND_COUNT] = NULL;
    bool likely;
    return err_set(ERR_INPUT, "there is no command '%.60s'; the nearest is '%s'", command,
                   config_nearest(command, names, &likely));
}

void pacer_options_free(pacer_options *options)
{
    if (options != NULL) {
        config_free(&options->config);
        free(options);
    }
}

int pacer_options_set(pacer_options *options, const char *name, const char *value)
{
    return config_set(&options->config, name, value);
}

int pacer_options_get(const pacer_options *options, const char *name, char **value)
{
    return config_get(&options->config, name, value);
}

int pacer_options_load(pacer_options *options, const char *path)
{
    /* Messages name FILE:LINE of a value, and a Config knows one file. */
    if (options->config.config[0] != '\0') {
        return err_set(ERR_INPUT,
                       "%s: options were read from %s already; one file is all they take", path,
                       options->config.config);
    }
    return config_load_yaml(&options->config, path);
}

int api_config(const pacer_options *options, Command command, Config *out)
{
    if (options == NULL) {
        config_init(out, command);
        return 0;
    }
    config_copy(out, &options->config);
    if (out->command != command) {
        return err_set(ERR_INPUT, "these are options of '%s'; those of '%s' are needed",
                       command_words(out->command), command_words(command));
    }
    int code = config_check(out);
    return code != 0 ? code : config_check_required(out);
}
