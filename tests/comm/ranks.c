/* A program to be run as several ranks (test_comm_ranks.sh): `ranks exact` checks every
 * collective against arithmetic, `ranks fault HOW BOARD` has rank 1 die or stop at step 5 and is
 * expected to end with a message, `ranks launch N` starts itself as N ranks and prints what each
 * finds. */
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/signals.h"
#include "comm/rank.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void store(void *data, DType dtype, int64_t i, double number)
{
    switch (dtype) {
    case DT_F32:
        ((float *)data)[i] = (float)number;
        break;
    case DT_F64:
        ((double *)data)[i] = number;
        break;
    case DT_BF16:
        ((uint16_t *)data)[i] = bf16_from_f32((float)number);
        break;
    case DT_I32:
        ((int32_t *)data)[i] = (int32_t)number;
        break;
    case DT_E4M3: /* ranks do not exchange these */
    case DT_REST:
        break;
    }
}

static double load(const void *data, DType dtype, int64_t i)
{
    switch (dtype) {
    case DT_F32:
        return (double)((const float *)data)[i];
    case DT_F64:
        return ((const double *)data)[i];
    case DT_BF16:
        return (double)f32_from_bf16(((const uint16_t *)data)[i]);
    case DT_I32:
        return ((const int32_t *)data)[i];
    case DT_E4M3:
    case DT_REST:
        break;
    }
    return NAN;
}

#define SENTINEL 77
#define GUARD 8 /* elements behind the data that nothing may touch */

/* count elements and the guard; element i of rank r's data from `first` on is value(r, i). */
static void *filled(DType dtype, int64_t count, int64_t first, int rank)
{
    char *data = mem_alloc((size_t)(count + GUARD) * dtype_size(dtype));
    for (int64_t i = 0; i < count + GUARD; i++) {
        store(data, dtype, i, i < count ? value(rank, first + i) : SENTINEL);
    }
    return data;
}

static void check_guard(const void *data, DType dtype, int64_t count)
{
    for (int64_t i = count; i < count + GUARD; i++) {
        CHECK(load(data, dtype, i) == SENTINEL, "%s, %lld elements", dtype_name(dtype),
              (long long)count);
    }
}

static void check_all_reduce(DType dtype, int64_t count)
{
    void *data = filled(dtype, count, 0, me);
    channel_all_reduce(channel, data, count, dtype);
    channel_wait(channel);
    for (int64_t i = 0; i < count; i++) {
        CHECK(load(data, dtype, i) == sum_of_values(i), "%s, element %lld of %lld",
              dtype_name(dtype), (long long)i, (long long)count);
    }
    check_guard(data, dtype, count);
    free(data);
}

static void check_reduce_scatter(DType dtype, int64_t count, bool in_place)
{
    size_t size = dtype_size(dtype);
    int k = place_among();
    char *in = filled(dtype, count * among.count, 0, me);
    char *mine = in + (size_t)(k * count) * size;
    char *out = in_place ? mine : filled(dtype, count, 0, 0);
    channel_reduce_scatter(channel, in, out, count, dtype);
    channel_wait(channel);
    for (int64_t i = 0; i < count; i++) {
        CHECK(load(out, dtype, i) == sum_of_values(k * count + i), "%s, element %lld of %lld",
              dtype_name(dtype), (long long)i, (long long)count);
    }
    for (int64_t i = 0; i < count * among.count; i++) {
        bool is_mine = i >= k * count && i < (k + 1) * count;
        CHECK((in_place && is_mine) || load(in, dtype, i) == value(me, i), "input changed at %lld",
              (long long)i);
    }
    check_guard(in, dtype, count * among.count);
    if (!in_place) {
        check_guard(out, dtype, count);
        free(out);
    }
    free(in);
}

static void check_all_gather(DType dtype, int64_t count, bool in_place)
{
    size_t size = dtype_size(dtype);
    char *out = filled(dtype, count * among.count, 1, 0);
    char *mine = out + (size_t)(place_among() * count) * size;
    char *in = in_place ? mine : filled(dtype, count, 0, me);
    for (int64_t i = 0; i < count; i++) {
        store(in, dtype, i, value(me, i));
    }
    channel_all_gather(channel, in, out, count, dtype);
    channel_wait(channel);
    for (int64_t i = 0; i < count * among.count; i++) {
        CHECK(load(out, dtype, i) == value_of_parts(i, count), "%s, element %lld",
              dtype_name(dtype), (long long)i);
    }
    check_guard(out, dtype, count * among.count);
    if (!in_place) {
        free(in);
    }
    free(out);
}

static void check_broadcast(DType dtype, int64_t count, int root)
{
    void *data = filled(dtype, count, 0, me);
    must(comm_broadcast(comm, data, (size_t)count * dtype_size(dtype), root));
    for (int64_t i = 0; i < count; i++) {
        CHECK(load(data, dtype, i) == value(root, i), "root %d", root);
    }
    check_guard(data, dtype, count);
    free(data);
}

static void check_collectives(void)
{
    static const DType types[] = {DT_F32, DT_BF16, DT_F64, DT_I32};
    static const int64_t counts[] = {0, 1, 2, 3, 17, 1000, 65537, 1000003};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            bool is_large = counts[i] > 100000;
            if (is_large && (types[t] == DT_F64 || types[t] == DT_I32)) {
                continue;
            }
            check_all_reduce(types[t], counts[i]);
            check_broadcast(types[t], counts[i], (int)i % ranks);
            if (is_large && ranks > 3) {
                continue;
            }
            for (int in_place = 0; in_place < 2; in_place++) {
                check_reduce_scatter(types[t], counts[i], in_place != 0);
                check_all_gather(types[t], counts[i], in_place != 0);
            }
        }
    }
    for (int root = 0; root < ranks; root++) {
        check_broadcast(DT_I32, 5, root);
    }
}

static void check_groups(void)
{
    static const int64_t counts[] = {1, 1000, 65537};
    RankGroup all = among;
    if (ranks != 4 && ranks != 8) {
        return;
    }
    must(channel_make_groups(channel, ranks / 2));
    RankGroup groups[] = {neighbours(ranks / 2), counterparts(ranks / 2)};
    for (int g = 0; g < 2; g++) {
        go_among(groups[g]);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            check_all_reduce(DT_F32, counts[i]);
            check_reduce_scatter(DT_F32, counts[i], i % 2 == 0);
            check_all_gather(DT_F32, counts[i], i % 2 == 0);
        }
    }
    go_among(all);
    check_all_reduce(DT_F32, 1000);
}

/* Rounding shows here: the sum is that of the ranks in order, on every rank, whatever the size. */
static void check_same_bits(int64_t count)
{
    float *data = mem_alloc((size_t)count * sizeof *data);
    uint16_t *halves = mem_alloc((size_t)count * sizeof *halves);
    float *sum = mem_zalloc((size_t)count, sizeof *sum),
          *half_sum = mem_zalloc((size_t)count, sizeof *sum);
    float *other = mem_alloc((size_t)count * sizeof *other);
    for (int rank = 0; rank < ranks; rank++) {
        rng_normals(5, (uint64_t)rank, 0, (uint64_t)count, other);
        for (int64_t i = 0; i < count; i++) {
            uint16_t half = bf16_from_f32(other[i]);
            if (rank == me) {
                data[i] = other[i];
                halves[i] = half;
            }
            sum[i] = rank == 0 ? other[i] : sum[i] + other[i];
            half_sum[i] = rank == 0 ? f32_from_bf16(half) : half_sum[i] + f32_from_bf16(half);
        }
    }
    channel_all_reduce(channel, data, count, DT_F32);
    channel_all_reduce(channel, halves, count, DT_BF16);
    channel_wait(channel);
    for (int64_t i = 0; i < count; i++) {
        CHECK(memcmp(&data[i], &sum[i], sizeof sum[i]) == 0, "element %lld of %lld", (long long)i,
              (long long)count);
        CHECK(halves[i] == bf16_from_f32(half_sum[i]), "bf16 element %lld of %lld", (long long)i,
              (long long)count);
    }
    uint64_t hashes[64], hash = io_hash(data, (size_t)count * sizeof *data);
    must(comm_gather(comm, &hash, sizeof hash, hashes));
    for (int rank = 0; rank < ranks; rank++) {
        CHECK(hashes[rank] == hash, "rank %d has other bits", rank);
    }
    free(data);
    free(halves);
    free(sum);
    free(half_sum);
    free(other);
}

/* More than any queue holds, each on the result of the one before, control in between. */
static void check_order(void)
{
    enum { TIMES = 600 };
    uint32_t x[3] = {1, (uint32_t)me, 7}, expected = 1;
    int32_t all[64] = {0};
    for (int i = 0; i < TIMES; i++) {
        channel_all_reduce(channel, x, 1, DT_I32);
        expected *= (uint32_t)ranks;
        if (i == TIMES - 50) {
            double one = 1;
            must(comm_sum(comm, &one, 1));
            CHECK(one == ranks, "%g", one);
        }
    }
    must(comm_broadcast(comm, x + 1, sizeof x[1], ranks - 1));
    channel_all_gather(channel, x + 1, all, 1, DT_I32);
    channel_reduce_scatter(channel, all, x + 2, 1, DT_I32);
    channel_wait(channel);
    CHECK(x[0] == expected, "%u", x[0]);
    for (int rank = 0; rank < ranks; rank++) {
        CHECK(all[rank] == ranks - 1, "%d", all[rank]);
    }
    CHECK(x[2] == (uint32_t)(ranks * (ranks - 1)), "%u", x[2]);
}

/* What is queued gets done while this thread computes: the wait is short against the work. */
static void check_overlap(void)
{
    enum { COUNT = 1 << 20, TRIES = 20 };
    float *data = mem_zalloc(COUNT, sizeof *data);
    ChannelTimes times;
    double hidden = 0;
    channel_take_times(channel, &times);
    for (int i = 0; i < TRIES && hidden < 0.5; i++) {
        volatile double x = 1;
        channel_all_reduce(channel, data, COUNT, DT_F32);
        for (double start = clock_seconds(); clock_seconds() - start < 0.05 * (i + 1);) {
            x = x * 1.0000001;
        }
        channel_wait(channel);
        CHECK(channel_take_times(channel, &times), "no times");
        CHECK(times.calls == 1 && times.bytes == 4.0 * COUNT, "%lld calls, %g bytes",
              (long long)times.calls, times.bytes);
        hidden = times.busy_s > 0 ? 1 - times.exposed_s / times.busy_s : 1;
        must(comm_max(comm, &hidden, 1));
    }
    CHECK(hidden >= 0.5, "%g of the time was hidden", hidden);
    free(data);
}

/* A wait for the first of two collectives does not wait for the second, which one rank queues
 * later; that for the second does, and is counted. */
static void check_tickets(void)
{
    enum { LATE = 100000, TRIES = 30 }; /* us */
    double first_s = 1, second_s = 0;
    for (int i = 0; i < TRIES && (first_s > 0.5e-6 * LATE || second_s < 0.5e-6 * LATE); i++) {
        int32_t x = value(me, 1), y = value(me, 2);
        ChannelTimes first, second;
        must(comm_barrier(comm, "tickets"));
        CHECK(channel_take_times(channel, &first), "no times");
        channel_all_reduce(channel, &x, 1, DT_I32);
        int64_t ticket = channel_ticket(channel);
        if (me == ranks - 1) {
            usleep(LATE);
        }
        channel_all_reduce(channel, &y, 1, DT_I32);
        int64_t last = channel_ticket(channel);
        CHECK(last > ticket, "%lld after %lld", (long long)last, (long long)ticket);
        channel_wait_for(channel, ticket);
        CHECK(x == sum_of_values(1), "%d", x);
        CHECK(channel_take_times(channel, &first), "no times");
        channel_wait_for(channel, last);
        CHECK(y == sum_of_values(2), "%d", y);
        channel_wait_for(channel, ticket);
        channel_wait(channel);
        CHECK(channel_take_times(channel, &second), "no times");
        first_s = first.exposed_s;
        second_s = me == ranks - 1 ? 1 : second.exposed_s;
        double worst[2] = {first_s, -second_s};
        must(comm_max(comm, worst, 2));
        first_s = worst[0];
        second_s = -worst[1];
    }
    CHECK(first_s <= 0.5e-6 * LATE && second_s >= 0.5e-6 * LATE, "%g s, then %g s", first_s,
          second_s);
}

static void check_control(void)
{
    double values[3] = {me + 1, -me, me == ranks - 1 ? (double)NAN : me};
    must(comm_barrier(comm, "middle"));
    must(comm_max(comm, values, 3));
    CHECK(values[0] == ranks && values[1] == 0 && isnan(values[2]), "%g %g %g", values[0],
          values[1], values[2]);
    double sums[2] = {me, 0.1};
    must(comm_sum(comm, sums, 2));
    CHECK(sums[0] == ranks * (ranks - 1) / 2.0 && fabs(sums[1] - 0.1 * ranks) < 1e-12, "%g %g",
          sums[0], sums[1]);
    for (int root = 0; root < ranks; root++) {
        char text[100] = "";
        snprintf(text, sizeof text, "from %d", me);
        must(comm_broadcast(comm, text, sizeof text, root));
        CHECK(atoi(text + 5) == root, "%s", text);
    }
    int places[64][3], mine[3] = {me, comm_local_rank(comm), comm_local_ranks(comm)};
    must(comm_gather(comm, mine, sizeof mine, places));
    for (int rank = 0; rank < ranks; rank++) {
        CHECK(places[rank][0] == rank && places[rank][1] == rank && places[rank][2] == ranks,
              "rank %d of %d here", places[rank][1], places[rank][2]);
    }
}

static int run_exact(void)
{
    static const int64_t counts[] = {1, 1000, 1025, 300001};
    Backend host = {.name = "host"};
    must(channel_open(comm, &host, &channel));
    check_control();
    among = (RankGroup){0, 1, ranks};
    check_collectives();
    check_groups();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        check_same_bits(counts[i]);
    }
    check_order();
    if (ranks > 1) {
        check_overlap();
        check_tickets();
    }
    channel_close(channel);
    if (me == 0) {
        printf("%d ranks, %s: exact\n", ranks, comm_library(comm));
    }
    comm_close(comm);
    return 0;
}

static void strike(const char *how)
{
    if (strcmp(how, "kill") == 0) {
        raise(SIGKILL);
    } else if (strcmp(how, "stop") == 0) {
        raise(SIGSTOP);
    }
    sleep(60); /* "late": alive, and never there */
}

static int run_fault(const char *how)
{
    enum { COUNT = 10000 };
    float data[COUNT] = {0};
    Backend host = {.name = "host"};
    must(channel_open(comm, &host, &channel));
    for (int step = 0; step < 10; step++) {
        comm_at_step(comm, step);
        if (step == 5 && me == 1) {
            strike(how);
        }
        if (strcmp(how, "control") == 0 && step == 5 && me != 1) {
            must(comm_barrier(comm, "save"));
        }
        channel_all_reduce(channel, data, COUNT, DT_F32);
        channel_wait(channel);
    }
    fprintf(stderr, "rank %d came through\n", me);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        return 2;
    }
    signals_claim();
    signals_install();
    if (strcmp(argv[1], "launch") == 0 && !comm_is_launched()) {
        JobEnd end;
        if (comm_launch(atoi(argv[2]), argv, NULL, &end) == 0) {
            return end.status;
        }
        log_error("%s", err_message());
        return 1;
    }
    CommOptions options = {.timeout_s = 60};
    if (strcmp(argv[1], "fault") == 0) {
        options = (CommOptions){.timeout_s = 2, .board = argv[3]};
    }
    int code = comm_open(options, &comm);
    if (code != 0) {
        log_error("%s", err_message());
        return err_exit_status(code);
    }
    me = comm_rank(comm);
    ranks = comm_ranks(comm);
    log_setup(LOG_INFO, me, ranks);
    if (strcmp(argv[1], "fault") == 0) {
        return run_fault(argv[2]);
    }
    if (strcmp(argv[1], "launch") == 0) {
        printf("rank %d of %d: %s\n", me, ranks, argv[argc - 1]);
        comm_close(comm);
        return 0;
    }
    return run_exact();
}
