/* Options for programs: JSON out and in, the run id, and what differs between two runs. */
#include "config/config.h"
#include "config/internal.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_recorded(const Option *option, Command command)
{
    return option_taken_by(option, command) && !(option->flags & OPTION_NO_RECORD);
}

static bool is_number(const Option *option)
{
    return option->type == OPTION_INT || option->type == OPTION_BYTES ||
           option->type == OPTION_REAL;
}

static cJSON *value_to_json(const Config *cfg, const Option *option)
{
    char *text = config_value_text(cfg, option);
    const char *word = value_word(option);
    bool number = is_number(option) && (word == NULL || strcmp(text, word) != 0);
    cJSON *item = option->type == OPTION_BOOL ? cJSON_CreateBool(strcmp(text, "on") == 0)
                  : number                    ? cJSON_CreateNumber(strtod(text, NULL))
                                              : cJSON_CreateString(text);
    free(text);
    return item;
}

struct cJSON *config_to_json(const Config *cfg)
{
    cJSON *object = json_object();
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (is_recorded(option, cfg->command)) {
            json_put_item(object, option->name, value_to_json(cfg, option));
        }
    }
    return object;
}

struct cJSON *config_given_json(const Config *cfg)
{
    cJSON *names = json_array();
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (is_recorded(option, cfg->command) && config_is_set(cfg, option->name)) {
            json_append_text(names, option->name);
        }
    }
    return names;
}

/* The item as the text that the option's own parser reads; NULL when its JSON type is not what is
 * *expected. */
static char *item_text(const Option *option, const cJSON *item, const char **expected)
{
    const char *word = value_word(option);
    if (option->type == OPTION_BOOL) {
        *expected = "true or false";
        return cJSON_IsBool(item) ? mem_strdup(cJSON_IsTrue(item) ? "on" : "off") : NULL;
    }
    if (!is_number(option)) {
        *expected = "a string";
        return cJSON_IsString(item) ? mem_strdup(item->valuestring) : NULL;
    }
    *expected = word == NULL                ? "a number"
                : strcmp(word, "auto") == 0 ? "a number or \"auto\""
                                            : "a number or \"none\"";
    if (word != NULL && cJSON_IsString(item) && strcmp(item->valuestring, word) == 0) {
        return mem_strdup(word);
    }
    return cJSON_IsNumber(item) ? mem_format("%.15g", item->valuedouble) : NULL;
}

static int read_item(Config *cfg, const cJSON *object, const cJSON *item, Source source)
{
    const char *expected;
    const Option *option = option_lookup(cfg, item->string, source);
    if (option == NULL) {
        return ERR_INPUT;
    }
    if (option->flags & OPTION_NO_RECORD) {
        return source_error(source, option->name, " does not belong into a record");
    }
    if (json_get(object, item->string) != item) { /* which finds the first of that name */
        return source_error(source, option->name, " is given twice");
    }
    char *text = item_text(option, item, &expected);
    if (text == NULL) {
        return source_error(source, option->name, " must be %s", expected);
    }
    int code = option_assign(cfg, option, text, source);
    free(text);
    return code;
}

int config_from_json(Config *cfg, const struct cJSON *object, const char *where)
{
    Source source = {ORIGIN_RECORD, where, 0};
    if (!cJSON_IsObject(object)) {
        return err_set(ERR_INPUT, "%s: the config must be an object of option names and values",
                       where);
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        int code = read_item(cfg, object, item, source);
        if (code != 0) {
            return code;
        }
    }
    int code = config_check(cfg);
    return code != 0 ? err_wrap(code, "%s", where) : 0;
}

/* Adds the option to the changes unless both have its value in the record. */
static void compare(const Option *option, const Config *then, const Config *cfg,
                    const Config *settled, ConfigChange **changes, size_t *count)
{
    char *from = config_value_text(then, option), *given = config_value_text(cfg, option);
    char *to = config_value_text(settled, option);
    if (strcmp(from, to) != 0 && strcmp(from, given) != 0) {
        *changes = mem_realloc(*changes, *count + 1, sizeof **changes);
        (*changes)[(*count)++] = (ConfigChange){option, from, to};
    } else {
        free(from);
        free(to);
    }
    free(given);
}

int config_changes(const Config *cfg, const Config *settled, const struct cJSON *record,
                   const char *where, ConfigChange **changes, size_t *count)
{
    Config then;
    Source source = {ORIGIN_RECORD, where, 0};
    *changes = NULL;
    *count = 0;
    config_init(&then, cfg->command);
    int code = 0;
    for (const Option *option = config_options(); code == 0 && option->name != NULL; option++) {
        const cJSON *item = json_get(record, option->name);
        bool known = item != NULL || (option->flags & OPTION_LATER) != 0; /* then its default */
        if (known && is_recorded(option, cfg->command)) {
            code = item != NULL ? read_item(&then, record, item, source) : 0;
            if (code == 0) {
                compare(option, &then, cfg, settled, changes, count);
            }
        }
    }
    config_free(&then);
    return code;
}

void config_changes_free(ConfigChange *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(changes[i].from);
        free(changes[i].to);
    }
    free(changes);
}

void config_run_id(const Config *cfg, char id[CONFIG_ID_SIZE])
{
    Page canonical = {0};
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (!(option->flags & (OPTION_RESULT | OPTION_ROUNDING))) {
            continue;
        }
        char *value = config_value_text(cfg, option);
        bool early = (option->flags & OPTION_LATER) && strcmp(value, option->initial) == 0;
        /* Ids had it before models did: the default of bench attention then. */
        bool renamed = early && strcmp(option->name, "head-dim") == 0;
        if (!early || renamed) {
            page_put(&canonical, "%s=%s\n", option->name, renamed ? "64" : value);
        }
        free(value);
    }
    snprintf(id, CONFIG_ID_SIZE, "%016" PRIx64, io_hash(canonical.text, canonical.size));
    page_free(&canonical);
}
