#pragma once
/* The two parts of a block: a mixer, which moves information between tokens (attention, or
 * test-time training), and a feed-forward, which works on each token alone. The block calls both
 * through this table; which ones a layer has follows from the model's fields. */
#include "model/params.h"
#include "tensor/ctx.h"

typedef struct Model Model;

typedef struct {
    /* Adds rows to the table for the layer's weights that are the part's. */
    void (*declare)(Model *model, int layer);

    /* out (N,C) from x (N,C); saves on c->saved what backward needs. */
    void (*forward)(Ctx *c, Model *model, int layer, Tensor x, Tensor out);

    /* From dout (N,C) and the forward's x: parameter gradients by mode, then dx, written over x. */
    void (*backward)(Ctx *c, Model *model, int layer, Tensor dout, Tensor x, Mode mode);

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
