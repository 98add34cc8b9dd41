#pragma once
/* What a model is made of: dimensions and the few choices in which GPT-2, Llama and TTT models differ. The block
 * code reads these fields; it never asks for the family by name. */
#include "tensor/ops.h"

typedef enum { FFN_GELU, FFN_SWIGLU } FfnKind;
typedef enum { NAMES_GPT2, NAMES_LLAMA, NAMES_TTT } ParamNames; /* of tensors in checkpoints */
typedef enum { MIXER_ATTENTION, MIXER_TTT } MixerKind; /* how tokens exchange information */

typedef struct {
    char name[32];
    ParamNames names;
    int64_t layers, width, heads, kv_heads, ffn, vocab, context;
    NormKind norm;
    FfnKind ffn_kind;
    double norm_eps;
    double rope_base;       /* 0: no rotary embedding */
    bool learned_positions; /* a (context, width) table added to the embedding */
    bool bias;              /* biases on every linear map but the head */
    bool tied;              /* the head uses the embedding's weights */
    bool scaled_residual;   /* init residual projections with 0.02 / sqrt(2 layers) */
    bool decay_all;         /* weight decay of norms, biases and inner parameters too */
    MixerKind mixer;
    /* Of MIXER_TTT, which has as many key/value heads as heads. */
    TttKind ttt;
    int64_t mini;    /* tokens of a mini-batch */
    double ttt_rate; /* inner base learning rate */
} ModelSpec;

/* Dimensions to replace in a preset; 0 (or -1 for tied) keeps the preset's. */
typedef struct {
    int64_t layers, width, heads, kv_heads, ffn, vocab, context;
    int tied;
    int ttt;         /* 1 + a TttKind */
    int64_t mini;    /* 0 keeps */
    double ttt_rate; /* 0: 1 for TTT_LINEAR, 0.1 for TTT_MLP */
    double norm_eps, rope_base;
} SpecOverrides;

/* The preset's index-th row; NULL behind the last. A vocab of 0 is taken from the data. */
const ModelSpec *spec_preset(int index);

const ModelSpec *spec_find(const char *name); /* NULL: no such preset */

/* The preset of that name with the overrides applied and checked. data_vocab (0 if unknown) fills a
 * preset whose vocabulary is 0. ERR_INPUT names the option at fault. */
int spec_resolve(const char *name, const SpecOverrides *overrides, int64_t data_vocab,
                 ModelSpec *out);

/* 0, or ERR_INPUT naming the first dimension that cannot work. */
int spec_check(const ModelSpec *spec);

/* What the ops of a TTT layer are told. */
TttShape spec_ttt_shape(const ModelSpec *spec, int64_t batch, int64_t seq);

static inline int64_t spec_head_dim(const ModelSpec *spec)
{
    return spec->width / spec->heads;
}

static inline int64_t spec_qkv_width(const ModelSpec *spec)
{
    return (spec->heads + 2 * spec->kv_heads) * spec_head_dim(spec);
}
