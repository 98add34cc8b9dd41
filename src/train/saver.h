#pragma once
/* Saves checkpoints by all ranks together, at once or behind training.
 *
 * A save has two stages. Every rank writes its part of the tensor files (checkpoint_parts.h) into
 * a folder of another name. When all have, the first one compares what it reads there with what
 * they say they wrote, adds state.json, and gives the folder its name. At once, both happen inside
 * saver_start. Behind training, the state is first copied to host memory, and a thread of each rank
 * does either stage; between the two, and behind the second, ranks have to meet (saver_advance). A
 * checkpoint that is not reported as saved may be missing, one that is, is on the disk. */
#include "train/checkpoint.h"

typedef struct Saver Saver;

typedef struct {
    const char *run; /* directory */
    int64_t keep;    /* checkpoints that remain; 0: all */
    Trainer *trainer;
    Comm *comm;  /* NULL: one rank */
    bool behind; /* training */
} SaverSetup;

/* ERR_MEMORY when there is none for the copy. run, trainer and comm outlive the saver. */
int saver_open(const SaverSetup *setup, Saver **out);
void saver_close(Saver *saver); /* a save that has not ended is given up; NULL is fine */

/* All ranks: begins to save; nothing else is under way. config goes into state.json. On failure the
 * earlier checkpoints are as they were. */
int saver_start(Saver *saver, const TrainState *state, const struct cJSON *config);

bool saver_is_under_way(const Saver *saver); /* the same on all ranks */
bool saver_is_busy(const Saver *saver);      /* this rank's thread is at work */
bool saver_is_cut_off(const Saver *saver);   /* it failed because a rank is lost */

/* All ranks, with a save under way: waits for this rank's thread and goes on to the next stage.
 * *ended: with the one that was started last, whose outcome is returned. */
int saver_advance(Saver *saver, bool *ended);
int saver_finish(Saver *saver); /* until it has ended; 0 when nothing is under way */
