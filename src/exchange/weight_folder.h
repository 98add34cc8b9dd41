#pragma once
/* Weights in a folder, pacer's own checkpoint (model.safetensors under pacer's names) or Hugging
 * Face's (config.json with model.safetensors, or several files and
 * model.safetensors.index.json), read as the rows of a parameter table in f32, whatever type,
 * names, orientation and files they are kept in. A folder is input: nothing in it is believed
 * unchecked. */
#include "model/params.h"

#define WEIGHT_FILE "model.safetensors"
#define WEIGHT_INDEX "model.safetensors.index.json"

typedef struct WeightFolder WeightFolder;

/* ERR_INPUT names the file and what is wrong with it, or which models are understood. *out is
 * NULL on failure. */
int weight_folder_open(const char *path, WeightFolder **out);
void weight_folder_close(WeightFolder *folder); /* NULL: nothing */

/* What config.json describes; NULL for a checkpoint of pacer's, whose state.json the caller
 * reads. */
const ModelSpec *weight_folder_spec(const WeightFolder *folder);

/* Rows of the embedding that is stored: the vocabulary. 0: there is none. */
int64_t weight_folder_vocab(const WeightFolder *folder);

/* 0 when the folder has exactly the rows of this table; else ERR_INPUT naming the first tensors
 * that are missing, have another shape, or have no place in the model. */
int weight_folder_check(const WeightFolder *folder, const ModelSpec *spec, const ParamTable *table);

/* Row `row` of the table, table->rows[row].count values, after weight_folder_check. `transposed`: a
 * matrix as (inputs, outputs), where the table has (outputs, inputs). */
int weight_folder_read(const WeightFolder *folder, const ParamTable *table, int row,
                       bool transposed, float *out);
