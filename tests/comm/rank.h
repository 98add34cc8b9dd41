#pragma once
/* What the programs run as several ranks share: who they are, a check that ends the whole job,
 * and values whose sums are known. */
#include "base/err.h"
#include "base/log.h"
#include "comm/comm.h"

#include <stdio.h>

static Comm *comm;
static Channel *channel;
static int me, ranks;
static RankGroup among; /* whom collectives are among, and sums are of */

#define CHECK(condition, ...)                                                                 \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            fprintf(stderr, "rank %d of %d, line %d: %s: ", me, ranks, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                                     \
            fputc('\n', stderr);                                                              \
            comm_abort(comm, 1);                                                              \
        }                                                                                     \
    } while (0)

static void must(int code)
{
    if (code != 0) {
        log_error("%s", err_message());
        comm_abort(comm, err_exit_status(code));
    }
}

/* Small whole numbers: their sums are exact in every type, bf16 (up to 256) included. */
static inline int32_t value(int rank, int64_t i)
{
    return (int32_t)(i % 7) + rank;
}

static inline int32_t sum_of_values(int64_t i)
{
    int32_t sum = 0;
    for (int k = 0; k < among.count; k++) {
        sum += value(among.first + k * among.step, i);
    }
    return sum;
}

/* This rank's, and element i of the parts (count) of all of them in order. */
static inline int place_among(void)
{
    return (me - among.first) / among.step;
}

static inline int32_t value_of_parts(int64_t i, int64_t count)
{
    return value(among.first + (int)(i / count) * among.step, i % count);
}

static inline void go_among(RankGroup group)
{
    among = group;
    channel_among(channel, group);
}

/* Groups of `size` ranks that follow each other, and those with the same place in them. */
static inline RankGroup neighbours(int size)
{
    return (RankGroup){me - me % size, 1, size};
}

static inline RankGroup counterparts(int size)
{
    return (RankGroup){me % size, size, ranks / size};
}
