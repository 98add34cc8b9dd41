#include "experiment/execute.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "experiment/child.h"
#include "experiment/progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_SECONDS 0.02
#define GRACE_SECONDS 30.0 /* from asking a run to end, which saves, to ending it */

static void pause_briefly(void)
{
    struct timespec time = {0, (long)(POLL_SECONDS * 1e9)};
    nanosleep(&time, NULL);
}

/* --- who else is there --- */

/* Whether a process holds the lock of a run directory. */
static bool is_locked(const char *run_dir)
{
    char *path = io_join(run_dir, "lock");
    int file = open(path, O_RDWR | O_CLOEXEC);
    free(path);
    if (file < 0) {
        return false;
    }
    bool locked = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    close(file);
    return locked;
}

/* A run that somebody trains is waited for. */
static int wait_until_free(const char *run_dir)
{
    if (is_locked(run_dir)) {
        log_info("%s: another pacer is training there; waiting for it to end", run_dir);
    }
    while (is_locked(run_dir)) {
        if (signals_pending() != 0) {
            return err_set(signals_pending(), "stopped while waiting for %s", run_dir);
        }
        pause_briefly();
    }
    return 0;
}

static int wait_for_leftovers(const char *runs)
{
    DIR *folder = opendir(runs);
    if (folder == NULL) {
        return io_error(runs, "read");
    }
    int code = 0;
    for (struct dirent *entry; code == 0 && (entry = readdir(folder)) != NULL;) {
        char *path = io_join(runs, entry->d_name);
        code = entry->d_name[0] != '.' ? wait_until_free(path) : 0;
        free(path);
    }
    closedir(folder);
    return code;
}

int experiment_enter(const Experiment *experiment, int *lock)
{
    char *runs = io_join(experiment->dir, "runs"), *path = io_join(experiment->dir, "lock");
    int code = io_make_folders(runs);
    *lock = code == 0 ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
    if (code == 0 && *lock < 0) {
        code = err_set(ERR_INPUT, "--out %s: cannot write there: %s", experiment->dir,
                       strerror(errno));
    } else if (code == 0 && !io_lock(*lock, path)) {
        code =
            err_set(ERR_INPUT, "--out %s: another pacer sweep is at work there", experiment->dir);
    }
    if (code == 0) {
        io_remove_temporaries(experiment->dir);
    }
    code = code != 0 ? code : wait_for_leftovers(runs);
    free(runs);
    free(path);
    return code;
}

/* --- one run --- */

typedef struct {
    int status;     /* as of waitpid */
    bool timed_out; /* we ended it for that */
} Ending;

/* Until the child has ended. A signal to us is passed on once; a second one ends us, and the
 * child with us. */
static Ending watch_child(Child *child, double timeout_s, SweepProgress *progress)
{
    Ending ending = {0};
    double asked = 0; /* when it was asked to end; 0: not yet */
    while (!child_ended(child, &ending.status)) {
        double now = clock_seconds();
        int signal = signals_pending();
        if (asked == 0 && signal != 0) {
            child_signal(child, signal == ERR_INTERRUPTED ? SIGINT : SIGTERM);
            asked = now;
            log_info("stopping: the run under way saves and ends");
        } else if (asked == 0 && timeout_s > 0 && now - child->started > timeout_s) {
            child_signal(child, SIGTERM);
            asked = now;
            ending.timed_out = true;
        } else if (asked > 0 && ending.timed_out && now - asked > GRACE_SECONDS) {
            child_signal(child, SIGKILL);
        }
        sweep_progress_say(progress);
        pause_briefly();
    }
    return ending;
}

/* A run directory whose record was not finished, or finished without training, although nothing
 * is left to train: its sweep was killed between the last checkpoint and the record. Times of
 * such a run are lost, so it is made again. A record that only cannot be read at the moment is
 * no reason to remove anything. */
static bool is_torn(const Experiment *e, const ExperimentRun *run, int exit_status)
{
    cJSON *record;
    int code = experiment_run_record(e, run, &record);
    const cJSON *summary = json_get(record, "summary");
    const cJSON *seconds = json_get(summary, "train_s");
    bool untrained = cJSON_IsNumber(seconds) && seconds->valuedouble <= 0;
    bool done = code == 0 && strcmp(experiment_run_status(record), "done") == 0 && !untrained;
    cJSON_Delete(record);
    return exit_status == 0 && !done && (code == 0 || code == ERR_INPUT);
}

/* Why a run was refused, by its own record; NULL: it was not. Caller frees. */
static char *refusal_of(const Experiment *e, const ExperimentRun *run)
{
    cJSON *record;
    char *why = NULL;
    if (experiment_run_record(e, run, &record) == 0 &&
        strcmp(experiment_run_status(record), "oom") == 0 && json_get(record, "summary") == NULL) {
        const char *message = json_text(record, "message");
        why = mem_strdup(message != NULL ? message : "the plan does not fit");
    }
    cJSON_Delete(record);
    return why;
}

static void set_with(ExperimentRun *run, ExperimentState state, char *error, const char *otherwise)
{
    experiment_set(run, state, error != NULL && error[0] != '\0' ? error : otherwise);
    free(error);
}

/* What the ending of a child means. */
static void judge(const Experiment *e, ExperimentRun *run, const Child *child, Ending ending)
{
    char text[160];
    bool exited = WIFEXITED(ending.status);
    int status = exited ? WEXITSTATUS(ending.status) : 0;
    run->seconds = value_of(clock_seconds() - child->started);
    run->exit = exited ? value_of(status) : (Value){0};
    if (exited && (status == 0 || status == err_exit_status(ERR_CHECK))) {
        experiment_set(run, STATE_DONE, "");
    } else if (ending.timed_out) {
        snprintf(text, sizeof text, "ended after %.0f s, the recipe's timeout",
                 e->recipe.timeout_s);
        experiment_set(run, STATE_TIMEOUT, text);
    } else if (signals_pending() != 0) {
        experiment_set(run, STATE_STOPPED, "interrupted; the same command goes on");
    } else if (exited && status == err_exit_status(ERR_MEMORY)) {
        char *why = refusal_of(e, run);
        set_with(run, why != NULL ? STATE_REFUSED : STATE_OOM,
                 why != NULL ? why : child_last_error(child), "out of memory");
    } else if (exited && (status == 130 || status == 143)) {
        experiment_set(run, STATE_STOPPED, "interrupted; the same command goes on");
    } else if (exited) {
        snprintf(text, sizeof text, "exit status %d; its log tells more", status);
        set_with(run, STATE_FAILED, child_last_error(child), text);
    } else {
        int signal = WTERMSIG(ending.status);
        snprintf(text, sizeof text, "killed by signal %d (%s)%s", signal, strsignal(signal),
                 signal == SIGKILL ? ", as the system does when memory runs out" : "");
        experiment_set(run, STATE_FAILED, text);
    }
}

static int remove_part(const Experiment *e, const ExperimentRun *run, const char *behind)
{
    char *path = experiment_run_path(e, run, behind);
    int code = io_remove_tree(path);
    free(path);
    return code;
}

static int go(Experiment *e, int at, bool *torn)
{
    ExperimentRun *run = &e->runs[at];
    experiment_set(run, STATE_RUNNING, "");
    int code = experiment_save(e);
    Child child;
    code = code != 0 ? code : child_start(&child, e, run);
    if (code != 0) {
        return code;
    }
    SweepProgress progress = sweep_progress_begin(e, at);
    Ending ending = watch_child(&child, e->recipe.timeout_s, &progress);
    judge(e, run, &child, ending);
    *torn = run->state == STATE_DONE && is_torn(e, run, (int)run->exit.number);
    if (!*torn) {
        sweep_progress_end(&progress);
    }
    child_free(&child);
    return 0;
}

/* One run from waiting to whatever becomes of it. */
static int make_run(Experiment *e, int at)
{
    ExperimentRun *run = &e->runs[at];
    if (run->obstacle != NULL && !run->too_large) {
        experiment_set(run, STATE_FAILED, run->obstacle);
        log_warn("run %d/%d %s cannot be made here: %s", at + 1, e->count, run->label,
                 run->obstacle);
        return experiment_save(e);
    }
    char *dir = experiment_run_path(e, run, "");
    int code = wait_until_free(dir);
    free(dir);
    bool torn = false;
    code = code != 0 ? code : go(e, at, &torn);
    if (code == 0 && torn) {
        log_info("run %d/%d was cut off while it wrote its record; it is made again", at + 1,
                 e->count);
        code = remove_part(e, run, "");
        code = code != 0 ? code : go(e, at, &torn);
        if (code == 0 && torn) {
            experiment_set(run, STATE_FAILED, "it ended well and left no record");
        }
    }
    if (code == 0 && run->state == STATE_DONE && e->recipe.drop_checkpoints) {
        code = remove_part(e, run, "/ckpt");
    }
    return code != 0 ? code : experiment_save(e);
}

int experiment_execute(Experiment *e)
{
    e->finished = false;
    int code = experiment_save(e);
    for (int i = 0; code == 0 && i < e->count; i++) {
        bool wanted = e->runs[i].state == STATE_WAITING || e->runs[i].state == STATE_STOPPED;
        if (!wanted) {
            continue;
        }
        code = signals_pending() == 0 ? make_run(e, i) : 0;
        if (code == 0 && signals_pending() != 0) {
            code = err_set(signals_pending(),
                           "stopped in run %d of %d; the same command goes on from there", i + 1,
                           e->count);
        }
    }
    if (code == 0) {
        e->finished = true;
        code = experiment_save(e);
    }
    return code;
}
