/* The parts of a recipe that are options of train: base, axes, skip, baseline. */
#include "experiment/recipe_reader.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

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

int reader_settings(RecipeReader *reader, yaml_node_t *node, const char *what, SettingList *list)
{
    int code = reader_want_mapping(reader, node, what);
    yaml_node_t *key, *value;
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &key, &value); i++) {
        const char *option = reader_text(reader, key, "option name");
        if (option != NULL && setting_find(list, option) != NULL) {
            return reader_fault(reader, key, "%s is given twice", option);
        }
        code = read_setting(reader, key, value, list);
    }
    return code;
}

int reader_skips(RecipeReader *reader, yaml_node_t *node, Recipe *recipe)
{
    int code = reader_want_sequence(reader, node, "skip");
    yaml_node_t *item;
    for (int i = 0; code == 0 && reader_item(reader, node, i, &item); i++) {
        recipe->skips =
            mem_realloc(recipe->skips, (size_t)recipe->skip_count + 1, sizeof *recipe->skips);
        SettingList *skip = &recipe->skips[recipe->skip_count++];
        *skip = (SettingList){0};
        code = reader_settings(reader, item, "skip", skip);
        if (code == 0 && skip->count == 0) {
            code = reader_fault(reader, item, "skip: an empty entry would leave out everything");
        }
    }
    return code;
}

/* --- axes --- */

static bool varies_elsewhere(const Recipe *recipe, const char *option)
{
    for (int i = 0; i + 1 < recipe->axis_count; i++) {
        for (int k = 0; k < recipe->axes[i].options; k++) {
            if (strcmp(recipe->axes[i].cells[k].option, option) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* One option of an axis: its values, as column `column` of the cells. */
static int read_column(RecipeReader *reader, Recipe *recipe, yaml_node_t *key, yaml_node_t *node,
                       SettingList *values)
{
    const char *option = reader_text(reader, key, "option name");
    if (option == NULL) {
        return ERR_INPUT;
    }
    if (varies_elsewhere(recipe, option)) {
        return reader_fault(reader, key, "%s varies on two axes", option);
    }
    int code = reader_want_sequence(reader, node, option);
    yaml_node_t *item;
    for (int i = 0; code == 0 && reader_item(reader, node, i, &item); i++) {
        code = read_setting(reader, key, item, values);
        if (code == 0) {
            values->items[i].line = yaml_input_line(item->start_mark);
        }
    }
    return code;
}

static int read_axis(RecipeReader *reader, yaml_node_t *node, Recipe *recipe)
{
    int code = reader_want_mapping(reader, node, "an axis");
    recipe->axes = mem_realloc(recipe->axes, (size_t)recipe->axis_count + 1, sizeof *recipe->axes);
    RecipeAxis *axis = &recipe->axes[recipe->axis_count++];
    *axis = (RecipeAxis){0};
    SettingList columns[CONFIG_MAX_OPTIONS] = {0};
    int count = 0;
    yaml_node_t *key, *value;
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &key, &value); i++) {
        code = count < CONFIG_MAX_OPTIONS ? read_column(reader, recipe, key, value, &columns[count])
                                          : reader_fault(reader, key, "an axis of so many options");
        count++;
        if (code == 0 && columns[count - 1].count != columns[0].count) {
            code = reader_fault(reader, key,
                                "%s has %d values and %s has %d; options of one axis change "
                                "together and need as many each",
                                columns[count - 1].items[0].option, columns[count - 1].count,
                                columns[0].items[0].option, columns[0].count);
        }
        for (int k = 0; code == 0 && k + 1 < count; k++) {
            if (strcmp(columns[k].items[0].option, columns[count - 1].items[0].option) == 0) {
                code = reader_fault(reader, key, "%s is given twice", columns[k].items[0].option);
            }
        }
    }
    if (code == 0 && count == 0) {
        code = reader_fault(reader, node, "an axis needs an option with a list of values");
    }
    if (code == 0) { /* the strings move over */
        *axis = (RecipeAxis){.options = count, .points = columns[0].count};
        axis->cells = mem_zalloc((size_t)(count * axis->points), sizeof *axis->cells);
        for (int i = 0; i < count; i++) {
            for (int p = 0; p < axis->points; p++) {
                axis->cells[p * count + i] = columns[i].items[p];
            }
            free(columns[i].items);
        }
        return 0;
    }
    for (int i = 0; i < count && i < CONFIG_MAX_OPTIONS; i++) {
        setting_free(&columns[i]);
    }
    return code;
}

int reader_axes(RecipeReader *reader, yaml_node_t *node, Recipe *recipe)
{
    int code = reader_want_sequence(reader, node, "axes");
    yaml_node_t *item;
    for (int i = 0; code == 0 && reader_item(reader, node, i, &item); i++) {
        code = read_axis(reader, item, recipe);
    }
    return code;
}
