/* `pacer duel`: two configurations, seed by seed, until one is better or it does not matter. */
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "report/duel.h"
#include "report/report.h"
#include "study/duel.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Exit status of a verdict; help and docs/guide/duel.md name them. */
static int status_of(SequentialVerdict verdict)
{
    static const int status[] = {[SEQUENTIAL_OPEN] = 1,
                                 [SEQUENTIAL_LOWER] = 0,
                                 [SEQUENTIAL_NEGLIGIBLE] = 10,
                                 [SEQUENTIAL_HIGHER] = 11,
                                 [SEQUENTIAL_UNDECIDED] = 12};
    return status[verdict];
}

static void print_plan(const Experiment *e, const DuelPlan *plan)
{
    for (int side = 0; side < 2; side++) {
        const ExperimentRun *run = &e->runs[side];
        char steps[SHOW_COUNT_SIZE], tokens[SHOW_COUNT_SIZE], time[CLOCK_DURATION_SIZE];
        escape_printf(stdout, "%s: %s steps, %s tokens, %.1f MiB, predicted %s a run\n", run->label,
                      show_count((uint64_t)run->plan.steps, run->plan.steps > 0, steps),
                      show_count((uint64_t)run->plan.tokens, run->plan.steps > 0, tokens),
                      run->plan.bytes.number / (1024.0 * 1024.0),
                      run->plan.seconds.known ? clock_duration(run->plan.seconds.number, time)
                                              : "-");
    }
    SequentialTest test = sequential_test(plan->error, plan->margin, plan->least, plan->most);
    printf("%d to %d pairs; error rate %g over all looks, each with a tail of %.4g; smallest "
           "difference that matters %g nats\n",
           plan->least, plan->most, plan->error, test.tail, plan->margin);
}

/* --- runs that leave no verdict --- */

static bool has_diverged(const Experiment *e, const ExperimentRun *run)
{
    cJSON *record = NULL;
    bool known = experiment_run_record(e, run, &record) == 0;
    bool diverged = duel_diverged(run->state, known ? json_text_or(record, "message", run->reason)
                                                    : run->reason);
    cJSON_Delete(record);
    return diverged;
}

/* That a disk was full says nothing about a configuration: without an outcome of this run there is
 * no verdict. A run that diverged has one. */
static bool is_lost(const Experiment *e, const ExperimentRun *run)
{
    return run_state_is_over(run->state) && run->state != RUN_DONE && !has_diverged(e, run);
}

/* Where the first runs of both diverge there is nothing to compare. */
static bool is_futile(const Experiment *e)
{
    return has_diverged(e, &e->runs[0]) && has_diverged(e, &e->runs[1]);
}

static bool ends_duel(const Experiment *e, const ExperimentRun *run)
{
    return is_lost(e, run) || is_futile(e);
}

/* What failed is tried again; what diverged would again. */
static void forget_losses(Experiment *e)
{
    for (int i = 0; i < e->count; i++) {
        if (is_lost(e, &e->runs[i])) {
            experiment_set(&e->runs[i], RUN_WAITING, "");
        }
    }
}

/* ERR_MEMORY and ERR_INPUT where the run itself ended with their exit status. */
static int loss_code(const ExperimentRun *run)
{
    bool memory = run->state == RUN_OOM || run->state == RUN_REFUSED;
    bool input = run->exit.known && (int)run->exit.number == err_exit_status(ERR_INPUT);
    return memory ? ERR_MEMORY : input ? ERR_INPUT : ERR_FAILED;
}

static int refuse_losses(const Experiment *e)
{
    for (int i = 0; i < e->count; i++) {
        const ExperimentRun *run = &e->runs[i];
        if (is_lost(e, run)) {
            char *log = experiment_run_path(e, run, ".log");
            int code = err_set(loss_code(run),
                               "%s (seed %s) did not come to its end (%s: %s), so there is no "
                               "verdict; the same command tries again. Its log: %s",
                               run->label, setting_find(&run->settings, "seed")->value,
                               run_state_words(run->state), run->reason, log);
            free(log);
            return code;
        }
    }
    return !is_futile(e) ? 0
                         : err_set(ERR_FAILED,
                                   "A and B both diverged with seed %s, so there is no verdict. A: "
                                   "%s. B: %s",
                                   setting_find(&e->runs[0].settings, "seed")->value,
                                   e->runs[0].reason, e->runs[1].reason);
}

/* --- pair by pair --- */

static void say_look(const Duel *duel, double started, int made)
{
    char *text = duel_sentence(duel), time[CLOCK_DURATION_SIZE];
    int more = duel->test.most - duel->look.count;
    if (duel->look.verdict == SEQUENTIAL_OPEN && made > 0) {
        double left = (clock_seconds() - started) / made * more;
        log_info("%s; at most %d more, %s", text, more, clock_duration(left, time));
    }
    free(text);
}

/* Pairs until the test decides. e->count is how many runs of those that may come are asked for. */
static int fight(Experiment *e, const DuelPlan *plan, Duel *duel)
{
    int pairs = plan->least, at_once = e->jobs > 1 ? e->jobs / 2 : 1, before = 0, code = 0;
    double started = clock_seconds();
    for (int i = 0; i < e->count; i++) {
        before += e->runs[i].state == RUN_DONE;
    }
    do {
        Results results = {0};
        e->count = 2 * pairs;
        code = experiment_execute(e);
        code = code != 0 ? code : refuse_losses(e);
        code = code != 0 ? code : results_read(&results, e->dir);
        code = code != 0 ? code : duel_judge(&results, duel);
        if (code == 0) {
            say_look(duel, started, duel->count - before / 2);
        }
        results_free(&results);
        pairs = pairs + at_once < plan->most ? pairs + at_once : plan->most;
    } while (code == 0 && duel->look.verdict == SEQUENTIAL_OPEN);
    return code;
}

/* The verdict for people, for scripts, and as a page. */
static int tell(const Config *cfg, const Experiment *e, Duel *duel)
{
    Results results = {0};
    int code = results_read(&results, e->dir);
    code = code != 0 ? code : duel_judge(&results, duel);
    if (code == 0 && strcmp(cfg->json, "-") != 0) {
        char *text = duel_sentence(duel), *caution = duel_caution(duel);
        for (int side = 0; side < 2; side++) {
            escape_printf(stdout, "%s\n", e->runs[side].label);
        }
        escape_printf(stdout, "%s.\n", text);
        if (caution != NULL) {
            escape_printf(stdout, "%s.\n", caution);
        }
        fflush(stdout);
        free(text);
        free(caution);
    }
    if (code == 0 && cfg->json[0] != '\0') {
        code = json_write(cfg->json, duel_json(&results, duel));
    }
    results_free(&results);
    code = code != 0 ? code : experiment_report(e->dir, e->dir);
    if (code == 0) {
        log_info("%s/report.md and report.html have the pairs", e->dir);
    }
    return code;
}

static int run_duel(const Config *cfg, Experiment *e, const DuelPlan *plan, Duel *duel)
{
    int lock = -1, all = e->count;
    int code = experiment_enter(e, &lock);
    code = code != 0 ? code : duel_check_begun(e);
    code = code != 0 ? code : experiment_restore(e);
    if (code == 0) {
        forget_losses(e);
        e->ends = ends_duel;
        code = fight(e, plan, duel);
    }
    code = code != 0 ? code : tell(cfg, e, duel);
    e->count = all; /* for experiment_free */
    if (lock >= 0) {
        close(lock);
    }
    return code;
}

int cmd_duel(Config *cfg)
{
    int code = check_starts_runs(cfg, "a duel");
    if (code != 0) {
        return code;
    }
    if (cfg->min_pairs > cfg->max_pairs) {
        return err_set(ERR_INPUT, "--min-pairs %lld is more than --max-pairs %lld",
                       (long long)cfg->min_pairs, (long long)cfg->max_pairs);
    }
    signals_install();
    DuelPlan plan = {cfg->error, cfg->margin, (int)cfg->min_pairs, (int)cfg->max_pairs};
    Experiment e = {0};
    Duel *duel = mem_zalloc(1, sizeof *duel);
    code = duel_expand(&e, cfg->argv[0], cfg->argv[1], &plan);
    code = code != 0 ? code : experiment_plan(&e);
    if (code == 0) {
        e.jobs = (int)cfg->jobs;
        experiment_identify(&e);
        code = duel_check(&e, &plan);
    }
    if (code == 0) {
        free(e.dir);
        e.dir = cfg->out[0] != '\0' ? mem_strdup(cfg->out)
                                    : mem_format("experiments/%s", e.recipe.name);
    }
    if (code == 0 && cfg->dry_run) {
        print_plan(&e, &plan);
    } else if (code == 0) {
        code = run_duel(cfg, &e, &plan, duel);
        code = code != 0 ? code : status_of(duel->look.verdict);
    }
    experiment_free(&e);
    free(duel);
    return code;
}
