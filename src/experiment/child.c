#include "experiment/child.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/signals.h"
#include "experiment/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAIL_BYTES 65536 /* of the log that the last error is looked for in */
#define ERROR_MARK "pacer: error: "

/* --- arguments --- */

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
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    int count = 0;
    char **list = add_argument(NULL, &count, mem_strdup(program));
    list = add_argument(list, &count, mem_strdup("train"));
    size_t options;
    const Option *table = config_options(&options);
    for (size_t i = 0; i < options; i++) {
        if (is_passed_on(&run->cfg, &table[i])) {
            char *value = config_value_text(&run->cfg, &table[i]);
            list = add_argument(list, &count, mem_format("--%s=%s", table[i].name, value));
            free(value);
        }
    }
    char *out = experiment_run_path(experiment, run, "");
    list = add_argument(list, &count, mem_format("--out=%s", out));
    free(out);
    return list;
}

static char **peer_arguments(char *told)
{
    int count = 0;
    char **list = add_argument(NULL, &count, mem_strdup(peer_python()));
    list = add_argument(list, &count, peer_script());
    return add_argument(list, &count, told);
}

static int arguments(const Experiment *experiment, const ExperimentRun *run, char ***list)
{
    char *told = NULL;
    bool peer = run->peer[0] != '\0';
    int code = peer ? peer_tell(experiment, run, &told) : 0;
    if (code == 0) {
        *list = peer ? peer_arguments(told) : train_arguments(experiment, run);
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

/* --- life --- */

static long size_of(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (long)info.st_size : 0;
}

/* In the child: becomes train, or the peer, or ends with 127. */
static void become(char **list, int log, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        _exit(127); /* it died before the line above */
    }
    signals_restore();
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

int child_start(Child *child, const Experiment *experiment, const ExperimentRun *run)
{
    char **list;
    int code = arguments(experiment, run, &list);
    *child = (Child){0};
    if (code != 0) {
        return code;
    }
    *child =
        (Child){.log = experiment_run_path(experiment, run, ".log"), .peer = run->peer[0] != '\0'};
    child->log_from = size_of(child->log);
    /* O_NONBLOCK: a pipe that nobody reads is an error instead of a wait. */
    int log = open(child->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    if (log < 0) {
        code = io_error(child->log, "write");
        free_arguments(list);
        child_free(child);
        return code;
    }
    pid_t parent = getpid();
    fflush(NULL);
    child->started = clock_seconds();
    child->pid = fork();
    if (child->pid == 0) {
        become(list, log, parent);
    }
    code = child->pid > 0 ? 0 : err_set(ERR_FAILED, "no process for a run: %s", strerror(errno));
    if (code == 0) {
        setpgid(child->pid, child->pid); /* whichever of us is first */
    }
    free_arguments(list);
    close(log);
    if (code != 0) {
        child_free(child);
    }
    return code;
}

bool child_ended(Child *child, int *status)
{
    pid_t got = waitpid(child->pid, status, WNOHANG);
    return got == child->pid;
}

/* pacer saves and ends by itself, its ranks included. A peer saves nothing, and its children may
 * be compilers: the whole group is told. What is killed is killed with everything that it has
 * started. */
void child_signal(const Child *child, int signal)
{
    pid_t *below = NULL;
    size_t count = signal == SIGKILL ? process_descendants(child->pid, &below) : 0;
    kill(child->peer || signal == SIGKILL ? -child->pid : child->pid, signal);
    for (size_t i = 0; i < count; i++) {
        kill(below[i], signal);
    }
    free(below);
}

char *child_last_error(const Child *child)
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

void child_free(Child *child)
{
    free(child->log);
    *child = (Child){0};
}
