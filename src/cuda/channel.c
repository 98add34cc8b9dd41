/* Channels in the memory of a GPU, through NCCL, on a stream of their own.
 *
 * Events tie that stream to the one that computes: a collective starts behind the work given so
 * far, and a wait for it holds back what is given later. Nothing here waits on the host or
 * allocates once the channel is open, so that a step with its collectives can be recorded as a
 * CUDA graph. A thread of the host watches: an error inside NCCL, or a collective that the
 * device (channel_marks.h) has been in for longer than the timeout, ends the job. */
#include "comm/channel.h"
#include "cuda/channel_marks.h"
#include "cuda/internal.h"
#include "cuda/nccl.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define LOOK_EVERY 250000000L /* ns */
#define JOIN_NUMBER 1         /* joining NCCL is the first collective of a device; others follow */
/* Events for tickets. Each has its place by number; one that is taken again while its ticket was
 * not waited for yet is that of a later collective of the same stream, and the wait merely
 * longer. */
#define TICKETS 256

/* Whom a communicator of NCCL joins: all ranks, a group that follow each other, those with the same
 * place in these. The work of all of them is on one stream, in the same order on every rank. */
enum { AMONG_ALL, AMONG_GROUP, AMONG_COUNTERPARTS, COMMUNICATORS };

typedef struct {
    Channel base; /* first */
    CudaBackend *cuda;
    Nccl nccl;
    NcclComm *joined[COMMUNICATORS]; /* NULL: one rank; no groups */
    cudaStream_t stream;
    cudaEvent_t computed, communicated[TICKETS];
    DeviceMarks *marks;
    volatile DeviceTotals *shown;
    DeviceTotals taken; /* by the last take_times */
    pthread_t watcher;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool joining, closing; /* mutex */
} DeviceChannel;

static void one_rank_run(Channel *channel, const Work *work)
{
    if (work->in != NULL && work->in != work->out) {
        CUDA_CHECK(cudaMemcpyAsync(work->out, work->in, (size_t)work->count * work->size,
                                   cudaMemcpyDeviceToDevice,
                                   ((DeviceChannel *)channel)->cuda->stream));
    }
}

/* Nothing is ever queued, so there is nothing to wait for. */
static void one_rank_note_stalled(Channel *channel, int64_t *ns)
{
    CUDA_CHECK(cudaMemsetAsync(ns, 0, sizeof *ns, ((DeviceChannel *)channel)->cuda->stream));
}

static void one_rank_close(Channel *channel)
{
    free(channel);
}

static bool one_rank_take_times(Channel *channel, ChannelTimes *times)
{
    *times = channel->times;
    channel->times = (ChannelTimes){0};
    return true;
}

static const ChannelTable one_rank_table = {
    .close = one_rank_close,
    .run = one_rank_run,
    .note_stalled = one_rank_note_stalled,
    .take_times = one_rank_take_times,
};

static void end_job(DeviceChannel *c, const char *text) __attribute__((noreturn));

static void end_job(DeviceChannel *c, const char *text)
{
    err_set(ERR_FAILED, "%s", text);
    log_error("%s", err_message());
    comm_lost(c->base.comm);
    comm_abort(c->base.comm, err_exit_status(ERR_FAILED));
}

static void nccl_failed(DeviceChannel *c, const char *what, int error)
{
    char text[512], whole[640];
    nccl_explain(&c->nccl, c->joined[AMONG_ALL], error, text, sizeof text);
    snprintf(whole, sizeof whole, "%s: %s", what, text);
    end_job(c, whole);
}

static int nccl_type(DType dtype)
{
    switch (dtype) {
    case DT_F32:
        return NCCL_FLOAT32;
    case DT_BF16:
        return NCCL_BFLOAT16;
    case DT_F64:
        return NCCL_FLOAT64;
    case DT_I32:
        return NCCL_INT32;
    case DT_E4M3:
    case DT_REST:
        break;
    }
    PACER_ASSERT(false, "dtype %d", (int)dtype);
}

static NcclComm *communicator(const DeviceChannel *c, RankGroup among)
{
    bool all = among.count == comm_ranks(c->base.comm);
    return c->joined[all ? AMONG_ALL : among.step == 1 ? AMONG_GROUP : AMONG_COUNTERPARTS];
}

static int start(DeviceChannel *c, const Work *work)
{
    size_t count = (size_t)work->count;
    int type = nccl_type(work->dtype);
    NcclComm *among = communicator(c, work->among);
    switch (work->kind) {
    case WORK_ALL_REDUCE:
        return c->nccl.all_reduce(work->out, work->out, count, type, NCCL_SUM, among, c->stream);
    case WORK_REDUCE_SCATTER:
        return c->nccl.reduce_scatter(work->in, work->out, count, type, NCCL_SUM, among, c->stream);
    case WORK_ALL_GATHER:
        return c->nccl.all_gather(work->in, work->out, count, type, among, c->stream);
    case WORK_BROADCAST:
        return c->nccl.broadcast(work->out, work->out, count, type, work->root, among, c->stream);
    case WORK_BARRIER:
        break;
    }
    PACER_ASSERT(false, "work of kind %d on a device", (int)work->kind);
}

static void device_run(Channel *channel, const Work *work)
{
    DeviceChannel *c = (DeviceChannel *)channel;
    ChannelSpan *span = work->span;
    CUDA_CHECK(cudaEventRecord(c->computed, c->cuda->stream));
    CUDA_CHECK(cudaStreamWaitEvent(c->stream, c->computed, 0));
    device_mark(c->marks, c->shown, MARK_ENTER, 0, span != NULL ? &span->start_ns : NULL,
                c->stream);
    CUDA_LAUNCHED("mark");
    int error = start(c, work);
    if (error != NCCL_OK) {
        nccl_failed(c, work->name, error);
    }
    device_mark(c->marks, c->shown, MARK_LEAVE, work->bytes, span != NULL ? &span->end_ns : NULL,
                c->stream);
    CUDA_LAUNCHED("mark");
    channel->queued++;
}

static void device_ticket(Channel *channel)
{
    DeviceChannel *c = (DeviceChannel *)channel;
    CUDA_CHECK(cudaEventRecord(c->communicated[channel->queued % TICKETS], c->stream));
}

static void device_wait(Channel *channel, int64_t ticket)
{
    DeviceChannel *c = (DeviceChannel *)channel;
    ChannelSpan wait = {.name = "wait", .is_wait = true};
    ChannelSpan *span = channel_new_span(channel, wait);
    device_mark(c->marks, c->shown, MARK_STALL, 0, span != NULL ? &span->start_ns : NULL,
                c->cuda->stream);
    CUDA_LAUNCHED("mark");
    CUDA_CHECK(cudaStreamWaitEvent(c->cuda->stream, c->communicated[ticket % TICKETS], 0));
    device_mark(c->marks, c->shown, MARK_RESUME, 0, span != NULL ? &span->end_ns : NULL,
                c->cuda->stream);
    CUDA_LAUNCHED("mark");
}

static void device_note_stalled(Channel *channel, int64_t *ns)
{
    DeviceChannel *c = (DeviceChannel *)channel;
    device_mark(c->marks, c->shown, MARK_STALLED, 0, ns, c->cuda->stream);
    CUDA_LAUNCHED("mark");
}

static bool device_take_times(Channel *channel, ChannelTimes *times)
{
    DeviceChannel *c = (DeviceChannel *)channel;
    DeviceTotals now = {.left = c->shown->left,
                        .busy_ns = c->shown->busy_ns,
                        .exposed_ns = c->shown->exposed_ns,
                        .bytes = c->shown->bytes};
    *times = (ChannelTimes){.busy_s = (double)(now.busy_ns - c->taken.busy_ns) * 1e-9,
                            .exposed_s = (double)(now.exposed_ns - c->taken.exposed_ns) * 1e-9,
                            .calls = now.left - c->taken.left,
                            .bytes = now.bytes - c->taken.bytes};
    c->taken = now;
    return true;
}

/* Has been in the same collective for so long that the others must be asked for. */
static void look(DeviceChannel *c, int64_t *number, double *since)
{
    Comm *comm = c->base.comm;
    int64_t entered = JOIN_NUMBER, left = 0;
    if (!c->joining) {
        left = JOIN_NUMBER + c->shown->left;
        entered = JOIN_NUMBER + c->shown->entered;
    }
    comm_device_entered(comm, entered);
    for (int i = 0; i < COMMUNICATORS && !c->joining && c->joined[i] != NULL; i++) {
        int error = NCCL_OK, status = c->nccl.async_error(c->joined[i], &error);
        error = status != NCCL_OK ? status : error;
        if (error != NCCL_OK && error != NCCL_IN_PROGRESS) {
            nccl_failed(c, "collectives on the GPU", error);
        }
    }
    double now = clock_seconds();
    if (left >= entered || entered != *number) {
        *number = entered;
        *since = now;
    }
    char text[COMM_REASON_SIZE];
    if (comm_device_overdue(comm, entered, now - *since, text)) {
        end_job(c, text);
    }
}

static void *watch(void *argument)
{
    DeviceChannel *c = argument;
    int64_t number = 0;
    double since = clock_seconds();
    prctl(PR_SET_NAME, "pacer-watch");
    pthread_mutex_lock(&c->mutex);
    while (!c->closing) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += LOOK_EVERY;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&c->wake, &c->mutex, &until);
        if (!c->closing) {
            look(c, &number, &since);
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static void start_watch(DeviceChannel *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int cause = pthread_create(&c->watcher, NULL, watch, c);
    PACER_ASSERT(cause == 0, "thread to watch a GPU's collectives: %s", strerror(cause));
}

static void stop_watch(DeviceChannel *c)
{
    pthread_mutex_lock(&c->mutex);
    c->closing = true;
    pthread_cond_signal(&c->wake);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->watcher, NULL);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->wake);
}

static void device_close(Channel *channel)
{
    DeviceChannel *c = (DeviceChannel *)channel;
    CUDA_CHECK(cudaStreamSynchronize(c->stream));
    CUDA_CHECK(cudaStreamSynchronize(c->cuda->stream));
    stop_watch(c);
    for (int i = COMMUNICATORS - 1; i >= 0; i--) {
        if (c->joined[i] != NULL) {
            c->nccl.leave(c->joined[i]);
        }
    }
    CUDA_CHECK(cudaEventDestroy(c->computed));
    for (int i = 0; i < TICKETS; i++) {
        CUDA_CHECK(cudaEventDestroy(c->communicated[i]));
    }
    CUDA_CHECK(cudaStreamDestroy(c->stream));
    CUDA_CHECK(cudaFree(c->marks));
    CUDA_CHECK(cudaFreeHost((void *)c->shown));
    free(c);
}

/* Pinned: the device writes it, and the host reads it when the device is done. */
static void *device_alloc(size_t bytes)
{
    void *block;
    if (cudaHostAlloc(&block, bytes, cudaHostAllocMapped) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    return block;
}

static void device_release(void *block)
{
    CUDA_CHECK(cudaFreeHost(block));
}

/* Those that are joined are told apart by an id that the first of them makes. */
static NcclId new_id(DeviceChannel *c, bool first)
{
    NcclId id = {{0}};
    int error = first ? c->nccl.new_id(&id) : NCCL_OK;
    if (error != NCCL_OK) {
        nccl_failed(c, "starting NCCL", error);
    }
    return id;
}

static void join(DeviceChannel *c, int which, RankGroup among, NcclId id)
{
    NcclComm *joined = NULL;
    int place = (comm_rank(c->base.comm) - among.first) / among.step;
    int error = c->nccl.join(&joined, among.count, id, place);
    if (error != NCCL_OK) {
        nccl_failed(c, "starting NCCL", error);
    }
    pthread_mutex_lock(&c->mutex);
    c->joined[which] = joined;
    pthread_mutex_unlock(&c->mutex);
}

/* The watcher takes what lasts too long meanwhile for a wait in joining. */
static void set_joining(DeviceChannel *c, bool joining)
{
    pthread_mutex_lock(&c->mutex);
    c->joining = joining;
    pthread_mutex_unlock(&c->mutex);
}

static int device_make_groups(Channel *channel, int size)
{
    DeviceChannel *c = (DeviceChannel *)channel;
    Comm *comm = channel->comm;
    int me = comm_rank(comm), ranks = comm_ranks(comm);
    RankGroup groups[] = {{me - me % size, 1, size}, {me % size, size, ranks / size}};
    NcclId *ids = mem_alloc((size_t)ranks * sizeof *ids); /* the first of each group's counts */
    int code = 0;
    PACER_ASSERT(c->joined[AMONG_GROUP] == NULL, "groups are made twice");
    for (int i = 0; i < 2 && code == 0; i++) {
        NcclId id = new_id(c, groups[i].first == me);
        code = comm_gather(comm, &id, sizeof id, ids);
        if (code == 0) {
            set_joining(c, true);
            join(c, AMONG_GROUP + i, groups[i], ids[groups[i].first]);
            set_joining(c, false);
        }
    }
    free(ids);
    return code;
}

static const ChannelTable device_table = {.close = device_close,
                                          .make_groups = device_make_groups,
                                          .run = device_run,
                                          .ticket = device_ticket,
                                          .wait = device_wait,
                                          .note_stalled = device_note_stalled,
                                          .take_times = device_take_times,
                                          .alloc = device_alloc,
                                          .release = device_release};

/* NCCL refuses two ranks on one GPU. Ranks that it takes for separate hosts talk through sockets
 * instead: right, and slow. What the user has set stays. */
static void pretend_hosts(const Comm *comm)
{
    char name[32];
    snprintf(name, sizeof name, "pacer-rank-%d", comm_rank(comm));
    setenv("NCCL_HOSTID", name, 0);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    setenv("NCCL_IB_DISABLE", "1", 0);
}

static void prepare(DeviceChannel *c)
{
    int least, greatest;
    CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_CHECK(cudaStreamCreateWithPriority(&c->stream, cudaStreamNonBlocking, greatest));
    CUDA_CHECK(cudaEventCreateWithFlags(&c->computed, cudaEventDisableTiming));
    for (int i = 0; i < TICKETS; i++) {
        CUDA_CHECK(cudaEventCreateWithFlags(&c->communicated[i], cudaEventDisableTiming));
    }
    CUDA_CHECK(cudaMalloc((void **)&c->marks, sizeof *c->marks));
    CUDA_CHECK(cudaMemset(c->marks, 0, sizeof *c->marks));
    void *shown;
    CUDA_CHECK(cudaHostAlloc(&shown, sizeof *c->shown, cudaHostAllocMapped));
    memset(shown, 0, sizeof *c->shown);
    c->shown = shown;
}

/* Every rank learns whether all of them can: else those that can would wait for the rest. */
static int agree(Comm *comm, int code, const char *what)
{
    double failed = code != 0;
    int asked = comm_max(comm, &failed, 1);
    if (code != 0 || asked != 0) {
        return code != 0 ? code : asked;
    }
    return failed > 0 ? err_set(ERR_FAILED, "another rank has failed to %s", what) : 0;
}

int cuda_channel_open(Backend *backend, Comm *comm, Channel **out)
{
    DeviceChannel *c = mem_zalloc(1, sizeof *c);
    c->base = (Channel){.table = &one_rank_table, .comm = comm};
    c->cuda = (CudaBackend *)backend;
    if (comm_ranks(comm) == 1) {
        *out = &c->base;
        return 0;
    }
    if (comm_shares_devices(comm)) {
        pretend_hosts(comm);
    }
    NcclId id;
    int code = agree(comm, nccl_load(&c->nccl), "load NCCL");
    if (code == 0) {
        id = new_id(c, comm_rank(comm) == 0);
        code = comm_broadcast(comm, &id, sizeof id, 0);
    }
    if (code != 0) {
        free(c);
        return code;
    }
    c->base.table = &device_table;
    prepare(c);
    comm_device_entered(comm, JOIN_NUMBER);
    c->joining = true;
    start_watch(c);
    join(c, AMONG_ALL, (RankGroup){0, 1, comm_ranks(comm)}, id);
    set_joining(c, false);
    *out = &c->base;
    return 0;
}
