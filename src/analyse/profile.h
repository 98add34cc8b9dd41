#pragma once
/* Where the time of a training step goes, op by op: steps with a trace (tensor/trace.h) in turn
 * with steps without, as a table of medians and as a file of trace events. Ranks that train
 * together profile the same steps, each from the end of a barrier; their lanes go into one file. */
#include "base/progress.h"
#include "base/output.h"
#include "data/prefetch.h"
#include "train/trainer.h"

#include <stdio.h>

typedef struct {
    const char *name;
    int64_t micro;            /* -1: of the update */
    int64_t start_ns, end_ns; /* by the host's clock */
} ProfileSpan;

/* One traced step. All times by the host's clock. */
typedef struct {
    int64_t start_ns, end_ns; /* from asking for the first batch until the results are there */
    TraceEvent *events;       /* in the order of the calls */
    ProfileSpan *host; /* what the host did: data_load, data_move, and of a device launch, wait */
    ChannelSpan *comm; /* collectives, and waits for them */
    int64_t event_count, host_count, comm_count;
    size_t host_room;
    ChannelTimes comm_times; /* the channel's own account of the same */
} ProfiledStep;

/* Seconds are medians over the repeats. */
typedef struct {
    int64_t repeats;
    bool device;     /* ops were timed by the device's own clock, not the host's */
    double plain_s;  /* a step without the trace, by the host's clock */
    double traced_s; /* a step with it, by the host's clock */
    double fastest_plain_s, fastest_traced_s; /* no medians */
    double ops_s, outside_s;                  /* of the traced step: sum of its ops; the rest */
    double share;                             /* ops over traced, of the same step */
    double exposed_s, hidden_s; /* of the traced step: communication that was waited for, or not */
    double op_s[OP_COUNT];      /* by op, all its calls in a step */
    OpStat ops[OP_COUNT];       /* work of one step */
    /* Of the traced steps; with ranks, that whose slowest rank was fastest: the same step on
     * each. */
    ProfiledStep fastest;
} Profile;

typedef struct {
    int64_t warm, repeats;
    double (*now)(void); /* host's clock in seconds; NULL: clock_seconds */
    Progress *progress;  /* of all measuring that this is a part of; NULL: it is all */
} ProfileOptions;

/* Trains the trainer on the prefetched batches; leaves it without a trace. All ranks that it is
 * connected to call this; an error of one rank alone must end the job. profile_free whatever it
 * returns. */
int profile_measure(Profile *profile, Trainer *trainer, Prefetch *prefetch, ProfileOptions options);
void profile_free(Profile *profile); /* a no-op on a zeroed profile */

/* What the machine can do: FLOP/s of matrix products, bytes/s read plus written. */
typedef struct {
    double matmul, copy;
} ProfileCeilings;

/* The ceiling that binds a piece of work, whichever of the two would take longer, and the share
 * of it that was reached in these seconds. */
typedef struct {
    const char *name; /* "product", "copy" */
    double share;
} ProfileShare;
ProfileShare profile_share(ProfileCeilings ceilings, double flops, double bytes, double seconds);

/* Ranks that trained together, which all make the calls below; or one. */
typedef struct {
    Comm *comm;         /* NULL: one rank */
    const char *device; /* what this rank computes with */
    const char *title;  /* what was profiled */
} ProfileRanks;

/* Ops by time. With several ranks those of the slowest, and a line for each rank, into the first
 * one's file. */
int profile_print(const Profile *profile, ProfileCeilings ceilings, ProfileRanks ranks, FILE *file);

/* The fastest step as trace events in Chrome's JSON format, which Perfetto and chrome://tracing
 * open. Lanes of all ranks go into the first one's output, which the caller commits; the others'
 * is NULL. */
int profile_write(const Profile *profile, ProfileCeilings ceilings, ProfileRanks ranks,
                  Output *output);
