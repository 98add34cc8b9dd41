#pragma once
/* `pacer train`: the whole of one run. */
#include "comm/comm.h"
#include "config/config.h"

#include <pacer.h>

/* What a caller may want to show afterwards. */
typedef struct {
    char *dir; /* run directory; caller frees */
    double loss, val_loss, tok_s;
} TrainResult;

/* Who wants to know of each recorded line (--log-every), and of each validation loss, as it is
 * made; either may be NULL. Called by the first rank's thread that trains, which waits for the
 * answer. */
typedef struct {
    pacer_step_function *step;
    void *step_user;
    pacer_validation_function *validation;
    void *validation_user;
} TrainWatcher;

/* comm may be NULL: one rank. watcher may be NULL. Returns 0, ERR_INTERRUPTED or ERR_TERMINATED
 * after a signal (everything saved), ERR_CHECK when a self-check failed, or another ErrCode.
 * result may be NULL. */
int train_run(const Config *cfg, Comm *comm, const TrainWatcher *watcher, TrainResult *result);
