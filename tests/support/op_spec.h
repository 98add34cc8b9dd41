#pragma once
/* What each op takes, as data: the tensors in the order of the call, their shapes in letters, which
 * are written, and what to fill them with. Checks of every kind (against ref, by differences, fused
 * against composed) and the list of shapes are written once over this table. */
#include "tensor/ctx.h"

/* head_shape() where a constant is asked for. */
#define HEADS(b, t, h, g, d)                                                     \
    {                                                                            \
        .batch = (b), .seq = (t), .heads = (h), .kv_heads = (g), .head_dim = (d) \
    }

/* The same with all that says which keys a query sees; docs: 1 with documents, else 0. */
#define SEES(b, t, h, g, d, keys, factor, most, docs)                              \
    {                                                                              \
        .batch = (b), .seq = (t), .heads = (h), .kv_heads = (g), .head_dim = (d),  \
        .window = (keys), .scale = (factor), .cap = (most), .starts.rank = (docs), \
        .starts.dtype = DT_I32, .starts.dim = {                                    \
            (b) * (t)                                                              \
        }                                                                          \
    }

/* One op on one shape with one choice of everything that can be chosen. */
typedef struct {
    OpId op;
    int64_t rows, width, outs;  /* N; C, I, F or n; O or V */
    int64_t seq;                /* embed: rows of a sequence; embed_step: the position */
    HeadShape heads;            /* rope, attention; attention_step: seq is position + 1; starts: its
                                 * shape alone */
    int64_t sequences, context; /* attention_fill and _step: of the cache */
    TttShape ttt;               /* ttt; batch is 0 in the cases of all other ops */
    double inner;               /* ttt: scale of the inner model's random weights */
    int64_t clamped;            /* ttt: token of a mini-batch, from 1 on, whose tau is 0; 0: none */
    double scale;               /* of random inputs; 0 stands for 1 */
    double cap;                 /* scale, xent */
    /* Bias, positions, rope, gradient of xent, cast to bf16; low, clip and left_out of adamw. */
    bool option;
    bool flag; /* rope backwards, adamw with decay, xent with padded columns, embed of documents */
    bool halves; /* states of an update are in bf16 (TYPE_STATE), else in acc */
    Mode mode;   /* of gradients of parameters, and of single outputs */
    Mode mode2;  /* norm_backward: of dx; embed_backward: of dpositions */
    NormKind norm;
    Activation act;
    AttentionKind attention;
    int alias; /* k > 0: the k-th pair of OpSpec.alias is one tensor */
} OpCase;

#define OP_LABEL_SIZE 192
const char *op_case_label(const OpCase *k, char text[OP_LABEL_SIZE]);

/* Columns of xent that are no padding. */
int64_t op_case_classes(const OpCase *k);

/* Multiply-adds of one pass, roughly. */
double op_case_work(const OpCase *k);

/* USE_SPENT: an input that may come out as anything. */
typedef enum { USE_IN, USE_OUT, USE_UPDATE, USE_BY_MODE, USE_BY_MODE2, USE_SPENT } ArgUse;
typedef enum { TYPE_ACT, TYPE_ACC, TYPE_F32, TYPE_BF16, TYPE_I32, TYPE_STATE } ArgType;
typedef enum {
    WHEN_ALWAYS,
    WHEN_OPTION,
    WHEN_NO_OPTION,
    WHEN_LAYER_NORM,
    WHEN_NAIVE,
    WHEN_FLASH,
    WHEN_TTT_MLP,
    WHEN_STARTS,
    WHEN_FLAG
} ArgWhen;
typedef enum {
    FILL_NORMAL,
    FILL_NEAR_ONE, /* weights of norms */
    FILL_POSITIVE,
    FILL_LOGITS,  /* rows far from zero, so that exp overflows unless the maximum is taken off */
    FILL_BITS,    /* any 32 bits */
    FILL_IDS,     /* [0, V) */
    FILL_ORDER,   /* rows sorted by the argument before, stable */
    FILL_TARGETS, /* [0, V), and -1 in some rows */
    FILL_STARTS,  /* of documents, some of one token */
    FILL_ROPE,    /* cosines and sines */
    FILL_HYPER,
    FILL_NORM_SQ, /* sum of squares of the argument named "grad" */
    FILL_SMALL,
    FILL_TTT_INPUT,    /* packed rows; what is not to be read is far too large */
    FILL_TTT_INDEX,    /* small, but where OpCase.clamped says */
    FILL_TTT_WEIGHT,   /* of the inner model */
    FILL_TTT_STATE,    /* inner weights, then sums of gradients */
    FILL_TTT_POSITION, /* of a sequence's last token */
    FILL_POSITION,     /* of embed_step and attention_step */
    FILL_DERIVED       /* what OpSpec.derive computes: results of a forward op */
} ArgFill;

typedef struct {
    const char *name;
    /* One letter per dimension: N C O as in OpCase, U = 2C, B H T D of the heads, R = B*T,
     * A = H*D, Q = (H+2G)*D, S = T + 2 rows of a rope table, P = seq + 3 positions,
     * Y = HYPER_COUNT, and the digits 1 and 2. Of ttt B H T D R A likewise, W width, M mini,
     * F as in ttt.h, K rows of its rope table, E = B*H, Z = 2 * ttt_state. Of a cache J sequences,
     * X = 2*G*context, L = context. */
    const char *shape;
    ArgUse use;
    ArgType type;
    ArgFill fill;
    ArgWhen when;
} OpArg;

/* What of a case an op depends on, beside its sizes. */
enum {
    VARY_OPTION = 1,
    VARY_FLAG = 2,
    VARY_MODE = 4,
    VARY_MODE2 = 8,
    VARY_NORM = 16,
    VARY_ATTENTION = 32,
    VARY_GELU = 64, /* of an activation: else silu */
    VARY_RELU2 = 128,
    VARY_CAP = 256,
    VARY_HALVES = 512
};

#define OP_ARGS_MAX 20
#define OP_ALIASES_MAX 2

typedef struct {
    OpArg arg[OP_ARGS_MAX]; /* ends at a NULL name */
    unsigned varies;
    int draws; /* inputs over which the fair error of small outputs is taken; 0 stands for 1 */
    /* Pairs (output, input) that the contract lets be one tensor; ends at {0, 0}. */
    struct {
        int out, in;
    } alias[OP_ALIASES_MAX + 1];
    void (*call)(const OpCase *k, Ctx *c, const Tensor *t);   /* the op_* function */
    void (*derive)(const OpCase *k, Ctx *c, const Tensor *t); /* fills FILL_DERIVED; may be NULL */
} OpSpec;

const OpSpec *op_spec(OpId op);

/* Number of arguments of the op; index of one by name, or -1. */
int op_spec_count(const OpSpec *spec);
int op_spec_find(const OpSpec *spec, const char *name, const OpCase *k);

bool op_arg_given(const OpArg *arg, const OpCase *k);
bool op_arg_written(const OpArg *arg);                    /* with results to look at */
bool op_arg_reads_old(const OpArg *arg, const OpCase *k); /* contents before the op matter */

/* Shape and type of an argument under an activation type; no data. Rank 0 if it is not given. */
Tensor op_arg_tensor(const OpArg *arg, const OpCase *k, DType act);

/* All cases of an op, at most OP_CASES_MAX, into cases. Returns how many. */
#define OP_CASES_MAX 160
int op_cases(OpId op, OpCase cases[OP_CASES_MAX]);
