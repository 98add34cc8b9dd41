#pragma once
/* A run directory with one checkpoint of a small model, as training would leave it, and the
 * trainer it came from. */
#include "train/trainer.h"

#define SAVED_STEP 3

typedef struct {
    Backend *backend; /* cpu */
    Trainer trainer;
} SavedRun;

/* Two layers of 48 with 4 heads, context 40, of the preset's family. Every weight is random,
 * those that begin as 0 or 1 too. `dir` is made. */
void saved_run_make(SavedRun *saved, const char *dir, const char *preset, int64_t vocab);
void saved_run_free(SavedRun *saved); /* the directory stays */
