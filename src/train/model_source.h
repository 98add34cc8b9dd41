#pragma once
/* Where a model's weights and dimensions come from: a run directory (its newest checkpoint), a
 * checkpoint in it, or a Hugging Face folder. train --init, export, generate and eval begin
 * here. */
#include "config/config.h"
#include "exchange/weight_folder.h"

typedef struct {
    char *path;   /* of the checkpoint or Hugging Face folder */
    char *run;    /* the run directory it belongs to; NULL: none */
    int64_t step; /* updates it was trained for; -1: unknown */
    /* of the run; train's defaults with the model's dimensions for a Hugging Face folder */
    Config config;
    ModelSpec spec; /* its dimensions */
    WeightFolder *weights;
} ModelSource;

/* ERR_INPUT names the file and what is wrong with it; a checkpoint's weights are compared with
 * their digest. On failure *source is zeroed. */
int model_source_open(ModelSource *source, const char *path);
void model_source_close(ModelSource *source); /* a no-op on a zeroed one */

/* The folder to look for its tokenizer in: the run directory, or the Hugging Face folder. */
const char *model_source_tokenizer(const ModelSource *source);
