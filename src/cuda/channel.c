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

typedef struct {
    Channel base; /* first */
    CudaBackend *cuda;
    Nccl nccl;
    NcclComm *nccl_comm; /* NULL: one rank */
    cudaStream_t stream;
    cudaEvent_t computed, communicated[TICKETS];
    DeviceMarks *marks;
    volatile DeviceTotals *shown;
    DeviceTotals taken; /* by the last take_times */
    pthread_t watcher;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool joined, closing; /* mutex */
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
    log_error("%s", text);
    comm_abort(c->base.comm, err_exit_status(ERR_FAILED));
}

static void nccl_failed(DeviceChannel *c, const char *what, int error)
{
    char text[512], whole[640];
    nccl_explain(&c->nccl, c->nccl_comm, error, text, sizeof text);
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

static int start(DeviceChannel *c, const Work *work)
{
    size_t count = (size_t)work->count;
    int type = nccl_type(work->dtype);
    switch (work->kind) {
    case WORK_ALL_REDUCE:
        return c->nccl.all_reduce(work->out, work->out, count, type, NCCL_SUM, c->nccl_comm,
                                  c->stream);
    case WORK_REDUCE_SCATTER:
        return c->nccl.reduce_scatter(work->in, work->out, count, type, NCCL_SUM, c->nccl_comm,
                                      c->stream);
    case WORK_ALL_GATHER:
        return c->nccl.all_gather(work->in, work->out, count, type, c->nccl_comm, c->stream);
    case WORK_BROADCAST:
        return c->nccl.broadcast(work->out, work->out, count, type, work->root, c->nccl_comm,
                                 c->stream);
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
    int error = NCCL_OK;
    if (c->joined) {
        left = JOIN_NUMBER + c->shown->left;
        entered = JOIN_NUMBER + c->shown->entered;
        int status = c->nccl.async_error(c->nccl_comm, &error);
        error = status != NCCL_OK ? status : error;
    }
    comm_device_entered(comm, entered);
    if (error != NCCL_OK && error != NCCL_IN_PROGRESS) {
        nccl_failed(c, "collectives on the GPU", error);
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
    c->nccl.leave(c->nccl_comm);
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

static const ChannelTable device_table = {.close = device_close,
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
    NcclId id = {{0}};
    int code = agree(comm, nccl_load(&c->nccl), "load NCCL");
    if (code == 0 && comm_rank(comm) == 0) {
        int error = c->nccl.new_id(&id);
        if (error != NCCL_OK) {
            nccl_failed(c, "starting NCCL", error);
        }
    }
    if (code == 0) {
        code = comm_broadcast(comm, &id, sizeof id, 0);
    }
    if (code != 0) {
        free(c);
        return code;
    }
    c->base.table = &device_table;
    prepare(c);
    comm_device_entered(comm, JOIN_NUMBER);
    start_watch(c);
    NcclComm *joined = NULL;
    int error = c->nccl.join(&joined, comm_ranks(comm), id, comm_rank(comm));
    if (error != NCCL_OK) {
        nccl_failed(c, "starting NCCL", error);
    }
    pthread_mutex_lock(&c->mutex);
    c->nccl_comm = joined;
    c->joined = true;
    pthread_mutex_unlock(&c->mutex);
    *out = &c->base;
    return 0;
}
