#pragma once
/* What Hugging Face calls the rows of a parameter table, and which way round it keeps them. */
#include "model/params.h"

#define HF_NAME_SIZE 112

typedef struct {
    char name[HF_NAME_SIZE];
    bool transposed; /* kept as (inputs, outputs), where the table has (outputs, inputs) */
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
