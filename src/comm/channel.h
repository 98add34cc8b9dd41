#pragma once
/* What a channel is made of, for a device that has channels of its own (Backend.channel_open): a
 * table of functions over collectives that are queued one behind the other. */
#include "comm/comm.h"

#include <math.h>

typedef enum {
    WORK_ALL_REDUCE,
    WORK_REDUCE_SCATTER,
    WORK_ALL_GATHER,
    WORK_BROADCAST,
    WORK_BARRIER,
} WorkKind;

/* One collective. in and out as channel_*'s; all-reduce and broadcast work on out alone. */
typedef struct {
    WorkKind kind;
    const char *name; /* for messages; lives as long as the wait for it */
    const void *in;
    void *out;
    int64_t count; /* elements */
    size_t size;   /* bytes of one */
    DType dtype;   /* of sums */
    int root;
    RankGroup among;   /* that take part */
    double bytes;      /* payload of a channel's collective */
    ChannelSpan *span; /* of a channel's collective: where its times go; NULL: nowhere */
    bool is_control;   /* somebody waits for it and takes an error; else an error ends the job */
    int64_t number;    /* given by worker_put: 1, 2, ... */
} Work;

typedef struct {
    void (*close)(Channel *channel);
    void (*run)(Channel *channel, const Work *work); /* counts in channel->queued */
    void (*ticket)(Channel *channel); /* will be waited for: channel->queued; NULL: it can be */
    void (*wait)(Channel *channel, int64_t ticket); /* for one that was not waited for */
    void (*note_stalled)(Channel *channel, int64_t *ns);
    bool (*take_times)(Channel *channel, ChannelTimes *times);
    /* 0 < size < ranks; NULL: any ranks can be a group without more ado */
    int (*make_groups)(Channel *channel, int size);
    void *(*alloc)(size_t bytes); /* of spans, where times are written by whoever does the work */
    void (*release)(void *block);
} ChannelTable;

struct Channel {
    const ChannelTable *table;
    Comm *comm;
    ChannelTimes times; /* busy_s: not kept here for host memory */
    int64_t queued;     /* number of the collective queued last; 0: none, or one rank */
    int64_t waited;     /* of the last one that was waited for */
    int tag;
    RankGroup among;    /* count 0: all */
    int group;          /* size of the groups that were made; 0: none */
    ChannelSpan *spans; /* (span_room); NULL: not traced */
    int64_t span_count, span_room;
    bool traced, anew; /* spans are kept; the next one is the first */
};

/* channel.c: the next span, its times to be filled in; NULL when none are kept. */
ChannelSpan *channel_new_span(Channel *channel, ChannelSpan span);
static inline int64_t span_ns(double seconds)
{
    return llrint(seconds * 1e9);
}

/* Ranks of this job share devices, by the user's wish. */
bool comm_shares_devices(const Comm *comm);

/* Tells the other ranks how many collectives this rank's device has entered. */
void comm_device_entered(Comm *comm, int64_t entered);

/* Whether a device that has been in collective `number` for so long must be given up, and then
 * why: which ranks are missed. */
#define COMM_REASON_SIZE 1024
bool comm_device_overdue(Comm *comm, int64_t number, double waited_s,
                         char reason[COMM_REASON_SIZE]);
