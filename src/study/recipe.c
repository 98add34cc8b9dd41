/* Lists of settings, and the end of a recipe. */
#include "study/recipe.h"

#include "base/json.h"
#include "base/mem.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

void setting_add(SettingList *list, const char *option, const char *value, int line)
{
    list->items = mem_realloc(list->items, (size_t)list->count + 1, sizeof *list->items);
    list->items[list->count++] = (Setting){mem_strdup(option), mem_strdup(value), line};
}

const Setting *setting_find(const SettingList *list, const char *option)
{
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->items[i].option, option) == 0) {
            return &list->items[i];
        }
    }
    return NULL;
}

void setting_add_all(SettingList *list, const SettingList *others)
{
    for (int i = 0; i < others->count; i++) {
        const Setting *s = &others->items[i];
        setting_add(list, s->option, s->value, s->line);
    }
}

void setting_remove(SettingList *list, const char *option)
{
    const Setting *found = setting_find(list, option);
    if (found == NULL) {
        return;
    }
    int at = (int)(found - list->items);
    free(list->items[at].option);
    free(list->items[at].value);
    list->count--;
    memmove(list->items + at, list->items + at + 1,
            (size_t)(list->count - at) * sizeof *list->items);
}

void setting_replace(SettingList *list, const SettingList *over)
{
    static const char *const sizes[] = {"accum", "global-batch", "batch-ramp", NULL};
    const char *const *const groups[] = {config_lengths, sizes};
    for (int i = 0; i < over->count; i++) {
        const Setting *new = &over->items[i];
        setting_remove(list, new->option);
        for (int g = 0; g < 2; g++) {
            bool member = false;
            for (int k = 0; groups[g][k] != NULL; k++) {
                member = member || strcmp(groups[g][k], new->option) == 0;
            }
            for (int k = 0; member && groups[g][k] != NULL; k++) {
                if (setting_find(over, groups[g][k]) == NULL) {
                    setting_remove(list, groups[g][k]);
                }
            }
        }
    }
    setting_add_all(list, over);
}

void setting_free(SettingList *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->items[i].option);
        free(list->items[i].value);
    }
    free(list->items);
    *list = (SettingList){0};
}

cJSON *setting_json(const SettingList *list)
{
    cJSON *object = json_object();
    for (int i = 0; i < list->count; i++) {
        json_put_text(object, list->items[i].option, list->items[i].value);
    }
    return object;
}

static bool is_of_records(const char *option)
{
    const Option *found = config_find(option);
    return found != NULL && strcmp(found->group, "Output") == 0;
}

const char *recipe_axis_option(const RecipeAxis *axis, int i)
{
    return axis->options[i].items[0].option;
}

int recipe_axis_points(const RecipeAxis *axis)
{
    return axis->options[0].count;
}

int64_t recipe_combinations(const Recipe *recipe)
{
    int64_t count = 1;
    for (int i = 0; i < recipe->axis_count; i++) {
        count *= recipe_axis_points(&recipe->axes[i]);
    }
    return count;
}

bool recipe_varies(const Recipe *recipe, int count, const char *option)
{
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < recipe->axes[i].count; k++) {
            if (strcmp(recipe_axis_option(&recipe->axes[i], k), option) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool recipe_axis_shows(const RecipeAxis *axis, int i)
{
    bool alone = true;
    for (int k = 0; k < axis->count; k++) {
        alone = alone && is_of_records(recipe_axis_option(axis, k));
    }
    return alone || !is_of_records(recipe_axis_option(axis, i));
}

char *setting_label(const SettingList *list)
{
    char *label = mem_strdup("");
    for (int i = 0; i < list->count; i++) {
        const char *value = list->items[i].value, *name = list->items[i].option;
        if (config_is_unset(config_find(name), value)) {
            continue;
        }
        char *longer = mem_format("%s%s%s %s", label, label[0] != '\0' ? ", " : "", name,
                                  value[0] != '\0' ? value : "none");
        free(label);
        label = longer;
    }
    return label;
}

void recipe_clear_axes(Recipe *recipe)
{
    for (int i = 0; i < recipe->axis_count; i++) {
        for (int k = 0; k < recipe->axes[i].count; k++) {
            setting_free(&recipe->axes[i].options[k]);
        }
        free(recipe->axes[i].options);
    }
    free(recipe->axes);
    recipe->axes = NULL;
    recipe->axis_count = 0;
}

void recipe_clear_skips(Recipe *recipe)
{
    for (int i = 0; i < recipe->skip_count; i++) {
        setting_free(&recipe->skips[i]);
    }
    free(recipe->skips);
    recipe->skips = NULL;
    recipe->skip_count = 0;
}

void recipe_free(Recipe *recipe)
{
    for (int i = 0; recipe->trunk_runs != NULL && i < recipe->repeats; i++) {
        free(recipe->trunk_runs[i]);
    }
    free(recipe->trunk_runs);
    setting_free(&recipe->trunk);
    recipe_clear_axes(recipe);
    recipe_clear_skips(recipe);
    setting_free(&recipe->base);
    setting_free(&recipe->baseline);
    free(recipe->probe.factors);
    free(recipe->probe.chosen);
    free(recipe->path);
    free(recipe->name);
    free(recipe->title);
    free(recipe->about);
    cJSON_Delete(recipe->tables);
    cJSON_Delete(recipe->charts);
    cJSON_Delete(recipe->law);
    cJSON_Delete(recipe->duel);
    free(recipe->command);
    *recipe = (Recipe){0};
}
