#include "study/law.h"

#include "base/err.h"
#include "base/mem.h"
#include "study/recipe_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_UPDATES 10 /* with fewer, warm-up and schedule mean nothing */

/* --- from YAML --- */

static int add_number(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *array)
{
    double number;
    int code = reader_real(reader, key, node, &number);
    if (code == 0 && !(number > 0)) {
        code = reader_fault(reader, node, "%s: numbers above 0", key->name);
    }
    if (code == 0) {
        json_append(array, cJSON_CreateNumber(number));
    }
    return code;
}

static int put_numbers(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    return reader_each(reader, key, node, add_number, json_put_array(object, key->name));
}

static int put_number(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    double number = 0;
    int code = reader_real(reader, key, node, &number);
    json_put_number(object, key->name, number);
    return code != 0 || number > 0 ? code
                                   : reader_fault(reader, node, "%s: a number above 0", key->name);
}

static int put_largest(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    static const RecipeKey keys[] = {{.name = "dial", .read = put_number, .needed = true},
                                     {.name = "flops", .read = put_number, .needed = true},
                                     {.name = NULL}};
    return reader_mapping(reader, node, key->name, keys, json_put_object(object, key->name));
}

int reader_law(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    static const RecipeKey keys[] = {{.name = "dials", .read = put_numbers, .needed = true},
                                     {.name = "budgets", .read = put_numbers, .needed = true},
                                     {.name = "largest", .read = put_largest},
                                     {.name = NULL}};
    Recipe *recipe = into;
    cJSON_Delete(recipe->law);
    recipe->law = json_object();
    return reader_mapping(reader, node, key->name, keys, recipe->law);
}

/* --- the runs --- */

/* Size and budget of a point of the axis: budget by budget, then the largest run. */
static void point_at(const cJSON *law, int point, double *dial, double *flops)
{
    const cJSON *dials = json_get(law, "dials"), *budgets = json_get(law, "budgets");
    int sizes = cJSON_GetArraySize(dials);
    bool largest = point >= sizes * cJSON_GetArraySize(budgets);
    *dial = largest ? json_number(law, "largest.dial")
                    : cJSON_GetArrayItem(dials, point % sizes)->valuedouble;
    *flops = largest ? json_number(law, "largest.flops")
                     : cJSON_GetArrayItem(budgets, point / sizes)->valuedouble;
}

static bool has_largest(const cJSON *law)
{
    return json_get(law, "largest") != NULL;
}

static int count_points(const cJSON *law)
{
    return cJSON_GetArraySize(json_get(law, "dials")) *
               cJSON_GetArraySize(json_get(law, "budgets")) +
           has_largest(law);
}

/* What the law says of every run is not for base to say: it would be passed over, or change the
 * FLOP of an update along a run. */
static int check_base(const Recipe *recipe)
{
    static const char *const own[] = {"dial", "batch-ramp", NULL};
    const char *const *const lists[] = {own, config_lengths};
    for (int list = 0; list < 2; list++) {
        for (const char *const *name = lists[list]; *name != NULL; name++) {
            if (setting_find(&recipe->base, *name) != NULL) {
                return err_set(ERR_INPUT,
                               "%s: law says how large and how long runs are; leave %s out of base",
                               recipe->path, *name);
            }
        }
    }
    return 0;
}

int law_make_axis(Recipe *recipe)
{
    if (recipe->axis_count > 0 || recipe->probe.count > 0 || recipe->peers != 0) {
        return err_set(ERR_INPUT, "%s: law makes all runs of its recipe; leave out %s",
                       recipe->path,
                       recipe->axis_count > 0    ? "axes"
                       : recipe->probe.count > 0 ? "lr-probe"
                                                 : "peers");
    }
    int code = check_base(recipe);
    if (code != 0) {
        return code;
    }
    recipe->axes = mem_zalloc(1, sizeof *recipe->axes);
    recipe->axis_count = 1;
    RecipeAxis *axis = &recipe->axes[0];
    axis->options = mem_zalloc(2, sizeof *axis->options);
    axis->count = 2;
    for (int i = 0; i < count_points(recipe->law); i++) {
        double dial, flops;
        char text[32];
        point_at(recipe->law, i, &dial, &flops);
        if (dial != floor(dial) || dial > 1000) {
            return err_set(ERR_INPUT, "%s: law: a dial is a whole number, 1 to 1000", recipe->path);
        }
        snprintf(text, sizeof text, "%.0f", dial);
        setting_add(&axis->options[0], "dial", text, 0);
        setting_add(&axis->options[1], "steps", "1", 0); /* law_set_budgets */
    }
    return 0;
}

static int set_budget(const Experiment *e, ExperimentRun *run)
{
    const cJSON *law = e->recipe.law;
    double dial;
    point_at(law, (int)run->combination, &dial, &run->budget);
    run->largest = has_largest(law) && run->combination == count_points(law) - 1;
    if (run->obstacle != NULL && !run->too_large) {
        return 0;
    }
    double steps = round(run->budget / run->plan.flops_update);
    if (!(steps <= config_find("steps")->max)) {
        return err_set(ERR_INPUT,
                       "%s: law: %g FLOP are %.3g updates of dial %.0f; give a smaller budget",
                       e->recipe.path, run->budget, steps, dial);
    }
    if (steps < LEAST_UPDATES) {
        return err_set(ERR_INPUT,
                       "%s: law: %g FLOP are %.0f updates of dial %.0f (%" PRId64
                       " parameters, %.3g FLOP an update); give at least %d, by larger budgets, "
                       "smaller dials or a smaller batch",
                       e->recipe.path, run->budget, steps, dial, run->plan.parameters,
                       run->plan.flops_update, LEAST_UPDATES);
    }
    char text[32];
    snprintf(text, sizeof text, "%.0f", steps);
    setting_remove(&run->settings, "steps");
    setting_add(&run->settings, "steps", text, 0);
    free(run->label);
    run->label = mem_format("dial %.0f, steps %s", dial, text);
    double longer = steps / (double)run->plan.steps;
    run->plan.tokens = (int64_t)((double)run->plan.tokens * longer);
    run->plan.seconds.number *= longer;
    run->plan.steps = (int64_t)steps;
    return config_set(&run->cfg, "steps", text);
}

int law_set_budgets(Experiment *experiment)
{
    if (experiment->recipe.law == NULL) {
        return 0;
    }
    int code = 0, kept = 0, moved = 0;
    ExperimentRun *last = mem_zalloc((size_t)experiment->count, sizeof *last);
    for (int i = 0; i < experiment->count && code == 0; i++) {
        code = set_budget(experiment, &experiment->runs[i]);
    }
    for (int i = 0; i < experiment->count && code == 0; i++) {
        ExperimentRun run = experiment->runs[i];
        *(run.largest ? &last[moved++] : &experiment->runs[kept++]) = run;
    }
    for (int i = 0; i < moved; i++) {
        experiment->runs[kept + i] = last[i];
    }
    free(last);
    return code;
}

int law_runs_before(const Experiment *experiment)
{
    int before = 0;
    while (before < experiment->count && !experiment->runs[before].largest) {
        before++;
    }
    return before;
}
