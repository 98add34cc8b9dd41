#pragma once
/* Weights in a folder, pacer's own checkpoint (model.safetensors under pacer's names) or Hugging
 * Face's (config.json with model.safetensors, or several files and
 * model.safetensors.index.json), read as the rows of a parameter table in f32, whatever type,
 * names, orientation and files they are kept in. A folder is input: nothing in it is believed
 * unchecked. From such a folder, weights are written into another. */
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

/* A row of the table as it is stored. */
Tensor weight_shape(const Param *row, bool transposed, DType dtype);

typedef struct {
    bool foreign;        /* Hugging Face's names and orientation; else pacer's */
    DType dtype;         /* DT_F32 or DT_BF16 */
    int64_t shard_bytes; /* several files and an index above it; 0: always one file */
} WeightLayout;

/* Writes model.safetensors, or model-0000i-of-0000n.safetensors with their index. One parameter
 * at a time is in memory. from was checked against the table. digest (may be NULL) is that of
 * the last file. Says how far it is when it takes long. */
int weight_write(const char *folder, const WeightFolder *from, const ModelSpec *spec,
                 const ParamTable *table, WeightLayout layout, uint64_t *digest);
