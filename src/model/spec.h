#pragma once
/* What a model is made of: dimensions and the few choices in which GPT-2, Llama and TTT models
 * differ (fields.h). The block code reads these fields; it never asks for the family by name. */
#include "model/fields.h"
#include "tensor/ops.h"

struct cJSON;

typedef enum { FFN_GELU, FFN_SWIGLU, FFN_GEGLU, FFN_RELU2 } FfnKind;
typedef enum {
    NAMES_GPT2,
    NAMES_LLAMA,
    NAMES_TTT,
    NAMES_GEMMA
} ParamNames; /* of tensors in checkpoints */
typedef enum { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN } RopeScaling;
typedef enum { MIXER_ATTENTION, MIXER_TTT } MixerKind; /* how tokens exchange information */

typedef struct {
    char name[32]; /* of the preset it began as */
#define OPTION(kind, type, field, ...) type field;
#define PRESET(kind, type, field, ...) type field;
    MODEL_FIELDS(OPTION, PRESET)
#undef OPTION
#undef PRESET
} ModelSpec;

typedef enum { FIELD_WHOLE, FIELD_REAL, FIELD_CHOICE, FIELD_FLAG } SpecKind;

/* A row of MODEL_FIELDS. */
typedef struct {
    SpecKind kind;
    const char *name, *stored;
    bool option;              /* --name sets it */
    size_t offset, override;  /* in ModelSpec; of an option, in SpecOverrides */
    const char *const *words; /* of values 0, 1, ..., then NULL; of numbers none */
    double most;
    bool none; /* --name none makes it 0 */
    const char *gpt2, *hf;
} SpecField;

/* All rows; the last one has no name. */
extern const SpecField spec_fields[];

const SpecField *spec_field_of(const char *option); /* NULL: the option sets none */

/* The field's value; whole numbers, choices and switches are exact. */
double spec_value(const ModelSpec *spec, const SpecField *field);
void spec_set(ModelSpec *spec, const SpecField *field, double value);

/* Whether the field means something in this model: TTT's do not without TTT layers, nor the base
 * of rotary positions without these. */
bool spec_has(const ModelSpec *spec, const SpecField *field);

/* A value of the field as its option takes it: "12", "on", "mlp". */
#define SPEC_TEXT_SIZE 32
const char *spec_text(const SpecField *field, double value, char text[SPEC_TEXT_SIZE]);

/* {"name": "tiny", "layers": 4, ...}: every field that the model has. Caller deletes it. */
struct cJSON *spec_json(const ModelSpec *spec);

/* The preset's index-th row; NULL behind the last. A vocab of 0 is taken from the data. */
const ModelSpec *spec_preset(int index);

const ModelSpec *spec_find(const char *name); /* NULL: no such preset */

/* A model's size as one number: dial layers with dial heads of 64 (or the head width that is given)
 * next to each other, and a feed-forward of 8/3 of that width (4 times, where it has no gate) in
 * multiples of a head. Fills what the overrides leave open; 0: nothing. */
void spec_dial(const char *name, int64_t dial, SpecOverrides *overrides);

/* The preset of that name with the overrides applied and checked. data_vocab (0 if unknown) fills a
 * preset whose vocabulary is 0. ERR_INPUT names the option at fault. */
int spec_resolve(const char *name, const SpecOverrides *overrides, int64_t data_vocab,
                 ModelSpec *out);

/* The way back: what makes the preset spec->name this model, and no more than that. */
void spec_overrides(const ModelSpec *spec, SpecOverrides *out);

/* The override of an option's field as a value of the field; NAN: it keeps the preset's. */
double spec_override(const SpecOverrides *overrides, const SpecField *field);

/* 0, or ERR_INPUT naming the first dimension that cannot work. */
int spec_check(const ModelSpec *spec);

/* A number as an option can say it: 15 digits. */
double spec_real(double value);

/* Tokens of a sequence unless told otherwise: the context, or 2048 where that is longer. */
int64_t spec_seq(const ModelSpec *spec);

/* Standard deviation of the maps back to the residual stream at first; 0: as of others. */
double spec_out_std(const ModelSpec *spec);

/* Whether a layer's attention has the window. */
bool spec_windowed(const ModelSpec *spec, int layer);

/* What the ops of a layer of attention, of a TTT layer are told. */
HeadShape spec_head_shape(const ModelSpec *spec, int layer, int64_t batch, int64_t seq);
TttShape spec_ttt_shape(const ModelSpec *spec, int64_t batch, int64_t seq);
