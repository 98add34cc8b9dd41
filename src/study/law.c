#include "study/law.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "study/recipe_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_UPDATES 100    /* with fewer, warm-up and decay are what a run shows */
#define LEAST_SIZES 3        /* that a budget has to choose from */
#define LEAST_BUDGETS 3      /* of which each is left out of a fit in turn */
#define AROUND 2             /* sizes on either side of a budget's best that are tried */
#define TOKENS_PER_WEIGHT 20 /* where the search begins */

/* --- from YAML --- */

static int add_number(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *array)
{
    double number;
    const cJSON *other;
    int code = reader_real(reader, key, node, &number);
    if (code == 0 && !(number > 0)) {
        code = reader_fault(reader, node, "%s: numbers above 0", key->name);
    }
    cJSON_ArrayForEach(other, (const cJSON *)array)
    {
        if (code == 0 && other->valuedouble == number) {
            code = reader_fault(reader, node, "%s: %g is there twice", key->name, number);
        }
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

static int put_around(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    double number = 0;
    int code = reader_real(reader, key, node, &number);
    json_put_number(object, key->name, number);
    bool good = number >= 1 && number <= 1000 && number == floor(number);
    return code != 0 || good ? code
                             : reader_fault(reader, node,
                                            "%s: sizes on either side of the best, "
                                            "a whole number from 1",
                                            key->name);
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
                                     {.name = "around", .read = put_around},
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

/* Gives a run the updates that its budget pays for. */
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
    if (steps < LEAST_UPDATES && run->largest) {
        return err_set(ERR_INPUT,
                       "%s: law: the largest run's %g FLOP are %.0f updates of dial %.0f (%" PRId64
                       " parameters, %.3g FLOP an update); give at least %d, by more FLOP, a "
                       "smaller dial or a smaller batch",
                       e->recipe.path, run->budget, steps, dial, run->plan.parameters,
                       run->plan.flops_update, LEAST_UPDATES);
    }
    char text[32];
    snprintf(text, sizeof text, "%.0f", fmax(steps, 1));
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

/* What is no point of the grid: too few updates, or the largest run itself, which must not be among
 * those that predict it. That is said, since the grid has a gap there. */
static bool is_left_out(const Experiment *e, const ExperimentRun *run)
{
    const cJSON *law = e->recipe.law;
    double dial, largest;
    point_at(law, (int)run->combination, &dial, &largest);
    bool planned = run->obstacle == NULL || run->too_large;
    if (run->largest || !planned || run->plan.steps < LEAST_UPDATES) {
        return !run->largest && planned;
    }
    for (int i = 0; i < e->count; i++) {
        const ExperimentRun *other = &e->runs[i];
        double size;
        point_at(law, (int)other->combination, &size, &largest);
        if (other->largest && size == dial && other->plan.steps == run->plan.steps) {
            if (run->repeat == 0) {
                log_warn("%s: law: %s is the largest run and a point of the grid; it is held out, "
                         "as what is predicted must not be among what it is predicted from",
                         e->recipe.path, run->label);
            }
            return true;
        }
    }
    return false;
}

/* By budget, then size, then repeat; the largest run last. */
static int in_order(const void *a, const void *b)
{
    const ExperimentRun *x = a, *y = b;
    if (x->largest != y->largest) {
        return x->largest - y->largest;
    }
    if (x->budget != y->budget) {
        return x->budget < y->budget ? -1 : 1;
    }
    if (x->plan.parameters != y->plan.parameters) {
        return x->plan.parameters < y->plan.parameters ? -1 : 1;
    }
    return x->repeat - y->repeat;
}

static int check_budgets(const Experiment *e)
{
    const cJSON *budget;
    cJSON_ArrayForEach(budget, json_get(e->recipe.law, "budgets"))
    {
        int sizes = 0;
        for (int i = 0; i < e->count; i++) {
            const ExperimentRun *run = &e->runs[i];
            sizes += !run->largest && run->repeat == 0 && run->budget == budget->valuedouble;
        }
        if (sizes < LEAST_SIZES) {
            return err_set(ERR_INPUT,
                           "%s: law: %g FLOP pay for at least %d updates of %d of the dials; give "
                           "at least %d such, by smaller dials, a larger budget or a smaller batch",
                           e->recipe.path, budget->valuedouble, LEAST_UPDATES, sizes, LEAST_SIZES);
        }
    }
    int budgets = cJSON_GetArraySize(json_get(e->recipe.law, "budgets"));
    return budgets >= LEAST_BUDGETS
               ? 0
               : err_set(ERR_INPUT,
                         "%s: law: %d budget%s; give at least %d: at equal FLOP a larger model has "
                         "fewer tokens, so several budgets tell what each of the two does",
                         e->recipe.path, budgets, budgets == 1 ? "" : "s", LEAST_BUDGETS);
}

int law_set_budgets(Experiment *e)
{
    if (e->recipe.law == NULL) {
        return 0;
    }
    int code = 0;
    for (int i = 0; i < e->count && code == 0; i++) {
        code = set_budget(e, &e->runs[i]);
    }
    for (int i = e->count - 1; i >= 0 && code == 0; i--) {
        if (is_left_out(e, &e->runs[i])) {
            experiment_drop(e, i);
        }
    }
    qsort(e->runs, (size_t)e->count, sizeof *e->runs, in_order);
    return code != 0 ? code : check_budgets(e);
}

/* --- which of them are made --- */

/* Mean loss of the size that run `at` begins, over its repeats; INFINITY where one failed. */
static double loss_at(const Experiment *e, int at, int repeats)
{
    double sum = 0;
    for (int i = at; i < at + repeats; i++) {
        cJSON *record = NULL;
        bool done = e->runs[i].state == RUN_DONE;
        double loss = done && experiment_run_record(e, &e->runs[i], &record) == 0
                          ? json_number(record, "summary.val_loss")
                          : NAN;
        sum += isfinite(loss) ? loss / repeats : INFINITY;
        cJSON_Delete(record);
    }
    return sum;
}

/* The sizes of one budget: runs [first, first + count x repeats). */
typedef struct {
    int first, count, repeats;
} Row;

static Row row_at(const Experiment *e, int first)
{
    Row row = {first, 0, 0};
    int end = first;
    while (end < e->count && !e->runs[end].largest &&
           e->runs[end].budget == e->runs[first].budget) {
        row.repeats += e->runs[end].plan.parameters == e->runs[first].plan.parameters;
        end++;
    }
    row.count = row.repeats > 0 ? (end - first) / row.repeats : 0;
    return row;
}

/* The size whose logarithm is nearest, by parameters or by what TOKENS_PER_WEIGHT asks for. */
static int middle_of(const Experiment *e, Row row, double parameters)
{
    int best = 0;
    double least = INFINITY;
    for (int k = 0; k < row.count; k++) {
        const RunPlan *plan = &e->runs[row.first + k * row.repeats].plan;
        double own = (double)plan->parameters;
        double off = parameters > 0 ? log(own / parameters)
                                    : log((double)plan->tokens / own / TOKENS_PER_WEIGHT);
        if (fabs(off) < least) {
            least = fabs(off);
            best = k;
        }
    }
    return best;
}

/* Asks for sizes [low, high] of the row; false: all of them had been asked for. */
static bool ask(Row row, int low, int high, bool *asked)
{
    bool more = false;
    for (int k = low < 0 ? 0 : low; k <= high && k < row.count; k++) {
        for (int r = 0; r < row.repeats; r++) {
            bool *one = &asked[row.first + k * row.repeats + r];
            more = more || !*one;
            *one = true;
        }
    }
    return more;
}

/* Budget by budget: three sizes to begin with, then those around the best so far, until the best
 * has its neighbours or there are no more. False: the grid is complete. */
static bool ask_more(const Experiment *e, bool *asked)
{
    double around = json_number(e->recipe.law, "around"), parameters = 0, budget = 0;
    int reach = around > 0 ? (int)around : AROUND;
    for (int first = 0; first < e->count && !e->runs[first].largest;) {
        Row row = row_at(e, first);
        int best = -1;
        double least = INFINITY;
        for (int k = 0; k < row.count; k++) {
            int at = row.first + k * row.repeats;
            double loss = asked[at] ? loss_at(e, at, row.repeats) : INFINITY;
            if (asked[at] && (best < 0 || loss < least)) {
                least = loss;
                best = k;
            }
        }
        bool begun = best >= 0;
        if (!begun) { /* from the last budget's best: sizes grow with the root of the FLOP */
            best = middle_of(e, row, parameters * sqrt(e->runs[first].budget / budget));
        }
        if (ask(row, best - (begun ? reach : 1), best + (begun ? reach : 1), asked)) {
            return true;
        }
        parameters = (double)e->runs[row.first + best * row.repeats].plan.parameters;
        budget = e->runs[first].budget;
        first += row.count * row.repeats;
    }
    return false;
}

/* Configurations count from 0 in the order of the runs; repeats of one have one number. */
static void number(Experiment *e)
{
    e->configurations = 0;
    for (int i = 0; i < e->count; i++) {
        bool same = i > 0 && e->runs[i].combination == e->runs[i - 1].combination;
        e->configurations += !same;
        e->runs[i].configuration = e->configurations - 1;
    }
}

/* Makes those that are asked for, as an experiment of their own. */
static int execute_asked(Experiment *e, const bool *asked)
{
    Experiment part = *e;
    part.runs = mem_zalloc((size_t)e->count, sizeof *part.runs);
    part.count = 0;
    for (int i = 0; i < e->count; i++) {
        if (asked[i]) {
            part.runs[part.count++] = e->runs[i];
        }
    }
    number(&part);
    int code = experiment_execute(&part);
    for (int i = e->count - 1, k = part.count; i >= 0; i--) {
        if (asked[i]) {
            e->runs[i] = part.runs[--k];
        }
    }
    free(part.runs);
    return code;
}

int law_make_grid(Experiment *e)
{
    int code = 0;
    bool *asked = mem_zalloc((size_t)e->count, sizeof *asked);
    while (code == 0 && ask_more(e, asked)) {
        code = execute_asked(e, asked);
    }
    for (int i = e->count - 1; i >= 0 && code == 0; i--) {
        if (!asked[i] && !e->runs[i].largest) {
            experiment_drop(e, i);
        }
    }
    number(e);
    free(asked);
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
