#pragma once
/* The safetensors files of a folder as one set of named tensors: model.safetensors, or the files
 * that model.safetensors.index.json lists. Every tensor is in the set once, every file lies in
 * the folder. */
#include "tensor/safetensors.h"

#define WEIGHT_FILE "model.safetensors"
#define WEIGHT_INDEX "model.safetensors.index.json"

typedef struct {
    SafeFile *files;
    int count;
} WeightFiles;

/* ERR_INPUT names the file. On failure *files is zeroed. */
int weight_files_open(WeightFiles *files, const char *folder);
void weight_files_close(WeightFiles *files); /* a no-op on zeroed ones */

/* NULL: not there. *file (may be NULL) is the path of its file. */
/* safetensors_check of them all. */
int weight_files_check(const WeightFiles *files);

const SafeTensor *weight_files_find(const WeightFiles *files, const char *name, const char **file);
