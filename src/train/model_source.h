#pragma once
/* Where a model's weights and dimensions come from: a run directory (its newest checkpoint), a
 * checkpoint in it, or a Hugging Face folder. train --init, export, generate and eval begin
 * here. */
#include "config/config.h"
#include "exchange/hf_export.h"
#include "exchange/weight_folder.h"
#include "train/trainer.h"

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

/* The same, with the weights left unread: what its files say of the model. */
int model_source_describe(ModelSource *source, const char *path);
void model_source_close(ModelSource *source); /* a no-op on a zeroed one */

/* The folder to look for its tokenizer in: the run directory, or the Hugging Face folder. */
const char *model_source_tokenizer(const ModelSource *source);

/* The tokens that come before every text and end it, as the model met them in training. */
HfTextTokens model_source_text_tokens(const ModelSource *source, const Tokenizer *tokenizer);

/* Gives the values of each row of the table in turn, so that the host holds no second copy of the
 * model. They may be changed; what lies between the rows and behind them is given to nobody. */
typedef void ModelRowTake(void *user, const Param *row, float *values);
int model_source_rows(const ModelSource *source, const ParamTable *table, ModelRowTake *take,
                      void *user);

/* What --init's model has, where the options leave it open. A given one stays, and is compared with
 * the model when its weights are taken. A folder that is gone is no error here: a run that has
 * checkpoints of its own goes on from them. */
int initial_dimensions(Config *cfg);

/* The first weights of a run (--init): fills the master weights, which are f32, from what `path`
 * means; moments stay as they are. The model must have the dimensions of the trainer's: else
 * ERR_INPUT names the first that differs and the option to give. */
int initial_weights(Trainer *trainer, const char *path);

/* Warns where the data was made with another tokenizer than the one that comes with --init's model:
 * the same numbers then mean other text. tokenizer_hash 0: unknown. */
void initial_tokenizer_check(const char *path, const char *data, uint64_t tokenizer_hash);

/* A Hugging Face model as a run directory with one checkpoint, step 0, which has no optimizer
 * state. ERR_INPUT names what is wrong with the folder, or that `out` exists and is no empty
 * folder. */
int import_model(const char *folder, const char *out);

/* The model that `path` means as a Hugging Face folder, by the options out, dtype and shard-bytes,
 * or, by format and type, as a GGUF file. ERR_INPUT as model_source_open, hf_export and gguf_export
 * say. */
int export_model(const Config *cfg, const char *path);
