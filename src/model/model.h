#pragma once
/* The model: parameter table, views of its weights and gradients, and the three parts of a training
 * pass (forward, head with loss, backward). One code for every backend and family. */
#include "base/choices.h"
#include "model/part.h"
#include "tensor/ctx.h"

#define MIXER_LINEARS 4 /* linear maps and norms a mixer may have */
#define MIXER_INNER 8   /* other weights */

typedef struct {
    const BlockPart *mixer, *ffn;
    Linear norm1, norm2; /* (C) each, before mixer and feed-forward */
    Linear post1, post2; /* behind them, where the model has such */
    Linear up, down;     /* up: (F,C), or (2F,C) with a gate, which comes first; down: (C,F) */
    Linear mixing[MIXER_LINEARS]; /* the first reads the mixer's input */
    Weight inner[MIXER_INNER];
} Layer;

#define MIXER_SAVED 4

/* What one block keeps from forward to backward, rows (N = B*T) by width. */
typedef struct {
    ArenaMark mark;    /* of the saved arena, before the block */
    Tensor here, away; /* all that it keeps, as bytes, and its place in memory of the host */
    Tensor r1, stats1; /* residual stream at the block's start (N,C), of its norm (N,2) */
    Operand n1;        /* that norm (N,C) */
    Tensor mixer[MIXER_SAVED];
    Operand mixed; /* what the mixer's last product reads */
    Tensor r2, stats2;
    Operand n2;                        /* the same after the mixer */
    Tensor branch[2], branch_stats[2]; /* (N,C) before post1 and post2, and of these norms */
    Tensor up;                         /* (N,F) or (N,2F) before the activation */
    Operand act;                       /* (N,F) after it */
} BlockSaved;

/* Keep, in a model: r1, r2 and statistics are kept of every block, and what post norms read.
 * KEEP_NO_NORMS makes n1, n2 and a TTT layer's last norm again in backward; KEEP_NO_ACTS also act;
 * KEEP_NO_FFN also up; KEEP_NO_MIXERS also what the mixer saves; KEEP_INPUTS all but r1. */

/* Token ids in backend memory, each (B*T) i32. order is for op_embed_backward. starts, as in
 * HeadShape: documents do not see each other; none: a sequence is one. */
typedef struct {
    int64_t batch, seq;
    Tensor ids, targets, order, starts;
} DeviceBatch;

/* Going on token by token from what the layers carry along; none unless model_decode_start was
 * called. */
typedef struct {
    int64_t sequences;
    Tensor states;   /* as model_decode_shape says: the rows of each layer behind the last one's */
    Tensor position; /* (1) i32 in backend memory: tokens that came before, the same for all */
    /* Instead of a step, the next pass is an ordinary one over the beginning of sequences
     * [fill_first, fill_first + fill_count), and leaves its tokens in their states
     * (BlockPart.keeps_tokens). Sequence s of a batch of B is that of fill_first + s, + s + B, +
     * s + 2B ... */
    bool filling;
    int64_t fill_first, fill_count;
} Decode;

struct Model {
    ModelSpec spec;
    DType act;
    bool quantised; /* products are in e4m3, but for those of plain_products: bits by place */
    unsigned plain_products;
    bool host_masters; /* ModelQuant's */
    ParamTable params;
    int64_t vocab_rows; /* of the embedding and head: the vocabulary, padded */
    int row_head;       /* of the head's own weights; -1 when tied */
    Tensor rope;        /* as model_rope_shape says: cosines, sines; none without rope */
    Linear embed, positions, final_norm, head;
    Layer *layers;
    Decode decode;
    /* State of the pass under way. */
    /* (1) acc each, or none: with them model_backward assigns the sum over norms of the squared
     * norms of their gains' gradients: those of single sequences, summed; and of the whole pass,
     * where gradients are assigned. Norms of blocks and the last one. */
    Tensor sequence_sq, gains_sq;
    Keep keep;
    Keep like;    /* KEEP_NOTHING takes the rooms of this one, and so none that it has not */
    bool again;   /* backward is making again what was not kept */
    bool offload; /* what blocks keep goes to memory of the host, but for the last two */
    DeviceBatch batch;
    BlockSaved *saved;
    ArenaMark pass_mark, host_mark;
    ArenaMark rooms_end; /* of the saved arena, behind the two rooms of blocks that are offloaded */
    ArenaMark head_mark; /* of scratch, before the rows of nf's codes */
    Tensor carry;        /* residual stream between blocks that are not kept */
    Tensor h;            /* (N,C) branch waiting to be added; then the stream's gradient */
    Tensor rf, statsf;   /* before the final norm */
    Operand nf;          /* after it */
    Tensor dnf;          /* (N,C) gradient by nf; nf itself where that is plain */
};

/* Builds the table; allocates nothing on the backend. DT_E4M3: products in e4m3, all else in bf16.
 * The rows of embedding and head are padded
 * with zero rows to a multiple of row_align (Backend.row_align; 1: not). */
void model_init(Model *model, const ModelSpec *spec, DType act, int64_t row_align);
void model_free(Model *model);

/* Products at these places, bits by PRODUCT_*, are in bf16 all the same. At first none are. */
void model_keep_plain(Model *model, unsigned plain_products);

/* Points the weights into flat buffers of params.flat elements (act; acc) and the rope table
 * into memory of model_rope_bytes. Those of act may lack the elements that model_quant_only
 * tells of. grads may be none for a model that only evaluates. */
void model_bind(Model *model, Tensor flat_values, Tensor flat_grads, Tensor rope);

/* The same where they are not in one buffer: values and grads tell where those of a row of the
 * table, and of what is joined to it, lie. */
typedef ParamParts (*ModelPlaces)(const void *user, int row);
void model_bind_places(Model *model, ModelPlaces values, ModelPlaces grads, const void *user,
                       Tensor rope);

/* Matrices and embeddings in bf16 under a model that computes in f32 and only evaluates, on a
 * backend with bf16_weights (ref, cpu): half the bytes to read for each token. Norms and biases
 * stay f32. The first params.decayed elements of the flat buffer, each rounded (op_cast, or
 * bf16_from_f32), become `matrices` (params.decayed) bf16; the elements behind become `others`
 * (params.flat - params.decayed) f32. Offsets of the parameter table keep their meaning: a row
 * with decay set lies at its offset in matrices, another at its offset - params.decayed in
 * others. model_init is called with DT_F32 as ever; results are those of model_bind with
 * matrices rounded to bf16. Backward is not possible. */
void model_bind_split(Model *model, Tensor matrices, Tensor others, Tensor rope);

/* Whether model_bind_split may be called: not for a TTT model, whose inner parameters are among
 * the rows that decay, nor where every row decays, nor for a model that computes in another type
 * than f32. Such a model takes model_bind. */
bool model_splits(const Model *model);

/* Where the codes of a linear map's weight go: its rows and its columns; NULL where nothing is laid
 * out yet. */
typedef void (*CodePlaces)(void *user, const Linear *map, uint8_t **rows, uint8_t **columns);

/* Products in e4m3 (DT_E4M3 in model_init). Every linear map with products has three scales: of its
 * weight, its input and its output's gradient, in that order for each kind: all weights first. */
typedef struct {
    Tensor scales;    /* (model_quant_scales, SCALE_COUNT) f32 */
    Tensor largest;   /* (model_quant_scales, ranks) f32; those of other ranks are 0 until summed */
    int part;         /* this rank's */
    Tensor codes;     /* (model_quant_codes) e4m3: of the weights, one behind the other; or none, */
    CodePlaces place; /* and this is asked, in the order of model_coded */
    void *place_user;
    Tensor masters;    /* (flat) f32, where the weights with codes have no others; else none */
    bool host_masters; /* these are in memory of the host */
} ModelQuant;

/* Elements of the flat buffer [first, params.decayed) belong to weights with codes alone, which
 * need not be there in act; returns first, or params.decayed when there are none. */
int64_t model_quant_only(Model *model);
/* The places of linear maps with products: the same in every layer, and the head's. */
enum {
    PRODUCT_MIXER,
    PRODUCT_UP = PRODUCT_MIXER + MIXER_LINEARS,
    PRODUCT_DOWN,
    PRODUCT_HEAD,
    PRODUCT_PLACES
};
/* (outputs, inputs) of one; false when the model has none there. After model_bind. */
bool model_product(Model *model, int place, int64_t *outputs, int64_t *inputs);
/* Its tensor's name, of the first layer. */
const char *model_product_name(Model *model, int place);

int64_t model_quant_scales(Model *model);
int64_t model_quant_weights(Model *model); /* scales of these, the first */
int64_t model_quant_codes(Model *model);
/* The linear maps whose products are in e4m3, in forward order: the first from number *i on, which
 * then is the number behind it; NULL: there is none. After model_bind. */
Linear *model_coded(Model *model, int64_t *i);
/* The number of the first such map of a layer, or of the head; see params_first. */
int64_t model_coded_first(Model *model, int layer);
void model_bind_quant(Model *model, ModelQuant quant);

/* Makes the weights' codes anew. */
void model_quantise(Ctx *c, Model *model);

/* What scale number i is of: "layer 3, mlp.c_fc, gradient". */
#define MODEL_SCALE_NAME 128
void model_scale_name(Model *model, int64_t i, char name[MODEL_SCALE_NAME]);

/* (positions, D) acc, to be filled by model_fill_rope on the host; rank 0 without rope. The
 * positions of a TTT layer start anew with each mini-batch; others go to the end of the context.
 * Where layers with a window have a base of their own, theirs lie behind. */
Tensor model_rope_shape(const Model *model);
void model_fill_rope(const Model *model, Tensor host_rope);
Tensor model_rope(const Model *model, int layer); /* those of one layer */

/* Radians that pair i of a head turns from one position to the next. The local ones, of layers with
 * a window, have a base of their own and are not scaled. */
double model_rope_angle(const ModelSpec *spec, int64_t i, bool local);

/* Embedding, blocks and final norm. Pushes on c->saved what keep says; model_end releases it.
 * Every parameter, the head's included, is needed (Ctx.need) by the end. */
void model_forward(Ctx *c, Model *model, DeviceBatch batch, Keep keep);

/* Head and loss over the rows in chunks, so that the logits never exist as a whole. losses (N)
 * acc. With gradient: the head's weight gradient by mode, and the final norm's output is
 * replaced by its gradient; scale multiplies every gradient (1 / rows of the whole update). */
void model_head(Ctx *c, Model *model, Tensor losses, double scale, bool gradient, Mode mode);

/* Rows of such a chunk, of that many in all. */
int64_t model_head_rows(const Ctx *c, const Model *model, int64_t rows);

/* Gradients of everything below the head, by mode. After model_head with gradient. */
void model_backward(Ctx *c, Model *model, Mode mode);

/* Logits (rows, vocab_rows) of rows [first, first + rows) after model_forward. */
void model_logits(Ctx *c, Model *model, int64_t first, Tensor logits);

/* Ends a pass: releases what forward pushed. */
void model_end(Ctx *c, Model *model);

/* A whole pass without gradients: the tokens' losses (N) acc, and mean (1) acc over them. */
void model_evaluate(Ctx *c, Model *model, DeviceBatch batch, Tensor losses, Tensor mean);

/* The length of a pass over `count` tokens: what follows the last one changes nothing before it,
 * so where the backend wants few shapes it is 16, 24, 32, 48, 64, ... or `most`. */
int64_t model_pass_length(const Backend *backend, int64_t count, int64_t most);

/* Shape of Decode.states for that many sequences. */
Tensor model_decode_shape(const Model *model, int64_t sequences);

/* From here on model_forward takes batches of one token per sequence (seq 1, KEEP_NOTHING) and
 * goes on from decode's states, which start anew; the caller counts decode's position. */
void model_decode_start(Ctx *c, Model *model, Decode decode);

/* Whether a pass is such a step, not an ordinary one or one that fills the states. */
static inline bool model_steps(const Model *model)
{
    return tensor_given(model->decode.states) && !model->decode.filling;
}

/* The state of one layer. */
Tensor model_decode_state(const Model *model, int layer);
