/* Channels: checks that all kinds share, and those in host memory. One rank has nothing to send:
 * copies, where in and out differ, are all that is left. */
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
        channel->queued = worker_put(channel->comm->worker, *work);
    } else if (work->in != NULL && work->in != work->out && work->count > 0) {
        memmove(work->out, work->in, (size_t)work->count * work->size);
    }
}

static void host_wait(Channel *channel, int64_t ticket)
{
    double start = clock_seconds(), end;
    if (worker_wait(channel->comm->worker, ticket) != 0) {
        log_error("%s", err_message());
        comm_abort(channel->comm, err_exit_status(ERR_FAILED));
    }
    end = clock_seconds();
    channel->times.exposed_s += end - start;
    ChannelSpan *span = channel_new_span(channel, (ChannelSpan){.name = "wait", .is_wait = true});
    if (span != NULL) {
        span->start_ns = span_ns(start);
        span->end_ns = span_ns(end);
    }
}

static void host_note_stalled(Channel *channel, int64_t *ns)
{
    *ns = span_ns(channel->times.exposed_s);
}

static bool host_take_times(Channel *channel, ChannelTimes *times)
{
    Worker *worker = channel->comm->worker;
    *times = channel->times;
    times->busy_s = worker != NULL ? worker_take_busy(worker) : 0;
    channel->times = (ChannelTimes){0};
    return true;
}

static void *host_alloc(size_t bytes)
{
    return mem_zalloc(1, bytes);
}

static const ChannelTable host_table = {.close = host_close,
                                        .run = host_run,
                                        .wait = host_wait,
                                        .note_stalled = host_note_stalled,
                                        .take_times = host_take_times,
                                        .alloc = host_alloc,
                                        .release = free};

bool comm_shares_devices(const Comm *comm)
{
    return comm->options.shared_gpus;
}

void comm_device_entered(Comm *comm, int64_t entered)
{
    board_device(comm->board, entered);
}

bool comm_device_overdue(Comm *comm, int64_t number, double waited_s, char reason[COMM_REASON_SIZE])
{
    BoardWait wait = {.rank = comm->rank,
                      .ranks = comm->ranks,
                      .number = number,
                      .what = "GPU collective",
                      .waited_s = waited_s,
                      .on_device = true};
    _Static_assert(COMM_REASON_SIZE >= BOARD_TEXT_SIZE, "room for the reason");
    return wait_is_over(comm, wait, &comm->device_met, reason);
}

int channel_open(Comm *comm, Backend *backend, Channel **out)
{
    if (backend->channel_open != NULL) {
        return backend->channel_open(backend, comm, out);
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
        void (*release)(void *) = channel->table->release;
        ChannelSpan *spans = channel->spans;
        channel->table->close(channel); /* what is still under way writes its times */
        if (spans != NULL) {
            release(spans);
        }
    }
}

static void run(Channel *channel, WorkKind kind, const void *in, void *out, int64_t count,
                DType dtype)
{
    static const char *const names[] = {[WORK_ALL_REDUCE] = "all-reduce",
                                        [WORK_REDUCE_SCATTER] = "reduce-scatter",
                                        [WORK_ALL_GATHER] = "all-gather"};
    RankGroup all = {0, 1, channel->comm->ranks};
    RankGroup among = channel->among.count > 0 ? channel->among : all;
    int parts = kind == WORK_ALL_REDUCE ? 1 : among.count; /* of the payload */
    Work work = {.kind = kind,
                 .name = names[kind],
                 .in = in,
                 .out = out,
                 .count = count,
                 .size = dtype_size(dtype),
                 .dtype = dtype,
                 .among = among};
    PACER_ASSERT(count >= 0, "%s of %lld elements", work.name, (long long)count);
    channel->times.calls++;
    work.bytes = (double)parts * (double)count * (double)work.size;
    channel->times.bytes += work.bytes;
    if (count > 0) {
        ChannelSpan span = {.name = work.name, .tag = channel->tag, .bytes = work.bytes};
        work.span = channel_new_span(channel, span);
        channel->table->run(channel, &work);
    }
}

void channel_among(Channel *channel, RankGroup group)
{
    bool all = group.count == channel->comm->ranks;
    int wanted = group.step == 1 ? group.count : group.step;
    PACER_ASSERT(all || wanted == channel->group, "groups of %d were not made", wanted);
    channel->among = all ? (RankGroup){0} : group;
}

int channel_make_groups(Channel *channel, int size)
{
    int ranks = channel->comm->ranks, code = 0;
    if (size == 0 || size == ranks) {
        return 0;
    }
    PACER_ASSERT(size > 1 && ranks % size == 0, "groups of %d of %d ranks", size, ranks);
    if (channel->table->make_groups != NULL) {
        code = channel->table->make_groups(channel, size);
    }
    channel->group = size;
    return code;
}

void channel_all_reduce(Channel *channel, void *data, int64_t count, DType dtype)
{
    run(channel, WORK_ALL_REDUCE, NULL, data, count, dtype);
}

void channel_reduce_scatter(Channel *channel, const void *in, void *out, int64_t count, DType dtype)
{
    run(channel, WORK_REDUCE_SCATTER, in, out, count, dtype);
}

void channel_all_gather(Channel *channel, const void *in, void *out, int64_t count, DType dtype)
{
    run(channel, WORK_ALL_GATHER, in, out, count, dtype);
}

int64_t channel_ticket(Channel *channel)
{
    if (channel->queued > channel->waited && channel->table->ticket != NULL) {
        channel->table->ticket(channel);
    }
    return channel->queued;
}

void channel_wait_for(Channel *channel, int64_t ticket)
{
    PACER_ASSERT(ticket <= channel->queued, "ticket %lld of %lld", (long long)ticket,
                 (long long)channel->queued);
    if (ticket > channel->waited) {
        channel->table->wait(channel, ticket);
        channel->waited = ticket;
    }
}

void channel_wait(Channel *channel)
{
    channel_wait_for(channel, channel_ticket(channel));
}

void channel_note_stalled(Channel *channel, int64_t *ns)
{
    channel->table->note_stalled(channel, ns);
}

bool channel_take_times(Channel *channel, ChannelTimes *times)
{
    return channel->table->take_times(channel, times);
}

int channel_trace(Channel *channel, int64_t capacity)
{
    if (channel->spans != NULL) {
        channel->table->release(channel->spans);
    }
    channel->spans = NULL;
    channel->span_count = channel->span_room = 0;
    channel->traced = false;
    if (capacity == 0 || channel->comm->ranks == 1) {
        return 0;
    }
    size_t bytes = (size_t)capacity * sizeof *channel->spans;
    channel->spans = channel->table->alloc(bytes);
    if (channel->spans == NULL) {
        return err_set(ERR_MEMORY, "no %zu bytes left for a trace of the communication", bytes);
    }
    channel->span_room = capacity;
    return 0;
}

void channel_trace_next(Channel *channel, bool on)
{
    channel->traced = on && channel->spans != NULL;
    channel->anew = true;
}

ChannelSpan *channel_new_span(Channel *channel, ChannelSpan span)
{
    if (!channel->traced) {
        return NULL;
    }
    if (channel->anew) {
        channel->span_count = 0;
        channel->anew = false;
    }
    PACER_ASSERT(channel->span_count < channel->span_room, "more than %lld spans",
                 (long long)channel->span_room);
    channel->spans[channel->span_count] = span;
    return &channel->spans[channel->span_count++];
}

const ChannelSpan *channel_spans(const Channel *channel, int64_t *count)
{
    *count = channel->span_count;
    return channel->spans;
}

void channel_tag(Channel *channel, int tag)
{
    channel->tag = tag;
}
