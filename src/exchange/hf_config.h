#pragma once
/* How Hugging Face describes a model: config.json, to and from a ModelSpec, and the names of
 * parameters. Reading refuses, by the name of the field, whatever would make the model compute
 * something else than pacer's models do. */
#include "base/json.h"
#include "model/params.h"
#include "model/spec.h"

/* path is what messages name. *out has the name of the preset it differs least from. */
int hf_config_parse(const char *text, size_t size, const char *path, ModelSpec *out);

typedef struct {
    int64_t begin, end; /* ids of the tokens that begin and end a text; -1: none */
    DType dtype;        /* of the stored tensors */
} HfConfigExtra;

/* The file's tree; caller frees. ERR_INPUT, naming the option, for a model that
 * transformers has no class for: a GPT-2 with fewer key/value heads, say. */
int hf_config(const ModelSpec *spec, HfConfigExtra extra, cJSON **out);

/* generation_config.json; caller frees. */
cJSON *hf_generation_config(HfConfigExtra extra);

/* --- names of parameters --- */

/* What Hugging Face calls a row of a parameter table, and which way round it keeps it. */
#define HF_NAME_SIZE 112

typedef struct {
    char name[HF_NAME_SIZE];
    bool transposed; /* kept as (inputs, outputs), where the table has (outputs, inputs) */
    float less;      /* kept as so much less: Gemma's norms multiply by 1 + what is stored */
} HfName;

HfName hf_name(ParamNames names, const char *row);

/* What base models leave out at the beginning of every name but the head's: "transformer." or
 * "model.". */
const char *hf_prefix(ParamNames names);

/* Masks and tables that older files store beside the weights, and that are computed instead. */
bool hf_is_computed(const char *name);

/* The embedding's and the head's row. */
const char *hf_embedding_row(ParamNames names);
#define HF_HEAD_ROW "lm_head.weight"
