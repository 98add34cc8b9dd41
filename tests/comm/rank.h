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
    return (int32_t)(i % 7) * ranks + ranks * (ranks - 1) / 2;
}
