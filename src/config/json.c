/* Options for programs: JSON out and in, the run id, and what differs between two runs. */
#include "config/config.h"
#include "config/internal.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_recorded(const Option *option, Command command)
{
    return option_taken_by(option, command) && !(option->flags & OPTION_NO_RECORD);
}

static cJSON *value_to_json(const Config *cfg, const Option *option)
{
    const void *field = option_field_const(cfg, option);
    bool may_be_auto = (option->flags & OPTION_AUTO) != 0;
    switch (option->type) {
    case OPTION_BOOL:
        return cJSON_CreateBool(*(const bool *)field);
    case OPTION_INT:
    case OPTION_BYTES: {
        int64_t whole = *(const int64_t *)field;
        return may_be_auto && whole < 0 ? cJSON_CreateString("auto")
                                        : cJSON_CreateNumber((double)whole);
    }
    case OPTION_REAL: {
        double real = *(const double *)field;
        return may_be_auto && real < 0 ? cJSON_CreateString("auto") : cJSON_CreateNumber(real);
    }
    case OPTION_CHOICE:
        return cJSON_CreateString(option->choices[*(const int *)field]);
    case OPTION_TEXT:
        return cJSON_CreateString(*(char *const *)field);
    }
    return NULL;
}

struct cJSON *config_to_json(const Config *cfg)
{
    cJSON *object = json_object();
    size_t count;
    const Option *options = config_options(&count);
    for (size_t i = 0; i < count; i++) {
        if (is_recorded(&options[i], cfg->command)) {
            json_put_item(object, options[i].name, value_to_json(cfg, &options[i]));
        }
    }
    return object;
}

/* The item as the text that the option's own parser reads; NULL when its JSON type is wrong. */
static char *item_text(const Option *option, const cJSON *item)
{
    bool number =
        option->type == OPTION_INT || option->type == OPTION_BYTES || option->type == OPTION_REAL;
    if (number && cJSON_IsNumber(item)) {
        return mem_format("%.15g", item->valuedouble);
    }
    if (option->type == OPTION_BOOL && cJSON_IsBool(item)) {
        return mem_strdup(cJSON_IsTrue(item) ? "on" : "off");
    }
    bool word = number && (option->flags & OPTION_AUTO) && cJSON_IsString(item) &&
                strcmp(item->valuestring, "auto") == 0;
    bool text = option->type == OPTION_TEXT || option->type == OPTION_CHOICE;
    if (word || (text && cJSON_IsString(item))) {
        return mem_strdup(item->valuestring);
    }
    return NULL;
}

static const char *expected_type(const Option *option)
{
    switch (option->type) {
    case OPTION_BOOL:
        return "true or false";
    case OPTION_TEXT:
    case OPTION_CHOICE:
        return "a string";
    default:
        return option->flags & OPTION_AUTO ? "a number or \"auto\"" : "a number";
    }
}

static int read_item(Config *cfg, const cJSON *item, Source source, bool *seen)
{
    const Option *option = option_lookup(cfg, item->string, source);
    if (option == NULL) {
        return ERR_INPUT;
    }
    if (option->flags & OPTION_NO_RECORD) {
        return source_error(source, option->name, " does not belong into a record");
    }
    bool *before = &seen[option_index(option)];
    if (*before) {
        return source_error(source, option->name, " is given twice");
    }
    *before = true;
    char *text = item_text(option, item);
    if (text == NULL) {
        return source_error(source, option->name, " must be %s", expected_type(option));
    }
    int code = option_assign(cfg, option, text, source);
    free(text);
    return code;
}

int config_from_json(Config *cfg, const struct cJSON *object, const char *where)
{
    Source source = {ORIGIN_RECORD, where, 0};
    bool seen[CONFIG_MAX_OPTIONS] = {false};
    if (!cJSON_IsObject(object)) {
        return err_set(ERR_INPUT, "%s: the config must be an object of option names and values",
                       where);
    }
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        int code = read_item(cfg, item, source, seen);
        if (code != 0) {
            return code;
        }
    }
    int code = config_check(cfg);
    return code != 0 ? err_wrap(code, "%s", where) : 0;
}

/* Puts the record's values into `then`, and says in `has` which options those are. */
static int read_known(Config *then, const cJSON *record, const char *where, bool *has)
{
    int code = 0;
    size_t count;
    const Option *options = config_options(&count);
    for (size_t i = 0; code == 0 && i < count; i++) {
        const cJSON *item = json_get(record, options[i].name);
        has[i] = item != NULL && is_recorded(&options[i], then->command);
        if (has[i]) {
            bool seen[CONFIG_MAX_OPTIONS] = {false};
            code = read_item(then, item, (Source){ORIGIN_RECORD, where, 0}, seen);
        }
    }
    return code;
}

int config_changes(const Config *cfg, const Config *settled, const struct cJSON *record,
                   const char *where, ConfigChange **changes, size_t *count)
{
    Config then;
    bool has[CONFIG_MAX_OPTIONS] = {false};
    size_t rows;
    const Option *options = config_options(&rows);
    *changes = NULL;
    *count = 0;
    config_init(&then, cfg->command);
    int code = read_known(&then, record, where, has);
    for (size_t i = 0; code == 0 && i < rows; i++) {
        char *from = has[i] ? config_value_text(&then, &options[i]) : NULL;
        char *given = has[i] ? config_value_text(cfg, &options[i]) : NULL;
        char *to = has[i] ? config_value_text(settled, &options[i]) : NULL;
        bool changed = has[i] && strcmp(from, to) != 0 && strcmp(from, given) != 0;
        free(given);
        if (changed) {
            *changes = mem_realloc(*changes, *count + 1, sizeof **changes);
            (*changes)[(*count)++] = (ConfigChange){&options[i], from, to};
        } else {
            free(from);
            free(to);
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
    char *canonical = mem_strdup("");
    size_t count;
    const Option *options = config_options(&count);
    for (size_t i = 0; i < count; i++) {
        if (options[i].flags & (OPTION_RESULT | OPTION_ROUNDING)) {
            char *value = config_value_text(cfg, &options[i]);
            bool early =
                (options[i].flags & OPTION_LATER) && strcmp(value, options[i].initial) == 0;
            if (early && strcmp(options[i].name, "head-dim") == 0) {
                /* Ids had it before models did: the default of bench attention then. */
                free(value);
                value = mem_strdup("64");
            } else if (early) {
                free(value);
                continue;
            }
            char *longer = mem_format("%s%s=%s\n", canonical, options[i].name, value);
            free(value);
            free(canonical);
            canonical = longer;
        }
    }
    snprintf(id, CONFIG_ID_SIZE, "%016" PRIx64, io_hash(canonical, strlen(canonical)));
    free(canonical);
}

const Option *config_first_difference(const Config *a, const Config *b, unsigned flags)
{
    size_t count;
    const Option *options = config_options(&count);
    for (size_t i = 0; i < count; i++) {
        unsigned own = options[i].flags;
        if (flags != 0 ? (own & flags) != 0 : !(own & OPTION_NO_RECORD)) {
            char *in_a = config_value_text(a, &options[i]),
                 *in_b = config_value_text(b, &options[i]);
            bool same = strcmp(in_a, in_b) == 0;
            free(in_a);
            free(in_b);
            if (!same) {
                return &options[i];
            }
        }
    }
    return NULL;
}
