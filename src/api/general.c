/* What does not belong to a model: versions, the message of a failure, memory, the log; options and
 * results. */
#include "api/internal.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "base/version.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)PACER_FAILED == ERR_FAILED && (int)PACER_INPUT == ERR_INPUT &&
                   (int)PACER_MEMORY == ERR_MEMORY && (int)PACER_CHECK == ERR_CHECK &&
                   (int)PACER_PIPE == ERR_PIPE && (int)PACER_STOPPED == ERR_INTERRUPTED &&
                   (int)PACER_TERMINATED == ERR_TERMINATED,
               "the codes of pacer.h are those of base/err.h");
_Static_assert((int)PACER_LOG_NONE == LOG_NONE && (int)PACER_LOG_ERRORS == LOG_ERROR &&
                   (int)PACER_LOG_WARNINGS == LOG_WARN && (int)PACER_LOG_INFO == LOG_INFO &&
                   (int)PACER_LOG_DEBUG == LOG_DEBUG,
               "the levels of pacer.h are those of base/log.h");

void api_enter(void)
{
    log_begin_silent();
}

const char *pacer_version(void)
{
    return version_string();
}

int pacer_api_version(void)
{
    return PACER_API_VERSION;
}

const char *pacer_error(void)
{
    return err_message();
}

void pacer_free(void *memory)
{
    free(memory);
}

void pacer_log(int level)
{
    int lowest = level < LOG_NONE ? LOG_NONE : level;
    log_setup((LogLevel)(lowest > LOG_DEBUG ? LOG_DEBUG : lowest), 0, 1);
}

/* --- options --- */

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
    const char *nearest = config_nearest(command, names);
    return err_set(ERR_INPUT, "there is no command '%.60s'%s%s%s", command,
                   nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                   nearest != NULL ? "'?" : "");
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

void pacer_options_on_validation(pacer_options *options, pacer_validation_function *function,
                                 void *user)
{
    options->on_validation = function;
    options->validation_user = user;
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
    } else {
        config_copy(out, &options->config);
    }
    if (out->command != command) {
        return err_set(ERR_INPUT, "these are options of '%s'; those of '%s' are needed",
                       command_words(out->command), command_words(command));
    }
    int code = config_check(out);
    return code != 0 ? code : config_check_required(out);
}

int api_begin(const pacer_options *options, Command command, pacer_result **result, Config *out)
{
    api_enter();
    if (result != NULL) {
        *result = NULL;
    }
    signals_forget();
    signals_shield();
    return api_config(options, command, out);
}

int api_end(Config *cfg, int code)
{
    signals_unshield();
    config_free(cfg);
    return code;
}

/* --- results --- */

struct pacer_result {
    char *directory;
    cJSON *numbers;
};

pacer_result *result_new(char *directory, cJSON *numbers)
{
    pacer_result *result = mem_zalloc(1, sizeof *result);
    result->directory = directory != NULL ? directory : mem_strdup("");
    result->numbers = numbers;
    return result;
}

void pacer_result_free(pacer_result *result)
{
    if (result != NULL) {
        cJSON_Delete(result->numbers);
        free(result->directory);
        free(result);
    }
}

const char *pacer_result_directory(const pacer_result *result)
{
    return result->directory;
}

double pacer_result_number(const pacer_result *result, const char *name)
{
    const cJSON *item = json_get(result->numbers, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}
