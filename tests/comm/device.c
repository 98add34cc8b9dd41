/* A program to be run as several ranks on a GPU (test_comm_ranks.sh), all of them on one if need
 * be: `device exact` checks collectives in its memory against arithmetic, as they are and
 * recorded; `device fault BOARD` has rank 1 stay away from a collective and is expected to end
 * with a message. Exit status 77: there is no GPU. */
#include "base/mem.h"
#include "comm/rank.h"
#include "cuda/cuda.h"
#include "tensor/ctx.h"
#include "tensor/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NO_GPU 77

static Backend *gpu;

static uint32_t encode(DType dtype, int32_t number)
{
    float as_float = (float)number;
    uint32_t bits;
    memcpy(&bits, &as_float, sizeof bits);
    return dtype == DT_I32 ? (uint32_t)number : dtype == DT_F32 ? bits : bits >> 16;
}

/* count values of `rank` from element `first` on, in the GPU's memory. */
static void *place(DType dtype, int64_t count, int64_t first, int rank)
{
    size_t size = dtype_size(dtype), bytes = (size_t)count * size;
    char *host = mem_alloc(bytes), *data = gpu->alloc(gpu, bytes);
    CHECK(data != NULL, "no memory");
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = encode(dtype, value(rank, first + i));
        memcpy(host + (size_t)i * size, &bits, size);
    }
    gpu->upload(gpu, data, host, bytes);
    gpu->sync(gpu);
    free(host);
    return data;
}

typedef int32_t (*Expected)(int64_t i, int64_t count);

static int32_t the_sum(int64_t i, int64_t count)
{
    (void)count;
    return sum_of_values(i);
}

static int32_t my_part_of_the_sum(int64_t i, int64_t count)
{
    return sum_of_values(place_among() * count + i);
}

/* Releases data. */
static void expect(void *data, DType dtype, int64_t length, int64_t count, Expected expected)
{
    size_t size = dtype_size(dtype), bytes = (size_t)length * size;
    char *host = mem_alloc(bytes);
    channel_wait(channel);
    gpu->download(gpu, host, data, bytes);
    for (int64_t i = 0; i < length; i++) {
        uint32_t bits = 0;
        memcpy(&bits, host + (size_t)i * size, size);
        CHECK(bits == encode(dtype, expected(i, count)), "%s, element %lld of %lld, count %lld",
              dtype_name(dtype), (long long)i, (long long)length, (long long)count);
    }
    free(host);
    gpu->release(gpu, data);
}

static void check_collectives(DType dtype, int64_t count)
{
    void *data = place(dtype, count, 0, me);
    channel_all_reduce(channel, data, count, dtype);
    expect(data, dtype, count, count, the_sum);

    void *in = place(dtype, count * among.count, 0, me);
    data = place(dtype, count, 0, 0);
    channel_reduce_scatter(channel, in, data, count, dtype);
    expect(data, dtype, count, count, my_part_of_the_sum);
    gpu->release(gpu, in);

    in = place(dtype, count, 0, me);
    data = place(dtype, count * among.count, 0, 0);
    channel_all_gather(channel, in, data, count, dtype);
    expect(data, dtype, count * among.count, count, value_of_parts);
    gpu->release(gpu, in);
}

typedef struct {
    int32_t *x;
    int64_t count;
} Body;

static void body(void *user)
{
    Body *b = user;
    channel_all_reduce(channel, b->x, b->count, DT_I32);
    channel_all_reduce(channel, b->x, b->count, DT_I32);
    channel_wait(channel);
}

/* Two collectives and the wait for them, with the times of the last replay. */
static void check_spans(double busy_s)
{
    int64_t count;
    const ChannelSpan *s = channel_spans(channel, &count);
    if (ranks == 1) {
        CHECK(count == 0, "%lld spans of one rank", (long long)count);
        return;
    }
    CHECK(count == 3 && !s[0].is_wait && !s[1].is_wait && s[2].is_wait, "%lld spans",
          (long long)count);
    CHECK(s[0].tag == 7 && s[1].tag == 7 && s[1].bytes == 5000.0 * 4, "tag %d, %g bytes", s[1].tag,
          s[1].bytes);
    CHECK(s[0].start_ns > 0 && s[0].end_ns >= s[0].start_ns && s[1].start_ns >= s[0].end_ns &&
              s[1].end_ns >= s[1].start_ns && s[2].end_ns >= s[1].end_ns &&
              1e-9 * (double)(s[1].end_ns - s[0].start_ns) < 60,
          "%lld to %lld, %lld to %lld, wait %lld to %lld", (long long)s[0].start_ns,
          (long long)s[0].end_ns, (long long)s[1].start_ns, (long long)s[1].end_ns,
          (long long)s[2].start_ns, (long long)s[2].end_ns);
    CHECK(1e-9 * (double)(s[0].end_ns - s[0].start_ns) <= busy_s, "longer than %g s", busy_s);
}

/* A recorded body's collectives are made at every replay, and the account counts them. */
static void check_replay(void)
{
    enum { TIMES = 5, COUNT = 5000 };
    Body b = {place(DT_I32, COUNT, 0, 0), COUNT};
    ChannelTimes times;
    int32_t *host = mem_alloc(COUNT * sizeof *host), factor = 1;
    gpu->sync(gpu);
    channel_take_times(channel, &times);
    channel_tag(channel, 7);
    CHECK(channel_trace(channel, 3) == 0, "no trace");
    for (int i = 0; i < TIMES; i++) {
        channel_trace_next(channel, true);
        gpu->replay(gpu, 0, body, &b);
        factor *= among.count * among.count;
    }
    gpu->download(gpu, host, b.x, COUNT * sizeof *host);
    for (int i = 0; i < COUNT; i++) {
        CHECK(host[i] == value(0, i) * factor, "element %d: %d", i, host[i]);
    }
    if (channel_take_times(channel, &times) && ranks > 1) {
        CHECK(times.calls == 2 * TIMES && times.bytes == 2.0 * TIMES * COUNT * 4,
              "%lld calls, %g bytes", (long long)times.calls, times.bytes);
        CHECK(times.busy_s > 0 && times.exposed_s > 0 && times.busy_s < 60, "%g s, %g s",
              times.busy_s, times.exposed_s);
    }
    check_spans(times.busy_s);
    gpu->forget(gpu);
    channel_trace(channel, 0);
    gpu->release(gpu, b.x);
    free(host);
}

/* Two collectives of which the first is needed before the second. */
typedef struct {
    Ctx ctx;
    Tensor x, y, seen; /* f32, f32, bf16; (count), (more), (count) */
    int64_t *stalled;  /* (2) */
} Needed;

static void needed_body(void *user)
{
    Needed *n = user;
    channel_note_stalled(channel, &n->stalled[0]);
    channel_all_reduce(channel, n->x.data, n->x.dim[0], DT_F32);
    int64_t ticket = channel_ticket(channel);
    channel_all_reduce(channel, n->y.data, n->y.dim[0], DT_F32);
    int64_t last = channel_ticket(channel);
    channel_wait_for(channel, ticket);
    op_cast(&n->ctx, n->x, n->seen);
    channel_wait_for(channel, last);
    channel_wait_for(channel, ticket);
    channel_wait(channel);
    channel_note_stalled(channel, &n->stalled[1]);
}

/* Each wait has its span, and they are how long it stalled. */
static void check_needed_spans(const int64_t stalled[2])
{
    int64_t count;
    const ChannelSpan *s = channel_spans(channel, &count);
    CHECK(count == 4 && s[2].is_wait && s[3].is_wait && s[2].end_ns >= s[0].end_ns &&
              s[3].end_ns >= s[1].end_ns,
          "%lld spans", (long long)count);
    int64_t waits = s[2].end_ns - s[2].start_ns + s[3].end_ns - s[3].start_ns;
    CHECK(stalled[1] - stalled[0] == waits, "%lld ns, not %lld",
          (long long)(stalled[1] - stalled[0]), (long long)waits);
}

/* What is computed behind a wait for one collective sees its result, recorded or not, more often
 * than there are events for tickets. */
static void check_tickets(void)
{
    enum { TIMES = 300, COUNT = 1000, MORE = 100003 };
    Needed n = {.x = tensor_1d(gpu->alloc(gpu, COUNT * 4), DT_F32, COUNT),
                .y = tensor_1d(gpu->alloc(gpu, MORE * 4), DT_F32, MORE),
                .seen = tensor_1d(gpu->alloc(gpu, COUNT * 2), DT_BF16, COUNT),
                .stalled = gpu->alloc(gpu, 2 * sizeof *n.stalled)};
    CHECK(n.x.data && n.y.data && n.seen.data && n.stalled, "no memory");
    ctx_init(&n.ctx, gpu);
    gpu->zero(gpu, n.y.data, MORE * 4);
    CHECK(channel_trace(channel, 4) == 0, "no trace");
    float host[COUNT];
    for (int i = 0; i < TIMES; i++) {
        for (int k = 0; k < COUNT; k++) {
            host[k] = (float)value(me, k + i);
        }
        gpu->upload(gpu, n.x.data, host, sizeof host);
        gpu->sync(gpu);
        channel_trace_next(channel, true);
        if (i < TIMES / 2) {
            needed_body(&n);
        } else {
            gpu->replay(gpu, 0, needed_body, &n);
        }
        uint16_t seen[COUNT];
        int64_t stalled[2];
        gpu->download(gpu, seen, n.seen.data, sizeof seen);
        gpu->download(gpu, stalled, n.stalled, sizeof stalled);
        for (int k = 0; k < COUNT; k++) {
            CHECK(seen[k] == encode(DT_BF16, sum_of_values(k + i)), "time %d, element %d", i, k);
        }
        if (ranks > 1) {
            check_needed_spans(stalled);
        }
    }
    gpu->forget(gpu);
    channel_trace(channel, 0);
    gpu->release(gpu, n.x.data);
    gpu->release(gpu, n.y.data);
    gpu->release(gpu, n.seen.data);
    gpu->release(gpu, n.stalled);
}

/* All that one group can do. */
static void check_group(RankGroup group)
{
    static const DType types[] = {DT_F32, DT_BF16, DT_I32};
    static const int64_t counts[] = {1, 3, 1000, 65537, 1000003};
    go_among(group);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            check_collectives(types[t], counts[i]);
        }
    }
    check_replay();
}

/* Parts of a group's sum, then of all groups', then whole, as a step has them. */
typedef struct {
    int32_t *x, *part, *rest; /* (size, count), (count), (count) */
    int64_t count;
    RankGroup all, group, counterparts;
} Mixed;

static void mixed_body(void *user)
{
    Mixed *m = user;
    channel_among(channel, m->group);
    channel_reduce_scatter(channel, m->x, m->part, m->count, DT_I32);
    channel_among(channel, m->counterparts);
    channel_all_reduce(channel, m->part, m->count, DT_I32);
    channel_among(channel, m->all);
    channel_all_reduce(channel, m->rest, m->count, DT_I32);
    channel_among(channel, m->group);
    channel_all_gather(channel, m->part, m->x, m->count, DT_I32);
    channel_among(channel, m->all);
    channel_wait(channel);
}

static void check_mixed(int size)
{
    enum { TIMES = 3, COUNT = 20011 };
    Mixed m = {.x = place(DT_I32, size * COUNT, 0, me),
               .part = place(DT_I32, COUNT, 0, 0),
               .rest = place(DT_I32, COUNT, 0, 0),
               .count = COUNT,
               .all = {0, 1, ranks},
               .group = neighbours(size),
               .counterparts = counterparts(size)};
    int32_t *host = mem_alloc((size_t)size * COUNT * sizeof *host), factor = 1;
    for (int i = 0; i < TIMES; i++) {
        gpu->replay(gpu, 0, mixed_body, &m);
        factor *= i > 0 ? ranks : 1;
    }
    gpu->download(gpu, host, m.x, (size_t)size * COUNT * sizeof *host);
    for (int i = 0; i < size * COUNT; i++) {
        CHECK(host[i] == sum_of_values(i) * factor, "element %d: %d", i, host[i]);
    }
    gpu->download(gpu, host, m.rest, COUNT * sizeof *host);
    for (int i = 0; i < COUNT; i++) {
        CHECK(host[i] == value(0, i) * factor * ranks, "element %d: %d", i, host[i]);
    }
    gpu->forget(gpu);
    gpu->release(gpu, m.x);
    gpu->release(gpu, m.part);
    gpu->release(gpu, m.rest);
    free(host);
}

static int run_exact(void)
{
    RankGroup all = among;
    check_group(all);
    check_tickets();
    if (ranks == 4) {
        must(channel_make_groups(channel, 2));
        check_group(neighbours(2));
        check_group(counterparts(2));
        go_among(all);
        check_mixed(2);
    }
    channel_close(channel);
    gpu->close(gpu);
    if (me == 0) {
        printf("%d ranks on a GPU, %s: exact\n", ranks, comm_library(comm));
    }
    comm_close(comm);
    return 0;
}

static int run_fault(void)
{
    float *data = place(DT_F32, 1000, 0, me), first;
    for (int step = 0; step < 10; step++) {
        comm_at_step(comm, step);
        if (step == 5 && me == 1) {
            sleep(60);
        }
        channel_all_reduce(channel, data, 1000, DT_F32);
        channel_wait(channel);
        gpu->download(gpu, &first, data, sizeof first);
    }
    fprintf(stderr, "rank %d came through\n", me);
    return 0;
}

int main(int argc, char **argv)
{
    char why[256];
    if (argc < 2) {
        return 2;
    }
    if (cuda_devices(why, sizeof why) == 0) {
        printf("no GPU: %s\n", why);
        return NO_GPU;
    }
    bool is_fault = strcmp(argv[1], "fault") == 0;
    CommOptions options = {
        .timeout_s = is_fault ? 4 : 60, .board = is_fault ? argv[2] : NULL, .shared_gpus = true};
    int code = comm_open(options, &comm);
    if (code != 0) {
        log_error("%s", err_message());
        return err_exit_status(code);
    }
    me = comm_rank(comm);
    ranks = comm_ranks(comm);
    log_setup(LOG_INFO, me, ranks);
    must(cuda_backend_open(0, &gpu));
    must(channel_open(comm, gpu, &channel));
    among = (RankGroup){0, 1, ranks};
    return is_fault ? run_fault() : run_exact();
}
