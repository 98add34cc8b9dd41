#pragma once
/* Everything a training step touches, in three blocks of memory: state (parameters, gradients,
 * moments, constants, the batch), saved activations, and scratch. The same code lays them out
 * twice: counting, to plan, and for real. */
#include "data/prefetch.h"
#include "model/mup.h"
#include "optim/optimizer.h"
#include "record/timers.h"
#include "tensor/workspace.h"
#include "train/ddp.h"

/* What the noise in an update's gradient is told by: nothing; the gradients of single micro-steps
 * or ranks; those of the norms' gains by single sequences, where an update has one micro-step. */
typedef enum { NOISE_NONE, NOISE_PIECES, NOISE_GAINS } NoiseSource;

/* The word of run.json; NULL for none. */
static inline const char *noise_source_name(NoiseSource source)
{
    static const char *const names[] = {NULL, "gradient", "norm gains"};
    return names[source];
}

typedef struct {
    ModelSpec spec;
    DType dtype;             /* DT_E4M3: products in it, all else in bf16 */
    unsigned plain_products; /* bits by Model's places: these are in bf16 all the same */
    AttentionKind attention;
    Keep keep;             /* of a forward pass for the backward pass */
    OffloadKind offload;   /* takes a backend that copies */
    bool low_grads;        /* one rank: gradients are kept in bf16 */
    int64_t offload_piece; /* elements of an offloaded update's pieces; 0: as suits a device */
    bool graph;            /* let the backend record and replay whole parts of a step */
    bool ttt_keep;         /* see Ctx */
    bool separate;         /* documents do not see each other */
    bool save_copy;        /* checkpoints are written from a copy of the state in host memory */
    NoiseSource noise;
    int64_t batch, accum, seq;
    OptimizerSettings optimizer;
    MupBase mup;  /* zeroed: standard */
    DdpSetup ddp; /* zeroed: one rank */
} TrainerSetup;

/* What training takes, known before anything is allocated. */
typedef struct {
    size_t sizes[WORK_BLOCKS]; /* bytes of the blocks */
    size_t by_kind[MEM_KINDS]; /* of the three on the device by purpose, each block at its peak */
    size_t blocks;             /* the three together */
    size_t host_by_kind[MEM_KINDS];
    size_t host;                /* the block in memory of the host */
    double copied[COPY_QUEUES]; /* bytes to it and from it in an update */
    size_t loader;              /* host memory for batches made ahead */
    size_t save_copy;           /* host memory for the copy that is saved */
    size_t total; /* of the memory that blocks are in, with loader; on the host also save_copy */
    int64_t parameters;
    int64_t uncut;         /* of the flat buffer: in buckets too small for a part on each rank */
    OpStat step[OP_COUNT]; /* work of one update, all its micro-steps included */
    double flops_update;   /* matrix products of one update, whatever computes them */
} TrainPlan;

/* Token ids of one micro-step in host memory, each batch x seq. A row whose target is negative
 * does not count: loss and gradient are means over the rows that do, of all micro-steps and ranks
 * of an update. starts: where documents begin (document_starts); read where setup.separate is
 * set. */
typedef struct {
    const int32_t *ids, *targets, *order, *starts;
} HostBatch;

/* What a device stamps: the beginning of a micro-step and the ends of its parts; then, once for
 * the update, the ends of waiting for the gradients of other ranks (with several) and of the
 * update. With zero1, also how long waits had lasted (channel_note_stalled) before and after the
 * forward pass that the weights came back beside, the first. */
enum {
    STAMP_START,
    STAMP_FORWARD,
    STAMP_LOSS,
    STAMP_BACKWARD,
    STAMP_COMM,
    STAMP_UPDATE,
    STAMP_STALLED_BEFORE,
    STAMP_STALLED_AFTER,
    STAMP_COUNT
};
#define STAMP_MICRO STAMP_COMM                 /* how many of them each micro-step has */
#define STAMP_TAIL (STAMP_COUNT - STAMP_MICRO) /* and the update besides */

/* What is fetched of an update: these numbers in acc, and from 8 * FETCH_COUNT bytes on the stamps.
 * The first FETCH_SUMS are sums over ranks. */
enum {
    FETCH_LOSS,
    FETCH_LEFT_OUT,
    FETCH_SUMS,
    FETCH_NORM_SQ = FETCH_SUMS,
    FETCH_OWN_LOSS,
    FETCH_PIECE_SQ,
    FETCH_GAINS_SQ,
    FETCH_COUNT
};

/* Told where the host's parts of a step begin and end, so that their time can be booked. They
 * follow each other; only PHASE_COMM_EXPOSED also lies inside others, which wait for ranks. A
 * device with a clock of its own stamps forward, loss, backward and update itself; the host then
 * launches and later waits. */
typedef void (*TrainHook)(void *user, Phase phase, bool begins);

/* zero3: room for the codes of one layer, and for those of the head, which are made where their
 * weights arrive. */
typedef struct {
    Tensor layer, head; /* flat e4m3 */
    int held;           /* the layer whose codes are there in the pass under way; -1: none */
    bool head_held;     /* those of the head are */
} Desk;

typedef struct {
    TrainerSetup setup;
    Backend *backend;
    Ctx ctx;
    Model model;
    Optimizer optimizer;
    Workspace work;
    ModelQuant quant;  /* none unless products are in e4m3 */
    int64_t low_end;   /* optimizer.low has no elements [low_end, params.decayed) */
    bool scaled;       /* quant has scales of the weights: of an update before, or a checkpoint */
    bool codes_behind; /* the weights were written since their codes were made */
    Desk desk;         /* zero3 */
    Tensor ids, targets, order; /* (N) i32 */
    Tensor starts;              /* (N) i32; none where documents are joined */
    Tensor losses;              /* (N) acc */
    Tensor checksum;            /* (2) i32; none with one rank */
    Tensor results;             /* what is fetched of an update: the next ones, side by side */
    Tensor sums;                /* (FETCH_SUMS) acc: loss, and optimizer.left_out */
    Tensor loss; /* (1) acc: sum over the update so far, by its tokens whether or not they count */
    Tensor own_loss; /* (1) acc: of this rank's own sequences; see trainer_step */
    /* (1) acc, by setup.noise: squared norm of what the first micro-step has added to the update's
     * gradient, summed over ranks; or of what single sequences have added to the gains', summed. */
    Tensor piece_sq;
    Tensor gains_sq;         /* (1) acc: squared norm of the gains' gradient, with NOISE_GAINS */
    int64_t left_out;        /* own tokens of the update so far that do not count, */
    int64_t left_out_sent;   /* as the backend last got it, */
    double left_out_acc;     /* and in acc, the source of that upload */
    int64_t *stamps;         /* (STAMP_COUNT) of the micro-step under way, in the device's memory */
    int64_t posted, fetched; /* results of updates on their way to the host */
    /* Host: of the update fetched last, in nanoseconds of the device's clock, STAMP_MICRO for each
     * micro-step, then STAMP_TAIL of the update; NULL where the backend has no clock. */
    int64_t *fetched_stamps;
    double fetched_own_loss; /* of the last fetched, if it was asked for */
    double fetched_counted;  /* of the last fetched: tokens that count, on all ranks */
    /* Of the last fetched, by setup.noise: squared norm of the mean gradient of one rank's
     * micro-step (sequence, of the gains alone), as if it were the whole update; mean over ranks
     * (sequences). fetched_whole_sq: of the whole update (of the gains alone). */
    double fetched_piece_sq, fetched_whole_sq;
    Ddp ddp;
    Comm *comm;     /* NULL: one rank */
    bool scattered; /* zero1, zero2: the last update's weights are not all here */
    bool back;      /* the pass under way is a backward one */
    int64_t step;   /* the update under way, from 0; whoever goes on from a checkpoint sets it */
    float host_rounding[HYPER_COUNT]; /* the source of an upload */
    TrainHook hook;
    void *hook_user;
    Phase part;    /* of a step, under way; PHASE_COUNT: none */
    int64_t micro; /* micro-step under way; -1: the update */
} Trainer;

/* ERR_INPUT naming the options whose product makes a tensor of more than 2^50 bytes, beyond all
 * memory and near what numbers can count. */
int trainer_check_sizes(const TrainerSetup *setup);

/* Of an update, on one rank. */
static inline int64_t trainer_tokens(const TrainerSetup *setup)
{
    return setup->batch * setup->seq * setup->accum;
}

/* Whether with zero3 weights travel as codes where only these are read (DdpSetup.codes). */
bool trainer_sends_codes(const TrainerSetup *setup, const Backend *backend);

/* Plans by a dry run over the model code: the first, second and last micro-step of an update,
 * between which all are alike, and an evaluation. What trainer_check_sizes refuses gets a total
 * of SIZE_MAX and nothing else; a total above INT64_MAX is no number of bytes either. */
void trainer_plan(const TrainerSetup *setup, Backend *backend, TrainPlan *plan);

/* Stretches of an update, in each of which copies run beside the ops: the passes of the first
 * micro-step (forward, loss, backward), of those between, which are alike, and of the last; and the
 * update itself. */
#define STRETCH_PASSES 3
#define STRETCH_UPDATE (3 * STRETCH_PASSES)
#define STRETCHES (STRETCH_UPDATE + 1)

typedef struct {
    int stretch;
    bool back;     /* in a backward pass */
    int64_t times; /* how many times over */
} TrainerPlace;

/* Told of the op calls of one update and of what it copies, found by the same dry run. */
typedef struct {
    void (*call)(void *user, const TraceCall *call, TrainerPlace place);
    void (*copy)(void *user, CopyQueue queue, double bytes, TrainerPlace place);
    void *user;
} TrainerListener;
void trainer_calls(const TrainerSetup *setup, Backend *backend, TrainerListener listener);

/* FLOP of one micro-step that are the model's own: matrix products of its forward and backward
 * pass, each made once. Recomputation and the optimizer's products are not in it, so it is the
 * same for every setting of these, and in proportion to the tokens. */
double trainer_model_flops(const TrainerSetup *setup, Backend *backend);

/* *plan also has room for what the other takes; its work stays. */
void trainer_plan_join(TrainPlan *plan, const TrainPlan *other, const Backend *backend);

/* Largest batch (sequences per micro-step) whose plan fits in `bytes`; 0 if not even 1 does. */
int64_t trainer_largest_batch(const TrainerSetup *setup, Backend *backend, size_t bytes);

/* Allocates what the plan says. ERR_MEMORY when the backend cannot give it. Parameters are zero
 * until trainer_init_params or a checkpoint fills them. */
int trainer_open(Trainer *trainer, const TrainerSetup *setup, Backend *backend,
                 const TrainPlan *plan);
void trainer_close(Trainer *trainer); /* a no-op on a zeroed trainer; the backend stays open */

/* The model's rotary angles into `rope`: model_rope_shape in the backend's memory. */
void rope_upload(const Model *model, Backend *backend, Tensor rope);

/* Has the ops of later steps traced (NULL: no more), in sections of at most as many calls as an
 * update with one micro-step has. What the backend has recorded is dropped: it holds the stamps
 * of a trace, or lacks them. */
void trainer_trace(Trainer *trainer, Trace *trace);

/* Later updates have so many micro-steps. All results are fetched. What the backend has recorded is
 * dropped: the share of a token in the gradient is part of it. The plan has room for both. */
void trainer_set_accum(Trainer *trainer, int64_t accum);

void trainer_init_params(Trainer *trainer, uint64_t seed);

/* The state that is saved: master weights and moments, each as one flat buffer, wherever it is
 * kept. trainer_state.c */
#define STATE_PARAMS (-1)

/* Of what is read and written: masters in parts are one number in f32. */
DType trainer_state_dtype(const Trainer *trainer, int which);

/* Sets elements [offset, offset + count) from host memory of their type: on a rank that keeps
 * them; weights also where the model reads them. */
void trainer_write_state(Trainer *trainer, int which, int64_t offset, int64_t count,
                         const void *host);

/* Gets them; weights that are settled. With state kept by several ranks, all of them make the
 * same calls and get the same. */
int trainer_read_state(Trainer *trainer, int which, int64_t offset, int64_t count, void *host);

/* The stretch of one keeper that begins at `offset` and ends at `end` or earlier; own: where its
 * keeper has it in the buffer of that state. read_own: gets it there, weights that are settled. */
DdpPiece trainer_piece(const Trainer *trainer, int which, int64_t offset, int64_t end);
void trainer_read_own(Trainer *trainer, int which, DdpPiece piece, void *host);

/* A master weight as the model reads it where that is in bf16. */
uint16_t trainer_low_of(const Trainer *trainer, float master);

/* Where in optimizer.low a piece begins on a rank that has it; -1: nowhere. */
int64_t trainer_low_at(const Trainer *trainer, DdpPiece piece);

/* Whether optimizer.param is of what this rank keeps; else it is (flat) on every rank. */
bool trainer_keeps_masters(const Trainer *trainer);

/* Elements [offset, offset + count) of the gradients of one rank, in acc, of that size. Waits. */
void trainer_read_grads(const Trainer *trainer, int64_t offset, int64_t count, void *host);

/* Scales of products in e4m3, which the next update depends on: all of them as text, to be freed;
 * NULL without such products. With zero3 all ranks ask together. ERR_INPUT for text that is not
 * theirs. Those of gradients follow the tokens of an update where the trainer that takes them has
 * other updates. */
int trainer_scales_text(Trainer *trainer, char **text);
int trainer_scales_take(Trainer *trainer, const char *text);

/* As before the first update: guesses that the values of a fresh model fit into. */
void trainer_scales_reset(Trainer *trainer);

/* Codes of the weights (trainer_codes.c); all of these are no-ops without products in e4m3.
 * lay_out: room for them, and the model's maps bound to it. */
void trainer_lay_out_codes(Trainer *trainer);

/* Codes of weights that were written from the host. */
void trainer_make_codes(Trainer *trainer);

/* Scales for the next update, the same on all ranks, and the weights in them. */
void trainer_rescale(Trainer *trainer);

/* zero3: a pass begins; the weights at this element, of the layer that the pass is at, have
 * arrived. */
void trainer_clear_desk(Trainer *trainer);
void trainer_unpack(Trainer *trainer, int64_t offset);

/* Puts into name what became too large for e4m3, or no number; false when nothing did. Waits. */
bool trainer_overflow(Trainer *trainer, char name[MODEL_SCALE_NAME]);

/* The weights that the model computes with: (flat), on every rank; with zero3 what this rank keeps
 * of those that do not travel as codes. */
Tensor trainer_weights(const Trainer *trainer);

/* zero1, zero2: an update leaves each rank with its own part of the weights, and the next
 * micro-step begins with getting the others'. Whoever else reads weights calls this first, on all
 * ranks; else it does nothing. */
void trainer_settle(Trainer *trainer);

/* Of the weights: equal on all ranks, all of which call it. Settles. Waits. */
uint64_t trainer_checksum(Trainer *trainer);

/* Micro-step `micro` (0 .. accum - 1): forward, loss, backward. */
void trainer_micro_step(Trainer *trainer, HostBatch batch, int64_t micro);

/* Clips and applies the update with this rate; step counts from 0. */
void trainer_update(Trainer *trainer, double rate, int64_t step);

/* Mean loss over the tokens that count on all ranks, and gradient norm (before clipping), of an
 * update; both 0 when no token counts. post, after
 * trainer_update, sets them on their way; fetch gives those of the earliest update that were not
 * fetched, waiting for that update alone. At most trainer_ahead may be under way. */
void trainer_post(Trainer *trainer);
void trainer_fetch(Trainer *trainer, double *loss, double *grad_norm);

/* A whole update on the next batches, its results posted. Of the first one, with several ranks, the
 * loss of this rank's own sequences is fetched besides. waited: see prefetch_next, whose errors
 * are returned. */
int trainer_step(Trainer *trainer, Prefetch *prefetch, double rate, int64_t step, double *waited);

/* Joins the ranks, which must agree in setup but for ddp.rank. The channel is of the trainer's
 * backend; both stay the caller's. */
void trainer_connect(Trainer *trainer, Comm *comm, Channel *channel);

/* Lets a device choose its algorithms and load its kernels by running the step's work once on
 * made-up tokens, so that the first step is like any other. Parameters and moments stay;
 * gradients and loss do not. */
void trainer_warm(Trainer *trainer);

/* Seconds that one stamp costs, measured; 0 where there are none. */
double trainer_stamp_cost(Trainer *trainer);

/* Updates whose results need not be fetched before the next is started: 1 where that is of use,
 * else 0. */
int64_t trainer_ahead(const Trainer *trainer);

/* Whether a pass takes all ranks: weights are gathered on the way. */
static inline bool trainer_takes_all(const Trainer *trainer)
{
    return ddp_cuts_weights(&trainer->setup.ddp);
}

/* Mean loss over all rows of one batch, those that do not count having 0, without touching
 * gradients; weights are settled. */
double trainer_evaluate(Trainer *trainer, HostBatch batch);

/* Whether the backend stamps its own times into the trainer's memory. */
static inline bool trainer_is_stamped(const Trainer *trainer)
{
    return trainer->backend->stamp != NULL && !trainer->ctx.dry;
}

/* Bytes in use now at most, of the same three blocks: equals plan.blocks when the plan is right;
 * and of the block in memory of the host: plan.host. */
size_t trainer_peak_bytes(const Trainer *trainer);
size_t trainer_peak_host(const Trainer *trainer);
size_t trainer_peak_kind(const Trainer *trainer,
                         MemKind kind); /* those of one purpose, at that moment */
