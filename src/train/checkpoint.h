#pragma once
/* Checkpoints: RUN/ckpt/step-N/ with model.safetensors (master weights), optimizer.safetensors
 * (moments) and state.json (step, position in the data, configuration, digests of the two files).
 *
 * A checkpoint is written under another name, made durable, and renamed: a folder named step-N
 * is complete, whenever the program was killed. RUN/ckpt/latest is a symbolic link to the
 * newest, replaced by a rename too, and never to a folder that is removed. */
#include "train/noise.h"
#include "train/trainer.h"

struct cJSON;

/* What a run needs besides the tensors to go on as if it had never stopped. */
typedef struct {
    int64_t step;         /* updates done */
    uint64_t sequences;   /* training sequences consumed, over all epochs */
    int64_t tokens;       /* trained on */
    int64_t counted;      /* of them: those that counted in the loss */
    uint64_t data_tokens; /* of the training split: other data would have another order */
    uint64_t data_digest; /* dataset_digest; 0: unknown */
    uint64_t seed;
    int64_t seq;
    double train_seconds;             /* spent in training so far, over all sessions */
    double clock_seconds;             /* --minutes: used of the budget */
    double warm_share;                /* --minutes: part of it that the warm-up took */
    double first_loss, best_val_loss; /* NAN: none yet */
    Noise noise;                      /* of --noise-scale, */
    bool noise_gains;                 /* from the norms' gains alone */
    const struct cJSON *legs; /* of the run, as in run.json; NULL: unknown. Saved, never loaded */
    const char *scales;       /* trainer_scales_text; NULL: none. The trainer's, saved and loaded */
} TrainState;

/* N of a name step-N; -1 for all others, 04 for 4 among them. */
int64_t checkpoint_step(const char *name);

/* Writes step-N (replacing one of that name) by all ranks of the trainer together, points latest at
 * it, and removes the oldest ones so that `keep` remain (0: all). config goes into state.json. On
 * failure the earlier checkpoints are as they were. saver.h does the same behind training. */
int checkpoint_save(const char *run, Trainer *trainer, const TrainState *state,
                    const struct cJSON *config, int64_t keep);

/* Removes the oldest checkpoints until `keep` remain (0: all). The newest, which latest names,
 * stays. */
int checkpoint_prune(const char *run, int64_t newest, int64_t keep);

/* The checkpoint that a run goes on from: its latest; where that is lost, as in a copy without
 * links, the one with the most steps. *out NULL with code 0: there is none. Caller frees. */
int checkpoint_newest(const char *run, char **out);

/* The checkpoint that `path` means: a run directory (its newest) or a checkpoint folder. *out
 * NULL with code 0: a run directory without any checkpoint. Caller frees. */
int checkpoint_find(const char *path, char **out);

/* Fills the trainer and state. ERR_INPUT names the file that is damaged, or the first difference
 * between the checkpoint's model and the trainer's. */
int checkpoint_load(const char *checkpoint, Trainer *trainer, TrainState *state);

/* ERR_INPUT when a file of a checkpoint is not the one whose digest state.json has. */
int checkpoint_check_file(const char *path, uint64_t digest);

/* Removes what an interrupted save left behind. */
void checkpoint_clean(const char *run);

/* --- state.json --- */

typedef struct {
    uint64_t model, optimizer; /* XXH3 of the two tensor files */
} CheckpointDigests;

/* The folder in which step-N is made, to be freed; and its end, with both files of tensors there:
 * state.json, its name, and latest. The second is not to be used again when that failed. */
char *checkpoint_temporary(const char *run, int64_t step);
int checkpoint_complete(const char *run, const char *temporary, const TrainState *state,
                        const ModelSpec *spec, const struct cJSON *config,
                        CheckpointDigests digests);

int state_write(const char *folder, const TrainState *state, const ModelSpec *spec,
                const struct cJSON *config, CheckpointDigests digests);

/* What the file says. A checkpoint that was written before there was one of the last three has
 * NULL there. */
typedef struct {
    TrainState state;
    CheckpointDigests digests;
    struct cJSON *tree;         /* owns the rest */
    const struct cJSON *config; /* the options of the session that wrote it */
    const struct cJSON *legs;   /* of the run, up to that session's */
    const struct cJSON *model;  /* its fields by key: those that the writer knew */
} StateFile;

int state_read(const char *folder, StateFile *out); /* ERR_INPUT when it is damaged: then zeroed */
void state_free(StateFile *file);                   /* a no-op on a zeroed one */

/* ERR_INPUT when it is of another model, naming the first difference. A field that the file does
 * not have is of a later version than its writer. */
int state_compare(const char *folder, const StateFile *file, const ModelSpec *spec);
