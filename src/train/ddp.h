#pragma once
/* Data parallelism: every rank has computed the gradients of its own sequences; these strategies
 * make them the gradients of all. The flat buffer of gradients is cut into buckets, which are sent
 * from where they lie.
 *
 *   naive    one all-reduce per parameter after the backward pass, each waited for
 *   flat     one all-reduce of everything after the backward pass
 *   overlap  buckets of whole layers, sent as soon as the backward pass has left them
 *   zero1    as overlap, but each rank receives only its part of a bucket's sum
 *            (reduce-scatter), keeps master weights and moments of that part alone, updates it,
 *            and gets the others' weights back (all-gather) beside the next forward pass, which
 *            waits for a bucket where it needs it. What does not divide by the ranks, less than
 *            a line per bucket, is kept by all.
 *
 * A bucket's gradients may travel in bf16: they are then rounded into a buffer of that type and
 * back. */
#include "base/choices.h"
#include "comm/comm.h"
#include "model/params.h"

const char *ddp_kind_name(DdpKind kind); /* "naive", ... */

typedef struct {
    DdpKind kind;
    int rank, ranks;
    int64_t bucket_bytes;
    DType wire; /* of gradients on their way: f32 (or f64 as they are) or bf16 */
} DdpSetup;

typedef struct {
    int64_t first, count; /* elements of the flat buffer */
    int64_t part;         /* zero1: of each rank, from `first` on; the rest belongs to all */
    int64_t own; /* zero1: where this rank's part, and behind it the rest, begin in its own state */
    int64_t ticket; /* zero1: of the weights' last way back; 0: they are all here */
} Bucket;

typedef struct {
    DdpSetup setup;
    Bucket *buckets; /* in the order in which they are complete */
    int count;
    int64_t owned;    /* elements of state that this rank keeps; flat unless zero1 */
    int sent;         /* buckets of the pass under way */
    int64_t arrived;  /* ticket of the weights waited for last */
    Channel *channel; /* NULL: one rank, or planning */
    Ctx *ctx;
    Tensor grad, wire; /* (flat); wire is none when gradients travel as they are */
    Tensor own_sq;     /* (1) acc; none: nobody asks. Summed over ranks at the end of an update */
    bool measures;     /* own_sq is the squared norm of what this rank sends; else it is there */
} Ddp;

/* Cuts the table's buffer into buckets. With one rank there are none. */
void ddp_init(Ddp *ddp, const DdpSetup *setup, const ParamTable *table);
void ddp_free(Ddp *ddp); /* a no-op on a zeroed struct */

static inline bool ddp_is_sharded(const Ddp *ddp)
{
    return ddp->setup.kind == DDP_ZERO1 && ddp->setup.ranks > 1;
}

/* The last micro-step of an update: begin, before its gradients are; ready, when those of
 * decaying parameters from flat offset `from` on are complete; end, when all are, which leaves
 * nothing under way. */
void ddp_begin(Ddp *ddp, Ctx *c);
void ddp_ready(Ddp *ddp, int64_t from);
void ddp_end(Ddp *ddp);

/* values (n): each the sum over ranks; queued. */
void ddp_sum(Ddp *ddp, Tensor values);
void ddp_wait(Ddp *ddp);

/* Of an update, at most: collectives and waits for them. Their tags are the numbers of buckets,
 * or DDP_NO_BUCKET. */
#define DDP_NO_BUCKET (-1)
int64_t ddp_spans(const Ddp *ddp);

/* zero1, of values (flat) in buckets that hold any of [first, end): the parts of all ranks to all;
 * and the sum over ranks, of which each gets its part. Waited for. */
void ddp_gather_parts(Ddp *ddp, Tensor values, int64_t first, int64_t end);
void ddp_sum_parts(Ddp *ddp, Tensor values, int64_t first, int64_t end);

/* zero1: the weights (flat) that this rank has updated, to all; queued, in the order in which a
 * forward pass needs them. Weights that are complete are not changed by it. */
void ddp_gather(Ddp *ddp, Tensor weights);
/* What has to be waited for before these weights are read: a ticket of the channel, 0 when
 * nothing has. */
int64_t ddp_awaited(const Ddp *ddp, int64_t offset, int64_t count);
void ddp_wait_for(Ddp *ddp, int64_t ticket);

/* A stretch of the flat buffer whose state one rank keeps. */
typedef struct {
    int64_t offset, count; /* of the flat buffer */
    int64_t own;           /* offset in the state of its keeper */
    int keeper;            /* rank; -1: all */
} DdpPiece;

/* The piece that begins at `offset` and ends at `end` or earlier. Unsharded: all of it, kept by
 * all. */
DdpPiece ddp_piece(const Ddp *ddp, int64_t offset, int64_t end);

/* The first piece from `offset` on, and before `end`, that this rank keeps, alone or with all;
 * false: there is none. */
bool ddp_own_piece(const Ddp *ddp, int64_t offset, int64_t end, DdpPiece *piece);
