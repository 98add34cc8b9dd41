#pragma once
/* A recipe: the question of an experiment as a YAML file, docs/guide/experiments.md. Reading it
 * checks every key, option and value on its own; what only a combination can get wrong is found by
 * experiment_expand. */
#include "base/json.h"

#include <stdbool.h>

/* One option of train with a value. */
typedef struct {
    char *option;
    char *value; /* as config_value_text writes it, so that equal values are equal texts */
    int line;    /* of the recipe */
} Setting;

typedef struct {
    Setting *items;
    int count;
} SettingList;

/* Options that vary together: point p gives option i the value options[i].items[p]. */
typedef struct {
    SettingList *options; /* equally long, with the same option in all items of each */
    int count;
} RecipeAxis;

typedef enum { LR_RULE_NONE, LR_RULE_LINEAR, LR_RULE_SQRT } LrRule;

/* Short runs of every combination at several learning rates, before the others: what they found
 * is in `chosen`. */
typedef struct {
    double *factors; /* of the rate that lr and lr-rule give; ascending */
    int count;       /* 0: no probe */
    int64_t tokens;  /* of one such run */
    bool probing;    /* this recipe is the probe itself: factors are crossed with all axes */
    int *chosen; /* index in factors, by combination; NULL: none yet, the rate stands as it is */
} LrProbe;

typedef struct {
    char *path;
    char *name, *title, *about;
    bool smoke; /* this is the small version */
    SettingList base;
    RecipeAxis *axes; /* crossed; the last one varies fastest */
    int axis_count;
    SettingList *skips; /* combinations that have all settings of one of these are left out */
    int skip_count;
    int repeats;
    double timeout_s;     /* of one run; 0: none */
    SettingList baseline; /* marks the runs that others are compared with */
    Value target_loss;
    int lr_rule;  /* LrRule */
    double lr_at; /* global batch at which lr stands as it is given */
    LrProbe probe;
    SettingList
        trunk; /* options of the run that the runs branch from, over base; none: no branches */
    char **trunk_runs;      /* by repeat: its run directory; NULL: none yet */
    Value tolerance;        /* nats of loss that a larger batch may cost */
    unsigned peers;         /* programs to run beside pacer: bit i is peer_name(i) */
    int drop_checkpoints;   /* of runs that are done: 0 or 1 */
    cJSON *tables, *charts; /* arrays, as experiment.json has them */
    cJSON *law;             /* sizes, budgets and the largest run of a scaling law; else NULL */
    cJSON *duel;            /* of a duel: its plan, as experiment.json has it; else NULL */
    char *command;          /* that made it, where it was no sweep of a file; else NULL */
} Recipe;

/* Says whether a column or an axis of this name exists: 0, or ERR_INPUT with the reason. */
typedef int (*RecipeMetricCheck)(const char *name);

/* Reads the file; smoke: its small version. metric may be NULL: names are taken as they are.
 * ERR_INPUT names file and line. On failure there is nothing to free. */
int recipe_load(Recipe *recipe, const char *path, bool smoke, RecipeMetricCheck metric);
void recipe_free(Recipe *recipe); /* a no-op on a zeroed one */
void recipe_clear_axes(Recipe *recipe);
void recipe_clear_skips(Recipe *recipe);

/* Helpers over settings. */
void setting_add(SettingList *list, const char *option, const char *value, int line);
void setting_add_all(SettingList *list, const SettingList *others);
const Setting *setting_find(const SettingList *list, const char *option); /* NULL: not there */
void setting_remove(SettingList *list, const char *option);

/* Puts `over` on top. Of options that answer one question (steps, tokens) the new one stands. */
void setting_replace(SettingList *list, const SettingList *over);
void setting_free(SettingList *list);
cJSON *setting_json(const SettingList *list); /* {option: value}; caller deletes */

const char *recipe_axis_option(const RecipeAxis *axis, int i);
int recipe_axis_points(const RecipeAxis *axis);
int64_t recipe_combinations(const Recipe *recipe); /* of the points of all axes */

/* Whether one of the first `count` axes varies the option. */
bool recipe_varies(const Recipe *recipe, int count, const char *option);

/* Whether option i of an axis tells its points apart. Options about records (eval-every,
 * save-every) may go along with others, so that runs of different length are recorded alike;
 * they are then no part of what the experiment varies. */
bool recipe_axis_shows(const RecipeAxis *axis, int i);

/* "batch 16, accum 64"; caller frees. */
char *setting_label(const SettingList *list);
