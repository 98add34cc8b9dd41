#pragma once
/* How gradients change weights. An optimizer has a rule for the matrices in blocks and one for all
 * other parameters, often the same. A rule says what is remembered about every weight, and what an
 * update does with any range of the flat parameter buffer; or, between two parts over ranges, with
 * a whole matrix. Trainer, checkpoints, verification and sharding know this interface only. Where
 * ranks share the state, ranges are this rank's part, and matrices those that are given to it.
 * Gradient norm, clipping and update are two passes over memory. Everything that changes from step
 * to step is read from backend memory. */
#include "base/choices.h"
#include "model/params.h"
#include "tensor/ctx.h"

typedef struct {
    OptimizerId id;
    double beta1, beta2, eps; /* AdamW */
    double momentum;          /* SGD, Muon */
    int muon_steps;           /* of Newton and Schulz */
    double weight_decay, clip;
    DType state;   /* DT_BF16: states are kept in it; else in the type of gradients */
    uint64_t seed; /* of what is rounded by chance */
} OptimizerSettings;

#define OPTIMIZER_STATES 2  /* the most that a rule keeps */
#define OPTIMIZER_CLASSES 8 /* groups of parameters with hyperparameters of their own */
#define OPTIMIZER_HYPERS 24 /* rows of hyperparameters that they may have together */

typedef struct Optimizer Optimizer;

typedef struct {
    int states;
    const char *state_names[OPTIMIZER_STATES]; /* before a parameter's name in a checkpoint */
    int hypers;                                /* rows of hyperparameters that a class takes */

    /* Hyperparameters (hypers, HYPER_COUNT) of update `step`, counted from 0, with this rate, for
     * parameters of this growth (mup.h). */
    void (*fill_hyper)(const OptimizerSettings *settings, double rate, double growth, int64_t step,
                       float *hyper);

    /* One range, or a piece of it. args.hyper is its class's first row, which is row number `hyper`
     * of all. Behind `shape` it is given no states. */
    void (*update)(Ctx *c, const Optimizer *o, int hyper, UpdateArgs args);

    /* NULL, or what comes before update: begin makes the gradient of a range, args.grad, into
     * something that shape then makes, for a matrix (R,C) acc as a whole, into what update reads as
     * args.grad. All in place. */
    void (*begin)(Ctx *c, const Optimizer *o, int hyper, UpdateArgs args);
    void (*shape)(Ctx *c, const Optimizer *o, int hyper, Tensor matrix);
} UpdateRule;

extern const UpdateRule rule_muon;

typedef struct {
    const char *name;
    const UpdateRule *matrices, *others; /* of matrices in blocks (Param.matrix); of the rest */
} OptimizerKind;

const OptimizerKind *optimizer_kind(OptimizerId id);
const UpdateRule *optimizer_rule(const OptimizerKind *kind, const Param *param);
int optimizer_states(const OptimizerKind *kind); /* the most that one of its rules keeps */

/* Parameters with a rule and a growth in common. */
typedef struct {
    const UpdateRule *rule;
    double growth;
    int hyper; /* its first row of hyperparameters */
} UpdateClass;

/* A stretch of the flat buffer that decays, or does not. State may be kept in buffers that hold a
 * part of the whole only. */
typedef struct {
    int64_t offset; /* in grad */
    int64_t index;  /* in the flat buffer of all parameters, whoever keeps them */
    int64_t low;    /* in low; -1: it has no part in it */
    int64_t own;    /* in the first state; see optimizer_state_at */
    int64_t master; /* in param */
    int64_t count;
    int class; /* of Optimizer.classes */
    bool decay;
    bool counted; /* its gradients are in this process's norm_sq */
} OptimizerRange;

/* A matrix that a rule shapes as a whole. */
typedef struct {
    int64_t offset; /* in the flat buffer */
    int64_t rows, columns;
    int class;
    int rank; /* that does it */
    int unit; /* those of one are gathered together, and follow each other */
} OptimizerMatrix;

/* A stretch of the first state's buffer that later states' buffers leave out. */
typedef struct {
    int64_t first, count;
} StateGap;

struct Optimizer {
    const OptimizerKind *kind;
    OptimizerSettings settings;
    UpdateClass classes[OPTIMIZER_CLASSES];
    int class_count, hyper_rows;
    OptimizerRange *ranges;
    int range_count;
    StateGap *gaps;
    int gap_count;
    OptimizerMatrix *matrices;
    int matrix_count;
    int rank; /* this process's */
    /* Where ranks have parts of grad: gather makes elements [first, end) of the flat buffer, the
     * matrices of a unit, whole, between begin and shape, and returns where that is, from flat
     * offset *at on; scatter makes this rank's part the sum over ranks. NULL: grad is whole. */
    Tensor (*gather)(void *user, int64_t first, int64_t end, int64_t *at);
    void (*scatter)(void *user, int64_t first, int64_t end);
    void *user;
    /* (flat), or what ranges have of it; low is none when the model runs in the type of param, and
     * may lack ranges. Where states are in bf16 and low lacks none, param is what low lacks of the
     * masters (UpdateArgs.param). */
    Tensor param, low, grad;
    Tensor state[OPTIMIZER_STATES];
    Tensor hyper;    /* (hyper_rows x HYPER_COUNT) f32, flat */
    Tensor norm_sq;  /* (1) acc */
    Tensor left_out; /* (1) acc, see UpdateArgs */
    double tokens;   /* of an update, on all ranks */
    DType products;  /* that a rule over matrices multiplies in */
    /* Which of param, grad and states are in memory of the host (Ctx.host). They are brought to the
     * device, updated there and taken back so many elements at a time. */
    bool host_param, host_grad, host_states;
    int64_t piece;
    float host_hyper[OPTIMIZER_HYPERS * HYPER_COUNT]; /* source of the upload: it stays valid */
};

void optimizer_free(Optimizer *optimizer); /* its lists only; a no-op when zeroed */

/* The class that the parameter belongs to: its index, made where there is none. */
int optimizer_class(Optimizer *optimizer, const Param *param);

/* Appends a range, joining it to the one before when both touch and agree. After this, where states
 * lie is known. */
void optimizer_add_range(Optimizer *optimizer, OptimizerRange range);

/* Appends a matrix of a rule with `shape`. */
void optimizer_add_matrix(Optimizer *optimizer, OptimizerMatrix matrix);

/* Gives the matrices to ranks, each about the same work; 1: this process does all of them. */
void optimizer_assign(Optimizer *optimizer, int ranks, int rank);

/* Where element `own` of the first state is in state `which`, and how many elements that has where
 * the first has `owned`. */
int64_t optimizer_state_at(const Optimizer *optimizer, int which, int64_t own);

/* Type of the states, in a trainer whose gradients are in acc. */
DType optimizer_state_dtype(const Optimizer *optimizer, DType acc);

/* Sends the hyperparameters of update `step` (from 0) to the backend. */
void optimizer_prepare(Ctx *c, Optimizer *optimizer, double rate, int64_t step);

/* norm_sq of the gradients of all ranges that are counted, unless they are in memory of the host or
 * in bf16: the caller summed it where they came from. Then the update of every range by norm_sq,
 * which may overwrite grad. */
void optimizer_norm(Ctx *c, Optimizer *optimizer);
void optimizer_step(Ctx *c, Optimizer *optimizer);

/* Elements [from, from + count) of a range as its rule takes them, in the pass before `shape` or
 * in the one behind it (last), and that rule's function; NULL: it has none in that pass. */
typedef void (*RangeUpdate)(Ctx *c, const Optimizer *o, int hyper, UpdateArgs args);
RangeUpdate optimizer_update_of(const Optimizer *optimizer, const OptimizerRange *range, bool last);
UpdateArgs optimizer_args(const Optimizer *optimizer, const OptimizerRange *range, int64_t from,
                          int64_t count, bool last);

/* Such a pass where something is in memory of the host, or gradients are in bf16. */
static inline bool optimizer_is_offloaded(const Optimizer *o)
{
    return o->host_param || o->host_grad || o->host_states || o->grad.dtype == DT_BF16;
}

void optimizer_pass_offloaded(Ctx *c, const Optimizer *optimizer, bool last);
