#pragma once
/* state.json of a checkpoint: {"state": {...}, "digest": "..."}, where digest is the hash of the state as
 * text without spaces, so that a damaged byte is found here too. */
#include "train/checkpoint.h"

typedef struct {
    uint64_t model, optimizer; /* XXH3 of the two tensor files */
} CheckpointDigests;

int state_write(const char *folder, const TrainState *state, const ModelSpec *spec,
                const struct cJSON *config, CheckpointDigests digests);

/* ERR_INPUT when the file is damaged or belongs to a model other than spec, naming the first
 * difference. */
int state_read(const char *folder, const ModelSpec *spec, TrainState *state,
               CheckpointDigests *digests);

/* The options that the run was started with; caller deletes. NULL in a checkpoint without any. */
int state_read_config(const char *folder, struct cJSON **config);
