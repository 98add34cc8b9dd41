/* Starting ranks on this machine: the process becomes mpirun, which starts the same program that many
 * times. */
#include "comm/launch.h"

#include "comm/comm.h"
#include "comm/module.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN_MARK "PACER_LAUNCHED_RANKS" /* set for ranks that pacer starts itself */
#define FIXED_ARGUMENTS 16

static int number_in(const char *name)
{
    const char *text = getenv(name);
    int number = text != NULL ? atoi(text) : 0;
    return number > 0 ? number : 0;
}

int launch_ranks(void)
{
    /* Open MPI; MPICH, Intel MPI and Slurm's PMI; MVAPICH; pacer, in front of whatever else it was. */
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                                        OWN_MARK};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int ranks = number_in(names[i]);
        if (ranks > 0) {
            return ranks;
        }
    }
    /* An interactive shell of Slurm is a step of one task: no rank. A script of sbatch is no step. */
    int tasks = getenv("SLURM_PROCID") != NULL && getenv("SLURM_STEP_ID") != NULL
                    ? number_in("SLURM_STEP_NUM_TASKS")
                    : 0;
    return tasks > 1 ? tasks : 0;
}

bool comm_is_launched(void)
{
    return launch_ranks() > 0;
}

/* Cores that this process may run on, two threads of one core counted once; 0: the system does not say. */
static int count_cores(void)
{
    cpu_set_t allowed;
    int cores = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return 0;
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[96];
        int first = -1;
        if (!CPU_ISSET(cpu, &allowed)) {
            continue;
        }
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        FILE *file = fopen(path, "r");
        if (file == NULL) {
            return 0;
        }
        cores += fscanf(file, "%d", &first) == 1 && first == cpu;
        fclose(file);
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
    if (module->launcher[0] != '\0' && access(module->launcher, X_OK) == 0) {
        return mem_strdup(module->launcher);
    }
    char *found = find_program("mpirun");
    return found != NULL ? found : find_program("mpiexec");
}

/* Open MPI binds each rank to a core by default and refuses more ranks than cores. With enough cores each
 * rank gets an equal share of them; else none is bound. Returns the number of arguments. */
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

int comm_launch(int ranks, char *const *argv)
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
                       "(Debian, Ubuntu: openmpi-bin)",
                       ranks);
    }
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    int count = 0, n = 0;
    while (argv[count] != NULL) {
        count++;
    }
    char **list = mem_zalloc((size_t)(count + FIXED_ARGUMENTS), sizeof *list);
    char text[16];
    snprintf(text, sizeof text, "%d", ranks);
    list[n++] = launcher;
    list[n++] = mem_strdup("-n");
    list[n++] = mem_strdup(text);
    if (module->is_open_mpi) {
        n += open_mpi_arguments(list + n, ranks);
    }
    program[length > 0 ? length : 0] = '\0';
    list[n++] = mem_strdup(length > 0 ? program : argv[0]);
    for (int i = 1; i < count; i++) {
        list[n++] = mem_strdup(argv[i]);
    }
    setenv(OWN_MARK, text, 1);
    fflush(NULL);
    execv(launcher, list);
    code = err_set(ERR_FAILED, "%s: cannot be started: %s", launcher, strerror(errno));
    unsetenv(OWN_MARK);
    for (int i = 0; i < n; i++) {
        free(list[i]);
    }
    free(list);
    return code;
}
