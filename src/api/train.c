/* pacer_train and what it gives back. The numbers of a result are those of the record that the
 * run has written, so that a program and a reader of run.json see the same. */
#include "api/internal.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "record/reader.h"
#include "train/setup.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* --- ranks --- */

int ranks_take(Config *cfg, int ranks)
{
    char text[24];
    int64_t micro_steps = cfg->accum * cfg->ranks;
    bool follows = cfg->global_batch > 0 || cfg->batch_ramp[0] != '\0'; /* accum, from these */
    if (!follows && micro_steps % ranks != 0) {
        return err_set(ERR_INPUT, "%lld micro-steps of an update do not divide by %d ranks",
                       (long long)micro_steps, ranks);
    }
    snprintf(text, sizeof text, "%lld", (long long)(micro_steps / ranks));
    int code = follows ? 0 : config_set(cfg, "accum", text);
    snprintf(text, sizeof text, "%d", ranks);
    code = code != 0 ? code : config_set(cfg, "ranks", text);
    return code != 0 ? code : config_check(cfg);
}

int ranks_join(Config *cfg, const char *board, Comm **comm)
{
    CommOptions options = {
        .timeout_s = cfg->comm_timeout, .board = board, .shared_gpus = cfg->oversubscribe};
    int code = comm_open(options, comm);
    if (code != 0) {
        return code;
    }
    int ranks = comm_ranks(*comm);
    log_set_rank(comm_rank(*comm), ranks);
    if (comm_restarted() != NULL && ranks < cfg->ranks) {
        return ranks_take(cfg, ranks);
    }
    if (config_is_set(cfg, "ranks") && cfg->ranks != ranks) {
        return err_set(ERR_INPUT, "--ranks %lld, but this job has %d; leave the option out",
                       (long long)cfg->ranks, ranks);
    }
    char text[16];
    snprintf(text, sizeof text, "%d", ranks);
    code = config_set(cfg, "ranks", text);
    if (code == 0) {
        code = config_check(cfg);
    }
    return code;
}

void ranks_fail(Comm *comm, int code)
{
    bool broken = code == ERR_FAILED || code == ERR_INPUT || code == ERR_MEMORY;
    if (broken && comm != NULL && comm_ranks(comm) > 1) {
        log_error("%s", err_message()); /* the other ranks may not know */
        comm_abort(comm, err_exit_status(code));
    }
}

int ranks_leave(Comm *comm, int code)
{
    ranks_fail(comm, code);
    comm_close(comm);
    return code;
}

/* --- training --- */

char *api_board(const Config *cfg)
{
    return mem_format("%s/.board", cfg->out[0] != '\0' ? cfg->out : "runs");
}

int api_train(Config *cfg, Comm *comm, const TrainWatcher *watcher, pacer_result **out)
{
    TrainResult trained = {0};
    signals_shield();
    int code = config_fit_is_open(cfg)
                   ? err_set(ERR_INPUT, "fit: the program looks for settings, the library takes "
                                        "them; set those that `pacer plan --fit` prints")
                   : 0;
    code = code != 0 ? code : run_resolve(cfg);
    code = code != 0 ? code : train_run(cfg, comm, watcher, &trained);
    if (out != NULL && trained.dir != NULL) {
        cJSON *record;
        int read = record_load(trained.dir, RECORD_RUN, &record);
        if (read == 0) {
            *out = result_new(mem_strdup(trained.dir),
                              cJSON_DetachItemFromObjectCaseSensitive(record, "summary"));
        }
        cJSON_Delete(record);
        code = code != 0 ? code : read;
    }
    free(trained.dir);
    signals_unshield();
    return code;
}

/* --- as a function of the library --- */

static int join_ranks(Config *cfg, Comm **comm)
{
    *comm = NULL;
    if (comm_is_launched()) {
        char *board = api_board(cfg);
        int code = ranks_join(cfg, board, comm);
        free(board);
        return code;
    }
    return cfg->ranks <= 1
               ? 0
               : err_set(ERR_INPUT,
                         "ranks %lld: a library starts no processes; start this program "
                         "through mpirun, and leave the option out",
                         (long long)cfg->ranks);
}

int pacer_train(const pacer_options *options, pacer_step_function *on_step, void *user,
                pacer_result **result)
{
    /* Requests to end, the log and the threads of the machine are the process's. */
    static atomic_flag busy = ATOMIC_FLAG_INIT;
    api_enter();
    if (result != NULL) {
        *result = NULL;
    }
    if (atomic_flag_test_and_set(&busy)) {
        return err_set(ERR_INPUT, "another training goes on in this process; wait for its end");
    }
    Config cfg;
    Comm *comm = NULL;
    signals_forget();
    int code = api_config(options, COMMAND_TRAIN, &cfg);
    code = code != 0 ? code : join_ranks(&cfg, &comm);
    if (code == 0) {
        TrainWatcher watcher = {.step = on_step, .step_user = user};
        if (options != NULL) {
            watcher.validation = options->on_validation;
            watcher.validation_user = options->validation_user;
        }
        code = api_train(&cfg, comm, &watcher, result);
    }
    code = ranks_leave(comm, code);
    config_free(&cfg);
    atomic_flag_clear(&busy);
    return code;
}

void pacer_stop(void)
{
    signals_request(ERR_INTERRUPTED);
}

/* --- what a run has recorded --- */

typedef struct {
    const char *name;
    int64_t *steps;
    double *values;
    size_t count, step_room, value_room;
} Curve;

static int add_line(void *context, const cJSON *line, const char *where, long number)
{
    (void)number;
    Curve *curve = context;
    double step = json_number(line, "step");
    const cJSON *value = json_get(line, curve->name);
    if (!(step >= 0 && step <= JSON_WHOLE_MAX)) {
        return err_set(ERR_INPUT, "%s: not a line of a run's record", where);
    }
    if (cJSON_IsNumber(value)) {
        curve->steps =
            mem_grow(curve->steps, curve->count, &curve->step_room, sizeof *curve->steps);
        curve->values =
            mem_grow(curve->values, curve->count, &curve->value_room, sizeof *curve->values);
        curve->steps[curve->count] = (int64_t)step;
        curve->values[curve->count++] = value->valuedouble;
    }
    return 0;
}

int pacer_run_curve(const char *run, const char *name, int64_t **steps, double **values,
                    size_t *count)
{
    api_enter();
    Curve curve = {.name = name};
    int code = lines_read(run, add_line, &curve, NULL);
    if (code != 0) {
        free(curve.steps);
        free(curve.values);
        return code;
    }
    *steps = curve.steps != NULL ? curve.steps : mem_alloc(sizeof **steps);
    *values = curve.values != NULL ? curve.values : mem_alloc(sizeof **values);
    *count = curve.count;
    return 0;
}
