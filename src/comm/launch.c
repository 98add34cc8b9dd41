/* Starting ranks on this machine: mpirun, as a child, starts the same program that many times.
 * This process stays to hand signals to the ranks. mpirun itself would answer Ctrl-C by killing
 * them a second later, whether they have saved or not; so it runs with these signals blocked, in
 * a process group that the terminal does not reach. Ranks ask twice a second whether this
 * process lives: also when it is killed they save and end. */
#include "comm/internal.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN_MARK "PACER_LAUNCHED_RANKS" /* set for ranks that pacer starts itself */
#define OWN_PID "PACER_LAUNCHER_PID"    /* and the process that stays for them, */
#define OWN_END "PACER_RANK_END"        /* and the file of it, a JobEnd, that takes their end */
#define OWN_AGAIN "PACER_RESTARTED"     /* why they are started again */
#define LAUNCHER "PACER_MPI_LAUNCHER"   /* read: mpirun to use in place of the module's */
#define FIXED_ARGUMENTS 16
#define LOOK_EVERY 0.5  /* s */
#define GONE_LOOKS 10   /* seconds that mpirun may outlive its ranks, */
#define LEFT_LOOKS 1200 /* and tenths of a second that they may outlive it */
#define STUCK (-1)      /* in place of mpirun's exit status: it did not end */

static int number_in(const char *name)
{
    const char *text = getenv(name);
    int number = text != NULL ? atoi(text) : 0;
    return number > 0 ? number : 0;
}

/* Of the step of srun that this process belongs to, also through another launcher. A script of
 * sbatch is no step: 0. */
static int slurm_tasks(void)
{
    bool in_step = getenv("SLURM_PROCID") != NULL && getenv("SLURM_STEP_ID") != NULL;
    return in_step ? number_in("SLURM_STEP_NUM_TASKS") : 0;
}

int launch_ranks(void)
{
    /* Open MPI; MPICH, Intel MPI and Slurm's PMI; MVAPICH; pacer, in front of whatever else it
     * was. */
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        OWN_MARK};
    /* An interactive shell of Slurm is a step of one task: no rank, though srun may give it
     * PMI's size. */
    int tasks = slurm_tasks();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int ranks = number_in(names[i]);
        if (ranks > 1 || (ranks == 1 && (tasks != 1 || strcmp(names[i], "PMI_SIZE") != 0))) {
            return ranks;
        }
    }
    return tasks > 1 ? tasks : 0;
}

/* These ranks were started by srun itself, not by an mpirun that uses it. */
static bool is_from_srun(int launched)
{
    return launched > 1 && slurm_tasks() == launched && getenv("OMPI_COMM_WORLD_SIZE") == NULL &&
           getenv(OWN_MARK) == NULL;
}

void launch_warn(const MpiModule *module)
{
    int launched = launch_ranks();
    if (module->is_open_mpi && is_from_srun(launched) && getenv("PMIX_NAMESPACE") == NULL &&
        strcmp(getenv("SLURM_PROCID"), "0") == 0) {
        log_warn("srun started %d tasks without PMIx, through which Open MPI finds them: if it "
                 "ends here, start them with srun --mpi=pmix",
                 launched);
    }
}

int launch_refuse(const MpiModule *module, const MpiWorld *world, int launched)
{
    if (is_from_srun(launched)) {
        return err_set(ERR_FAILED,
                       "srun started %d tasks, but %s sees %d: start them with srun --mpi=%s "
                       "(srun --mpi=list shows what there is), or with mpirun inside the job",
                       launched, world->library, world->ranks,
                       module->is_open_mpi ? "pmix" : "pmi2");
    }
    if (getenv(OWN_MARK) != NULL) {
        return err_set(ERR_FAILED,
                       "the mpirun that was to start %d ranks is of another MPI: %s sees %d; name "
                       "its own mpirun in " LAUNCHER,
                       launched, world->library, world->ranks);
    }
    return err_set(ERR_FAILED,
                   "this process was started as one of %d ranks, but %s sees %d: start it with "
                   "that MPI's own mpirun%s%s, or build pacer with the MPI it is started by",
                   launched, world->library, world->ranks, module->launcher[0] != '\0' ? ", " : "",
                   module->launcher);
}

bool comm_is_launched(void)
{
    return launch_ranks() > 0;
}

/* Cores that this process may run on, two threads of one core counted once; 0: the system does
 * not say. */
static int count_cores(void)
{
    cpu_set_t allowed;
    int cores = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return 0;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[96], text[64];
        int first = -1;
        if (!CPU_ISSET(cpu, &allowed)) {
            continue;
        }
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        if (io_read_start(path, text, sizeof text) == 0) {
            return 0;
        }
        cores += sscanf(text, "%d", &first) == 1 && first == cpu;
    }
    return cores;
}

/* Full path of a program on PATH, or NULL. Caller frees. */
static char *find_program(const char *name)
{
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t length = strcspn(path, ":");
        char *candidate = mem_format("%.*s/%s", (int)length, path, name);
        if (length > 0 && access(candidate, X_OK) == 0) {
            return candidate;
        }
        free(candidate);
        path += length + (path[length] == ':');
    }
    return NULL;
}

static char *find_launcher(const MpiModule *module)
{
    const char *named = getenv(LAUNCHER);
    if (named != NULL && named[0] != '\0') {
        return strchr(named, '/') != NULL ? mem_strdup(named) : find_program(named);
    }
    if (module->launcher[0] != '\0' && access(module->launcher, X_OK) == 0) {
        return mem_strdup(module->launcher);
    }
    char *found = find_program("mpirun");
    return found != NULL ? found : find_program("mpiexec");
}

/* Open MPI binds each rank to a core by default and refuses more ranks than cores. With enough
 * cores each rank gets an equal share of them; else none is bound. Returns the number of
 * arguments. */
static int open_mpi_arguments(char **list, int ranks)
{
    int n = 0, cores = count_cores();
    list[n++] = mem_strdup("--host");
    list[n++] = mem_format("localhost:%d", ranks);
    list[n++] = mem_strdup("--oversubscribe");
    if (cores >= ranks) {
        list[n++] = mem_strdup("--map-by");
        list[n++] = mem_format("slot:PE=%d", cores / ranks);
    }
    list[n++] = mem_strdup("--bind-to");
    list[n++] = mem_strdup(cores >= ranks ? "core" : "none");
    /* Containers are often root inside, which Open MPI takes for a mistake. */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    setenv("OMPI_MCA_hwloc_base_mem_bind_failure_action", "silent", 0);
    return n;
}

/* --- the process that stays --- */

static const int handed_on[] = {SIGINT, SIGTERM, SIGHUP};

/* To every rank below this process: mpirun, or, where that has ended, this one. Returns how many
 * there are. */
static int signal_ranks(pid_t above, int number)
{
    pid_t *below;
    size_t count = process_descendants(above, &below);
    int told = 0;
    for (size_t i = 0; i < count; i++) {
        if (process_is_same_program(below[i])) {
            kill(below[i], number);
            told++;
        }
    }
    free(below);
    return told;
}

/* Ctrl-Z: the ranks stop, then this process; they go on with it. */
static void stop_together(pid_t mpirun)
{
    signal_ranks(mpirun, SIGSTOP);
    raise(SIGSTOP);
    signal_ranks(mpirun, SIGCONT);
}

/* Signals to wait for: those that are handed on, but a hang-up behind nohup, and those of job
 * control and of mpirun's end. */
static void fill_waited(sigset_t *set)
{
    struct sigaction action;
    sigemptyset(set);
    for (size_t i = 0; i < sizeof handed_on / sizeof handed_on[0]; i++) {
        if (sigaction(handed_on[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN) {
            sigaddset(set, handed_on[i]);
        }
    }
    sigaddset(set, SIGTSTP);
    sigaddset(set, SIGCHLD);
}

/* The next of them, 0 when none comes in time. What asks for an end is also this process's. */
static int next_signal(const sigset_t *waited, const struct timespec *patience)
{
    int number = sigtimedwait(waited, NULL, patience);
    if (number > 0 && number != SIGCHLD && number != SIGTSTP) {
        signals_request(number == SIGINT ? ERR_INTERRUPTED : ERR_TERMINATED);
    }
    return number > 0 ? number : 0;
}

/* Until mpirun has ended. Returns its exit status, or what a shell would make of the signal that
 * it was killed by. Open MPI's may wait for ever for a rank that died while it started: once all
 * ranks were gone for a while, it is ended: STUCK. */
static int stay(pid_t mpirun, const sigset_t *waited, bool *killed)
{
    int status, early = 0; /* the signal that came before there was a rank */
    int gone = 0;          /* looks that found no rank behind one that did */
    bool seen = false;
    *killed = false;
    while (waitpid(mpirun, &status, WNOHANG) != mpirun) {
        /* A rank that starts late gets an early signal with the next look. */
        struct timespec soon = {.tv_nsec = 100000000}, later = {.tv_sec = 1};
        int number = next_signal(waited, early != 0 ? &soon : &later);
        if (number == 0 && early == 0) {
            bool any = signal_ranks(mpirun, 0) > 0;
            seen = seen || any;
            gone = seen && !any ? gone + 1 : 0;
        }
        if (gone == GONE_LOOKS) {
            kill(mpirun, SIGKILL);
            waitpid(mpirun, &status, 0);
            return STUCK;
        }
        if (number == SIGTSTP) {
            stop_together(mpirun);
        } else if (number != 0 && number != SIGCHLD) {
            early = signal_ranks(mpirun, number) > 0 ? 0 : number;
        } else if (number == 0 && early != 0 && signal_ranks(mpirun, early) > 0) {
            early = 0;
        }
    }
    *killed = WIFSIGNALED(status);
    return *killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Ranks whose mpirun was killed come below this process. They save and end before anything else
 * does, as they hold the run's folder; at once when they take too long, or a signal comes. */
static void end_left(const sigset_t *waited)
{
    int looks = 0, number = SIGTERM;
    while (signal_ranks(getpid(), number) > 0) {
        int came = next_signal(waited, &(struct timespec){.tv_nsec = 100000000});
        bool asked = came != 0 && came != SIGCHLD && came != SIGTSTP;
        number = asked || number == SIGKILL || ++looks > LEFT_LOOKS ? SIGKILL : 0;
    }
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
}

/* In the child: becomes mpirun, or says why not. */
static void become(char **list, const sigset_t *waited, bool terminal)
{
    signals_restore();
    sigset_t blocked = *waited;
    sigdelset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    setpgid(0, 0);
    int nothing = terminal ? open("/dev/null", O_RDONLY) : -1;
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO); /* in the background it could not be read */
    }
    execv(list[0], list);
    fprintf(stderr, "pacer: error: %s: cannot be started: %s\n", list[0], strerror(errno));
    _exit(err_exit_status(ERR_FAILED));
}

/* Memory of this process that ranks can write to, through its name in the environment; -1: there
 * is none. */
static int offer_end(void)
{
    int file = memfd_create("rank-end", MFD_CLOEXEC);
    char *path = mem_format("/proc/%ld/fd/%d", (long)getpid(), file);
    if (file >= 0) {
        setenv(OWN_END, path, 1);
    }
    free(path);
    return file;
}

/* Into that memory; false when there is none. */
static bool tell(const void *bytes, size_t count, size_t at)
{
    const char *path = getenv(OWN_END);
    int file = path != NULL ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    bool told = file >= 0 && pwrite(file, bytes, count, (off_t)at) == (ssize_t)count;
    if (file >= 0) {
        close(file);
    }
    return told;
}

int comm_end_rank(int status)
{
    return status != 0 && tell(&status, sizeof status, offsetof(JobEnd, status)) ? 0 : status;
}

void launch_tell_lost(const char *text, int rank)
{
    char lost[sizeof((JobEnd *)0)->lost] = "";
    snprintf(lost, sizeof lost, "%s", text);
    int number = rank + 1;
    tell(lost, sizeof lost, offsetof(JobEnd, lost));
    tell(&number, sizeof number, offsetof(JobEnd, lost_number));
}

bool launch_tell_why(const char *text)
{
    char why[sizeof((JobEnd *)0)->why] = "";
    snprintf(why, sizeof why, "%s", text);
    return tell(why, sizeof why, offsetof(JobEnd, why));
}

void comm_tell_folder(const char *dir)
{
    char folder[sizeof((JobEnd *)0)->folder] = "";
    snprintf(folder, sizeof folder, "%s", dir);
    tell(folder, sizeof folder, offsetof(JobEnd, folder));
}

void comm_tell_saved(int64_t step)
{
    tell(&step, sizeof step, offsetof(JobEnd, saved_step));
}

const char *comm_restarted(void)
{
    return getenv(OWN_END) != NULL ? getenv(OWN_AGAIN) : NULL;
}

/* What the ranks have told, and mpirun's own exit status: above 128 when a rank died of a signal,
 * which those that are handed on are not. */
static JobEnd conclude(int told, int status, bool killed)
{
    JobEnd end = {0};
    if (told < 0 || pread(told, &end, sizeof end, 0) <= 0) { /* nothing there: no rank had a word */
        end = (JobEnd){0};
    }
    end.lost[sizeof end.lost - 1] = end.why[sizeof end.why - 1] = '\0';
    end.folder[sizeof end.folder - 1] = '\0';
    if (status == STUCK) {
        status = end.status != 0 ? end.status : err_exit_status(ERR_FAILED);
        if (end.status == 0 && end.lost[0] == '\0') { /* else they have ended as they say */
            snprintf(end.lost, sizeof end.lost, "all ranks ended, and mpirun did not");
        }
    }
    end.status = status == 0 ? end.status : status;
    if (end.lost[0] == '\0' && status > 128 && status != 128 + SIGINT && status != 128 + SIGTERM) {
        snprintf(end.lost, sizeof end.lost, "%s ended by signal %d", killed ? "mpirun" : "a rank",
                 status - 128);
    }
    return end;
}

static int run_launcher(char **list, JobEnd *end)
{
    char text[24];
    snprintf(text, sizeof text, "%ld", (long)getpid());
    setenv(OWN_PID, text, 1);
    int told = offer_end();
    sigset_t waited, before;
    fill_waited(&waited);
    signals_unshield();
    sigprocmask(SIG_BLOCK, &waited, &before);
    fflush(NULL);
    bool terminal = isatty(STDIN_FILENO);
    prctl(PR_SET_CHILD_SUBREAPER, 1UL);
    pid_t mpirun = fork();
    if (mpirun == 0) {
        become(list, &waited, terminal);
    }
    int code = mpirun > 0 ? 0 : err_set(ERR_FAILED, "no process for mpirun: %s", strerror(errno));
    if (code == 0) {
        bool killed;
        int status = stay(mpirun, &waited, &killed);
        end_left(&waited);
        *end = conclude(told, status, killed);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0UL);
    if (told >= 0) {
        close(told);
    }
    unsetenv(OWN_END);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signals_shield();
    unsetenv(OWN_PID);
    return code;
}

void launch_look(void)
{
    static _Atomic double next; /* of any thread */
    double now = clock_seconds();
    if (getenv(OWN_PID) == NULL || now < atomic_load(&next)) {
        return;
    }
    atomic_store(&next, now + LOOK_EVERY);
    if (!process_is_alive((pid_t)number_in(OWN_PID))) {
        signals_request(ERR_TERMINATED);
    }
}

int comm_launch(int ranks, char *const *argv, const char *again, JobEnd *end)
{
    const MpiModule *module = NULL;
    int code = module_load(&module);
    if (code != 0) {
        return code;
    }
    char *launcher = find_launcher(module);
    if (launcher == NULL) {
        return err_set(ERR_FAILED,
                       "no mpirun on PATH to start %d ranks with: install it "
                       "(Debian, Ubuntu: openmpi-bin), or name it in " LAUNCHER,
                       ranks);
    }
    char program[PATH_MAX];
    bool known = process_program(program);
    int count = 0, n = 0;
    while (argv[count] != NULL && strcmp(argv[count], ":") != 0) {
        count++;
    }
    if (argv[count] != NULL) { /* behind it mpirun expects another program to start */
        free(launcher);
        return err_set(ERR_INPUT,
                       "an argument is \":\", which is a sign to mpirun: write \"./:\" for a path");
    }
    char **list = mem_zalloc((size_t)(count + FIXED_ARGUMENTS), sizeof *list);
    char text[16];
    snprintf(text, sizeof text, "%d", ranks);
    list[n++] = launcher;
    list[n++] = mem_strdup("-n");
    list[n++] = mem_strdup(text);
    if (module->is_open_mpi) {
        n += open_mpi_arguments(list + n, ranks);
    } else { /* MPICH: this machine alone, also inside a job that has others */
        setenv("HYDRA_LAUNCHER", "fork", 0);
        setenv("HYDRA_RMK", "user", 0);
    }
    list[n++] = mem_strdup(known ? program : argv[0]);
    for (int i = 1; i < count; i++) {
        list[n++] = mem_strdup(argv[i]);
    }
    setenv(OWN_MARK, text, 1);
    if (again != NULL) {
        setenv(OWN_AGAIN, again, 1);
    }
    code = run_launcher(list, end);
    unsetenv(OWN_AGAIN);
    unsetenv(OWN_MARK);
    mem_free_list(list, (size_t)n);
    return code;
}
