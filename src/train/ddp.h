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
 *            a line per rank and bucket, is kept by all.
 *   zero2    as zero1, and of gradients a rank keeps its part, too: the backward pass leaves those
 *            of a bucket in a room that other buckets use as well, from which they are summed in
 *            every micro-step and added to the part.
 *   zero3    as zero2, and of weights: a bucket's come into a room (all-gather) before a pass
 *            needs them, the next bucket's meanwhile; where products read codes in e4m3, and all
 *            of the bucket is for such products, these: a byte each.
 *
 * Rooms, by what comes into them in turn: the layers' buckets into two, by their number; embeddings
 * and the head, which are buckets of their own then, into one; norms and biases, which every layer
 * reads, have theirs to themselves. So addresses are fixed, as recorded bodies want them.
 *
 * Where ranks are in shard groups, parts are those of a group's ranks, and what one rank keeps its
 * counterparts in other groups keep as well: a part's sum is the group's, then that over groups.
 *
 * One rank may have its gradients in memory of the host. They go through the same rooms, layers'
 * through three: while the backward pass fills one, the bucket before it leaves another, and what
 * an earlier micro-step left of the bucket behind it comes into the third, to be added to.
 *
 * One rank may also keep gradients in bf16. They go through the rooms, too, rounded by chance where
 * they leave, and into f32 where they come back.
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
    int group; /* ranks that share one set of parts; 0: all */
    int64_t bucket_bytes;
    DType wire;   /* of gradients on their way: f32 (or f64 as they are) or bf16 */
    bool offload; /* one rank: gradients are in memory of the host */
    bool low;     /* one rank: gradients are kept in bf16 */
    bool codes;   /* zero3: weights of which only codes are read (Param.coded) travel as these */
} DdpSetup;

/* What a strategy cuts among ranks, beside the optimizer's state that all of these do. */
static inline bool ddp_cuts_state(const DdpSetup *setup)
{
    return setup->kind >= DDP_ZERO1 && setup->ranks > 1;
}

static inline bool ddp_cuts_grads(const DdpSetup *setup)
{
    return setup->kind >= DDP_ZERO2 && setup->ranks > 1;
}

static inline bool ddp_cuts_weights(const DdpSetup *setup)
{
    return setup->kind >= DDP_ZERO3 && setup->ranks > 1;
}

/* Whether one rank keeps gradients elsewhere than where the backward pass writes them. */
static inline bool ddp_stores_grads(const DdpSetup *setup)
{
    return setup->offload || setup->low;
}

/* Whether the backward pass writes into rooms. */
static inline bool ddp_has_rooms(const DdpSetup *setup)
{
    return ddp_cuts_grads(setup) || ddp_stores_grads(setup);
}

/* Layers' are those before ROOM_OUTSIDE. */
enum { ROOM_LAYERS, ROOM_OUTSIDE = 3, ROOM_SMALL, DDP_ROOMS };

/* How weights travel with zero3, each kind from a buffer of its own into rooms of its own: in the
 * model's type, or as codes. */
enum { SENT_PLAIN, SENT_CODES, SENT_KINDS };

#define DDP_LINE 64 /* elements: parts of ranks are multiples of it */

typedef struct {
    int64_t first, count; /* elements of the flat buffer */
    int64_t part;         /* sharded: of each rank, from `first` on; the rest belongs to all */
    int64_t own;    /* sharded: where this rank's part, and behind it the rest, begin in its own */
    int64_t ticket; /* of the weights' last way here; 0: they are */
    int room;       /* with rooms: which one */
    int kind;       /* zero3: how its weights travel, SENT_* */
    int64_t kind_own; /* zero3: as own, in what of this kind is this rank's */
} Bucket;

/* With rooms: the bucket of which a room has gradients that are under way, or, of one rank, that
 * are there; or weights; -1: none. */
typedef struct {
    int64_t first, size; /* elements of a buffer with all rooms */
    int64_t weights_first[SENT_KINDS], weights_size[SENT_KINDS]; /* zero3: of those with weights */
    int sent, held;
    int64_t ticket; /* of what was sent */
} DdpRoom;

typedef struct {
    DdpSetup setup;
    int shard, shards; /* this rank's number among those that have parts, and theirs */
    Bucket *buckets;   /* in the order in which they are complete */
    int count;
    int64_t owned; /* elements of state that this rank keeps; flat unless sharded */
    int64_t roomy; /* elements of all rooms; 0: there are none */
    int64_t kept[SENT_KINDS], weights_roomy[SENT_KINDS]; /* zero3: as these two, of weights */
    int sent;                                            /* buckets of the pass under way */
    int coming;       /* stored: the bucket on its way into its room; -1: none */
    bool first, last; /* of the micro-steps of an update */
    int64_t arrived;  /* ticket waited for last */
    DdpRoom rooms[DDP_ROOMS];
    Channel *channel; /* NULL: one rank, or planning */
    Ctx *ctx;
    Tensor grad;     /* (flat), or (roomy): what the backward pass writes */
    Tensor wire;     /* the same in bf16; none when gradients travel as they are, or nowhere */
    Tensor rounding; /* low: hyperparameters of op_sgd that round by chance */
    Tensor own_grad; /* with rooms: (owned), the sum of the update so far */
    Tensor own_weights[SENT_KINDS]; /* zero3: (kept) act, as the update leaves them, and e4m3 */
    Tensor weights[SENT_KINDS];     /* zero3: (weights_roomy) */
    Tensor norm_sq; /* stored: (1) acc, of what has left the rooms; its order is theirs */
    Tensor own_sq;  /* (1) acc; none: nobody asks. Summed over ranks at the end of an update */
    bool measures;  /* own_sq is the squared norm of what this rank sends; else it is there */
    /* Told before and after the computation waits amid a pass; NULL: nobody wants to know. */
    void (*stalls)(void *user, bool begins);
    void *stalls_user;
} Ddp;

/* Cuts the table's buffer into buckets. With one rank there are none. */
void ddp_init(Ddp *ddp, const DdpSetup *setup, const ParamTable *table);
void ddp_free(Ddp *ddp); /* a no-op on a zeroed struct */

static inline bool ddp_is_sharded(const Ddp *ddp)
{
    return ddp_cuts_state(&ddp->setup);
}

/* A micro-step whose gradients are sent: the last one of an update, with zero2 each. begin, before
 * its gradients are; ready, when those of decaying parameters from flat offset `from` on are
 * complete; end, when all are, which leaves nothing under way. */
void ddp_begin(Ddp *ddp, Ctx *c, bool first, bool last);
void ddp_arrive(Ddp *ddp); /* before gradients are written */
void ddp_ready(Ddp *ddp, int64_t from);
void ddp_end(Ddp *ddp);

/* values (n): each the sum over ranks; queued. Of shards: over those of this rank's group. */
void ddp_sum(Ddp *ddp, Tensor values);
void ddp_sum_shards(Ddp *ddp, Tensor values);
void ddp_wait(Ddp *ddp);

/* Of an update with so many micro-steps, at most: collectives and waits for them. Their tags are
 * the numbers of buckets, or DDP_NO_BUCKET. */
#define DDP_NO_BUCKET (-1)
int64_t ddp_spans(const Ddp *ddp, int64_t accum);

/* What the optimizer makes of whole matrices lies where the gradient was. Sharded, of the bucket
 * that holds [first, end), or, where gradients are whole, of all such buckets: the parts of all
 * ranks to all; and the sum over ranks, of which each gets its part. Waited for, but for what is
 * copied to memory of the host. Gather returns where they are whole; *at: the flat offset that this
 * begins at. */
Tensor ddp_gather_parts(Ddp *ddp, Ctx *c, int64_t first, int64_t end, int64_t *at);
void ddp_sum_parts(Ddp *ddp, Ctx *c, int64_t first, int64_t end);

/* zero1, zero2: the weights (flat) that this rank has updated, to all; queued, in the order in
 * which a forward pass needs them. Weights that are complete are not changed by it. */
void ddp_gather(Ddp *ddp, Tensor weights);
/* What has to be waited for before these weights are read: a ticket of the channel, 0 when
 * nothing has. */
int64_t ddp_awaited(const Ddp *ddp, int64_t offset, int64_t count);
void ddp_wait_for(Ddp *ddp, int64_t ticket);

/* zero3: rooms hold no weights, or none that are valid; they hold what a forward and a backward
 * pass leave there. */
void ddp_drop(Ddp *ddp);
void ddp_passed(Ddp *ddp);
/* zero3: queues the weights of the bucket that holds this element, where its room has others, and
 * those of the bucket that the pass needs next; back: the pass is a backward one. */
void ddp_fetch(Ddp *ddp, Ctx *c, int64_t offset, bool back);

/* zero3: a bucket's weights in their room; as they travel. */
Tensor ddp_weights(const Ddp *ddp, const Bucket *bucket);

/* A stretch of the flat buffer whose state one rank keeps. */
typedef struct {
    int64_t offset, count; /* of the flat buffer */
    int64_t own;           /* offset in the state of its keeper */
    int keeper;            /* rank of the first shard group; -1: all */
} DdpPiece;

/* The piece that begins at `offset` and ends at `end` or earlier. Unsharded: all of it, kept by
 * all. */
DdpPiece ddp_piece(const Ddp *ddp, int64_t offset, int64_t end);

/* Whether this rank keeps it, alone or with others. */
static inline bool ddp_keeps(const Ddp *ddp, DdpPiece piece)
{
    return piece.keeper < 0 || piece.keeper == ddp->shard;
}

/* The first piece from `offset` on, and before `end`, that this rank keeps; false: there is
 * none. */
bool ddp_own_piece(const Ddp *ddp, int64_t offset, int64_t end, DdpPiece *piece);

/* Elements in buckets that are too small for every rank to have a part of: all keep them whole. */
int64_t ddp_uncut(const Ddp *ddp);

/* The bucket that holds an element of the flat buffer. Sharded only. */
int ddp_bucket_of(const Ddp *ddp, int64_t offset);
