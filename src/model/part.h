#pragma once
/* The two parts of a block: a mixer, which moves information between tokens (attention, or
 * test-time training), and a feed-forward, which works on each token alone. The block calls both
 * through this table; which ones a layer has follows from the model's fields. */
#include "model/params.h"
#include "tensor/ctx.h"

typedef struct Model Model;

/* A weight and where its gradient goes; given or not like any tensor. */
typedef struct {
    int first, rows; /* of the parameter table, joined; none: 0 rows */
    Tensor value;    /* act */
    Tensor grad;     /* acc */
} Weight;

typedef struct {
    Weight weight, bias;
    bool product;        /* its weight is a matrix that rows are multiplied with */
    Tensor master;       /* what codes are made of where weight.value has no data; f32 */
    Quant codes;         /* the weight in e4m3; none: products are in act */
    Tensor scales[2][2]; /* of its input and of its output's gradient: Quant.scale, Quant.largest */
} Linear;

/* The input of a linear map, as its products read it: plain, or in codes, whose rows forward reads
 * and whose columns the weight's gradient. */
typedef struct {
    Tensor plain; /* (N,C) act */
    Quant codes;
} Operand;

typedef struct {
    /* Adds rows to the table for the layer's weights that are the part's. */
    void (*declare)(Model *model, int layer);

    /* Forward: from x (N,C) all that lies before the last product, in rooms by Model.keep
     * (part_room). While Model.again is set, only what was not kept. */
    void (*inside)(Ctx *c, Model *model, int layer, Operand x);

    /* And the last product, to out (N,C). */
    void (*last)(Ctx *c, Model *model, int layer, Tensor out);

    /* From dout (N,C) and the forward's x: parameter gradients by mode, then dx (N,C), which may be
     * x.plain. */
    void (*backward)(Ctx *c, Model *model, int layer, Tensor dout, Operand x, Tensor dx, Mode mode);

    /* Mixers only. Shape of the state from which one layer goes on token by token, for that many
     * sequences, and the state before the first token (NULL: anything is). While Model.decode has
     * states, forward takes one token of each sequence and goes on from them. */
    Tensor (*decode_shape)(const Model *model, int64_t sequences);
    void (*decode_start)(Ctx *c, Model *model, int layer, Tensor state);

    /* The state holds something of every token, of a context at most, and forward over a
     * sequence's beginning can leave it behind (Decode.filling). Otherwise its size does not
     * depend on the text, which has no limit, and it is reached token by token only. */
    bool keeps_tokens;
} BlockPart;

extern const BlockPart part_attention, part_ttt, part_ffn;
