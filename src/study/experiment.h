#pragma once
/* An experiment: the runs of a recipe and how far each has come. experiment.json is its record
 * (docs/reference/formats.md), but whether a run is done only the run's own directory says. */
#include "base/clock.h"
#include "config/config.h"
#include "model/spec.h"
#include "record/reader.h"
#include "study/recipe.h"

/* What a run will take. */
typedef struct {
    ModelSpec spec; /* with seq */
    int64_t seq;
    Value bytes, seconds;  /* seconds: predicted from FLOPs and the machine's measured ceiling */
    int64_t steps, tokens; /* in all; 0: not planned, or by the clock */
    int64_t parameters;
    double flops_update; /* of the model's own work, on all ranks */
} RunPlan;

typedef struct {
    Config cfg;       /* of train, checked, device and type settled; without out */
    const char *peer; /* the program that makes this run: peer_name, or "": pacer itself */
    RunPlan plan;
    char id[CONFIG_ID_SIZE];
    int configuration, repeat;
    int64_t combination;  /* of the axes, skipped ones counted; the last axis varies fastest */
    int factor;           /* index in the probe's factors; -1: none */
    double budget;        /* FLOP, of a scaling law's run; 0: none */
    bool largest;         /* the run of a scaling law that is predicted before it is made */
    SettingList settings; /* what varies, then lr where a rule sets it, then seed */
    char *label;          /* "batch 16, accum 64" */
    RunState state;
    char *reason;        /* never NULL; "" when done */
    Value seconds, exit; /* of the child's last go */
    char *obstacle;      /* why the plan says that it cannot be run here; NULL: it can */
    bool too_large; /* that is for lack of memory: train is asked all the same, and records it */
} ExperimentRun;

typedef struct Experiment {
    Recipe recipe;
    char *dir; /* "": none yet */
    ExperimentRun
        *runs; /* in the order of execution: repeat 0 of all configurations, then repeat 1, ... */
    int count, configurations;
    int jobs; /* runs at once, each on its share of the processors */
    char started[CLOCK_STAMP_SIZE];
    bool finished;         /* every run was given its chance */
    char peer_version[32]; /* of the peers' library; "": there is none */
    char *peer_note;       /* why peers have no runs, or not all of them; NULL: nothing to say */
    /* Asked of a run that did not come to its end: whether the others have lost their purpose.
     * NULL: they never have. */
    bool (*ends)(const struct Experiment *experiment, const ExperimentRun *run);
} Experiment;

/* Takes the recipe and makes its runs: axes crossed, skips left out, repeats with seeds of their
 * own, lr by its rule. Each combination is checked; ERR_INPUT names the line. Ids come with
 * experiment_identify. On failure there is nothing to free but the recipe. expand.c */
int experiment_expand(Experiment *experiment, Recipe *recipe);
void experiment_free(Experiment *experiment); /* a no-op on a zeroed one */

/* Gives each run its id, and drops those whose id an earlier one has. After experiment_plan,
 * which settles device and type. expand.c */
void experiment_identify(Experiment *experiment);

/* Takes run `at` out. expand.c */
void experiment_drop(Experiment *experiment, int at);

/* Plans each configuration in a process of its own (so that this one never opens a GPU): settles
 * device and dtype, fills plan, obstacle and too_large. ERR_INPUT when a combination is wrong on
 * any machine, or none can be run on this one. plan.c */
int experiment_plan(Experiment *experiment);

/* execute.c */

/* Makes the experiment's folder, keeps other sweeps out of it until *lock is closed, and waits
 * for runs in it that a killed sweep may have left behind. ERR_INPUT when another sweep is
 * there. */
int experiment_enter(const Experiment *experiment, int *lock);

/* Runs what is waiting or was stopped. A run that fails does not end it, but where ends says so:
 * then no other begins, and those under way save and stop. 0 when every run had its chance, or it
 * was ended so; ERR_INTERRUPTED or ERR_TERMINATED after a signal, which the child was given too; or
 * why the record cannot be kept. signals_install before. */
int experiment_execute(Experiment *experiment);

/* experiment_json.c: writes dir/experiment.json as one event. */
int experiment_save(const Experiment *experiment);

/* Takes over what an earlier sweep in dir left: done runs are done, whatever the record says;
 * outcomes of others count when that sweep did not come to its end, else they are tried again.
 * No record is fine. */
int experiment_restore(Experiment *experiment);

/* A run's run.json; *record is NULL when there is none, and is the caller's to delete. */
int experiment_run_record(const Experiment *experiment, const ExperimentRun *run, cJSON **record);

/* dir/runs/ID with `behind` appended; caller frees. */
char *experiment_run_path(const Experiment *experiment, const ExperimentRun *run,
                          const char *behind);

void experiment_set(ExperimentRun *run, RunState state, const char *reason);

/* progress.c: how far a sweep has come, and how long it will still take: predicted times,
 * corrected by those measured so far. */
typedef struct {
    const Experiment *experiment;
    int at;             /* run under way */
    double started;     /* clock_seconds of its child */
    double first_share; /* of its steps that were done before */
    double said;        /* clock_seconds of the last line */
} SweepProgress;

/* A run begins; says so where nothing is shown live. */
SweepProgress sweep_progress_begin(const Experiment *experiment, int at);

/* "run 5/12 batch 32 (repeat 2/3): 41 %, 3 min left of all", now and then; `others` are under way
 * beside it. */
void sweep_progress_say(SweepProgress *progress, int others);

/* A run has ended: its state in a line that stays. */
void sweep_progress_end(const SweepProgress *progress);
