#pragma once
/* The first weights of a run from a model that exists (--init). */
#include "train/trainer.h"

/* Fills the master weights from what `path` means (train/model_source.h); moments stay as they
 * are. The model must have the dimensions of the trainer's: else ERR_INPUT names the first that
 * differs and the option to give. */
int initial_weights(Trainer *trainer, const char *path);
