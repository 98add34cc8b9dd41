#pragma once
/* A trained model in memory, to be used and not trained: weights in the device's type, nothing
 * of the optimizer's. It comes from a run directory (its newest checkpoint), a checkpoint
 * folder, or a Hugging Face folder. */
#include "config/config.h"
#include "model/model.h"
#include "tensor/backend.h"
#include "text/tokenizer.h"

typedef struct Comm Comm;

typedef struct {
    char *path;   /* of the checkpoint or Hugging Face folder */
    char *run;    /* the run directory it belongs to; NULL: none */
    int64_t step; /* updates it was trained for; -1: unknown */
    /* of the run; train's defaults with the model's dimensions for a Hugging Face folder */
    Config config;
    Backend *backend;
    Model model; /* bound to the weights */
    /* All weights in the model's type. With bf16 on the CPU, which computes in f32: the matrices
     * in bf16, and the others in f32. */
    Tensor weights, others;
    void *blocks[3];      /* weights, others, rope */
    Tokenizer *tokenizer; /* NULL: none was found with it or given */
    int64_t first, end;   /* token before every prompt, as in training, and behind; -1: none */
} LoadedModel;

/* Opens what `path` means on the device that cfg (of generate or eval: device, dtype, threads,
 * tokenizer) says; auto is settled here, and bf16 is possible on the CPU too. comm may be NULL:
 * one process. ERR_INPUT says what is wrong with which file; on failure *loaded is zeroed. */
int loaded_open(LoadedModel *loaded, const char *path, Config *cfg, const Comm *comm);
void loaded_close(LoadedModel *loaded); /* a no-op on a zeroed one */
