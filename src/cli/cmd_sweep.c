/* `pacer sweep`: a recipe to its runs, the runs to a report. */
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/show.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "comm/comm.h"
#include "record/summary.h"
#include "report/law_report.h"
#include "report/metric.h"
#include "report/report.h"
#include "study/law.h"
#include "study/peer.h"
#include "study/probe.h"
#include "study/trunk.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CELL_SIZE 32
#define LABEL_MOST 120 /* columns; what sets runs apart may come last in a label */

/* --- tables on stdout --- */

static int label_width(const Experiment *e)
{
    size_t width = strlen("settings");
    for (int i = 0; i < e->count; i++) {
        size_t length = strlen(e->runs[i].label);
        width = length > width ? length : width;
    }
    return width < LABEL_MOST ? (int)width : LABEL_MOST;
}

static const char *cell(Value value, const char *format, char text[CELL_SIZE])
{
    snprintf(text, CELL_SIZE, "-");
    if (value.known) {
        snprintf(text, CELL_SIZE, format, value.number);
    }
    return text;
}

static const char *duration_cell(Value seconds, char text[CLOCK_DURATION_SIZE])
{
    return seconds.known ? clock_duration(seconds.number, text) : "-";
}

static const char *plan_note(const ExperimentRun *run)
{
    bool settled = run->state != RUN_WAITING;
    return settled                 ? run_state_name(run->state)
           : run->too_large        ? "does not fit"
           : run->obstacle != NULL ? "cannot run here"
                                   : "";
}

static Value in_mebibytes(Value bytes)
{
    return (Value){bytes.known, bytes.number / (1024.0 * 1024.0)};
}

static void print_plan(const Experiment *e)
{
    int width = label_width(e), known = 0, waiting = 0;
    double seconds = 0;
    printf("%-4s %-*s %6s %9s %13s %13s %12s\n", "run", width, "settings", "repeat", "steps",
           "tokens", "planned MiB", "predicted");
    for (int i = 0; i < e->count; i++) {
        const ExperimentRun *run = &e->runs[i];
        char mib[CELL_SIZE], time[CLOCK_DURATION_SIZE], steps[SHOW_COUNT_SIZE],
            tokens[SHOW_COUNT_SIZE];
        escape_printf(stdout, "%-4d %-*.*s %6d %9s %13s %13s %12s%s%s\n", i + 1, width, width,
                      run->label, run->repeat + 1,
                      show_count((uint64_t)run->plan.steps, run->plan.steps > 0, steps),
                      show_count((uint64_t)run->plan.tokens, run->plan.steps > 0, tokens),
                      cell(in_mebibytes(run->plan.bytes), "%.1f", mib),
                      duration_cell(run->plan.seconds, time), plan_note(run)[0] != '\0' ? "  " : "",
                      plan_note(run));
        bool startable = run->state == RUN_WAITING && run->obstacle == NULL;
        waiting += startable;
        known += startable && run->plan.seconds.known;
        seconds += startable && run->plan.seconds.known ? run->plan.seconds.number : 0;
    }
    for (int i = 0; i < e->configurations; i++) {
        if (e->runs[i].obstacle != NULL) {
            escape_printf(stdout, "%s: %s\n", e->runs[i].label, e->runs[i].obstacle);
        }
    }
    char time[CLOCK_DURATION_SIZE];
    printf("%d run%s of %d configuration%s, %d to be made; predicted %s%s\n", e->count,
           show_plural(e->count), e->configurations, show_plural(e->configurations), waiting,
           known > 0 ? clock_duration(seconds, time)
                     : "-: `pacer bench machine` measures what "
                       "times are predicted from",
           known > 0 ? ", were nothing but its matrix products done, at their measured best" : "");
}

static void print_results(const Experiment *e)
{
    int width = label_width(e);
    printf("%-4s %-*s %6s %-8s %12s %10s %10s %12s\n", "run", width, "settings", "repeat", "state",
           "tok/s", "loss", "val loss", "seconds");
    for (int i = 0; i < e->count; i++) {
        const ExperimentRun *run = &e->runs[i];
        char rate[CELL_SIZE], loss[CELL_SIZE], val[CELL_SIZE], time[CELL_SIZE];
        Summary summary = {0};
        cJSON *record = NULL;
        char *path = experiment_run_path(e, run, "/run.json");
        JsonReader reader = {.path = path, .inside = "summary"};
        if (run->state == RUN_DONE && experiment_run_record(e, run, &record) == 0) {
            summary_read(&reader, json_get(record, "summary"), &summary);
        }
        if (reader.code != 0) {
            log_warn("%s", err_message());
        }
        escape_printf(stdout, "%-4d %-*.*s %6d %-8s %12s %10s %10s %12s\n", i + 1, width, width,
                      run->label, run->repeat + 1, run_state_name(run->state),
                      cell(summary.tok_s, "%.0f", rate), cell(summary.train_loss, "%.4f", loss),
                      cell(summary.val_loss, "%.4f", val), cell(run->seconds, "%.1f", time));
        if (run->reason[0] != '\0') {
            escape_printf(stdout, "     %s\n", run->reason);
        }
        cJSON_Delete(record);
        free(path);
    }
}

/* --- the command --- */

static int check_metric(const char *name)
{
    Metric metric;
    return metric_find(name, &metric);
}

/* A recipe that is no file here is one of pacer's own by its name: those installed, or those of
 * the source that the program was built in. Caller frees. */
static char *find_recipe(const char *name)
{
    static const char *const places[] = {"../share/pacer/recipes", "../recipes", NULL};
    if (io_exists(name) || strchr(name, '/') != NULL) {
        return mem_strdup(name);
    }
    char *named = mem_format("%s.yaml", name);
    char *found = io_find_from(io_program_folder(), places, name);
    found = found != NULL ? found : io_find_from(io_program_folder(), places, named);
    free(named);
    return found != NULL ? found : mem_strdup(name);
}

/* Takes the recipe, which is freed with the experiment, also when this fails. */
static int plan_runs(Experiment *experiment, Recipe *recipe, const char *dir, int64_t jobs)
{
    int code = experiment_expand(experiment, recipe);
    if (code != 0) {
        recipe_free(recipe);
        return code;
    }
    experiment->jobs = (int)jobs;
    code = experiment_plan(experiment);
    code = code != 0 ? code : law_set_budgets(experiment);
    if (code != 0) {
        experiment_free(experiment);
        return code;
    }
    if (experiment->recipe.peers != 0) {
        PeerTools tools;
        peer_tools_find(&tools);
        peers_add(experiment, &tools);
    }
    experiment_identify(experiment);
    mem_set_text(&experiment->dir, dir);
    return 0;
}

/* Rows that did not come to an end are results too, but the exit status tells a script of them. */
static int verdict(const Experiment *e)
{
    int failed = 0, doubtful = 0;
    for (int i = 0; i < e->count; i++) {
        const ExperimentRun *run = &e->runs[i];
        failed +=
            run->state == RUN_FAILED || run->state == RUN_TIMEOUT || run->state == RUN_STOPPED;
        doubtful += run->state == RUN_DONE && run->exit.known &&
                    (int)run->exit.number == err_exit_status(ERR_CHECK);
    }
    if (failed > 0) {
        return err_set(ERR_FAILED,
                       "%d of %d runs did not come to their end; the same command tries them again",
                       failed, e->count);
    }
    return doubtful == 0
               ? 0
               : err_set(ERR_CHECK, "%d of %d runs have checks that failed; see the report",
                         doubtful, e->count);
}

/* Of a scaling law: all runs but the largest, then what they predict of it, written down. Without a
 * prediction the largest run is not worth its price. */
static int predict_largest(Experiment *experiment)
{
    int before = law_runs_before(experiment);
    if (experiment->recipe.law == NULL) {
        return 0;
    }
    char *dir = NULL, *text = NULL;
    bool begun = false;
    if (before < experiment->count) {
        dir = experiment_run_path(experiment, &experiment->runs[before], "");
        begun = io_exists(dir);
    }
    int code = law_make_grid(experiment);
    before = law_runs_before(experiment);
    if (code == 0 && before < experiment->count) {
        const ExperimentRun *run = &experiment->runs[before];
        LawTarget target = {run->id, (double)run->plan.parameters, (double)run->plan.tokens,
                            run->plan.flops_update * (double)run->plan.steps, begun};
        Results results = {0};
        bool registered = false;
        code = results_read(&results, experiment->dir);
        code = code != 0 ? code : law_register(&results, &target, &registered, &text);
        if (code == 0 && registered) {
            log_info("%s: %s", run->label, text);
        }
        for (int i = before; code == 0 && !registered && i < experiment->count; i++) {
            log_warn("%s is not made: %s", experiment->runs[i].label, text);
            experiment_set(&experiment->runs[i], RUN_FAILED, text);
        }
        results_free(&results);
    }
    free(text);
    free(dir);
    return code;
}

/* The runs that are not done yet, then the report of all. */
static int make_runs(Experiment *experiment)
{
    int lock;
    int code = experiment_enter(experiment, &lock);
    code = code != 0 ? code : experiment_restore(experiment);
    code = code != 0 ? code : predict_largest(experiment);
    code = code != 0 ? code : experiment_execute(experiment);
    if (code == 0) {
        print_results(experiment);
        fflush(stdout);
        code = experiment_report(experiment->dir, experiment->dir);
    }
    if (code == 0) {
        log_info("%s/report.md and report.html have the tables and charts", experiment->dir);
        serve_offer(experiment->dir);
    }
    if (lock >= 0) {
        close(lock);
    }
    return code;
}

static int show_plan(Experiment *experiment)
{
    int code = experiment_restore(experiment);
    if (code == 0) {
        print_plan(experiment);
    }
    return code;
}

/* What is done with the runs that come before those of the recipe. */
typedef enum {
    BEFORE_CHECK, /* nothing is shown or made: all of the recipe is checked before any of it runs */
    BEFORE_SHOW,
    BEFORE_MAKE,
} Before;

/* An experiment that comes before the recipe's own, in a folder of that one's. */
typedef struct {
    const char *folder, *what, *kind, *planned;
    int (*check)(const Recipe *recipe);
    void (*make)(Recipe *recipe); /* turns the recipe into its own */
    int (*take)(const Experiment *experiment, Recipe *recipe);
    bool whole; /* none of its runs may be missing; what is taken is known before they are made */
} Forerunner;

static const Forerunner probe_first = {
    "lr-probe",
    "learning rates",
    "short runs",
    "Learning rates are probed first; below, they stand as the probe has left them so far:",
    recipe_check_probe,
    recipe_make_probe,
    probe_choose,
    false};
static const Forerunner trunk_first = {"trunk",
                                       "the trunk",
                                       "runs",
                                       "The trunk is trained first, once for each repeat:",
                                       recipe_check_trunk,
                                       recipe_make_trunk,
                                       trunk_take,
                                       true};

/* Makes or shows its runs, if the recipe asks for any, and puts what was found into the recipe. */
static int run_first(const Forerunner *first, bool asked, const Config *cfg, const char *path,
                     const char *dir, Before before, Recipe *recipe)
{
    int code = first->check(recipe);
    if (code != 0 || !asked) {
        return code;
    }
    Recipe own;
    Experiment experiment = {0};
    char *folder = io_join(dir, first->folder);
    code = recipe_load(&own, path, cfg->smoke, check_metric);
    if (code == 0) {
        first->make(&own);
        code = plan_runs(&experiment, &own, folder, cfg->jobs);
    }
    if (code == 0 && before == BEFORE_SHOW) {
        puts(first->planned);
        code = show_plan(&experiment);
    } else if (code == 0 && before == BEFORE_MAKE) {
        log_info("%s first: %d %s in %s", first->what, experiment.count, first->kind, folder);
        code = make_runs(&experiment);
        code = code != 0 || !first->whole ? code : verdict(&experiment);
    }
    bool known = before != BEFORE_CHECK || first->whole;
    code = code == 0 && known ? first->take(&experiment, recipe) : code;
    experiment_free(&experiment);
    free(folder);
    return code;
}

/* Takes the recipe. */
static int prepare(const Config *cfg, const char *path, const char *dir, Before before,
                   Recipe *recipe, Experiment *experiment)
{
    int code = run_first(&probe_first, recipe->probe.count > 0, cfg, path, dir, before, recipe);
    code = code != 0
               ? code
               : run_first(&trunk_first, recipe->trunk.count > 0, cfg, path, dir, before, recipe);
    if (code != 0) {
        recipe_free(recipe);
        return code;
    }
    code = plan_runs(experiment, recipe, dir, cfg->jobs);
    return code == 0 && experiment->recipe.trunk_runs != NULL ? trunk_check_branches(experiment)
                                                              : code;
}

static int sweep(const Config *cfg, const char *path)
{
    Recipe recipe;
    Experiment experiment = {0};
    int code = recipe_load(&recipe, path, cfg->smoke, check_metric);
    if (code != 0) {
        return code;
    }
    char *dir = cfg->out[0] != '\0'
                    ? mem_strdup(cfg->out)
                    : mem_format("experiments/%s%s", recipe.name, cfg->smoke ? "-smoke" : "");
    if (!cfg->dry_run && (recipe.probe.count > 0 || recipe.trunk.count > 0)) {
        code = prepare(cfg, path, dir, BEFORE_CHECK, &recipe, &experiment);
        experiment_free(&experiment);
        code = code != 0 ? code : recipe_load(&recipe, path, cfg->smoke, check_metric);
        if (code != 0) {
            free(dir);
            return code;
        }
    }
    code = prepare(cfg, path, dir, cfg->dry_run ? BEFORE_SHOW : BEFORE_MAKE, &recipe, &experiment);
    if (code == 0 && cfg->dry_run) {
        code = show_plan(&experiment);
    } else if (code == 0) {
        code = make_runs(&experiment);
        code = code != 0 ? code : verdict(&experiment);
    }
    experiment_free(&experiment);
    free(dir);
    return code;
}

int check_starts_runs(const Config *cfg, const char *what)
{
    if (comm_is_launched()) {
        return err_set(ERR_INPUT, "%s starts its ranks itself: start it without mpirun or srun",
                       what);
    }
    return cfg->jobs <= omp_get_num_procs()
               ? 0
               : err_set(ERR_INPUT,
                         "--jobs %lld: pacer may use %d processors here; give at most that",
                         (long long)cfg->jobs, omp_get_num_procs());
}

int cmd_sweep(Config *cfg)
{
    int code = check_starts_runs(cfg, "a sweep");
    if (code != 0) {
        return code;
    }
    signals_install();
    char *path = find_recipe(cfg->argv[0]);
    code = sweep(cfg, path);
    free(path);
    return code;
}
