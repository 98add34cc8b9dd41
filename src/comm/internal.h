#pragma once
/* Shared by the files of src/comm. */
#include "comm/board.h"
#include "comm/channel.h"
#include "comm/mpi_module.h"

#include <stdatomic.h>

typedef struct Worker Worker;

/* What the ranks know of each other from the start. */
typedef struct {
    int64_t pid;
    uint64_t pid_space; /* processes of one space can be looked up by pid */
    char host[BOARD_NAME_SIZE];
} Peer;

struct Comm {
    CommOptions options; /* board: a copy */
    int rank, ranks, local_rank, local_ranks;
    Peer *peers; /* (ranks) */
    char library[MPI_MODULE_TEXT];
    Board *board;
    BoardMet device_met;
    Worker *worker;         /* NULL: one rank */
    atomic_bool lost, told; /* a collective has failed; a failure is told of */
    _Atomic(CommFailed *) failed;
    void *failed_user;
};

/* collective.c: the collectives themselves, over messages. Called by the worker's thread alone. */
typedef struct Engine Engine;
Engine *engine_new(Comm *comm, const MpiModule *module);
void engine_free(Engine *engine);
/* 0, or ERR_FAILED with the message set on this thread. */
int engine_run(Engine *engine, const Work *work);

/* worker.c: the thread that makes all calls of MPI. It does what is put one after the other; the
 * numbers of works are the same on every rank because every rank puts the same works in the same
 * order. */
int worker_open(Comm *comm, const MpiModule *module, MpiWorld *world, Worker **out);
bool worker_has_failed(Worker *worker); /* a work, whose error was returned */
void worker_close(Worker *worker);      /* finalizes MPI; after a failure it ends the job instead */
/* The ranks of comm are known: works may be put. */
void worker_start(Worker *worker);
/* Another board from now on; the old one is closed. Nothing is put at the time. */
void worker_set_board(Worker *worker, Board *board);
int64_t worker_put(Worker *worker, Work work);
/* Until the work of this number is done; the error of it, or of one before it. */
int worker_wait(Worker *worker, int64_t number);
int64_t worker_last(const Worker *worker); /* number put last */
/* Seconds spent in works that are no control, since the last call. */
double worker_take_busy(Worker *worker);
void worker_abort(Worker *worker, int status) __attribute__((noreturn));
/* The worker is asked to end the job: waits of the engine stop. */
bool worker_is_ending(Worker *worker);

/* wait.c: what a rank that has waited for too long finds out and says. True: it gives up, and text
 * has the reason. */
bool wait_is_over(Comm *comm, BoardWait wait, BoardMet *met, char text[BOARD_TEXT_SIZE]);
/* A rank of this machine that is no more, or -1. */
int wait_find_dead(const Comm *comm);
void wait_explain_end(Comm *comm, const BoardWait *wait, int dead, char text[BOARD_TEXT_SIZE]);
/* Until this rank sees on its board what rank 0 has written there: ERR_FAILED when it does not,
 * because their folders are not one. */
int wait_for_first(Comm *comm);

/* sum.c: out (count) = the sum of parts[0], parts[1], ... in this order, each (count). Sums of
 * bf16 are made in f32 and rounded once. out may be one of the parts. */
void sum_parts(void *out, const void *const *parts, int ranks, int64_t count, DType dtype);

/* launch.c: how ranks are started, as a launcher left it in the environment. Ranks of the job that
 * this process was started in: 0 when it was not started as a rank. */
int launch_ranks(void);

/* A warning, before MPI starts, of what makes Open MPI end the process in its start: srun
 * without PMIx. */
void launch_warn(const MpiModule *module);
/* ERR_FAILED saying how to start them instead: launched as so many ranks, of which MPI sees
 * others. */
int launch_refuse(const MpiModule *module, const MpiWorld *world, int launched);

/* Tells the process that stays for these ranks that one of them is lost; -1: which is not known. */
void launch_tell_lost(const char *text, int rank);
/* Why the job ends; false: no such process is there. */
bool launch_tell_why(const char *text);
/* Whether the process that stays for these ranks (comm_launch) has ended; then signals_request.
 * Twice a second at most, however often it is called. */
void launch_look(void);

/* module.c: loads the module that brings MPI, which stays until the process ends. ERR_FAILED with
 * what to install when it is not there or does not load. Looked for: $PACER_MPI_MODULE; beside the
 * program; one folder up; ../lib/pacer. */
int module_load(const MpiModule **out);
