#include "experiment/probe.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "metrics/summary.h"

#include <math.h>
#include <stdlib.h>

/* Validation loss at a run's end, or else its training loss; NAN when it did not come to its
 * end. */
static int loss_of(const Experiment *probe, const ExperimentRun *run, double *loss)
{
    *loss = NAN;
    cJSON *record = NULL;
    Summary summary = {0};
    int code = run->state == STATE_DONE ? experiment_run_record(probe, run, &record) : 0;
    const cJSON *recorded = json_get(record, "summary");
    if (code == 0 && recorded != NULL) {
        char *path = experiment_run_path(probe, run, "/run.json");
        code = summary_read(path, recorded, &summary);
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
    for (int i = 0; i < run->settings.count; i++) {
        const Setting *s = &run->settings.items[i];
        setting_add(&settings, s->option, s->value, s->line);
    }
    setting_remove(&settings, "lr");
    setting_remove(&settings, "seed");
    char *label = setting_label(&settings, settings.count);
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
    int64_t combinations = 1;
    for (int i = 0; i < recipe->axis_count; i++) {
        combinations *= recipe->axes[i].points;
    }
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
