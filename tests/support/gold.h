#pragma once
/* Stored PyTorch results (tests/gold) and a trainer set up to repeat them. */
#include "tensor/safetensors.h"
#include "train/trainer.h"

typedef struct {
    SafeFile file;
    TrainerSetup setup; /* dtype f32, attention flash, whole batch, accum 1 */
    int32_t *ids, *targets, *order;
    double rate;
} Gold;

void gold_open(Gold *gold, const char *name); /* fails the test when the file is not there */
void gold_close(Gold *gold);

/* Opens a trainer with the stored parameters. */
void gold_trainer(const Gold *gold, const TrainerSetup *setup, Backend *backend, Trainer *trainer);

/* The batch, or rows of whole sequences from `first` on. */
HostBatch gold_batch(const Gold *gold, int64_t first_sequence);

/* Stored tensor as doubles; caller frees. */
double *gold_values(const Gold *gold, const char *name, int64_t *count);

/* n numbers of a backend tensor as doubles; caller frees. */
double *gold_download(Backend *backend, Tensor t);

/* Largest |a - b| over the root mean square of b. NaN anywhere gives infinity. */
double gold_relative_error(const double *a, const double *b, int64_t n);

/* rows sorted by id, stable: what op_embed_backward wants. */
void gold_sort_order(const int32_t *ids, int64_t n, int32_t *order);
