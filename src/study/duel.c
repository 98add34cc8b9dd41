#include "study/duel.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/length.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 8 /* options that A and B are named by; the others are in the runs' records */

/* --- what A and B are --- */

static bool is_line(const char *argument)
{
    return !io_exists(argument) && strchr(argument, ':') != NULL;
}

/* The options that a file or a line gives, written as train writes them. */
static int read_settings(const char *argument, SettingList *list)
{
    if (!io_exists(argument) && !is_line(argument)) {
        return err_set(ERR_INPUT,
                       "'%s' is neither a file nor options on a line, such as 'lr: 2e-3'",
                       argument);
    }
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    int code =
        is_line(argument) ? config_load_line(&cfg, argument) : config_load_yaml(&cfg, argument);
    for (const Option *option = config_options(); code == 0 && option->name != NULL; option++) {
        bool given = (option->commands & 1u << COMMAND_TRAIN) != 0 &&
                     strcmp(option->name, "config") != 0 && config_is_set(&cfg, option->name);
        if (given && (strcmp(option->name, "out") == 0 || strcmp(option->name, "resume") == 0)) {
            code = err_set(ERR_INPUT, "%s: %s is up to the duel; leave it out", argument,
                           option->name);
        } else if (given) {
            char *value = config_value_text(&cfg, option);
            setting_add(list, option->name, value, 0);
            free(value);
        }
    }
    config_free(&cfg);
    return code;
}

static int configure(Config *cfg, const SettingList *list)
{
    config_init(cfg, COMMAND_TRAIN);
    int code = 0;
    for (int i = 0; code == 0 && i < list->count; i++) {
        code = config_set(cfg, list->items[i].option, list->items[i].value);
    }
    code = code != 0 ? code : config_check(cfg);
    if (code == 0 && cfg->data[0] == '\0') {
        code = err_set(ERR_INPUT, "data is not given; `data: builtin:stories` needs no file");
    }
    if (code == 0 && cfg->eval_every == 0) {
        code = err_set(ERR_INPUT, "eval-every is 0, but validation losses are what is compared; "
                                  "leave it out");
    }
    return code;
}

/* The options that differ become the axis of the experiment; those that only one of them is given
 * show the other's default. */
static void find_differences(Recipe *recipe, const Config *a, const Config *b)
{
    RecipeAxis axis = {0};
    for (const Option *option = config_options(); option->name != NULL; option++) {
        bool given = (option->commands & 1u << COMMAND_TRAIN) != 0 &&
                     (config_is_set(a, option->name) || config_is_set(b, option->name) ||
                      (option->flags & OPTION_UNSET) != 0);
        char *of_a = config_value_text(a, option), *of_b = config_value_text(b, option);
        if (given && strcmp(of_a, of_b) != 0 && axis.count < SHOWN) {
            axis.options = mem_realloc(axis.options, (size_t)axis.count + 1, sizeof *axis.options);
            axis.options[axis.count] = (SettingList){0};
            setting_add(&axis.options[axis.count], option->name, of_a, 0);
            setting_add(&axis.options[axis.count++], option->name, of_b, 0);
        }
        free(of_a);
        free(of_b);
    }
    if (axis.count > 0) {
        recipe->axes = mem_zalloc(1, sizeof *recipe->axes);
        recipe->axes[0] = axis;
        recipe->axis_count = 1;
    }
}

/* --- the recipe --- */

static char *make_name(const SettingList *a, const SettingList *b)
{
    char *of_a = setting_label(a), *of_b = setting_label(b);
    char *both = mem_format("%s\n%s", of_a, of_b);
    char *name = mem_format("duel-%08" PRIx32, (uint32_t)io_hash(both, strlen(both)));
    free(of_a);
    free(of_b);
    free(both);
    return name;
}

static void describe(Recipe *recipe, const char *a, const char *b, const DuelPlan *plan)
{
    recipe->path = mem_strdup("duel");
    recipe->title = mem_strdup("Duel of two configurations");
    recipe->about = mem_format(
        "Which of two configurations has the lower validation loss, at the same seeds? Pairs of "
        "runs are made until the interval of the mean difference, which holds at all looks "
        "together (error rate %g), excludes 0 or lies within %g nats of it: at least %d pairs, at "
        "most %d.",
        plan->error, plan->margin, plan->least, plan->most);
    recipe->duel = json_object();
    json_put_text(recipe->duel, "a", a);
    json_put_text(recipe->duel, "b", b);
    json_put_number(recipe->duel, "error", plan->error);
    json_put_number(recipe->duel, "margin", plan->margin);
    json_put_whole(recipe->duel, "min_pairs", plan->least);
    json_put_whole(recipe->duel, "max_pairs", plan->most);
    recipe->tables = cJSON_Parse(
        "[{\"title\":\"Configurations\",\"per\":\"configuration\",\"columns\":[\"configuration\","
        "\"steps\",\"tokens\",\"val_loss\",\"train_loss\",\"training_s\",\"tok_s\","
        "\"peak_bytes\"]},{\"title\":\"Every run\",\"per\":\"run\",\"columns\":["
        "\"configuration\",\"repeat\",\"seed\",\"state\",\"val_loss\",\"train_loss\","
        "\"total_s\",\"reason\"]}]");
    recipe->charts = cJSON_Parse("[{\"name\":\"curves\",\"title\":\"Training loss over tokens\","
                                 "\"kind\":\"curves\",\"x\":\"tokens\",\"y\":[\"train_loss\"],"
                                 "\"series\":\"configuration\"}]");
    recipe->repeats = plan->most;
    recipe->drop_checkpoints = 1;
    char *word_a = escape_shell(a), *word_b = escape_shell(b);
    recipe->command =
        mem_format("pacer duel %s %s --error %g --margin %g --min-pairs %d --max-pairs %d", word_a,
                   word_b, plan->error, plan->margin, plan->least, plan->most);
    free(word_a);
    free(word_b);
}

/* --- the runs --- */

static int make_run(ExperimentRun *run, const Recipe *recipe, const Config *cfg, int side,
                    int repeat)
{
    *run = (ExperimentRun){.configuration = side,
                           .combination = side,
                           .factor = -1,
                           .repeat = repeat,
                           .peer = "",
                           .reason = mem_strdup("")};
    config_copy(&run->cfg, cfg);
    for (int i = 0; recipe->axis_count > 0 && i < recipe->axes[0].count; i++) {
        const Setting *s = &recipe->axes[0].options[i].items[side];
        setting_add(&run->settings, s->option, s->value, 0);
    }
    setting_remove(&run->settings, "seed");
    char *label = setting_label(&run->settings), seed[32];
    run->label = mem_format("%c: %s", "AB"[side], label);
    free(label);
    snprintf(seed, sizeof seed, "%" PRId64, cfg->seed + repeat);
    setting_add(&run->settings, "seed", seed, 0);
    return config_set(&run->cfg, "seed", seed);
}

int duel_expand(Experiment *experiment, const char *a, const char *b, const DuelPlan *plan)
{
    *experiment = (Experiment){.dir = mem_strdup("")};
    SettingList lists[2] = {{0}}, over = {0};
    Config cfgs[2] = {{0}};
    const char *given[2] = {a, b};
    int code = read_settings(a, &lists[0]);
    code = code != 0 ? code : read_settings(b, is_line(b) ? &over : &lists[1]);
    if (code == 0 && is_line(b)) {
        setting_add_all(&lists[1], &lists[0]);
        setting_replace(&lists[1], &over);
    }
    for (int side = 0; code == 0 && side < 2; side++) {
        code = configure(&cfgs[side], &lists[side]);
        code = code != 0 ? err_wrap(code, "%s", given[side]) : 0;
    }
    if (code == 0 && strcmp(cfgs[0].data, cfgs[1].data) != 0) {
        code =
            err_set(ERR_INPUT, "A has data %s and B %s: losses of different texts do not compare",
                    cfgs[0].data, cfgs[1].data);
    }
    if (code == 0) {
        Recipe *recipe = &experiment->recipe;
        describe(recipe, a, b, plan);
        recipe->name = make_name(&lists[0], &lists[1]);
        find_differences(recipe, &cfgs[0], &cfgs[1]);
        experiment->runs = mem_zalloc(2 * (size_t)plan->most, sizeof *experiment->runs);
        experiment->configurations = 2;
        experiment->jobs = 1;
    }
    for (int i = 0; code == 0 && i < 2 * plan->most; i++) {
        int repeat = i / 2, side = (i + repeat) % 2;
        code = make_run(&experiment->runs[i], &experiment->recipe, &cfgs[side], side, repeat);
        experiment->count++;
    }
    for (int side = 0; side < 2; side++) {
        setting_free(&lists[side]);
        config_free(&cfgs[side]);
    }
    setting_free(&over);
    if (code != 0) {
        experiment_free(experiment);
    }
    return code;
}

/* --- whether it is fair --- */

static void warn_of_difference(const Config *a, const Config *b, const char *name, const char *why)
{
    const Option *option = config_find(name);
    char *of_a = config_value_text(a, option), *of_b = config_value_text(b, option);
    if (strcmp(of_a, of_b) != 0) {
        log_warn("A has %s %s and B %s: %s", name, of_a, of_b, why);
    }
    free(of_a);
    free(of_b);
}

/* "on 768 tokens", "for 5 minutes" */
static void show_budget(const ExperimentRun *run, char text[64])
{
    if (run->cfg.minutes > 0) {
        snprintf(text, 64, "for %g minutes", run->cfg.minutes);
    } else {
        snprintf(text, 64, "on %" PRId64 " tokens", run->plan.tokens);
    }
}

/* The same number of tokens, FLOP or minutes is the same budget, whatever each makes of it; the
 * same number of updates is not. */
static void warn_of_budgets(const ExperimentRun *a, const ExperimentRun *b)
{
    const char *name = length_option(&a->cfg);
    if (strcmp(name, "steps") != 0 && strcmp(name, length_option(&b->cfg)) == 0) {
        warn_of_difference(&a->cfg, &b->cfg, name, "the budgets differ");
    } else if (a->plan.tokens != b->plan.tokens) {
        char of_a[64], of_b[64];
        show_budget(a, of_a);
        show_budget(b, of_b);
        log_warn("the budgets differ: A trains %s, B %s", of_a, of_b);
    }
}

int duel_check(const Experiment *experiment, const DuelPlan *plan)
{
    if (experiment->count < 2 * plan->most) {
        return err_set(ERR_INPUT, "A and B are the same training, or share seeds: nothing to "
                                  "compare. Two seeds of one configuration are compared by "
                                  "'seed: 100000' as B");
    }
    for (int side = 0; side < 2; side++) {
        const ExperimentRun *run = &experiment->runs[side];
        if (run->obstacle != NULL) {
            return err_set(run->too_large ? ERR_MEMORY : ERR_INPUT, "%s cannot be run here: %s",
                           run->label, run->obstacle);
        }
    }
    const ExperimentRun *a = &experiment->runs[0], *b = &experiment->runs[1];
    warn_of_budgets(a, b);
    if (a->plan.spec.vocab != b->plan.spec.vocab) {
        log_warn("the vocabularies differ: losses per token are not of the same thing");
    }
    if (a->plan.seq != b->plan.seq) {
        log_warn("A has sequences of %" PRId64 " tokens and B of %" PRId64
                 ": longer ones give a lower loss by themselves",
                 a->plan.seq, b->plan.seq);
    }
    int64_t of_a = a->cfg.eval_batches * a->cfg.batch * a->plan.seq;
    int64_t of_b = b->cfg.eval_batches * b->cfg.batch * b->plan.seq;
    if (of_a != of_b) {
        log_warn("A is evaluated on %" PRId64 " tokens and B on %" PRId64
                 ": set eval-batches so that they are equal",
                 of_a, of_b);
    }
    warn_of_difference(&a->cfg, &b->cfg, "documents", "their losses are not of the same thing");
    return 0;
}

int duel_check_begun(const Experiment *experiment)
{
    char *path = io_join(experiment->dir, RECORD_EXPERIMENT);
    cJSON *tree = NULL;
    int code = json_load_optional(path, &tree);
    const cJSON *begun = json_get(tree, "duel"), *own = experiment->recipe.duel;
    static const char *const names[] = {"error", "margin", "min_pairs", "max_pairs"};
    for (size_t i = 0; code == 0 && begun != NULL && i < sizeof names / sizeof names[0]; i++) {
        double then = json_number(begun, names[i]), now = json_number(own, names[i]);
        if (then != now) {
            code = err_set(ERR_INPUT,
                           "%s: this duel was begun with %s %g, not %g; another plan after a look "
                           "would spoil its error rate: give another --out",
                           path, names[i], then, now);
        }
    }
    cJSON_Delete(tree);
    free(path);
    return code;
}
