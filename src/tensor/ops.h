#pragma once
/* The op contract. An op is what one good kernel does. The functions op_* below are what the model
 * calls: they check shapes and types, count FLOPs and bytes, take workspace, and call the backend's
 * slot of the same name; in a dry run everything but the slot happens. Slots marked "fused" may be
 * NULL: the op is then composed from the plain ones, which is also what it is tested against.
 *
 * Every output is assigned unless a Mode says otherwise. Tensors are contiguous. `act` below is the
 * activation type (f32, bf16; f64 in ref), `acc` is dtype_accumulate(act). Outputs must not overlap
 * inputs except where stated. */
#include "tensor/arena.h"
#include "tensor/ttt.h"

#include <math.h>

typedef struct Ctx Ctx;

typedef enum { MODE_SET, MODE_ADD } Mode; /* out = value, or out += value */
typedef enum { NORM_LAYER, NORM_RMS } NormKind;
/* x s(x) with s the logistic function; the tanh form of GPT-2; max(x, 0)^2 */
typedef enum { ACT_SILU, ACT_GELU, ACT_RELU2 } Activation;
typedef enum { ATTENTION_NAIVE, ATTENTION_FLASH, ATTENTION_LIBRARY } AttentionKind;

/* Layout of packed heads, and which keys a query sees. A qkv row holds H*D of q, then G*D of k,
 * then G*D of v; query head h reads key/value head h / (H / G). Rows are ordered (sequence, token).
 *
 * The query at t sees keys s <= t of its sequence, of these the last `window`, and none before its
 * document: s >= starts[its row]. Scores are scale q.k, then cap tanh(score / cap). */
typedef struct {
    int64_t batch, seq, heads, kv_heads, head_dim;
    int64_t window; /* 0: all */
    double scale;   /* 0: 1/sqrt(D) */
    double cap;     /* 0: none */
    Tensor starts;  /* (N) i32: token of its sequence where the row's document begins; none: 0 */
    Tensor turns;   /* table of op_rope: see op_attention_turns; none: q and k are as they are */
} HeadShape;

/* Plain causal attention. */
static inline HeadShape head_shape(int64_t batch, int64_t seq, int64_t heads, int64_t kv_heads,
                                   int64_t head_dim)
{
    HeadShape shape;
    memset(&shape, 0, sizeof shape);
    shape.batch = batch;
    shape.seq = seq;
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    shape.head_dim = head_dim;
    return shape;
}

static inline int64_t packed_width(HeadShape s)
{
    return (s.heads + 2 * s.kv_heads) * s.head_dim;
}

/* The shape with documents whose tensor is not there: for questions to a backend. */
static inline HeadShape with_documents(HeadShape s, bool separate)
{
    if (separate) {
        s.starts = tensor_1d(NULL, DT_I32, s.batch * s.seq);
    }
    return s;
}

/* Of the products q.k. */
static inline double score_scale(HeadShape s)
{
    return s.scale > 0 ? s.scale : 1 / sqrt((double)s.head_dim);
}

/* How many of `keys` keys up to its own a query sees in a window. */
static inline int64_t keys_at_most(HeadShape s, int64_t keys)
{
    return s.window > 0 && s.window < keys ? s.window : keys;
}

/* Position of a row in its document, or in its sequence when starts is none. starts is of host
 * memory. */
static inline int64_t row_position(Tensor starts, int64_t row, int64_t seq)
{
    int64_t start = tensor_given(starts) ? ((const int32_t *)starts.data)[row] : 0;
    return row % seq - start;
}

typedef struct {
    NormKind kind;
    double eps;
    Tensor weight; /* (C) act */
    Tensor bias;   /* (C) act; none for NORM_RMS */
} Norm;

/* RMS norm of each head of q and k, with weights that the heads share. */
typedef struct {
    double eps;
    Tensor q, k; /* (D) act */
} HeadNorm;

/* A matrix in e4m3 as products read it. A code stands for its e4m3 number times scale[INVERSE]. */
typedef struct {
    Tensor rows;    /* (N,C) e4m3, or none */
    Tensor columns; /* (C,N) e4m3, or none: the transpose, the inner dimension of dy^T x being N */
    int64_t stride; /* of columns: elements from one of the C to the next, N or more */
    Tensor scale;   /* (SCALE_COUNT) f32 */
    Tensor largest; /* (1) f32: grows to the largest |value| made into codes; NaN if one was; none:
                     * not asked for */
} Quant;

/* What scales are made of. They follow the largest values of earlier updates (op_rescale), so that
 * whoever makes the values makes the codes too. */
enum { SCALE_INVERSE, SCALE_FACTOR, SCALE_HELD, SCALE_SPARE, SCALE_COUNT };

/* held = max(largest, SCALE_DECAY held): the largest value lately. factor = 1 / inverse: the
 * largest power of 2, 2^-SCALE_MOST to 2^SCALE_MOST, that leaves held at most 2^-SCALE_ROOM of the
 * largest code. */
#define SCALE_DECAY 0.9375f
#define SCALE_ROOM 1
#define SCALE_MOST 100

static inline bool quant_given(Quant q)
{
    return tensor_given(q.rows) || tensor_given(q.columns);
}

/* Rows [first, first + count). */
Quant quant_rows(Quant q, int64_t first, int64_t count);

/* Scalars that change from step to step, read from backend memory so that a captured step can be
 * replayed. A (HYPER_COUNT) f32 tensor. */
typedef enum {
    HYPER_LR,
    HYPER_BETA1,
    HYPER_BETA2,
    HYPER_REST1, /* 1 - beta1, taken before beta1 is rounded to f32 */
    HYPER_REST2, /* 1 - beta2, likewise */
    HYPER_EPS,
    HYPER_DECAY,
    HYPER_CORRECTION1, /* 1 - beta1^t, t = 1 at the first update */
    HYPER_CORRECTION2, /* 1 - beta2^t */
    HYPER_CLIP,        /* largest gradient norm; 0: no clipping */
    HYPER_KEY1,        /* of the update's random bits (rounding.h): whole numbers of */
    HYPER_KEY2,        /* ROUNDING_KEY_BITS bits */
    HYPER_COUNT
} Hyper;

typedef struct {
    Tensor param;    /* (n) acc: master weights, updated; or rest: those of f32 that low lacks */
    Tensor low;      /* (n) bf16 copy of param, written; none when the model runs in acc itself.
                      * With rest: the upper part of the masters, updated (rounding.h) */
    Tensor grad;     /* (n) acc, read */
    Tensor state[2]; /* (n) acc or bf16, updated; as many as the op has */
    int64_t index;   /* of the first element: its number among all, for random bits */
    Tensor hyper;    /* (HYPER_COUNT) f32 */
    Tensor norm_sq;  /* (1) acc: squared norm of the whole gradient, for clipping */
    Tensor left_out; /* (1) acc: how many of `tokens` do not count; none given: all do */
    double tokens;   /* the gradient is of the losses' sum divided by this */
    bool as_is;      /* grad is taken as it is: left_out tells only whether any token counts */
    bool decay;      /* whether HYPER_DECAY applies to this range */
} UpdateArgs;

/* X(NAME, slot, fused): every op, which is counted under its name, and whether its slot may be
 * NULL. Those over act alone, and those over e4m3. */
#define PACER_OPS(X) PACER_ACT_OPS(X) PACER_QUANT_OPS(X)
#define PACER_ACT_OPS(X)                                         \
    X(EMBED_FORWARD, embed_forward, 0)                           \
    X(EMBED_BACKWARD, embed_backward, 0)                         \
    X(LINEAR_FORWARD, linear_forward, 0)                         \
    X(LINEAR_BACKWARD_INPUT, linear_backward_input, 0)           \
    X(LINEAR_BACKWARD_WEIGHT, linear_backward_weight, 0)         \
    X(LINEAR_GELU_FORWARD, linear_gelu_forward, 1)               \
    X(LINEAR_GELU_BACKWARD_INPUT, linear_gelu_backward_input, 1) \
    X(ADD, add, 0)                                               \
    X(SCALE, scale, 0)                                           \
    X(NORM_FORWARD, norm_forward, 0)                             \
    X(ADD_NORM_FORWARD, add_norm_forward, 1)                     \
    X(NORM_BACKWARD, norm_backward, 0)                           \
    X(NORM_PIECES, norm_pieces, 0)                               \
    X(HEAD_NORM_FORWARD, head_norm_forward, 0)                   \
    X(HEAD_NORM_BACKWARD, head_norm_backward, 0)                 \
    X(ROPE, rope, 0)                                             \
    X(ATTENTION_FORWARD, attention_forward, 0)                   \
    X(ATTENTION_BACKWARD, attention_backward, 0)                 \
    X(GATED_FORWARD, gated_forward, 0)                           \
    X(GATED_BACKWARD, gated_backward, 0)                         \
    X(ACT_FORWARD, act_forward, 0)                               \
    X(ACT_BACKWARD, act_backward, 0)                             \
    X(XENT, xent, 0)                                             \
    X(SUM, sum, 0)                                               \
    X(SUM_SQUARES, sum_squares, 0)                               \
    X(ADAMW, adamw, 0)                                           \
    X(SGD, sgd, 0)                                               \
    X(CAST, cast, 0)                                             \
    X(CHECKSUM, checksum, 0)                                     \
    X(TTT_FORWARD, ttt_forward, 0)                               \
    X(TTT_BACKWARD, ttt_backward, 0)                             \
    X(TTT_START, ttt_start, 0)                                   \
    X(TTT_STEP, ttt_step, 0)                                     \
    X(EMBED_STEP, embed_step, 0)                                 \
    X(ATTENTION_FILL, attention_fill, 0)                         \
    X(ATTENTION_STEP, attention_step, 0)
#define PACER_QUANT_OPS(X)                             \
    X(QUANTISE, quantise, 0)                           \
    X(QUANT_TURN, quant_turn, 1)                       \
    X(RESCALE, rescale, 0)                             \
    X(QUANT_FORWARD, quant_forward, 0)                 \
    X(QUANT_BACKWARD_INPUT, quant_backward_input, 0)   \
    X(QUANT_BACKWARD_WEIGHT, quant_backward_weight, 0) \
    X(QUANT_NORM, quant_norm, 1)                       \
    X(QUANT_ACT, quant_act, 1)                         \
    X(QUANT_ACT_BACKWARD, quant_act_backward, 1)       \
    X(QUANT_XENT, quant_xent, 1)

typedef enum {
#define X(name, slot, fused) OP_##name,
    PACER_OPS(X)
#undef X
        OP_COUNT
} OpId;

const char *op_name(OpId op);
const char *attention_name(AttentionKind kind);

/* What a backend fills. Arguments and rules are those of the op_* of the same name. `ws` is a
 * (bytes) workspace of the size that the slot's *_ws function asked for; a NULL *_ws asks for
 * none. */
typedef struct {
    void (*embed_forward)(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                          int64_t seq, Tensor out);
    void (*embed_backward)(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                           Tensor dpositions, Tensor starts, int64_t seq, Mode dtable_mode,
                           Mode dpositions_mode);
    void (*linear_forward)(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y);
    void (*linear_backward_input)(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode);
    void (*linear_backward_weight)(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode,
                                   void *ws);
    size_t (*linear_backward_weight_ws)(const Ctx *c, Tensor x, Tensor dy);
    void (*linear_gelu_forward)(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre,
                                Tensor y); /* fused */
    void (*linear_gelu_backward_input)(Ctx *c, Tensor dy, Tensor w, Tensor pre,
                                       Tensor dpre); /* fused */
    void (*add)(Ctx *c, Tensor a, Tensor b, Tensor out);
    void (*scale)(Ctx *c, Tensor x, double factor, double cap, Tensor out);
    void (*norm_forward)(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats);
    void (*add_norm_forward)(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y,
                             Tensor stats); /* fused */
    void (*norm_backward)(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx,
                          Mode dx_mode, Tensor dweight, Tensor dbias, Mode mode, void *ws);
    size_t (*norm_backward_ws)(const Ctx *c, Tensor x);
    void (*norm_pieces)(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights);
    void (*head_norm_forward)(Ctx *c, Tensor qkv, HeadShape shape, HeadNorm norm, Tensor out);
    void (*head_norm_backward)(Ctx *c, Tensor dout, Tensor qkv, HeadShape shape, HeadNorm norm,
                               Tensor dqkv, Tensor dq, Tensor dk, Mode mode, void *ws);
    size_t (*head_norm_backward_ws)(const Ctx *c, HeadShape shape);
    void (*rope)(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse);
    void (*attention_forward)(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux,
                              void *ws);
    size_t (*attention_forward_ws)(const Ctx *c, HeadShape shape, DType dtype);
    void (*attention_backward)(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux,
                               HeadShape shape, Tensor dqkv, void *ws);
    size_t (*attention_backward_ws)(const Ctx *c, HeadShape shape, DType dtype);
    bool (*attention_turns)(const Ctx *c, HeadShape shape, DType dtype); /* NULL: no */
    void (*gated_forward)(Ctx *c, Activation act, Tensor gate_up, Tensor y);
    void (*gated_backward)(Ctx *c, Activation act, Tensor dy, Tensor gate_up, Tensor dgate_up);
    void (*act_forward)(Ctx *c, Activation act, Tensor x, Tensor y);
    void (*act_backward)(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx);
    void (*xent)(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
                 double scale, bool gradient);
    void (*sum)(Ctx *c, Tensor x, double scale, Tensor out, Mode mode);
    void (*sum_squares)(Ctx *c, Tensor x, Tensor out, Mode mode, void *ws);
    size_t (*sum_squares_ws)(const Ctx *c, Tensor x);
    void (*adamw)(Ctx *c, UpdateArgs args);
    void (*sgd)(Ctx *c, UpdateArgs args);
    void (*cast)(Ctx *c, Tensor from, Tensor to);
    void (*checksum)(Ctx *c, Tensor x, Tensor out, void *ws);
    size_t (*checksum_ws)(const Ctx *c, Tensor x);
    void (*ttt_forward)(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                        Tensor out, Tensor states, void *ws);
    size_t (*ttt_forward_ws)(const Ctx *c, const TttShape *shape, DType dtype);
    void (*ttt_backward)(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                         Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode,
                         void *ws);
    size_t (*ttt_backward_ws)(const Ctx *c, const TttShape *shape, DType dtype);
    size_t (*ttt_states_bytes)(const Ctx *c, const TttShape *shape, DType dtype);
    void (*ttt_start)(Ctx *c, const TttShape *shape, const TttWeights *w, Tensor state);
    void (*ttt_step)(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                     Tensor position, Tensor state, Tensor out);
    void (*embed_step)(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position,
                       Tensor out);
    void (*attention_fill)(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache);
    void (*attention_step)(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                           Tensor cache, Tensor out, void *ws);
    size_t (*attention_step_ws)(const Ctx *c, HeadShape shape, DType dtype, int64_t context);
    void (*quantise)(Ctx *c, Tensor x, Quant q, Tensor dbias, Mode mode, void *ws);
    size_t (*quantise_ws)(const Ctx *c, Tensor x, Tensor dbias);
    void (*quant_turn)(Ctx *c, Quant q); /* may be NULL */
    void (*rescale)(Ctx *c, Tensor scales, Tensor largest);
    void (*quant_forward)(Ctx *c, Quant x, Quant w, Tensor bias, Tensor y);
    void (*quant_backward_input)(Ctx *c, Quant dy, Quant w, Tensor dx, Mode mode);
    void (*quant_backward_weight)(Ctx *c, Quant x, Quant dy, Tensor dw, Mode mode);
    void (*quant_norm)(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Quant y,
                       Tensor stats);                                         /* fused */
    void (*quant_act)(Ctx *c, Activation act, bool gated, Tensor x, Quant y); /* fused */
    void (*quant_act_backward)(Ctx *c, Activation act, bool gated, Tensor dy, Tensor x, Quant dx,
                               Tensor dbias, Mode mode, void *ws); /* fused */
    size_t (*quant_act_backward_ws)(const Ctx *c, Tensor x, Tensor dbias);
    void (*quant_xent)(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets,
                       Tensor losses, double scale, Quant dlogits, void *ws); /* fused */
    size_t (*quant_xent_ws)(const Ctx *c, Tensor logits);
} Ops;

/* Returns the name of the first slot that is required and empty, or NULL. */
const char *ops_missing(const Ops *ops);

/* Weights for use without training: on a backend with bf16_weights (ref, cpu) the matrix of
 * op_linear_forward and the tables of op_embed_forward and op_embed_step may be bf16 where
 * everything else is f32. Results are those of the same weights in f32. */

/* out (N,C) act = table[ids] + positions[t], t = row mod seq, less starts[row] where starts, as in
 * HeadShape, is given. table (V,C) act or bf16, ids (N) i32 in [0,V); positions (>= seq, C) of the
 * table's type or none. */
void op_embed_forward(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor starts,
                      int64_t seq, Tensor out);

/* dtable (V,C) acc: row v gets the sum of dout over rows with ids == v; dpositions (P,C) acc or
 * none: row t the sum over rows at that position. MODE_SET writes every row, also those no token
 * names. order (N) i32: rows sorted by id, equal ids in row order; sums run in that order, so the
 * result is deterministic. */
void op_embed_backward(Ctx *c, Tensor ids, Tensor order, Tensor dout, Tensor dtable,
                       Tensor dpositions, Tensor starts, int64_t seq, Mode dtable_mode,
                       Mode dpositions_mode);

/* y (N,O) = x (N,I) w^T + bias. w (O,I) act or bf16, bias (O) or none and the others act. */
void op_linear_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor y);

/* dx (N,I) = dy (N,O) w, all act. */
void op_linear_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor dx, Mode mode);

/* dw (O,I) acc = dy^T x, and dbias (O) acc or none = column sums of dy; x, dy act. */
void op_linear_backward_weight(Ctx *c, Tensor x, Tensor dy, Tensor dw, Tensor dbias, Mode mode);

/* pre (N,O) = x w^T + bias; y = gelu(pre). Fused. */
void op_linear_gelu_forward(Ctx *c, Tensor x, Tensor w, Tensor bias, Tensor pre, Tensor y);

/* dpre (N,I) = (dy (N,O) w) * gelu'(pre). Fused. dpre may be pre. */
void op_linear_gelu_backward_input(Ctx *c, Tensor dy, Tensor w, Tensor pre, Tensor dpre);

/* out = a + b, all (N,C) act; out may be a or b. */
void op_add(Ctx *c, Tensor a, Tensor b, Tensor out);

/* out = factor x, and with a cap above 0 then cap tanh(out / cap); any shape. out may be x. */
void op_scale(Ctx *c, Tensor x, double factor, double cap, Tensor out);

/* y (N,C) = norm(x (N,C)). stats (N,2) acc: mean (0 for RMS) and 1/sqrt(variance + eps). */
void op_norm_forward(Ctx *c, Tensor x, Norm norm, Tensor y, Tensor stats);

/* r = x + h; y = norm(r). Fused. The norm reads r as stored (rounded to act). r may be x or h. */
void op_add_norm_forward(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Tensor y, Tensor stats);

/* From dy (N,C) at the norm's output and its input x: dx (N,C) act by dx_mode (ADD joins the
 * residual stream's gradient), dweight (C) and dbias (C, or none) acc by mode. dx may be dy when
 * dx_mode is SET. */
void op_norm_backward(Ctx *c, Tensor dy, Tensor x, Norm norm, Tensor stats, Tensor dx, Mode dx_mode,
                      Tensor dweight, Tensor dbias, Mode mode);

/* dweights (P,C) acc, assigned: op_norm_backward's dweight by N / P rows at a time. dy, x (N,C)
 * act, stats (N,2) acc as there; N is a multiple of P. */
void op_norm_pieces(Ctx *c, Tensor dy, Tensor x, Tensor stats, Tensor dweights);

/* out (N, (H+2G)D): q and k of qkv with x / sqrt(mean of x^2 + eps) * weight in the place of each
 * head x (D), v as it is. out may be qkv. */
void op_head_norm_forward(Ctx *c, Tensor qkv, HeadShape shape, HeadNorm norm, Tensor out);

/* From dout (N, (H+2G)D) and the forward's qkv: dqkv (N, (H+2G)D), assigned, which may be dout;
 * dq and dk (D) acc, by the weights, by mode. */
void op_head_norm_backward(Ctx *c, Tensor dout, Tensor qkv, HeadShape shape, HeadNorm norm,
                           Tensor dqkv, Tensor dq, Tensor dk, Mode mode);

/* Rotates q and k of qkv (N, (H+2G)D) in place. Pairs are (i, i + D/2) of a head; D is even.
 * table (>= seq, D) acc: D/2 cosines, then D/2 sines, per position, which is that of the row in its
 * document where shape.starts is given, and else in its sequence. inverse rotates back
 * (backward). */
void op_rope(Ctx *c, Tensor qkv, HeadShape shape, Tensor table, bool inverse);

/* Attention of each query over the keys that `shape` lets it see. out (N, H*D). aux keeps what
 * backward needs: its shape comes from op_attention_aux_shape. */
void op_attention_forward(Ctx *c, Tensor qkv, HeadShape shape, Tensor out, Tensor aux);

/* Whether attention here turns q and k itself: with shape.turns given, qkv is as it was before
 * op_rope, and the gradient by it is that behind the inverse, with the same bits as by op_rope. */
bool op_attention_turns(const Ctx *c, HeadShape shape, DType dtype);

/* NAIVE: probabilities (B,H,T,T) act, 0 where a query does not see. FLASH: log-sum-exp of the
 * scores (B,H,T) acc, scaled and capped. CUDNN: as FLASH. */
Tensor op_attention_aux_shape(const Ctx *c, HeadShape shape, DType dtype);
Tensor op_attention_aux(Ctx *c, HeadShape shape, DType dtype); /* such a one on c->saved */

/* dqkv (N, (H+2G)D), assigned, from dout (N, H*D), qkv (after rope, or with shape.turns before it),
 * out and aux of the forward. */
void op_attention_backward(Ctx *c, Tensor dout, Tensor qkv, Tensor out, Tensor aux, HeadShape shape,
                           Tensor dqkv);

/* y (N,F) = act(gate) * up, gate_up (N,2F): F gates, then F ups. */
void op_gated_forward(Ctx *c, Activation act, Tensor gate_up, Tensor y);

/* dgate_up (N,2F) from dy (N,F); dgate_up may be gate_up. */
void op_gated_backward(Ctx *c, Activation act, Tensor dy, Tensor gate_up, Tensor dgate_up);

/* y = act(x); any shape. */
void op_act_forward(Ctx *c, Activation act, Tensor x, Tensor y);

/* dx = dy * act'(x); dx may be dy or x. */
void op_act_backward(Ctx *c, Activation act, Tensor dy, Tensor x, Tensor dx);

/* losses (n) acc = -log softmax(z)[target] over the first `classes` columns, z being the logits
 * (n,V), or with a cap above 0 z = cap tanh(logits / cap); with gradient, logits become
 * (softmax - onehot) * scale in place, with a cap times 1 - (z / cap)^2, and 0 in the columns
 * behind, which are padding. targets (n) i32 below classes; a negative target gives loss and
 * gradient 0. */
void op_xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets, Tensor losses,
             double scale, bool gradient);

/* out (1) acc = scale * sum of x (n) acc. */
void op_sum(Ctx *c, Tensor x, double scale, Tensor out, Mode mode);

/* out (1) acc = sum of squares of x (n) acc; order of summation depends only on n and the thread
 * count. */
void op_sum_squares(Ctx *c, Tensor x, Tensor out, Mode mode);

/* Updates of a flat range. g is the gradient of the mean over the tokens that count: grad times
 * tokens / (tokens - left_out), or with as_is grad itself; norm is its norm. Then g is scaled by
 * min(1, clip / (norm + 1e-6)) when clip > 0. Where no token counts there is no gradient, and
 * nothing is written.
 * AdamW, states m and v:
 *   p -= lr * decay * p;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
 *   p -= lr * (m / c1) / (sqrt(v / c2) + eps).
 * SGD with momentum, state m:
 *   m = b1 m + g;  p -= lr * (m + decay * p).
 * p is computed from m and v before they are rounded. To bf16 they are, by way of f32, by chance
 * (bf16_by_chance), with rounding_bits of the update's key and the element's number. */
void op_adamw(Ctx *c, UpdateArgs args);
void op_sgd(Ctx *c, UpdateArgs args);

/* to = from converted element by element; equal counts, shapes may differ. Any two of f32, bf16
 * and, in ref and cpu, f64. Rounded once, to nearest, ties to even; what is too large becomes an
 * infinity, and denormals and signed zeros are kept. A NaN stays one, not always the same one;
 * equal types are copied bit by bit. */
void op_cast(Ctx *c, Tensor from, Tensor to);

/* out (2) i32: lower and upper half of a 64-bit checksum of the exact bits of x, any shape and
 * type. It is the sum modulo 2^64 over elements i of checksum_term(bits of x[i], i)
 * (checksum.h), so it depends on neither order nor threads and is the same on every backend. A
 * change of one element always changes it; any other change does but for a chance of 2^-64. */
void op_checksum(Ctx *c, Tensor x, Tensor out);

/* out (N, H*D) act: the layer of ttt.h applied to x (N, width) act, row by row q_i +
 * norm(inner_i(q_i)). rope (>= min(m, seq), D) acc: D/2 cosines, then D/2 sines, per position.
 * states, from op_ttt_states, takes what the backend wants back in op_ttt_backward; none:
 * nothing is kept. */
void op_ttt_forward(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                    Tensor out, Tensor states);

/* Room for what this backend's forward keeps for its backward, or on c->saved; none when that is
 * nothing. */
Tensor op_ttt_states_shape(const Ctx *c, const TttShape *shape, DType dtype);
Tensor op_ttt_states(Ctx *c, const TttShape *shape, DType dtype);

/* From dout (N, H*D): dx (N, width), assigned, 0 in the padding; the parameters' gradients, acc,
 * by mode, summed over sequences in an order that depends on the shape alone. */
void op_ttt_backward(Ctx *c, Tensor dout, Tensor x, const TttShape *shape, const TttWeights *w,
                     Tensor rope, Tensor states, Tensor dx, const TttWeights *grads, Mode mode);

/* Token by token, for generation. state (B*H, 2 * ttt_state) acc: per sequence and head the inner
 * parameters at the mini-batch's start in the order w1, b1, w2, b2, then the sums of lambda times
 * inner gradient since, in the same order. start makes the state before the first token. */
void op_ttt_start(Ctx *c, const TttShape *shape, const TttWeights *w, Tensor state);

/* The next token of each sequence: x (B, width), out (B, H*D), state advanced. shape.seq is not
 * read. position (1) i32: how many tokens came before. */
void op_ttt_step(Ctx *c, Tensor x, const TttShape *shape, const TttWeights *w, Tensor rope,
                 Tensor position, Tensor state, Tensor out);

/* Generation from keys and values that are kept: cache (S, 2*G*context, D) act, rank 3, S
 * sequences, of each first the keys of its G heads, context rows of D, then the values. */

/* Embedding of the next token of each sequence: out (S,C) act = table[ids] +
 * positions[position]. position (1) i32 in backend memory: how many tokens came before; the same
 * for all sequences. positions may be none. */
void op_embed_step(Ctx *c, Tensor ids, Tensor table, Tensor positions, Tensor position, Tensor out);

/* Keys and values of qkv (B*T, (H+2G)D), after rope, become rows 0 .. T-1 of the cache: sequence
 * s of the cache takes those of sequence s mod B. S is a multiple of B, T at most the context. */
void op_attention_fill(Ctx *c, Tensor qkv, HeadShape shape, Tensor cache);

/* The next token of each sequence: qkv (S, (H+2G)D) as the projection made it, S = shape.batch,
 * shape.seq is not read. Turns q and k by row `position` of rope (none: not), puts k and v into
 * row `position` of the cache, and gives out (S, H*D): attention of q over rows 0 .. position, of
 * which it sees the last shape.window. A sequence is one document: shape.starts is none. qkv may be
 * overwritten. */
void op_attention_step(Ctx *c, Tensor qkv, HeadShape shape, Tensor rope, Tensor position,
                       Tensor cache, Tensor out);

/* Products in e4m3, and what makes their operands. Activations are bf16, sums f32; N and every
 * width are multiples of 16. A Quant that is an output gets the codes of value * factor, both
 * layouts or the one that is given; its largest grows unless c->watching is off. The numbers
 * that codes are made of are rounded to bf16 first, as if stored. */

/* q (N,C) = x (N,C), act or f32, and dbias (C) acc or none = column sums of what is rounded.
 * Without columns N may be anything; without either layout only q.largest is made. */
void op_quantise(Ctx *c, Tensor x, Quant q, Tensor dbias, Mode mode);

/* Columns of q from its rows. Where the slot is NULL nobody may call it, and ranks send each other
 * no codes. */
void op_quant_turn(Ctx *c, Quant q);

/* scales (n, SCALE_COUNT) f32 for the next update, from the largest (n, parts) f32 seen in this one
 * by each of its parts; largest becomes 0. A largest of 0 leaves held as it is; one that is not
 * finite makes held NaN, and with it everything that is multiplied. */
void op_rescale(Ctx *c, Tensor scales, Tensor largest);

/* y (N,O) act = x (N,I) w^T + bias: rows of both. bias (O) act or none. */
void op_quant_forward(Ctx *c, Quant x, Quant w, Tensor bias, Tensor y);

/* dx (N,I) act = dy (N,O) w: rows of dy, columns of w. */
void op_quant_backward_input(Ctx *c, Quant dy, Quant w, Tensor dx, Mode mode);

/* dw (O,I) acc = dy^T x: columns of both. */
void op_quant_backward_weight(Ctx *c, Quant x, Quant dy, Tensor dw, Mode mode);

/* op_norm_forward, or with h given op_add_norm_forward, whose y is codes. Fused. */
void op_quant_norm(Ctx *c, Tensor x, Tensor h, Norm norm, Tensor r, Quant y, Tensor stats);

/* op_act_forward, or op_gated_forward, whose y is codes. Fused. */
void op_quant_act(Ctx *c, Activation act, bool gated, Tensor x, Quant y);

/* op_act_backward, or op_gated_backward, whose dx is codes; dbias as in op_quantise. Fused. */
void op_quant_act_backward(Ctx *c, Activation act, bool gated, Tensor dy, Tensor x, Quant dx,
                           Tensor dbias, Mode mode);

/* op_xent with gradient, which is codes. logits may be overwritten. Fused. */
void op_quant_xent(Ctx *c, Tensor logits, int64_t classes, double cap, Tensor targets,
                   Tensor losses, double scale, Quant dlogits);
