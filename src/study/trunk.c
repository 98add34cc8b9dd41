#include "study/trunk.h"

#include "base/err.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is refused when a run goes on. */
static int check_option(const Recipe *recipe, const char *option)
{
    return config_find(option)->resume != RESUME_REFUSED
               ? 0
               : err_set(ERR_INPUT,
                         "%s: %s cannot change where a branch leaves its trunk; give one in base",
                         recipe->path, option);
}

static int check_options(const Recipe *recipe)
{
    int code = 0;
    for (int i = 0; code == 0 && i < recipe->trunk.count; i++) {
        code = check_option(recipe, recipe->trunk.items[i].option);
    }
    for (int i = 0; i < recipe->axis_count; i++) {
        for (int k = 0; code == 0 && k < recipe->axes[i].count; k++) {
            code = check_option(recipe, recipe_axis_option(&recipe->axes[i], k));
        }
    }
    return code;
}

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
    return branches ? check_options(recipe) : 0;
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

/* Whether the trunk keeps a checkpoint of the update. */
static int check_point(const Experiment *trunk, const Setting *at)
{
    const ExperimentRun *run = &trunk->runs[0];
    int64_t step = strtoll(at->value, NULL, 10), every = run->cfg.save_every;
    bool kept = step == run->plan.steps || (every > 0 && step % every == 0);
    if (run->obstacle != NULL || (kept && step <= run->plan.steps)) {
        return 0;
    }
    char saves[64] = "of the last one";
    if (every > 0) {
        snprintf(saves, sizeof saves, "of every %" PRId64 " (save-every)", every);
    }
    return err_set(ERR_INPUT,
                   "%s:%d: branch-at %s: the trunk has %" PRId64 " updates and keeps checkpoints "
                   "%s; change trunk's steps or save-every, or branch elsewhere",
                   trunk->recipe.path, at->line, at->value, run->plan.steps, saves);
}

static int check_points(const Experiment *trunk, const Recipe *recipe)
{
    const Setting *fixed = setting_find(&recipe->base, "branch-at");
    int code = fixed != NULL ? check_point(trunk, fixed) : 0;
    for (int i = 0; i < recipe->axis_count; i++) {
        for (int k = 0; k < recipe->axes[i].count; k++) {
            const SettingList *list = &recipe->axes[i].options[k];
            bool points = strcmp(list->items[0].option, "branch-at") == 0;
            for (int j = 0; points && code == 0 && j < list->count; j++) {
                code = check_point(trunk, &list->items[j]);
            }
        }
    }
    return code;
}

int trunk_check_branches(const Experiment *branches)
{
    for (int i = 0; i < branches->count; i++) {
        const ExperimentRun *a = &branches->runs[i];
        for (int k = 0; k < i; k++) {
            const ExperimentRun *b = &branches->runs[k];
            int64_t updates[2] = {a->cfg.batch * a->cfg.accum * a->cfg.ranks * a->plan.seq,
                                  b->cfg.batch * b->cfg.accum * b->cfg.ranks * b->plan.seq};
            int64_t update = updates[0] > updates[1] ? updates[0] : updates[1];
            bool planned = a->plan.tokens > 0 && b->plan.tokens > 0;
            if (planned && a->cfg.branch_at == b->cfg.branch_at &&
                llabs(a->plan.tokens - b->plan.tokens) >= update) {
                return err_set(ERR_INPUT,
                               "%s: branches are compared at equal tokens, but \"%s\" goes on for "
                               "%" PRId64 " and \"%s\" for %" PRId64 "; give tokens in base",
                               branches->recipe.path, b->label, b->plan.tokens, a->label,
                               a->plan.tokens);
            }
        }
    }
    return 0;
}

int trunk_take(const Experiment *trunk, Recipe *recipe)
{
    int code = check_points(trunk, recipe);
    if (code != 0) {
        return code;
    }
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
