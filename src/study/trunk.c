#include "study/trunk.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

int recipe_check_trunk(const Recipe *recipe)
{
    bool branches = recipe_varies(recipe, recipe->axis_count, "branch-at") ||
                    setting_find(&recipe->base, "branch-at") != NULL;
    if (branches != (recipe->trunk.count > 0)) {
        return err_set(ERR_INPUT,
                       "%s: %s; a recipe of branches has a trunk, the options of the run that they "
                       "leave, and an axis over branch-at, the updates where they do",
                       recipe->path,
                       branches ? "branch-at without a trunk" : "a trunk without branch-at");
    }
    if (branches && recipe->probe.count > 0) {
        return err_set(ERR_INPUT, "%s: lr-probe and trunk exclude each other; take lr-rule",
                       recipe->path);
    }
    return 0;
}

void recipe_make_trunk(Recipe *recipe)
{
    setting_replace(&recipe->base, &recipe->trunk);
    setting_remove(&recipe->base, "branch-at");
    setting_remove(&recipe->base, "keep");
    setting_add(&recipe->base, "keep", "0", 0);
    setting_free(&recipe->trunk);
    setting_free(&recipe->baseline);
    recipe_clear_axes(recipe);
    recipe_clear_skips(recipe);
    recipe->peers = 0;
    recipe->drop_checkpoints = false;
    recipe->target_loss = (Value){0};
    cJSON_Delete(recipe->tables);
    cJSON_Delete(recipe->charts);
    recipe->tables = json_array();
    recipe->charts = json_array();
    free(recipe->title);
    recipe->title = mem_format("Trunk of %s", recipe->name);
    free(recipe->about);
    recipe->about = mem_strdup("The runs whose checkpoints the branches go on from.");
}

int trunk_take(const Experiment *trunk, Recipe *recipe)
{
    recipe->trunk_runs = mem_zalloc((size_t)recipe->repeats, sizeof *recipe->trunk_runs);
    for (int i = 0; i < trunk->count; i++) {
        const ExperimentRun *run = &trunk->runs[i];
        if (run->repeat < recipe->repeats && recipe->trunk_runs[run->repeat] == NULL) {
            recipe->trunk_runs[run->repeat] = experiment_run_path(trunk, run, "");
        }
    }
    for (int i = 0; i < recipe->repeats; i++) {
        if (recipe->trunk_runs[i] == NULL) { /* its seed was another repeat's */
            return err_set(ERR_INPUT, "%s: the trunk of repeat %d is that of another repeat",
                           recipe->path, i + 1);
        }
    }
    return 0;
}
