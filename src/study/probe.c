#include "study/probe.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "record/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- its recipe --- */

int recipe_check_probe(const Recipe *recipe)
{
    for (int i = -1; recipe->probe.count > 0 && (i < 0 || config_lengths[i] != NULL); i++) {
        const char *fixed = i < 0 ? "lr" : config_lengths[i];
        if (recipe_varies(recipe, recipe->axis_count, fixed)) {
            return err_set(ERR_INPUT,
                           "%s: lr-probe finds a rate for runs of one length; an axis over %s "
                           "leaves it nothing to find; leave one of the two out",
                           recipe->path, fixed);
        }
    }
    return 0;
}

/* What varies, then what the probe is about. */
static void show_rates(Recipe *recipe)
{
    static const char *const behind[] = {"lr", "state", "tokens", "train_loss", "val_loss"};
    const char *columns[64], *series = NULL;
    int count = 0;
    for (int i = 0; i < recipe->axis_count; i++) {
        for (int k = 0; k < recipe->axes[i].count && count < 48; k++) {
            if (recipe_axis_shows(&recipe->axes[i], k)) {
                columns[count++] = recipe_axis_option(&recipe->axes[i], k);
                series = series == NULL ? columns[count - 1] : series;
            }
        }
    }
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        columns[count++] = behind[i];
    }
    cJSON_Delete(recipe->tables);
    cJSON_Delete(recipe->charts);
    recipe->tables = json_array();
    recipe->charts = json_array();
    cJSON *table = json_object(), *chart = json_object();
    json_put_text(table, "title", "Learning rates");
    json_put_text(table, "per", "configuration");
    cJSON *shown = json_put_array(table, "columns");
    for (int i = 0; i < count; i++) {
        json_append_text(shown, columns[i]);
    }
    json_append(recipe->tables, table);
    json_put_text(chart, "name", "learning_rates");
    json_put_text(chart, "title", "Loss at the end of the probe");
    json_put_text(chart, "kind", "lines");
    json_put_text(chart, "x", "lr");
    json_append_text(json_put_array(chart, "y"), "val_loss");
    json_put_text(chart, "series", series);
    json_put_bool(chart, "logx", true);
    json_append(recipe->charts, chart);
}

void recipe_make_probe(Recipe *recipe)
{
    for (int i = 0; config_lengths[i] != NULL; i++) {
        setting_remove(&recipe->base, config_lengths[i]);
    }
    setting_remove(&recipe->base, "warmup");
    char tokens[32];
    snprintf(tokens, sizeof tokens, "%" PRId64, recipe->probe.tokens);
    setting_add(&recipe->base, "tokens", tokens, 0);
    recipe->probe.probing = true;
    recipe->repeats = 1;
    recipe->peers = 0;
    recipe->drop_checkpoints = true;
    recipe->target_loss = (Value){0};
    setting_free(&recipe->baseline);
    free(recipe->title);
    recipe->title = mem_format("Learning rates for %s", recipe->name);
    free(recipe->about);
    recipe->about =
        mem_format("Short runs of %s tokens at several learning rates. The one with the "
                   "least validation loss is taken for the runs of the experiment.",
                   tokens);
    show_rates(recipe);
}

/* --- what it found --- */

/* Validation loss at a run's end, or else its training loss; NAN when it did not come to its
 * end. */
static int loss_of(const Experiment *probe, const ExperimentRun *run, double *loss)
{
    *loss = NAN;
    cJSON *record = NULL;
    Summary summary = {0};
    int code = run->state == RUN_DONE ? experiment_run_record(probe, run, &record) : 0;
    if (code == 0) {
        char *path = experiment_run_path(probe, run, "/run.json");
        JsonReader reader = {.path = path, .inside = "summary"};
        summary_read(&reader, json_get(record, "summary"), &summary);
        code = reader.code;
        free(path);
    }
    cJSON_Delete(record);
    Value found = summary.val_loss.known ? summary.val_loss : summary.train_loss;
    if (code == 0 && found.known && isfinite(found.number)) {
        *loss = found.number;
    }
    return code;
}

static int nearest_to_one(const LrProbe *probe)
{
    int best = 0;
    for (int i = 1; i < probe->count; i++) {
        if (fabs(log(probe->factors[i])) < fabs(log(probe->factors[best]))) {
            best = i;
        }
    }
    return best;
}

/* The label of a run without the rate that was tried. */
static char *label_of(const ExperimentRun *run)
{
    SettingList settings = {0};
    setting_add_all(&settings, &run->settings);
    setting_remove(&settings, "lr");
    setting_remove(&settings, "seed");
    char *label = setting_label(&settings);
    setting_free(&settings);
    return label;
}

typedef struct {
    const ExperimentRun *run; /* with the least loss; NULL: none came to its end */
    double loss, worst;
    int count; /* that came to their end */
} Best;

static void say(const Best *best, const LrProbe *probe)
{
    char *label = label_of(best->run);
    int factor = best->run->factor;
    const char *edge = factor == 0 ? "lowest" : factor == probe->count - 1 ? "highest" : NULL;
    log_info("%s: learning rate %.6g (x %.6g), loss %.4f; the worst of %d was %.4f", label,
             best->run->cfg.lr, probe->factors[factor], best->loss, best->count, best->worst);
    if (edge != NULL) {
        log_warn("%s: the best learning rate is the %s that lr-probe tried; widen its factors",
                 label, edge);
    }
    free(label);
}

int probe_choose(const Experiment *probe, Recipe *recipe)
{
    LrProbe *rates = &recipe->probe;
    int64_t combinations = recipe_combinations(recipe);
    Best *best = mem_zalloc((size_t)combinations, sizeof *best);
    int code = 0;
    for (int i = 0; code == 0 && i < probe->count; i++) {
        const ExperimentRun *run = &probe->runs[i];
        Best *own = &best[run->combination];
        double loss;
        code = loss_of(probe, run, &loss);
        if (code != 0 || isnan(loss)) {
            continue;
        }
        if (own->run == NULL || loss < own->loss) {
            own->loss = loss;
            own->worst = own->run == NULL ? loss : own->worst;
            own->run = run;
        }
        own->worst = loss > own->worst ? loss : own->worst;
        own->count++;
    }
    free(rates->chosen);
    rates->chosen = mem_zalloc((size_t)combinations, sizeof *rates->chosen);
    for (int64_t i = 0; i < combinations; i++) {
        rates->chosen[i] = best[i].run != NULL ? best[i].run->factor : nearest_to_one(rates);
        if (code == 0 && best[i].run != NULL) {
            say(&best[i], rates);
        }
    }
    free(best);
    return code;
}
