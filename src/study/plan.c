/* Planning happens in a child of its own: it may open a GPU, time kernels and start threads, and
 * this process, which starts the runs, stays as it was. One reply per configuration comes back
 * through a pipe. */
#include "study/experiment.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "record/ceilings.h"
#include "train/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    int code;        /* 0, ERR_MEMORY: does not fit, or why it could not be planned */
    bool here_alone; /* the same options could be planned on another machine */
    int device, dtype;
    RunPlan plan;
    char message[1024];
} Reply;

/* Seconds that the products of the whole run would take at the machine's measured best. */
static Value predict_seconds(const Run *run)
{
    Machine machine;
    CeilingKey key;
    char product[CEILING_NAME_SIZE], copy[CEILING_NAME_SIZE], date[CLOCK_STAMP_SIZE];
    double ceiling;
    machine_describe(&machine, NULL);
    ceilings_key(&key, &machine, run->backend);
    ceilings_names(run->backend, run->setup.dtype, product, copy);
    if (!ceilings_find(&key, product, &ceiling, date) || !(ceiling > 0)) {
        return (Value){0};
    }
    double updates = (double)run->length.total_tokens / (double)run->tokens_per_update;
    return run->length.seconds > 0 ? value_of(run->length.seconds)
                                   : value_of(run->plan.flops_update * updates / ceiling);
}

static int plan_run(Config *cfg, Reply *reply)
{
    if (config_fit_is_open(cfg)) {
        return err_set(ERR_INPUT, "--fit: runs that are compared have the settings that the recipe "
                                  "gives them; `pacer plan --fit` finds some");
    }
    int code = run_resolve(cfg);
    reply->device = cfg->device;
    reply->dtype = cfg->dtype;
    Run run;
    code = code != 0 ? code : run_open(&run, cfg, NULL, DATA_OPTIONAL);
    if (code != 0) {
        return code;
    }
    run.local_ranks = (int)cfg->ranks;          /* a sweep starts all of them on this host */
    bool open = run.total_steps >= LENGTH_OPEN; /* only the clock will tell */
    reply->plan = (RunPlan){.spec = run.setup.spec,
                            .seq = run.setup.seq,
                            .bytes = value_of((double)run.plan.total),
                            .seconds = predict_seconds(&run),
                            .steps = open ? 0 : run.total_steps,
                            .tokens = open ? 0 : run.length.total_tokens,
                            .parameters = run.plan.parameters,
                            .flops_update = run.flops_token * (double)run.tokens_per_update};
    code = run_check_fits(&run);
    run_close(&run);
    return code;
}

/* Whether what could not be planned here is right in itself: it can be planned for the
 * processor. */
static bool is_sound(const Config *cfg)
{
    Config plain;
    Reply unused;
    config_copy(&plain, cfg);
    config_derive(&plain, "device", DEVICE_CPU);
    config_derive(&plain, "dtype", CONFIG_DTYPE_F32);
    if (plain.attention == CONFIG_ATTENTION_LIBRARY) {
        config_derive(&plain, "attention", CONFIG_ATTENTION_AUTO);
    }
    int code = plan_run(&plain, &unused);
    config_free(&plain);
    return code == 0 || code == ERR_MEMORY;
}

static Reply plan_one(const Config *given)
{
    Reply reply = {0};
    Config cfg;
    config_copy(&cfg, given);
    reply.code = plan_run(&cfg, &reply);
    if (reply.code != 0) {
        snprintf(reply.message, sizeof reply.message, "%.1000s", err_message());
        reply.here_alone = reply.code != ERR_MEMORY && is_sound(given);
    }
    config_free(&cfg);
    return reply;
}

/* The planner's whole life. What it would say stays unsaid: replies carry the messages. */
static void plan_all(const Experiment *experiment, int out)
{
    signals_restore();
    int nowhere = open("/dev/null", O_WRONLY);
    if (nowhere >= 0) {
        dup2(nowhere, STDERR_FILENO);
        dup2(nowhere, STDOUT_FILENO);
    }
    for (int i = 0; i < experiment->configurations; i++) {
        Reply reply = plan_one(&experiment->runs[i].cfg);
        if (write(out, &reply, sizeof reply) != (ssize_t)sizeof reply) {
            break;
        }
    }
    _exit(0);
}

static bool read_reply(int in, Reply *reply)
{
    size_t got = 0;
    while (got < sizeof *reply) {
        ssize_t more = read(in, (char *)reply + got, sizeof *reply - got);
        if (more == 0 || (more < 0 && errno != EINTR)) {
            return false;
        }
        got += more > 0 ? (size_t)more : 0;
    }
    return true;
}

/* Books a reply for all repeats of its configuration. */
static int take_reply(Experiment *experiment, int configuration, const Reply *reply)
{
    const ExperimentRun *first = &experiment->runs[configuration];
    if (reply->code != 0 && reply->code != ERR_MEMORY && !reply->here_alone) {
        return err_set(reply->code, "%s: with %s: %s", experiment->recipe.path, first->label,
                       reply->message);
    }
    for (int i = 0; i < experiment->count; i++) {
        ExperimentRun *run = &experiment->runs[i];
        if (run->configuration != configuration) {
            continue;
        }
        config_derive(&run->cfg, "device", reply->device);
        config_derive(&run->cfg, "dtype", reply->dtype);
        run->obstacle = reply->code != 0 ? mem_strdup(reply->message) : NULL;
        run->too_large = reply->code == ERR_MEMORY;
        if (!reply->here_alone) {
            run->plan = reply->plan;
        }
    }
    return 0;
}

static int nothing_runs_here(const Experiment *experiment)
{
    for (int i = 0; i < experiment->count; i++) {
        if (experiment->runs[i].obstacle == NULL || experiment->runs[i].too_large) {
            return 0;
        }
    }
    return err_set(ERR_INPUT, "%s: no run can be made on this machine; the first: %s%s",
                   experiment->recipe.path, experiment->runs[0].obstacle,
                   experiment->recipe.smoke ? "" : " (--smoke runs a small version)");
}

static int lost_planner(const Experiment *experiment, int configuration)
{
    int signal = signals_pending();
    return signal != 0 ? err_set(signal, "stopped while planning; nothing was run")
                       : err_set(ERR_FAILED, "planning ended without an answer, at %s",
                                 experiment->runs[configuration].label);
}

int experiment_plan(Experiment *experiment)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return err_set(ERR_FAILED, "no pipe for planning: %s", strerror(errno));
    }
    fflush(NULL);
    /* The child goes on in this program: a thread that held the allocator's lock would hold it
     * there for ever, so the one that takes signals rests meanwhile. */
    signals_unshield();
    pid_t pid = fork();
    if (pid == 0) {
        plan_all(experiment, ends[1]);
    }
    signals_shield();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return err_set(ERR_FAILED, "no process for planning: %s", strerror(errno));
    }
    close(ends[1]);
    int code = 0, status = 0;
    for (int i = 0; code == 0 && i < experiment->configurations; i++) {
        Reply reply;
        log_live("planning %d of %d: %s", i + 1, experiment->configurations,
                 experiment->runs[i].label);
        code = read_reply(ends[0], &reply) ? take_reply(experiment, i, &reply)
                                           : lost_planner(experiment, i);
    }
    close(ends[0]); /* a planner with more to say gets SIGPIPE */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (code == ERR_FAILED && WIFEXITED(status) && WEXITSTATUS(status) == -ERR_MEMORY) {
        code = err_wrap(ERR_MEMORY, "out of memory");
    }
    return code != 0 ? code : nothing_runs_here(experiment);
}
