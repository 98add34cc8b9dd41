#pragma once
/* Ranks: processes that train one model together, each with its own copy of it.
 *
 * There are two ways between them. Control (comm_*): small values in host memory, waited for; every
 * rank makes the same calls in the same order. Tensors (channel_*): a queue of collectives beside
 * the computation, in host memory through MPI or in a GPU's memory through NCCL; what is queued
 * starts once the computation given to the backend so far is done, and channel_wait makes the
 * computation given from then on wait for it. Counts are in elements.
 *
 * MPI is loaded when there is more than one rank, and never before (mpi.c is a module of its
 * own); NCCL likewise. A rank that is missed for longer than the timeout ends the job: every
 * rank keeps its step and the number of its last collective where the others can read it
 * (CommOptions.board), and the message names the rank that is behind. */
#include "tensor/backend.h"

typedef struct Comm Comm;
typedef struct Channel Channel;

typedef struct {
    double timeout_s;  /* to wait for the other ranks; 0: for ever */
    const char *board; /* folder that all ranks see, for their whereabouts; NULL: none is kept */
    bool shared_gpus;  /* ranks outnumber GPUs: NCCL is told that each is a host of its own */
} CommOptions;

/* This process was started as a rank (by mpirun, also as the only one, by srun or by
 * comm_launch). */
bool comm_is_launched(void);

/* How a job ended. lost: that it lost a rank, which died of a signal or was missed, and which one
 * as far as that is known; "": it did not, so that the same job would end the same way again. */
typedef struct {
    int status; /* exit status */
    char lost[256];
    int lost_number;    /* of the rank that is lost, counted from 1; 0: not known */
    char why[1024];     /* what a rank that ended it had to say; "": none did */
    char folder[4096];  /* run directory whose record the job has begun; "": none */
    int64_t saved_step; /* of the last checkpoint that this job has made; 0: none */
} JobEnd;

/* Starts this program again as so many ranks on this machine, through mpirun, and waits for
 * their end; signals are handed on to them. argv: as main has it. again: a text on why they are
 * started another time, which comm_restarted then gives them; NULL: they are not. An error says
 * what is missing. */
int comm_launch(int ranks, char *const *argv, const char *again, JobEnd *end);
const char *comm_restarted(
    void); /* NULL: as the user asked, or as part of another launcher's job */

/* Tell the process that waits for these ranks, if there is one, of a checkpoint, and of the run
 * whose record it completes should they be unable to. */
void comm_tell_saved(int64_t step);
void comm_tell_folder(const char *dir);

/* What a rank that comm_launch has started returns from main in place of its exit status, which
 * it tells the process that waits for it: mpirun takes any status but 0 for an accident, and
 * says so at length. Elsewhere the status. */
int comm_end_rank(int status);

/* One rank without MPI when the process was not launched as one of several. ERR_FAILED or
 * ERR_INPUT saying what is missing and how to get it. What fails once MPI has joined the ranks
 * is said here and ends all of them. */
int comm_open(CommOptions options, Comm **out);
void comm_close(Comm *comm); /* all ranks; NULL is fine */

int comm_rank(const Comm *comm);
int comm_ranks(const Comm *comm);
int comm_local_rank(const Comm *comm); /* among those on this host */
int comm_local_ranks(const Comm *comm);
const char *comm_host(const Comm *comm);
const char *comm_library(const Comm *comm); /* "Open MPI 4.1.4"; "none" */

/* Where this rank is, for the others' messages. */
void comm_at_step(Comm *comm, int64_t step);
/* This rank goes to, or comes from, large files: the others wait for it longer meanwhile. */
void comm_at_files(Comm *comm, bool at_files);

/* Control. Each returns 0, or an error that names the rank that is missing. */
int comm_barrier(Comm *comm, const char *what);
int comm_sum(Comm *comm, double *values, int count); /* in place; the same bits on every rank */
int comm_max(Comm *comm, double *values, int count);
int comm_broadcast(Comm *comm, void *bytes, size_t count, int root);
/* Whether all ranks have succeeded: code itself where it is an error, else the error of another
 * rank. NULL: one rank. */
int comm_agree(Comm *comm, int code);
/* all: (ranks, bytes), everywhere. */
int comm_gather(Comm *comm, const void *mine, size_t bytes, void *all);

/* Called once when this rank fails and others may not know: by comm_tell_failed, comm_abort or a
 * collective, on any thread, before the job ends; not where another process stays for the ranks
 * (JobEnd.why). lost: a collective has failed, for which another rank is missed. */
typedef void CommFailed(void *user, const char *why, bool lost);
void comm_on_failure(Comm *comm, CommFailed *failed, void *user); /* NULL: nobody is called */
void comm_tell_failed(Comm *comm, const char *why);
void comm_lost(Comm *comm); /* a device's collective has failed */
/* The first rank's host and process. */
const char *comm_first_host(const Comm *comm);
int64_t comm_first_pid(const Comm *comm);

/* Ends every rank of the job with this exit status after the caller has said why, which is
 * err_message. */
void comm_abort(Comm *comm, int status) __attribute__((noreturn));

/* Ranks first, first + step, ...: so many. */
typedef struct {
    int first, step, count;
} RankGroup;

/* Tensors of the backend's memory. */
int channel_open(Comm *comm, Backend *backend, Channel **out);
void channel_close(Channel *channel);

/* data (count): the sum over ranks, in place, the same bits on every rank. f32, f64, bf16, i32. */
void channel_all_reduce(Channel *channel, void *data, int64_t count, DType dtype);
/* out (count): this rank's part of the sum of in (ranks, count). out may be its own part of in. */
void channel_reduce_scatter(Channel *channel, const void *in, void *out, int64_t count,
                            DType dtype);
/* out (ranks, count): the parts `in` (count) of all ranks in order. in may be its own part of
 * out. */
void channel_all_gather(Channel *channel, const void *in, void *out, int64_t count, DType dtype);

/* Collectives that are queued from now on are among these ranks, this one included; their `ranks`
 * above is the group's. All ranks queue at the same time, each for its group of as many. At first
 * among all. */
void channel_among(Channel *channel, RankGroup group);
/* Before that: groups of `size` ranks that follow each other, and of those with the same place in
 * these. size divides the ranks; 0: of all, which are there. Once, all ranks, outside recorded
 * bodies. */
int channel_make_groups(Channel *channel, int size);

/* What is computed from now on sees the results of everything queued. On the host this waits; on
 * a device the stream does, and what is queued inside a recorded body (Backend.replay) is waited
 * for inside it. An error of a collective ends the job. */
void channel_wait(Channel *channel);

/* The same of what was queued up to here alone: ticket, where the last of it was queued;
 * wait_for, in the same recorded body, where it is needed. Tickets rise, and a wait for one is a
 * wait for all before it; a second wait does nothing. */
int64_t channel_ticket(Channel *channel);
void channel_wait_for(Channel *channel, int64_t ticket);

/* Writes how many nanoseconds the computation has stalled in waits so far into *ns, which is
 * memory of the backend, in order with the computation: what lies between two of these is their
 * difference, recorded or not. */
void channel_note_stalled(Channel *channel, int64_t *ns);

/* Seconds since the last call: of collectives, and the time it stalled in waits for them.
 * On a device both are known when the device has done the work; false: not measured there. */
typedef struct {
    double busy_s, exposed_s;
    int64_t calls;
    double bytes; /* payload, as counted by nccl-tests' algorithm bandwidth */
} ChannelTimes;
bool channel_take_times(Channel *channel, ChannelTimes *times);

/* Communication that nobody waited for: all of it less what is exposed. */
static inline double channel_hidden(const ChannelTimes *times)
{
    return times->busy_s > times->exposed_s ? times->busy_s - times->exposed_s : 0;
}

/* A collective, from when this rank began with it, so what others are late is in it; or a wait
 * that had something to wait for. */
typedef struct {
    const char *name; /* "all-reduce", ...; "wait" */
    bool is_wait;
    int tag;                  /* of a collective: channel_tag's */
    double bytes;             /* of a collective: payload */
    int64_t start_ns, end_ns; /* of clock_seconds; in a device's memory, of the device's clock */
} ChannelSpan;

/* Has up to `capacity` spans kept; 0: no more, and not while recordings (Backend.replay) made in
 * between exist. ERR_MEMORY. With one rank there are none. */
int channel_trace(Channel *channel, int64_t capacity);
/* What is queued from now on is kept in place of what was (on), or not at all. A recorded body
 * that is replayed queues nothing: its spans stay, with the times of the replay. */
void channel_trace_next(Channel *channel, bool on);
/* In the order in which they were queued; complete once all that was queued is done. Valid until
 * the next call. */
const ChannelSpan *channel_spans(const Channel *channel, int64_t *count);
void channel_tag(Channel *channel, int tag); /* of what is queued from now on, in its spans */
