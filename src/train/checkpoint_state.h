#pragma once
/* state.json of a checkpoint: {"state": {...}, "digest": "..."}, where digest is the hash of the
 * state as text without spaces, so that a damaged byte is found here too. */
#include "train/checkpoint.h"

typedef struct {
    uint64_t model, optimizer; /* XXH3 of the two tensor files */
} CheckpointDigests;

int state_write(const char *folder, const TrainState *state, const ModelSpec *spec,
                const struct cJSON *config, CheckpointDigests digests);

/* ERR_INPUT when the file is damaged or belongs to a model other than spec (NULL: any will do),
 * naming the first difference. */
int state_read(const char *folder, const ModelSpec *spec, TrainState *state,
               CheckpointDigests *digests);

/* What the file says besides, as it was written; caller deletes. A checkpoint that has none of
 * it, or was written before there was any, gives NULL. */
typedef struct {
    struct cJSON *config; /* the options of the session that wrote it */
    struct cJSON *legs;   /* of the run, up to that session's */
    struct cJSON *model;  /* its fields by key: those that the writer knew */
} StateRecord;

int state_read_record(const char *folder, StateRecord *record);
void state_record_free(StateRecord *record);
