#pragma once
/* Collectives between the ranks that are here, timed and checked, and the link that they behave
 * like. Sizes and bandwidths are those of nccl-tests: `bytes` is the whole tensor, which an
 * all-gather makes and a reduce-scatter takes on each rank. */
#include "analyse/predict.h"
#include "base/clock.h"
#include "comm/comm.h"

typedef enum { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, COLLECTIVES } Collective;

const char *collective_name(Collective kind);

typedef struct {
    double bytes;
    int64_t count;  /* elements of the whole tensor */
    double seconds; /* median of the repeats, of the slowest rank */
    int64_t wrong;  /* elements that were not the exact result, of all ranks and repeats */
} CollectivePoint;

static inline double collective_algorithm_rate(CollectivePoint p)
{
    return p.bytes / p.seconds;
}

/* Bytes per second that every rank sends while it receives as much, whatever the collective. */
double collective_bus_rate(Collective kind, CollectivePoint point, int ranks);

/* Room for timings: tensors of the backend, and what they should hold, of at most `bytes`. */
typedef struct {
    Comm *comm;
    Channel *channel;
    Backend *backend;
    DType dtype; /* f32 or bf16 */
    int warm, repeats;
    size_t bytes;                 /* of each of the next four */
    void *in, *out;               /* of the backend */
    void *source, *expected, *is; /* of the host */
} CollectiveTimer;

/* Rounded down to whole elements. ERR_MEMORY. Close it whatever open returns. */
int collectives_open(CollectiveTimer *timer, Comm *comm, Backend *backend, DType dtype,
                     size_t bytes, int warm, int repeats);
void collectives_close(CollectiveTimer *timer);

/* One size, all ranks together: every call starts from fresh tensors behind a barrier, and every
 * result is compared. A size below one element for each rank becomes that. Errors and signals of
 * one rank are those of all. */
int collectives_time(CollectiveTimer *timer, Collective kind, size_t bytes, CollectivePoint *point);

/* --- the link, as plan --link measured wants it --- */

typedef struct {
    PredictLink link;
    double error; /* the largest relative one, of the all-reduces it was fitted to */
    int ranks;    /* that it was measured between */
    char date[CLOCK_STAMP_SIZE];
} MeasuredLink;

/* From all-reduces of at least two sizes. */
MeasuredLink link_fit(const CollectivePoint *points, int count, int ranks);

/* From a few sizes of all-reduces in f32, now. */
int link_measure(Comm *comm, Backend *backend, MeasuredLink *link);

/* The last one that was measured on this host and device. link_find: false when there is none. */
int link_store(const MeasuredLink *link, const Backend *backend);
bool link_find(MeasuredLink *link, const Backend *backend);
