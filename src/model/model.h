#pragma once
/* The model: parameter table, views of its weights and gradients, and the three parts of a training
 * pass (forward, head with loss, backward). One code for every backend and family. */
#include "model/mixer.h"
#include "model/params.h"
#include "tensor/ctx.h"

/* A weight and where its gradient goes; given or not like any tensor. */
typedef struct {
    Tensor value; /* act */
    Tensor grad;  /* acc */
} Weight;

typedef struct {
    Weight weight, bias;
} Linear;

#define MIXER_LINEARS 2 /* linear maps a mixer may have */

typedef struct {
    Linear norm1, norm2; /* (C) each */
    Linear mixer[MIXER_LINEARS];
    Linear up, down; /* up: (F,C) for GELU, (2F,C) gate then up for SwiGLU; down: (C,F) */
} Layer;

#define MIXER_SAVED 4

/* What one block keeps from forward to backward, rows (N = B*T) by width. */
typedef struct {
    ArenaMark mark;        /* of the saved arena, before the block */
    Tensor r1, n1, stats1; /* residual stream at the block's start, its norm (N,C), (N,2) */
    Tensor mixer[MIXER_SAVED];
    Tensor r2, n2, stats2; /* the same after the mixer */
    Tensor up, act;        /* (N,F) or (N,2F) before the activation, (N,F) after it */
} BlockSaved;

/* How much of forward is kept: everything; the blocks' inputs only (backward runs each block again);
 * nothing (evaluation). */
typedef enum { KEEP_ALL, KEEP_INPUTS, KEEP_NOTHING } Keep;

/* Token ids in backend memory, each (B*T) i32. order is for op_embed_backward. */
typedef struct {
    int64_t batch, seq;
    Tensor ids, targets, order;
} DeviceBatch;

struct Model {
    ModelSpec spec;
    DType act;
    const Mixer *mixer;
    ParamTable params;
    int64_t vocab_rows; /* of the embedding and head: the vocabulary, padded */
    int row_head;       /* of the head's own weights; -1 when tied */
    Tensor rope;        /* (context, D) acc: cosines, sines; none without rope */
    Linear embed, positions, final_norm, head;
    Layer *layers;
    /* State of the pass under way. */
    Keep keep;
    DeviceBatch batch;
    BlockSaved *saved;
    ArenaMark pass_mark;
    Tensor carry;          /* residual stream between blocks that are not kept */
    Tensor h;              /* (N,C) branch waiting to be added; then the stream's gradient */
    Tensor rf, nf, statsf; /* before and after the final norm */
};

/* Builds the table; allocates nothing on the backend. The rows of embedding and head are padded with zero
 * rows to a multiple of row_align (Backend.row_align; 1: not). */
void model_init(Model *model, const ModelSpec *spec, DType act, int64_t row_align);
void model_free(Model *model);

/* Points the weights into flat buffers of params.flat elements (act; acc) and the rope table into
 * memory of model_rope_bytes. grads may be none for a model that only evaluates. */
void model_bind(Model *model, Tensor flat_values, Tensor flat_grads, Tensor rope);

/* (context, D) acc, to be filled by model_fill_rope on the host; rank 0 without rope. */
Tensor model_rope_shape(const Model *model);
void model_fill_rope(const Model *model, Tensor host_rope);

/* Embedding, blocks and final norm. Pushes on c->saved what keep says; model_end releases it. */
void model_forward(Ctx *c, Model *model, DeviceBatch batch, Keep keep);

/* Head and loss over the rows in chunks, so that the logits never exist as a whole. losses (N) acc. With
 * gradient: the head's weight gradient by mode, and the final norm's output is replaced by its gradient;
 * scale multiplies every gradient (1 / rows of the whole update). */
void model_head(Ctx *c, Model *model, Tensor losses, double scale, bool gradient, Mode mode);

/* Gradients of everything below the head, by mode. After model_head with gradient. */
void model_backward(Ctx *c, Model *model, Mode mode);

/* Logits (rows, vocab_rows) of rows [first, first + rows) after model_forward. */
void model_logits(Ctx *c, Model *model, int64_t first, Tensor logits);

/* Ends a pass: releases what forward pushed. */
void model_end(Ctx *c, Model *model);
