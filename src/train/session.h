#pragma once
/* One training run under way: everything that the parts of the loop share. */
#include "data/loader.h"
#include "data/prefetch.h"
#include "metrics/checks.h"
#include "metrics/machine.h"
#include "metrics/record.h"
#include "metrics/timers.h"
#include "train/checkpoint.h"
#include "train/setup.h"

typedef struct {
    Run run;
    Trainer trainer;
    char *dir;     /* run directory */
    int lock;      /* open file that keeps other processes out of dir; -1 */
    cJSON *config; /* resolved options as recorded */
    Machine machine;
    Record *record;
    Timers timers;
    Loader train_loader, val_loader;
    bool has_validation;
    Prefetch *prefetch;
    TrainState state;
    int64_t first_step;                     /* of this session: 0, or where the checkpoint was */
    int64_t first_tokens;                   /* trained on before it */
    double session_seconds;                 /* in training steps, of this session */
    double loss, grad_norm, rate, val_loss; /* latest; NAN before the first */
    bool evaluated;                         /* val_loss is of this session */
    /* Since the last recorded line. */
    int64_t line_steps;
    double line_seconds;
    /* For the time that is left. */
    double step_seconds; /* smoothed */
    double shown;        /* when the live line was written last */
} Session;

/* Makes the run directory, takes its lock, opens data and trainer, loads a checkpoint if there is one to
 * go on from, and starts the record and the loader's thread. */
int session_open(Session *session, const Config *cfg);
void session_close(Session *session);

/* The checkpoint that the session went on from has all its steps already: neither record nor loader were
 * opened, and the record of the run stays as it is. */
bool session_is_complete(const Session *session);

/* Fills run.json's summary and the rank's file, runs the self-checks, and sets the final status. Returns
 * code, or ERR_CHECK when code is 0 and a check failed. */
int session_finish(Session *session, int code);

/* Mean validation loss over --eval-batches batches, in the order of the stream. */
int session_evaluate(Session *session, double *loss);

/* The step that was just made gets a recorded line. */
bool session_is_due(const Session *session);

/* One finished step: live line, recorded line. */
int session_report_step(Session *session, double seconds);
