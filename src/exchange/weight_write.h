#pragma once
/* A model's weights into safetensors files, from a folder of any kind. */
#include "exchange/weight_folder.h"

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
