#pragma once
/* What a model is made of: dimensions and the few choices in which GPT-2, Llama and TTT models
 * differ. The block code reads these fields; it never asks for the family by name. */
#include "tensor/ops.h"

typedef enum { FFN_GELU, FFN_SWIGLU } FfnKind;
typedef enum { NAMES_GPT2, NAMES_LLAMA, NAMES_TTT } ParamNames; /* of tensors in checkpoints */
typedef enum { MIXER_ATTENTION, MIXER_TTT } MixerKind; /* how tokens exchange information */

/* The fields of a model, in one place: the struct below, what a checkpoint's state.json stores
 * of it and what a resume compares all follow. X(type, field, key, option, words): key is its
 * name in state.json, option the one that sets it (NULL: the preset does), words the names of
 * its values 0, 1, ... in spec.c (numbers: a number). */
#define MODEL_FIELDS(X)                                             \
    X(ParamNames, names, "names", NULL, families)                   \
    X(int64_t, layers, "layers", "layers", numbers)                 \
    X(int64_t, width, "d-model", "d-model", numbers)                \
    X(int64_t, heads, "heads", "heads", numbers)                    \
    X(int64_t, kv_heads, "kv-heads", "kv-heads", numbers)           \
    X(int64_t, ffn, "ffn", "ffn", numbers)                          \
    X(int64_t, vocab, "vocab", "vocab", numbers)                    \
    X(int64_t, context, "context", "context", numbers)              \
    X(NormKind, norm, "norm", NULL, norms)                          \
    X(FfnKind, ffn_kind, "ffn kind", NULL, ffns)                    \
    X(double, norm_eps, "norm epsilon", "norm-eps", numbers)        \
    /* 0: no rotary embedding */                                    \
    X(double, rope_base, "rope base", "rope-base", numbers)         \
    /* a (context, width) table added to the embedding */           \
    X(bool, learned_positions, "learned positions", NULL, switches) \
    /* biases on every linear map but the head */                   \
    X(bool, bias, "bias", NULL, switches)                           \
    /* the head uses the embedding's weights */                     \
    X(bool, tied, "tied", "tied", switches)                         \
    /* init residual projections with 0.02 / sqrt(2 layers) */      \
    X(bool, scaled_residual, "scaled residual", NULL, switches)     \
    /* weight decay of norms, biases and inner parameters too */    \
    X(bool, decay_all, "decay all", NULL, switches)                 \
    X(MixerKind, mixer, "mixer", NULL, mixers)                      \
    /* of MIXER_TTT, which has as many key/value heads as heads */  \
    X(TttKind, ttt, "ttt", "ttt", ttts)                             \
    /* tokens of a mini-batch */                                    \
    X(int64_t, mini, "mini-batch", "mini-batch", numbers)           \
    /* inner base learning rate */                                  \
    X(double, ttt_rate, "ttt-lr", "ttt-lr", numbers)

typedef struct {
    char name[32]; /* of the preset it began as */
#define X(type, field, key, option, words) type field;
    MODEL_FIELDS(X)
#undef X
} ModelSpec;

typedef enum { FIELD_CHOICE, FIELD_WHOLE, FIELD_REAL, FIELD_FLAG } SpecType;

/* A row of MODEL_FIELDS. */
typedef struct {
    const char *key, *option;
    SpecType type;
    size_t offset;
    const char *const *words; /* NULL: its value is shown as a number */
} SpecField;

const SpecField *spec_fields(int *count);
const SpecField *spec_field_of(const char *option); /* NULL: the option sets none */

/* The field's value; whole numbers, choices and switches are exact. */
double spec_value(const ModelSpec *spec, const SpecField *field);

/* A value of the field as its option takes it: "12", "on", "mlp". */
#define SPEC_TEXT_SIZE 32
const char *spec_text(const SpecField *field, double value, char text[SPEC_TEXT_SIZE]);

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
