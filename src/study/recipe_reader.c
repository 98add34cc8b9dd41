/* Walking a YAML document. A node that several places share (an alias) is refused when the
 * document is opened, so that what is read is never more than what was written. */
#include "study/recipe_reader.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int reader_fault(const RecipeReader *reader, const yaml_node_t *node, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return err_set(ERR_INPUT, "%s:%d: %s", reader->input.path, yaml_input_line(node->start_mark),
                   message);
}

yaml_node_t *reader_node(RecipeReader *reader, int index)
{
    return yaml_document_get_node(&reader->document, index);
}

const char *reader_text(RecipeReader *reader, const yaml_node_t *node, const char *what)
{
    if (node->type != YAML_SCALAR_NODE) {
        reader_fault(reader, node, "%s: one plain value must stand here", what);
        return NULL;
    }
    const char *text = (const char *)node->data.scalar.value;
    bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != node->data.scalar.length) {
        reader_fault(reader, node, "%s: has a zero byte", what);
        return NULL;
    }
    if (plain && (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)) {
        reader_fault(reader, node, "%s has no value", what);
        return NULL;
    }
    return text;
}

bool reader_pair(RecipeReader *reader, const yaml_node_t *mapping, int i, yaml_node_t **key,
                 yaml_node_t **value)
{
    const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start + i;
    if (pair >= mapping->data.mapping.pairs.top) {
        return false;
    }
    *key = reader_node(reader, pair->key);
    *value = reader_node(reader, pair->value);
    return true;
}

bool reader_item(RecipeReader *reader, const yaml_node_t *sequence, int i, yaml_node_t **item)
{
    const yaml_node_item_t *at = sequence->data.sequence.items.start + i;
    if (at >= sequence->data.sequence.items.top) {
        return false;
    }
    *item = reader_node(reader, *at);
    return true;
}

static int want_mapping(const RecipeReader *reader, const yaml_node_t *node, const char *what)
{
    return node->type == YAML_MAPPING_NODE
               ? 0
               : reader_fault(reader, node, "%s: must be lines of `name: value`", what);
}

int reader_want_sequence(const RecipeReader *reader, const yaml_node_t *node, const char *what)
{
    bool filled = node->type == YAML_SEQUENCE_NODE &&
                  node->data.sequence.items.top > node->data.sequence.items.start;
    return filled
               ? 0
               : reader_fault(reader, node, "%s: must be a list such as [a, b], not empty", what);
}

int reader_each(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, RecipeRead *read,
                void *into)
{
    yaml_node_t *item;
    int code = reader_want_sequence(reader, node, key->name);
    for (int i = 0; code == 0 && reader_item(reader, node, i, &item); i++) {
        code = read(reader, key, item, into);
    }
    return code;
}

/* Says what was probably meant by a text that is none of the names, and what there is. */
static int unknown(const RecipeReader *reader, const yaml_node_t *node, const char *what,
                   const char *text, const char *const *names)
{
    Page all = {0};
    for (int i = 0; names[i] != NULL; i++) {
        page_put(&all, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    const char *nearest = config_nearest(text, names);
    int code = nearest != NULL ? reader_fault(reader, node, "unknown %s '%.60s'; did you mean %s?",
                                              what, text, nearest)
                               : reader_fault(reader, node, "unknown %s '%.60s'; there are: %s",
                                              what, text, all.text);
    page_free(&all);
    return code;
}

/* Index of the key's row; -1 and a fault when it is none of them. */
static int find_key(RecipeReader *reader, const yaml_node_t *key, const RecipeKey *keys)
{
    const char *text = reader_text(reader, key, "key"), *names[RECIPE_MAX_KEYS + 1] = {NULL};
    for (int i = 0; text != NULL && keys[i].name != NULL; i++) {
        if (strcmp(keys[i].name, text) == 0) {
            return i;
        }
        names[i] = keys[i].name;
    }
    if (text != NULL) {
        unknown(reader, key, "key", text, names);
    }
    return -1;
}

int reader_mapping(RecipeReader *reader, yaml_node_t *node, const char *what, const RecipeKey *keys,
                   void *into)
{
    bool seen[RECIPE_MAX_KEYS] = {false};
    yaml_node_t *key, *value;
    int code = want_mapping(reader, node, what);
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &key, &value); i++) {
        int row = find_key(reader, key, keys);
        if (row < 0) {
            return ERR_INPUT;
        }
        code = seen[row] ? reader_fault(reader, key, "%s is given twice", keys[row].name)
                         : keys[row].read(reader, &keys[row], value, (char *)into + keys[row].at);
        seen[row] = true;
    }
    for (int i = 0; code == 0 && keys[i].name != NULL; i++) {
        if (keys[i].needed && !seen[i]) {
            code = reader_fault(reader, node, "%s needs the key %s", what, keys[i].name);
        }
    }
    return code;
}

int reader_real(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    double *number = into;
    const char *text = reader_text(reader, node, key->name);
    if (text == NULL) {
        return ERR_INPUT;
    }
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*number)
               ? 0
               : reader_fault(reader, node, "%s '%.60s': not a number", key->name, text);
}

int reader_choice(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    int *choice = into;
    const char *text = reader_text(reader, node, key->name);
    for (*choice = 0; text != NULL && key->choices[*choice] != NULL; ++*choice) {
        if (strcmp(key->choices[*choice], text) == 0) {
            return 0;
        }
    }
    return text == NULL ? ERR_INPUT : unknown(reader, node, key->name, text, key->choices);
}

/* --- options of train: base, axes, skip, baseline --- */

/* Checks one `option: value` of train and appends it as train would write it. */
static int read_setting(RecipeReader *reader, yaml_node_t *key, yaml_node_t *value,
                        SettingList *list)
{
    const char *option = reader_text(reader, key, "option name");
    const char *text = option != NULL ? reader_text(reader, value, option) : NULL;
    if (text == NULL) {
        return ERR_INPUT;
    }
    if (strcmp(option, "out") == 0 || strcmp(option, "resume") == 0) {
        return reader_fault(reader, key, "%s is up to the sweep; leave it out", option);
    }
    int line = yaml_input_line(key->start_mark);
    int code = config_set_at(&reader->scratch, option, text, reader->input.path,
                             yaml_input_line(value->start_mark));
    if (code != 0) {
        return code;
    }
    char *written = config_value_text(&reader->scratch, config_find(option));
    setting_add(list, option, written, line);
    free(written);
    return 0;
}

int reader_settings(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *list)
{
    int code = want_mapping(reader, node, key->name);
    yaml_node_t *name, *value;
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &name, &value); i++) {
        const char *option = reader_text(reader, name, "option name");
        if (option != NULL && setting_find(list, option) != NULL) {
            return reader_fault(reader, name, "%s is given twice", option);
        }
        code = read_setting(reader, name, value, list);
    }
    return code;
}

static int read_skip(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    Recipe *recipe = into;
    recipe->skips =
        mem_realloc(recipe->skips, (size_t)recipe->skip_count + 1, sizeof *recipe->skips);
    SettingList *skip = &recipe->skips[recipe->skip_count++];
    *skip = (SettingList){0};
    int code = reader_settings(reader, key, node, skip);
    return code != 0 || skip->count > 0
               ? code
               : reader_fault(reader, node, "skip: an empty entry would leave out everything");
}

int reader_skips(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *recipe)
{
    recipe_clear_skips(recipe);
    return reader_each(reader, key, node, read_skip, recipe);
}

/* --- axes --- */

/* The last option of the last axis: its values, as many as others of the axis have. */
static int read_column(RecipeReader *reader, Recipe *recipe, yaml_node_t *name, yaml_node_t *node)
{
    RecipeAxis *axis = &recipe->axes[recipe->axis_count - 1];
    int last = axis->count - 1;
    SettingList *values = &axis->options[last];
    const char *option = reader_text(reader, name, "option name");
    if (option == NULL) {
        return ERR_INPUT;
    }
    if (recipe_varies(recipe, recipe->axis_count - 1, option)) {
        return reader_fault(reader, name, "%s varies on two axes", option);
    }
    yaml_node_t *item;
    int code = reader_want_sequence(reader, node, option);
    for (int i = 0; code == 0 && reader_item(reader, node, i, &item); i++) {
        code = read_setting(reader, name, item, values);
        if (code == 0) {
            values->items[i].line = yaml_input_line(item->start_mark);
        }
    }
    if (code == 0 && values->count != axis->options[0].count) {
        code = reader_fault(reader, name,
                            "%s has %d values and %s has %d; options of one axis change "
                            "together and need as many each",
                            option, values->count, recipe_axis_option(axis, 0),
                            axis->options[0].count);
    }
    for (int k = 0; code == 0 && k < last; k++) {
        if (strcmp(recipe_axis_option(axis, k), option) == 0) {
            code = reader_fault(reader, name, "%s is given twice", option);
        }
    }
    return code;
}

static int read_axis(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    (void)key;
    Recipe *recipe = into;
    recipe->axes = mem_realloc(recipe->axes, (size_t)recipe->axis_count + 1, sizeof *recipe->axes);
    RecipeAxis *axis = &recipe->axes[recipe->axis_count++];
    *axis = (RecipeAxis){0};
    yaml_node_t *name, *values;
    int code = want_mapping(reader, node, "an axis");
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &name, &values); i++) {
        axis->options = mem_realloc(axis->options, (size_t)i + 1, sizeof *axis->options);
        axis->options[axis->count++] = (SettingList){0};
        code = read_column(reader, recipe, name, values);
    }
    return code != 0 || axis->count > 0
               ? code
               : reader_fault(reader, node, "an axis needs an option with a list of values");
}

int reader_axes(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *recipe)
{
    recipe_clear_axes(recipe);
    return reader_each(reader, key, node, read_axis, recipe);
}
