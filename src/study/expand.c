/* From a recipe to its runs. */
#include "study/experiment.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RUNS 10000

/* Sets the option in cfg, and notes it in the run's settings where it is shown. */
static int vary(ExperimentRun *run, const Setting *setting, bool shown, const char *path)
{
    int code = config_set_at(&run->cfg, setting->option, setting->value, path, setting->line);
    if (code == 0 && shown) {
        setting_add(&run->settings, setting->option, setting->value, setting->line);
    }
    return code;
}

static bool is_skipped(const Recipe *recipe, const Config *cfg)
{
    for (int i = 0; i < recipe->skip_count; i++) {
        const SettingList *skip = &recipe->skips[i];
        bool all = true;
        for (int k = 0; k < skip->count && all; k++) {
            char *value = config_value_text(cfg, config_find(skip->items[k].option));
            all = strcmp(value, skip->items[k].value) == 0;
            free(value);
        }
        if (all) {
            return true;
        }
    }
    return false;
}

/* lr x (global batch / at), or x its root; then x the factor that a probe tries or has found
 * best. */
static int apply_lr_rule(const Recipe *recipe, ExperimentRun *run)
{
    Config *cfg = &run->cfg;
    if (recipe->lr_rule == LR_RULE_NONE && run->factor < 0) {
        return 0;
    }
    double ratio = (double)(cfg->batch * cfg->accum * cfg->ranks) / recipe->lr_at;
    double scale = recipe->lr_rule == LR_RULE_NONE   ? 1
                   : recipe->lr_rule == LR_RULE_SQRT ? sqrt(ratio)
                                                     : ratio;
    scale *= run->factor >= 0 ? recipe->probe.factors[run->factor] : 1;
    char lr[32];
    snprintf(lr, sizeof lr, "%.9g", cfg->lr * scale);
    int code = config_set(cfg, "lr", lr);
    if (code != 0) {
        return err_wrap(code, "%s: %s", recipe->path,
                        recipe->lr_rule == LR_RULE_NONE ? "lr-probe" : "lr-rule");
    }
    setting_remove(&run->settings, "lr");
    setting_add(&run->settings, "lr", lr, 0);
    return config_check(cfg);
}

static int set_seed(ExperimentRun *run)
{
    char seed[32];
    snprintf(seed, sizeof seed, "%" PRId64, run->cfg.seed + run->repeat);
    setting_remove(&run->settings, "seed");
    setting_add(&run->settings, "seed", seed, 0);
    return config_set(&run->cfg, "seed", seed);
}

static void free_run(ExperimentRun *run)
{
    config_free(&run->cfg);
    setting_free(&run->settings);
    free(run->label);
    free(run->reason);
    free(run->obstacle);
    *run = (ExperimentRun){0};
}

/* Names the combination behind what is wrong with it. */
static int combination_fault(const ExperimentRun *run, int code)
{
    char *label = setting_label(&run->settings);
    if (label[0] != '\0') {
        err_set(code, "%s (with %s)", err_message(), label);
    }
    free(label);
    return code;
}

/* The run of combination `index` (the last axis varies fastest) at a factor of the probe.
 * *wanted is false when it is skipped. */
static int make_run(const Recipe *recipe, int64_t index, int factor, int repeat, ExperimentRun *run,
                    bool *wanted)
{
    *run = (ExperimentRun){.combination = index,
                           .factor = factor,
                           .repeat = repeat,
                           .peer = "",
                           .reason = mem_strdup("")};
    config_init(&run->cfg, COMMAND_TRAIN);
    int code = 0;
    for (int i = 0; code == 0 && i < recipe->base.count; i++) {
        const Setting *s = &recipe->base.items[i];
        code = config_set_at(&run->cfg, s->option, s->value, recipe->path, s->line);
    }
    int64_t below = recipe_combinations(recipe); /* of the axes behind */
    for (int i = 0; code == 0 && i < recipe->axis_count; i++) {
        const RecipeAxis *axis = &recipe->axes[i];
        below /= recipe_axis_points(axis);
        int64_t point = index / below % recipe_axis_points(axis);
        for (int k = 0; code == 0 && k < axis->count; k++) {
            code =
                vary(run, &axis->options[k].items[point], recipe_axis_shows(axis, k), recipe->path);
        }
    }
    if (code == 0 && recipe->trunk_runs != NULL) {
        code = config_set(&run->cfg, "resume", recipe->trunk_runs[repeat]);
    }
    code = code != 0 ? code : config_check(&run->cfg);
    if (code == 0 && run->cfg.data[0] == '\0') {
        code = err_set(ERR_INPUT, "%s: base needs data", recipe->path);
    }
    *wanted = code != 0 || !is_skipped(recipe, &run->cfg);
    bool rate_shows = recipe->probe.probing; /* else it follows from what the label names */
    if (code == 0 && *wanted && rate_shows) {
        code = apply_lr_rule(recipe, run);
    }
    run->label = setting_label(&run->settings);
    if (code == 0 && *wanted && !rate_shows) {
        code = apply_lr_rule(recipe, run);
    }
    return code != 0 ? combination_fault(run, code) : set_seed(run);
}

static int count_combinations(const Recipe *recipe, int64_t *count)
{
    *count = 1;
    int per_combination = recipe->repeats * (recipe->probe.probing ? recipe->probe.count : 1) *
                          (1 + __builtin_popcount(recipe->peers));
    for (int i = 0; i < recipe->axis_count; i++) {
        *count *= recipe_axis_points(&recipe->axes[i]);
        if (*count * per_combination > MAX_RUNS) {
            return err_set(ERR_INPUT, "%s: more than %d runs; shorten the axes or repeats",
                           recipe->path, MAX_RUNS);
        }
    }
    return 0;
}

int experiment_expand(Experiment *experiment, Recipe *recipe)
{
    *experiment = (Experiment){0};
    int64_t combinations;
    int code = count_combinations(recipe, &combinations);
    if (code != 0) {
        return code;
    }
    const LrProbe *probe = &recipe->probe;
    int factors = probe->probing ? probe->count : 1;
    experiment->runs =
        mem_zalloc((size_t)(combinations * factors * recipe->repeats), sizeof *experiment->runs);
    for (int repeat = 0; code == 0 && repeat < recipe->repeats; repeat++) {
        int configuration = 0;
        for (int64_t c = 0; code == 0 && c < combinations * factors; c++) {
            ExperimentRun *run = &experiment->runs[experiment->count];
            int64_t combination = c / factors;
            int factor = probe->probing          ? (int)(c % factors)
                         : probe->chosen != NULL ? probe->chosen[combination]
                                                 : -1;
            bool wanted;
            code = make_run(recipe, combination, factor, repeat, run, &wanted);
            if (code != 0 || !wanted) {
                free_run(run);
                continue;
            }
            run->configuration = configuration++;
            experiment->count++;
        }
        experiment->configurations = configuration;
    }
    if (code == 0 && experiment->count == 0) {
        code = err_set(ERR_INPUT, "%s: skip leaves nothing to run", recipe->path);
    }
    if (code != 0) {
        experiment_free(experiment);
        return code;
    }
    experiment->recipe = *recipe;
    *recipe = (Recipe){0};
    experiment->dir = mem_strdup("");
    return 0;
}

void experiment_free(Experiment *experiment)
{
    for (int i = 0; i < experiment->count; i++) {
        free_run(&experiment->runs[i]);
    }
    free(experiment->runs);
    free(experiment->dir);
    free(experiment->peer_note);
    recipe_free(&experiment->recipe);
    *experiment = (Experiment){0};
}

void experiment_drop(Experiment *experiment, int at)
{
    free_run(&experiment->runs[at]);
    experiment->count--;
    memmove(&experiment->runs[at], &experiment->runs[at + 1],
            (size_t)(experiment->count - at) * sizeof *experiment->runs);
}

static void mix_into_id(ExperimentRun *run, const char *name, const char *value)
{
    char *text = mem_format("%s\n%s=%s\n", run->id, name, value);
    snprintf(run->id, sizeof run->id, "%016" PRIx64, io_hash(text, strlen(text)));
    free(text);
}

static void add_to_id(ExperimentRun *run, const Config *defaults, const Option *option)
{
    char *value = config_value_text(&run->cfg, option);
    char *initial = config_value_text(defaults, option);
    if (strcmp(value, initial) != 0) {
        mix_into_id(run, option->name, value);
    }
    free(value);
    free(initial);
}

/* The id of a run leaves out options that do not decide what is computed or how. Where an axis
 * varies one of these (graph, bucket-mb), it is added, unless it has its default: runs made
 * before the axis was there keep their id. */
static void make_id(const Recipe *recipe, ExperimentRun *run)
{
    config_run_id(&run->cfg, run->id);
    Config defaults;
    config_init(&defaults, COMMAND_TRAIN);
    for (int i = 0; i < recipe->axis_count; i++) {
        const RecipeAxis *axis = &recipe->axes[i];
        for (int k = 0; k < axis->count; k++) {
            const Option *option = config_find(recipe_axis_option(axis, k));
            bool decides = (option->flags & (OPTION_RESULT | OPTION_ROUNDING)) != 0 ||
                           strcmp(option->name, "global-batch") == 0; /* batch and accum do */
            if (!decides && recipe_axis_shows(axis, k)) {
                add_to_id(run, &defaults, option);
            }
        }
    }
    config_free(&defaults);
    if (run->peer[0] != '\0') {
        mix_into_id(run, "peer", run->peer);
    }
}

void experiment_identify(Experiment *experiment)
{
    int kept = 0, highest = 0;
    int *renamed = mem_alloc((size_t)experiment->configurations * sizeof *renamed);
    for (int i = 0; i < experiment->configurations; i++) {
        renamed[i] = -1;
    }
    for (int i = 0; i < experiment->count; i++) {
        ExperimentRun run = experiment->runs[i];
        make_id(&experiment->recipe, &run);
        bool twice = false;
        for (int k = 0; k < kept && !twice; k++) {
            twice = strcmp(experiment->runs[k].id, run.id) == 0;
        }
        if (twice) {
            free_run(&run);
            continue;
        }
        int *number = &renamed[run.configuration];
        *number = *number >= 0 ? *number : highest++;
        run.configuration = *number;
        experiment->runs[kept++] = run;
    }
    free(renamed);
    experiment->count = kept;
    experiment->configurations = highest;
}

void experiment_set(ExperimentRun *run, RunState state, const char *reason)
{
    char *copy = mem_strdup(reason); /* before the free: it may be the old one */
    free(run->reason);
    run->reason = copy;
    run->state = state;
}
