#pragma once
/* `pacer train`: the whole of one run. */
#include "comm/comm.h"
#include "config/config.h"

/* What a caller may want to show afterwards. */
typedef struct {
    char *dir; /* run directory; caller frees */
    double loss, val_loss, tok_s;
} TrainResult;

/* comm may be NULL: one rank. Returns 0, ERR_INTERRUPTED or ERR_TERMINATED after a signal (everything saved), ERR_CHECK when a
 * self-check failed, or another ErrCode. result may be NULL. */
int train_run(const Config *cfg, Comm *comm, TrainResult *result);
