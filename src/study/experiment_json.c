/* experiment.json, out and in; and what a run's own directory says about it. */
#include "study/experiment.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"
#include "record/names.h"
#include "record/record.h"

#include <stdlib.h>
#include <string.h>

/* --- out --- */

static cJSON *axes_json(const Recipe *recipe)
{
    cJSON *axes = json_array();
    for (int i = 0; i < recipe->axis_count; i++) {
        cJSON *names = json_array();
        for (int k = 0; k < recipe->axes[i].count; k++) {
            if (recipe_axis_shows(&recipe->axes[i], k)) {
                json_append_text(names, recipe_axis_option(&recipe->axes[i], k));
            }
        }
        json_append(axes, names);
    }
    return axes;
}

static cJSON *run_json(const ExperimentRun *run)
{
    cJSON *object = json_object();
    json_put_text(object, "id", run->id);
    char *dir = mem_format("runs/%s", run->id);
    json_put_text(object, "dir", dir);
    free(dir);
    json_put_whole(object, "configuration", run->configuration);
    json_put_whole(object, "repeat", run->repeat);
    json_put_item(object, "settings", setting_json(&run->settings));
    json_put_text(object, "state", run_state_name(run->state));
    json_put_text(object, "reason", run->reason);
    json_put_or_null(object, "seconds", run->seconds);
    json_put_or_null(object, "exit", run->exit);
    json_put_or_null(object, "planned_bytes", run->plan.bytes);
    json_put_or_null(object, "predicted_s", run->plan.seconds);
    if (run->budget > 0) {
        json_put_number(object, "budget", run->budget);
        json_put_bool(object, "largest", run->largest);
    }
    if (run->factor >= 0) {
        json_put_whole(object, "lr_factor", run->factor);
    }
    if (run->peer[0] != '\0') {
        json_put_text(object, "peer", run->peer);
    }
    return object;
}

static cJSON *peers_json(const Experiment *e)
{
    cJSON *peers = json_object(), *names = json_array();
    for (int i = 0; peer_name(i) != NULL; i++) {
        if (e->recipe.peers & 1u << i) {
            json_append_text(names, peer_name(i));
        }
    }
    json_put_item(peers, "names", names);
    if (e->peer_version[0] != '\0') {
        json_put_text(peers, "version", e->peer_version);
    }
    if (e->peer_note != NULL) {
        json_put_text(peers, "note", e->peer_note);
    }
    return peers;
}

static cJSON *experiment_json(const Experiment *e)
{
    const Recipe *recipe = &e->recipe;
    const char *slash = strrchr(recipe->path, '/');
    cJSON *tree = json_object(), *pacer = json_object(), *runs = json_array();
    json_put_whole(tree, "format", EXPERIMENT_FORMAT);
    json_put_text(tree, "name", recipe->name);
    json_put_text(tree, "title", recipe->title != NULL ? recipe->title : recipe->name);
    json_put_text(tree, "about", recipe->about != NULL ? recipe->about : "");
    json_put_text(tree, "recipe", slash != NULL ? slash + 1 : recipe->path);
    json_put_bool(tree, "smoke", recipe->smoke);
    json_put_text(pacer, "version", version_string());
    json_put_text(pacer, "commit", version_commit());
    json_put_item(tree, "pacer", pacer);
    char now[CLOCK_STAMP_SIZE];
    clock_stamp(now);
    json_put_text(tree, "started", e->started);
    json_put_text(tree, "updated", now);
    json_put_bool(tree, "finished", e->finished);
    if (recipe->baseline.count > 0) {
        json_put_item(tree, "baseline", setting_json(&recipe->baseline));
    }
    json_put(tree, "target_loss", recipe->target_loss);
    json_put(tree, "tolerance", recipe->tolerance);
    if (recipe->probe.count > 0) {
        cJSON *probe = json_object();
        json_put_item(probe, "factors",
                      cJSON_CreateDoubleArray(recipe->probe.factors, recipe->probe.count));
        json_put_whole(probe, "tokens", recipe->probe.tokens);
        json_put_item(tree, "lr_probe", probe);
    }
    if (recipe->peers != 0) {
        json_put_item(tree, "peers", peers_json(e));
    }
    if (recipe->law != NULL) {
        json_put_item(tree, "law", json_copy(recipe->law));
    }
    if (recipe->duel != NULL) {
        json_put_item(tree, "duel", json_copy(recipe->duel));
    }
    json_put_text(tree, "command", recipe->command);
    json_put_item(tree, "axes", axes_json(recipe));
    json_put_whole(tree, "repeats", recipe->repeats);
    if (e->jobs > 1) {
        json_put_whole(tree, "jobs", e->jobs);
    }
    json_put_item(tree, "tables", json_copy(recipe->tables));
    json_put_item(tree, "charts", json_copy(recipe->charts));
    for (int i = 0; i < e->count; i++) {
        json_append(runs, run_json(&e->runs[i]));
    }
    json_put_item(tree, "runs", runs);
    return tree;
}

int experiment_save(const Experiment *experiment)
{
    cJSON *tree = experiment_json(experiment);
    char *path = io_join(experiment->dir, RECORD_EXPERIMENT);
    int code = json_save(path, tree);
    free(path);
    cJSON_Delete(tree);
    return code;
}

/* --- run directories --- */

char *experiment_run_path(const Experiment *experiment, const ExperimentRun *run,
                          const char *behind)
{
    return mem_format("%s/runs/%s%s", experiment->dir, run->id, behind);
}

int experiment_run_record(const Experiment *experiment, const ExperimentRun *run, cJSON **record)
{
    char *path = experiment_run_path(experiment, run, "/run.json");
    int code = json_load_optional(path, record);
    free(path);
    return code;
}

/* --- in --- */

static const cJSON *find_entry(const cJSON *tree, const char *id)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, json_get(tree, "runs"))
    {
        if (strcmp(json_text_or(entry, "id", ""), id) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* The run's own record outweighs the experiment's. */
static void restore_run(const Experiment *e, ExperimentRun *run, const cJSON *entry,
                        bool was_finished)
{
    cJSON *record;
    if (experiment_run_record(e, run, &record) != 0) {
        log_warn("%s; the run is made again", err_message());
    }
    RunState state = RUN_WAITING;
    run_state_find(json_text(entry, "state"), &state);
    if (record_is(record, RUN_DONE)) {
        experiment_set(run, RUN_DONE, "");
        run->seconds = json_value(json_get(record, "summary"), "wall_s");
        if (state == RUN_DONE) {
            run->seconds = json_value(entry, "seconds");
            run->exit = json_value(entry, "exit");
        }
    } else if (state == RUN_STOPPED) {
        experiment_set(run, RUN_STOPPED, json_text_or(entry, "reason", ""));
    } else if (!was_finished && state != RUN_DONE && run_state_is_over(state)) {
        experiment_set(run, state, json_text_or(entry, "reason", ""));
        run->seconds = json_value(entry, "seconds");
        run->exit = json_value(entry, "exit");
    } else {
        experiment_set(run, RUN_WAITING, "");
    }
    cJSON_Delete(record);
}

static int check_same(const Experiment *e, const cJSON *tree, const char *path)
{
    bool smoke = json_is_true(tree, "smoke");
    if (strcmp(json_text_or(tree, "name", ""), e->recipe.name) == 0 && smoke == e->recipe.smoke) {
        return 0;
    }
    return err_set(ERR_INPUT, "%s is of the experiment %s%s; give another --out, or remove it",
                   path, json_text_or(tree, "name", ""), smoke ? " (its small version)" : "");
}

int experiment_restore(Experiment *experiment)
{
    char *path = io_join(experiment->dir, RECORD_EXPERIMENT);
    cJSON *tree = NULL;
    int code = io_exists(path) ? record_load(experiment->dir, RECORD_EXPERIMENT, &tree) : 0;
    code = code == 0 && tree != NULL ? check_same(experiment, tree, path) : code;
    free(path);
    if (code == 0) {
        snprintf(experiment->started, sizeof experiment->started, "%.30s",
                 tree != NULL ? json_text_or(tree, "started", "") : "");
        bool finished = json_is_true(tree, "finished");
        for (int i = 0; i < experiment->count; i++) {
            ExperimentRun *run = &experiment->runs[i];
            restore_run(experiment, run, find_entry(tree, run->id), finished);
        }
    }
    if (code == 0 && experiment->started[0] == '\0') {
        clock_stamp(experiment->started);
    }
    cJSON_Delete(tree);
    return code;
}
