#include "comm/internal.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static Peer describe_self(void)
{
    Peer self = {.pid = getpid()};
    struct stat space;
    if (gethostname(self.host, sizeof self.host - 1) != 0 || self.host[0] == '\0') {
        snprintf(self.host, sizeof self.host, "localhost");
    }
    if (stat("/proc/self/ns/pid", &space) == 0) {
        self.pid_space = (uint64_t)space.st_ino;
    }
    return self;
}

/* Everything that takes no other rank. */
static void fill(Comm *comm, CommOptions options, const MpiWorld *world)
{
    comm->options = options;
    comm->options.board = options.board != NULL ? mem_strdup(options.board) : NULL;
    comm->rank = world->rank;
    comm->ranks = world->ranks;
    comm->local_rank = world->local_rank;
    comm->local_ranks = world->local_ranks;
    snprintf(comm->library, sizeof comm->library, "%s", world->library);
    comm->peers = mem_zalloc((size_t)comm->ranks, sizeof *comm->peers);
    board_open(NULL, 0, comm->rank, "", &comm->board);
}

/* Who the others are, and a board that belongs to this job. */
static int introduce(Comm *comm)
{
    uint64_t job = 0;
    if (getrandom(&job, sizeof job, 0) != (ssize_t)sizeof job) {
        job = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
    }
    Peer self = describe_self();
    int code = comm_broadcast(comm, &job, sizeof job, 0);
    if (code == 0) {
        code = comm_gather(comm, &self, sizeof self, comm->peers);
    }
    if (code != 0 || comm->options.board == NULL) {
        return code;
    }
    Board *board;
    code = board_open(comm->options.board, job, comm->rank, self.host, &board);
    if (code != 0) {
        return code;
    }
    worker_set_board(comm->worker, board);
    code = comm_barrier(comm, "start");
    return code != 0 ? code : wait_for_first(comm);
}

static int open_ranks(CommOptions options, int expected, Comm **out)
{
    const MpiModule *module = NULL;
    int code = module_load(&module);
    if (code != 0) {
        return code;
    }
    MpiWorld world = {0};
    Comm *comm = mem_zalloc(1, sizeof *comm);
    launch_warn(module);
    code = worker_open(comm, module, &world, &comm->worker);
    if (code != 0) {
        free(comm);
        return code;
    }
    fill(comm, options, &world);
    worker_start(comm->worker);
    if (comm->ranks != expected) {
        /* Each of them finds the same; none waits for another. */
        return launch_refuse(module, &world, expected);
    }
    code = introduce(comm);
    if (code != 0) {
        log_error("%s", err_message()); /* the others may not know, and would wait */
        worker_abort(comm->worker, err_exit_status(code));
    }
    *out = comm;
    return 0;
}

int comm_open(CommOptions options, Comm **out)
{
    int expected = launch_ranks();
    if (expected > 1) {
        return open_ranks(options, expected, out);
    }
    MpiWorld alone = {.ranks = 1, .local_ranks = 1, .library = "none"};
    Comm *comm = mem_zalloc(1, sizeof *comm);
    fill(comm, options, &alone);
    comm->peers[0] = describe_self();
    *out = comm;
    return 0;
}

void comm_close(Comm *comm)
{
    if (comm == NULL) {
        return;
    }
    if (comm->worker != NULL) {
        if (!worker_has_failed(comm->worker) && comm_barrier(comm, "end") != 0) {
            log_error("%s", err_message());
        }
        worker_close(comm->worker);
    }
    board_close(comm->board);
    free((char *)comm->options.board);
    free(comm->peers);
    free(comm);
}

int comm_rank(const Comm *comm)
{
    return comm->rank;
}

int comm_ranks(const Comm *comm)
{
    return comm->ranks;
}

int comm_local_rank(const Comm *comm)
{
    return comm->local_rank;
}

int comm_local_ranks(const Comm *comm)
{
    return comm->local_ranks;
}

const char *comm_host(const Comm *comm)
{
    return comm->peers[comm->rank].host;
}

const char *comm_first_host(const Comm *comm)
{
    return comm->peers[0].host;
}

int64_t comm_first_pid(const Comm *comm)
{
    return comm->peers[0].pid;
}

const char *comm_library(const Comm *comm)
{
    return comm->library;
}

void comm_at_step(Comm *comm, int64_t step)
{
    board_step(comm->board, step);
    launch_look();
}

void comm_at_files(Comm *comm, bool at_files)
{
    if (comm != NULL) {
        board_at_files(comm->board, at_files);
    }
}

static int control(Comm *comm, Work work)
{
    work.is_control = true;
    return worker_wait(comm->worker, worker_put(comm->worker, work));
}

int comm_barrier(Comm *comm, const char *what)
{
    if (comm->worker == NULL) {
        return 0;
    }
    char *name = mem_format("barrier '%s'", what);
    int code = control(comm, (Work){.kind = WORK_BARRIER, .name = name, .size = 1});
    free(name);
    return code;
}

int comm_broadcast(Comm *comm, void *bytes, size_t count, int root)
{
    PACER_ASSERT(root >= 0 && root < comm->ranks, "root %d of %d ranks", root, comm->ranks);
    if (comm->worker == NULL || count == 0) {
        return 0;
    }
    return control(comm, (Work){.kind = WORK_BROADCAST,
                                .name = "broadcast",
                                .out = bytes,
                                .count = (int64_t)count,
                                .size = 1,
                                .root = root});
}

static int gather(Comm *comm, const char *name, const void *mine, size_t bytes, void *all)
{
    if (comm->worker == NULL) {
        memmove(all, mine, bytes);
        return 0;
    }
    return control(comm, (Work){.kind = WORK_ALL_GATHER,
                                .name = name,
                                .in = mine,
                                .out = all,
                                .count = (int64_t)bytes,
                                .size = 1});
}

int comm_gather(Comm *comm, const void *mine, size_t bytes, void *all)
{
    return gather(comm, "gather", mine, bytes, all);
}

static double add(double a, double b)
{
    return a + b;
}

/* A NaN of any rank is not lost. */
static double larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

static int combine(Comm *comm, const char *name, double *values, int count,
                   double (*both)(double, double))
{
    if (comm->worker == NULL || count == 0) {
        return 0;
    }
    size_t bytes = (size_t)count * sizeof *values;
    double *all = mem_zalloc((size_t)comm->ranks, bytes);
    int code = gather(comm, name, values, bytes, all);
    if (code == 0) {
        memcpy(values, all, bytes);
        for (int k = 1; k < comm->ranks; k++) {
            for (int i = 0; i < count; i++) {
                values[i] = both(values[i], all[(size_t)k * (size_t)count + (size_t)i]);
            }
        }
        free(all);
    } /* else a message may still come into it */
    return code;
}

int comm_sum(Comm *comm, double *values, int count)
{
    return combine(comm, "sum", values, count, add);
}

int comm_max(Comm *comm, double *values, int count)
{
    return combine(comm, "maximum", values, count, larger);
}

int comm_agree(Comm *comm, int code)
{
    if (comm == NULL || comm->worker == NULL) {
        return code;
    }
    char *why = code != 0 ? mem_strdup(err_message()) : NULL;
    double worst = -code;
    int told = comm_max(comm, &worst, 1);
    if (code != 0) {
        err_set(code, "%s", why);
    } else if (told != 0) {
        code = told;
    } else if (worst != 0) {
        code = err_set(-(int)worst, "another rank failed");
    }
    free(why);
    return code;
}

void comm_on_failure(Comm *comm, CommFailed *failed, void *user)
{
    comm->failed_user = user;
    atomic_store(&comm->failed, failed);
}

void comm_lost(Comm *comm)
{
    atomic_store(&comm->lost, true);
}

void comm_tell_failed(Comm *comm, const char *why)
{
    if (atomic_exchange(&comm->told, true)) {
        return;
    }
    char *text = mem_format("rank %d: %s", comm->rank, why);
    CommFailed *failed = atomic_load(&comm->failed);
    if (!launch_tell_why(text) && failed != NULL) {
        failed(comm->failed_user, text, atomic_load(&comm->lost));
    }
    free(text);
}

void comm_abort(Comm *comm, int status)
{
    if (comm != NULL && comm->worker != NULL) {
        comm_tell_failed(comm, err_message());
        worker_abort(comm->worker, status);
    }
    fflush(NULL);
    _exit(status);
}
