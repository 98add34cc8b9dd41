/* Running an experiment: one child after the other, or as many at once as there are jobs, each
 * state on disk before and after. A child is
 * `pacer train` with the run's options, or a peer's program (peer.h), its output in a file beside
 * the run directory. It leads a process group of its own, so that Ctrl-C at the terminal reaches it
 * once, through us; and it is told to stop (SIGTERM: it saves) when we die, whatever kills us. */
#include "study/experiment.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/signals.h"
#include "devices/devices.h"
#include "study/peer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TAIL_BYTES 65536 /* of the log that the last error is looked for in */
#define ERROR_MARK "pacer: error: "
#define POLL_SECONDS 0.02
#define GRACE_SECONDS 30.0 /* from asking a run to end, which saves, to ending it */

/* --- a child --- */

typedef struct {
    pid_t pid;
    char *log;      /* path */
    long log_from;  /* bytes that were in it before */
    double started; /* clock_seconds */
    double asked;   /* when it was asked to end; 0: not yet */
    bool timed_out; /* that was for the recipe's timeout */
    bool peer;
    int status; /* as of waitpid */
} Child;

/* Part `at` of the processors, which are cut into `of` parts. */
typedef struct {
    int at, of;
} Share;

/* --- its arguments --- */

static char **add_argument(char **list, int *count, char *text)
{
    list = mem_realloc(list, (size_t)*count + 2, sizeof *list);
    list[(*count)++] = text;
    list[*count] = NULL;
    return list;
}

/* What the run was given, and device and dtype as they were settled. */
static bool is_passed_on(const Config *cfg, const Option *option)
{
    bool settled = strcmp(option->name, "device") == 0 || strcmp(option->name, "dtype") == 0;
    return (option->commands & 1u << COMMAND_TRAIN) != 0 && strcmp(option->name, "config") != 0 &&
           (settled || config_is_set(cfg, option->name));
}

static char **train_arguments(const Experiment *experiment, const ExperimentRun *run)
{
    char program[PATH_MAX];
    process_program(program);
    int count = 0;
    char **list = add_argument(NULL, &count, mem_strdup(program));
    list = add_argument(list, &count, mem_strdup("train"));
    for (const Option *option = config_options(); option->name != NULL; option++) {
        if (is_passed_on(&run->cfg, option)) {
            char *value = config_value_text(&run->cfg, option);
            list = add_argument(list, &count, mem_format("--%s=%s", option->name, value));
            free(value);
        }
    }
    char *out = experiment_run_path(experiment, run, "");
    list = add_argument(list, &count, mem_format("--out=%s", out));
    free(out);
    return list;
}

static int arguments(const Experiment *experiment, const ExperimentRun *run, char ***list)
{
    if (run->peer[0] == '\0') {
        *list = train_arguments(experiment, run);
        return 0;
    }
    char *told;
    int count = 0, code = peer_tell(experiment, run, &told);
    if (code == 0) {
        *list = add_argument(NULL, &count, mem_strdup(peer_python()));
        *list = add_argument(*list, &count, peer_script());
        *list = add_argument(*list, &count, told);
    }
    return code;
}

static void free_arguments(char **list)
{
    for (int i = 0; list[i] != NULL; i++) {
        free(list[i]);
    }
    free(list);
}

/* --- its life --- */

static long size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (long)info.st_size : 0;
}

/* Binds this process to its part of the processors that it may use; train then has as many threads
 * as it has processors. */
static void take_share(Share share)
{
    cpu_set_t all, own;
    if (share.of < 2 || sched_getaffinity(0, sizeof all, &all) != 0) {
        return;
    }
    int count = CPU_COUNT(&all), seen = 0;
    CPU_ZERO(&own);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all)) {
            if (seen >= count * share.at / share.of && seen < count * (share.at + 1) / share.of) {
                CPU_SET(i, &own);
            }
            seen++;
        }
    }
    sched_setaffinity(0, sizeof own, &own);
}

/* In the child: becomes train, or the peer, or ends with 127. */
static void become(char **list, int log, pid_t parent, Share share)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(127); /* it died before the line above */
    }
    signals_restore();
    take_share(share);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
    }
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execvp(list[0], list);
    dprintf(STDERR_FILENO, ERROR_MARK "%s: cannot be started: %s\n", list[0], strerror(errno));
    _exit(127);
}

/* On success child->log is the caller's to free. */
static int child_start(Child *child, const Experiment *experiment, const ExperimentRun *run,
                       Share share)
{
    char **list;
    int code = arguments(experiment, run, &list);
    if (code != 0) {
        return code;
    }
    *child =
        (Child){.log = experiment_run_path(experiment, run, ".log"), .peer = run->peer[0] != '\0'};
    child->log_from = size_of(child->log);
    /* O_NONBLOCK: a pipe that nobody reads is an error instead of a wait. */
    int log = open(child->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    code = log < 0 ? io_error(child->log, "write") : 0;
    if (code == 0) {
        pid_t parent = getpid();
        fflush(NULL);
        child->started = clock_seconds();
        child->pid = fork();
        if (child->pid == 0) {
            become(list, log, parent, share);
        }
        code =
            child->pid > 0 ? 0 : err_set(ERR_FAILED, "no process for a run: %s", strerror(errno));
        close(log);
    }
    if (code == 0) {
        setpgid(child->pid, child->pid); /* whichever of us is first */
    } else {
        free(child->log);
    }
    free_arguments(list);
    return code;
}

/* pacer saves and ends by itself, its ranks included. A peer saves nothing, and its children may
 * be compilers: the whole group is told. What is killed is killed with everything that it has
 * started. */
static void child_signal(const Child *child, int signal)
{
    pid_t *below = NULL;
    size_t count = signal == SIGKILL ? process_descendants(child->pid, &below) : 0;
    kill(child->peer || signal == SIGKILL ? -child->pid : child->pid, signal);
    for (size_t i = 0; i < count; i++) {
        kill(below[i], signal);
    }
    free(below);
}

/* The last error that it wrote, without ERROR_MARK; "" when it wrote none. Caller frees. */
static char *child_last_error(const Child *child)
{
    int log;
    struct stat info;
    FILE *file = io_open_regular(child->log, &log, &info) == 0 ? fdopen(log, "rb") : NULL;
    char *found = mem_strdup("");
    if (file == NULL) {
        return found;
    }
    long size = size_of(child->log), from = child->log_from;
    from = size - from > TAIL_BYTES ? size - TAIL_BYTES : from;
    char *line = NULL;
    size_t room = 0;
    bool placed = fseek(file, from, SEEK_SET) == 0;
    while (placed && getline(&line, &room, file) > 0) {
        const char *mark = strstr(line, ERROR_MARK);
        if (mark != NULL) {
            free(found);
            found = mem_format("%.*s", (int)strcspn(mark + strlen(ERROR_MARK), "\r\n"),
                               mark + strlen(ERROR_MARK));
        }
    }
    free(line);
    fclose(file);
    return found;
}

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

/* A run that somebody trains is waited for; what a writer left behind goes. */
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
    /* Of a process that was killed: a run whose record is complete is not entered again. */
    char *ranks = io_join(run_dir, "ranks");
    io_remove_temporaries(run_dir);
    io_remove_temporaries(ranks);
    free(ranks);
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

/* A run directory whose record was not finished, or finished without training, although nothing
 * is left to train: its sweep was killed between the last checkpoint and the record. Times of
 * such a run are lost, so it is made again. A record that only cannot be read at the moment is
 * no reason to remove anything. */
static bool is_torn(const Experiment *e, const ExperimentRun *run, int exit_status)
{
    cJSON *record;
    int code = experiment_run_record(e, run, &record);
    bool untrained = json_number(record, "summary.train_s") <= 0;
    bool done = code == 0 && record_is(record, RUN_DONE) && !untrained;
    cJSON_Delete(record);
    return exit_status == 0 && !done && (code == 0 || code == ERR_INPUT);
}

/* Why a run was refused, by its own record; NULL: it was not. Caller frees. */
static char *refusal_of(const Experiment *e, const ExperimentRun *run)
{
    cJSON *record;
    char *why = NULL;
    if (experiment_run_record(e, run, &record) == 0 && record_is(record, RUN_OOM) &&
        json_get(record, "summary") == NULL) {
        why = mem_strdup(json_text_or(record, "message", "the plan does not fit"));
    }
    cJSON_Delete(record);
    return why;
}

static void set_with(ExperimentRun *run, RunState state, char *error, const char *otherwise)
{
    experiment_set(run, state, error != NULL && error[0] != '\0' ? error : otherwise);
    free(error);
}

/* What the ending of a child means. */
static void judge(const Experiment *e, ExperimentRun *run, const Child *child)
{
    char text[160];
    bool exited = WIFEXITED(child->status);
    int status = exited ? WEXITSTATUS(child->status) : 0;
    run->seconds = value_of(clock_seconds() - child->started);
    run->exit = exited ? value_of(status) : (Value){0};
    if (exited && (status == 0 || status == err_exit_status(ERR_CHECK))) {
        experiment_set(run, RUN_DONE, "");
    } else if (child->timed_out) {
        snprintf(text, sizeof text, "ended after %.0f s, the recipe's timeout",
                 e->recipe.timeout_s);
        experiment_set(run, RUN_TIMEOUT, text);
    } else if (signals_pending() != 0) {
        experiment_set(run, RUN_STOPPED, "interrupted; the same command goes on");
    } else if (exited && status == err_exit_status(ERR_MEMORY)) {
        char *why = refusal_of(e, run);
        set_with(run, why != NULL ? RUN_REFUSED : RUN_OOM,
                 why != NULL ? why : child_last_error(child), "out of memory");
    } else if (exited && (status == 130 || status == 143)) {
        experiment_set(run, RUN_STOPPED, "interrupted; the same command goes on");
    } else if (exited) {
        snprintf(text, sizeof text, "exit status %d; its log tells more", status);
        set_with(run, RUN_FAILED, child_last_error(child), text);
    } else {
        int signal = WTERMSIG(child->status);
        snprintf(text, sizeof text, "killed by signal %d (%s)%s", signal, strsignal(signal),
                 signal == SIGKILL ? ", as the system does when memory runs out" : "");
        experiment_set(run, RUN_FAILED, text);
    }
}

static int remove_part(const Experiment *e, const ExperimentRun *run, const char *behind)
{
    char *path = experiment_run_path(e, run, behind);
    int code = io_remove_tree(path);
    free(path);
    return code;
}

/* --- places for runs --- */

/* A place where one run at a time is made, on its share of the processors. */
typedef struct {
    int at; /* of its run; -1: free */
    Child child;
    SweepProgress progress;
    bool again; /* the run was torn, and is made a second time */
} Place;

/* On a GPU, of several ranks or of a peer: it takes the whole machine. */
static bool needs_all(const ExperimentRun *run)
{
    return run->cfg.ranks > 1 || device_of((DeviceId)run->cfg.device)->count != NULL ||
           run->peer[0] != '\0';
}

static int start(Experiment *e, Place *place, int share, int at)
{
    ExperimentRun *run = &e->runs[at];
    char *dir = experiment_run_path(e, run, "");
    int code = wait_until_free(dir);
    free(dir);
    if (code == 0) {
        experiment_set(run, RUN_RUNNING, "");
        code = experiment_save(e);
    }
    if (code == 0) {
        Share cores = {share, needs_all(run) ? 1 : e->jobs};
        code = child_start(&place->child, e, run, cores);
    }
    if (code == 0) {
        place->at = at;
        place->progress = sweep_progress_begin(e, at);
    }
    return code;
}

/* A signal to us is passed on once; a second one ends us, and the child with us. over: the record
 * of the experiment cannot be kept, or another run has ended it. */
static void tend(Child *child, double timeout_s, bool over)
{
    double now = clock_seconds();
    int signal = signals_pending();
    if (child->asked == 0 && (signal != 0 || over)) {
        child_signal(child, signal == ERR_INTERRUPTED ? SIGINT : SIGTERM);
        child->asked = now;
        log_info("stopping: the run under way saves and ends");
    } else if (child->asked == 0 && timeout_s > 0 && now - child->started > timeout_s) {
        child_signal(child, SIGTERM);
        child->asked = now;
        child->timed_out = true;
    } else if (child->asked > 0 && child->timed_out && now - child->asked > GRACE_SECONDS) {
        child_signal(child, SIGKILL);
    }
}

/* The place's run has ended: what became of it, or once more from the start. *over: the others have
 * no purpose without it. */
static int finish(Experiment *e, Place *place, int share, bool *over)
{
    int at = place->at, code = 0;
    ExperimentRun *run = &e->runs[at];
    judge(e, run, &place->child);
    free(place->child.log);
    place->at = -1;
    bool torn = run->state == RUN_DONE && is_torn(e, run, (int)run->exit.number);
    if (torn && !place->again) {
        log_info("run %d/%d was cut off while it wrote its record; it is made again", at + 1,
                 e->count);
        code = remove_part(e, run, "");
        place->again = true;
        return code != 0 ? code : start(e, place, share, at);
    }
    place->again = false;
    if (torn) {
        experiment_set(run, RUN_FAILED, "it ended well and left no record");
    }
    sweep_progress_end(&place->progress);
    bool ended = run->state == RUN_DONE || run->state == RUN_STOPPED;
    *over = *over || (!ended && e->ends != NULL && e->ends(e, run));
    if (run->state == RUN_DONE && e->recipe.drop_checkpoints) {
        code = remove_part(e, run, "/ckpt");
    }
    return code != 0 ? code : experiment_save(e);
}

/* --- all of them --- */

/* The next run to be made, from *next on; -1: there is none. What cannot be made here is told and
 * passed over. */
static int next_run(Experiment *e, int *next, int *code)
{
    for (; *code == 0 && *next < e->count; ++*next) {
        ExperimentRun *run = &e->runs[*next];
        if (run->state != RUN_WAITING && run->state != RUN_STOPPED) {
            continue;
        }
        if (run->obstacle == NULL || run->too_large) {
            return *next;
        }
        experiment_set(run, RUN_FAILED, run->obstacle);
        log_warn("run %d/%d %s cannot be made here: %s", *next + 1, e->count, run->label,
                 run->obstacle);
        *code = experiment_save(e);
    }
    return -1;
}

/* Looks after the places; returns how many are taken. */
static int look_after(Experiment *e, Place *places, bool *over, int *code)
{
    int taken = 0, first = -1;
    for (int i = 0; i < e->jobs; i++) {
        Place *place = &places[i];
        if (place->at >= 0 &&
            waitpid(place->child.pid, &place->child.status, WNOHANG) == place->child.pid) {
            int failure = finish(e, place, i, over);
            *code = *code != 0 ? *code : failure;
        }
        if (place->at >= 0) {
            tend(&place->child, e->recipe.timeout_s, *over || *code != 0);
            first = first < 0 ? i : first;
            taken++;
        }
    }
    if (first >= 0) {
        sweep_progress_say(&places[first].progress, taken - 1);
    }
    return taken;
}

int experiment_execute(Experiment *e)
{
    int next = 0, taken = 0, last = 0;
    Place *places = mem_zalloc((size_t)e->jobs, sizeof *places);
    for (int i = 0; i < e->jobs; i++) {
        places[i].at = -1;
    }
    e->finished = false;
    int code = experiment_save(e);
    bool alone = false; /* the run under way takes the whole machine */
    bool over = false;
    do {
        for (int i = 0; i < e->jobs && code == 0 && !over && signals_pending() == 0; i++) {
            int at = places[i].at < 0 && !(alone && taken > 0) ? next_run(e, &next, &code) : -1;
            if (at < 0 || (taken > 0 && needs_all(&e->runs[at]))) {
                continue;
            }
            alone = needs_all(&e->runs[at]);
            next = at + 1;
            last = at;
            code = start(e, &places[i], i, at);
            taken += code == 0;
        }
        taken = look_after(e, places, &over, &code);
        if (taken > 0) {
            pause_briefly();
        }
    } while (taken > 0 ||
             (code == 0 && !over && signals_pending() == 0 && next_run(e, &next, &code) >= 0));
    free(places);
    if (code == 0 && signals_pending() != 0) {
        code = err_set(signals_pending(),
                       "stopped in run %d of %d; the same command goes on from there", last + 1,
                       e->count);
    }
    if (code == 0 && !over) {
        e->finished = true;
        code = experiment_save(e);
    }
    return code;
}
