/* pacer_train and what it gives back. The numbers of a result are those of the record that the
 * run has written, so that a program and a reader of run.json see the same. */
#include "api/internal.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/signals.h"
#include "record/reader.h"
#include "train/setup.h"

#include <stdatomic.h>
#include <stdlib.h>

/* dir is taken over. */
static int result_of_run(char *dir, pacer_result **out)
{
    cJSON *record;
    int code = record_load(dir, RECORD_RUN, &record);
    if (code == 0) {
        *out = result_new(dir, cJSON_DetachItemFromObjectCaseSensitive(record, "summary"));
    } else {
        free(dir);
    }
    cJSON_Delete(record);
    return code;
}

char *api_board(const Config *cfg)
{
    return mem_format("%s/.board", cfg->out[0] != '\0' ? cfg->out : "runs");
}

int api_train(Config *cfg, Comm *comm, const TrainWatcher *watcher, pacer_result **out)
{
    TrainResult trained = {0};
    signals_shield();
    int code = run_resolve(cfg);
    code = code != 0 ? code : train_run(cfg, comm, watcher, &trained);
    if (out != NULL && trained.dir != NULL) {
        int read = result_of_run(trained.dir, out);
        code = code != 0 ? code : read;
    } else {
        free(trained.dir);
    }
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
        TrainWatcher watcher = {on_step, user};
        code = api_train(&cfg, comm, on_step != NULL ? &watcher : NULL, result);
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
