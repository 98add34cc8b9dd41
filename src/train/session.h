#pragma once
/* One training run under way: everything that the parts of the loop share. */
#include "data/loader.h"
#include "data/prefetch.h"
#include "record/checks.h"
#include "record/machine.h"
#include "record/record.h"
#include "record/timers.h"
#include "record/watch.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/resume.h"
#include "train/saver.h"

typedef struct {
    Comm *comm;       /* not owned */
    Channel *channel; /* NULL: one rank */
    int rank, ranks;
    Run run;
    Trainer trainer;
    char *dir;          /* run directory */
    int lock;           /* open file that keeps other processes out of dir; -1 */
    bool fresh_dir;     /* dir was not there, and the lock is ours */
    cJSON *config;      /* resolved options as recorded */
    cJSON *legs;        /* of the run, this one included once it begins; NULL: none yet */
    LegChanges changes; /* of this leg */
    Machine machine;
    bool ceilings_recalled; /* its rates were not measured at the start */
    Record *record;
    Timers timers;
    DeviceClock device_clock;
    int64_t stamps;                  /* that the device has taken */
    int64_t last_update_ns;          /* end of the last update by the device's clock; 0: long ago */
    double reading_cost, stamp_cost; /* seconds of one */
    uint64_t epoch;
    Sensors *sensors; /* of the GPU, NULL: none */
    GpuWatch watch;
    Loader train_loader, val_loader;
    bool has_validation;
    bool unrecorded; /* all steps are done, but the record does not say so */
    Prefetch *prefetch;
    TrainState state;
    int64_t first_step;                     /* of this session: 0, or where the checkpoint was */
    int64_t first_tokens;                   /* trained on before it */
    double session_seconds;                 /* in training steps, of this session */
    double loss, grad_norm, rate, val_loss; /* latest; NAN before the first */
    bool first_counts;     /* the first update is fetched, and has tokens that count */
    double own_first_loss; /* step 1, of this rank's sequences alone; once that is fetched */
    bool evaluated;        /* val_loss is of this session */
    Saver *saver;
    int64_t saving_step; /* of the save that was started last */
    int64_t saved_step;  /* of the newest complete checkpoint, or where the session began */
    double saved_at;     /* when a save was started last, by clock_seconds */
    bool save_next;      /* the next step ends with a checkpoint, because of the time */
    bool all_failed;     /* every rank knows that the run has failed */
    /* --minutes, as the first rank has told all: shares of the time that are used, and that the
     * next update will take (0: not known yet); and when no time was used, by clock_seconds. */
    double used, next_share, clock_began;
    /* Since the last recorded line. */
    int64_t line_steps, line_tokens;
    double line_seconds;
    /* For the time that is left. */
    double step_seconds;         /* smoothed */
    double shown;                /* when the live line was written last */
    const TrainWatcher *watcher; /* NULL: none */
} Session;

/* Makes the run directory, takes its lock, opens data and trainer, loads a checkpoint if there
 * is one to go on from, and starts the record and the loader's thread. */
int session_open(Session *session, const Config *cfg, Comm *comm);
void session_close(Session *session);

/* The checkpoint that the session went on from has all its steps already: neither record nor
 * loader were opened, and the record of the run stays as it is. */
bool session_is_complete(const Session *session);

/* What the run takes by purpose, as planned and at most so far. Returns how many rows. */
int session_memory(const Session *session, RecordMemory rows[MEM_KINDS]);

/* Fills run.json's summary and the rank's file, runs the self-checks, and sets the final status.
 * Returns code, or ERR_CHECK when code is 0 and a check failed. */
int session_finish(Session *session, int code);

/* The record of a session that fails before it trains says so. */
void session_give_up(Session *session, int code);

/* pace.c. update, before each: sets its size and rate, and total_steps when it is the last. end,
 * after each: by the clock, the last has used all of the time. read:
 * what the first rank's clock says, all others 0; take, what all have agreed on. */
void pace_update(Session *session);
void pace_end(Session *session);
void pace_read(const Session *session, double shares[2]);
void pace_take(Session *session, const double shares[2]);

/* saves.c: the run's checkpoints, on all ranks together. start: of the step that was made, waiting
 * for one that is still under way; a failure is told of and recorded, and training goes on.
 * advance: when every rank's part of one under way is written. finish: waits for it. last: what
 * the run ends with is on the disk, or that is its failure. */
void saves_start(Session *session);
void saves_advance(Session *session);
void saves_finish(Session *session);
int saves_last(Session *session);

/* account.c: the time of the run. open, once the trainer is there; fetched, after each
 * trainer_fetch; begin, before the loop; step, after each update. */
void account_open(Session *session);
void account_begin(Session *session);
void account_fetched(Session *session);
void account_host_update(Session *session, double seconds); /* length of an update on the host */
void account_step(Session *session);
double account_overhead(const Session *session, double wall_s); /* share that the timers took */

/* The first rank keeps directory, record and log. */
static inline bool session_leads(const Session *session)
{
    return session->rank == 0;
}

/* Tokens trained on in this session. */
static inline int64_t session_tokens(const Session *session)
{
    return session->state.tokens - session->first_tokens;
}

/* FLOP of one rank in this session. */
static inline double session_flops(const Session *session)
{
    const Run *run = &session->run;
    return run->plan.flops_update *
           ((double)session_tokens(session) / (double)run->tokens_per_update);
}

/* Updates of the whole run; by the clock as many as are expected now, 0: nobody knows. */
int64_t session_steps(const Session *session);

/* The noise scale of the last updates; missing without --noise-scale. */
static inline NoiseScale session_noise(const Session *session)
{
    return session->trainer.setup.noise != NOISE_NONE ? noise_scale(&session->state.noise)
                                                      : (NoiseScale){0};
}

static inline Value session_noise_tokens(const Session *session, NoiseScale noise)
{
    return (Value){noise.scale.known, noise.scale.number * (double)session->run.setup.seq};
}

/* 0 when code is 0 on every rank; else every rank gets an error, its own or "another rank
 * failed". */
int session_agree(Session *session, int code);

/* Compares the ranks' weights by checksum. ERR_FAILED names those that differ from the others. */
int session_verify_weights(Session *session);
