/* Channels: checks that all kinds share, and those in host memory. One rank has nothing to send: copies,
 * where in and out differ, are all that is left. */
#include "comm/internal.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static void host_close(Channel *channel)
{
    if (channel->comm->worker != NULL) {
        worker_wait(channel->comm->worker, worker_last(channel->comm->worker));
    }
    free(channel);
}

static void host_run(Channel *channel, const Work *work)
{
    if (channel->comm->worker != NULL) {
        worker_put(channel->comm->worker, *work);
    } else if (work->in != NULL && work->in != work->out && work->count > 0) {
        memmove(work->out, work->in, (size_t)work->count * work->size);
    }
}

static void host_wait(Channel *channel)
{
    Worker *worker = channel->comm->worker;
    if (worker == NULL) {
        return;
    }
    double start = clock_seconds();
    if (worker_wait(worker, worker_last(worker)) != 0) {
        log_error("%s", err_message());
        comm_abort(channel->comm, err_exit_status(ERR_FAILED));
    }
    channel->times.exposed_s += clock_seconds() - start;
}

static bool host_take_times(Channel *channel, ChannelTimes *times)
{
    Worker *worker = channel->comm->worker;
    *times = channel->times;
    times->busy_s = worker != NULL ? worker_take_busy(worker) : 0;
    channel->times = (ChannelTimes){0};
    return true;
}

static const ChannelTable host_table = {host_close, host_run, host_wait, host_take_times};

int channel_open(Comm *comm, Backend *backend, Channel **out)
{
    if (backend->device != NULL) {
        return device_channel_open(comm, backend, out);
    }
    Channel *channel = mem_zalloc(1, sizeof *channel);
    channel->table = &host_table;
    channel->comm = comm;
    *out = channel;
    return 0;
}

void channel_close(Channel *channel)
{
    if (channel != NULL) {
        channel->table->close(channel);
    }
}

/* parts: of `count` elements that the payload has. */
static void run(Channel *channel, Work work, int parts)
{
    PACER_ASSERT(work.count >= 0, "%s of %lld elements", work.name, (long long)work.count);
    work.size = dtype_size(work.dtype);
    channel->times.calls++;
    channel->times.bytes += (double)parts * (double)work.count * (double)work.size;
    if (work.count > 0) {
        channel->table->run(channel, &work);
    }
}

void channel_all_reduce(Channel *channel, void *data, int64_t count, DType dtype)
{
    run(channel,
        (Work){.kind = WORK_ALL_REDUCE,
               .name = "all-reduce",
               .out = data,
               .count = count,
               .dtype = dtype},
        1);
}

void channel_reduce_scatter(Channel *channel, const void *in, void *out, int64_t count, DType dtype)
{
    run(channel,
        (Work){.kind = WORK_REDUCE_SCATTER,
               .name = "reduce-scatter",
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype},
        channel->comm->ranks);
}

void channel_all_gather(Channel *channel, const void *in, void *out, int64_t count, DType dtype)
{
    run(channel,
        (Work){.kind = WORK_ALL_GATHER,
               .name = "all-gather",
               .in = in,
               .out = out,
               .count = count,
               .dtype = dtype},
        channel->comm->ranks);
}

void channel_broadcast(Channel *channel, void *data, int64_t count, DType dtype, int root)
{
    PACER_ASSERT(root >= 0 && root < channel->comm->ranks, "root %d of %d ranks", root,
                 channel->comm->ranks);
    run(channel,
        (Work){.kind = WORK_BROADCAST,
               .name = "broadcast",
               .out = data,
               .count = count,
               .dtype = dtype,
               .root = root},
        1);
}

void channel_wait(Channel *channel)
{
    channel->table->wait(channel);
}

bool channel_take_times(Channel *channel, ChannelTimes *times)
{
    return channel->table->take_times(channel, times);
}
