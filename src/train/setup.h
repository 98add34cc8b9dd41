#pragma once
/* From options (settled by run_resolve) to a run that is ready to be planned: data opened and
 * checked, model resolved, backend chosen, memory planned. Nothing big is allocated yet. train,
 * plan and bench begin here. */
#include "config/config.h"
#include "data/dataset.h"
#include "train/length.h"
#include "train/trainer.h"

typedef struct {
    const Config *cfg;
    Config
        settled; /* cfg with what it leaves open as it turned out: the model's fields, seq, ... */
    char id[CONFIG_ID_SIZE];
    Dataset data; /* zeroed when no data was given */
    Backend *backend;
    TrainerSetup setup;
    TrainPlan plan;
    double flops_token;        /* of the model's own work: trainer_model_flops */
    int64_t tokens_per_update; /* of the first one, where they change */
    int64_t total_steps;       /* LENGTH_OPEN: the clock will tell */
    int64_t tokens_per_epoch;  /* of a pass over the training data; 0: there is none */
    RunLength length;
    int local_ranks; /* on this host: they share its memory and cores */
    bool shares;     /* data and backend are another run's */
    size_t program;  /* bytes of the process beside the plan's: see run_program */
} Run;

/* Settles what auto stands for on this machine: device and dtype. */
void device_resolve(Config *cfg);

/* The type that cfg names, settled by device_resolve. */
DType config_dtype(const Config *cfg);

/* ERR_INPUT for fp8, which only training multiplies in; what: "generation". */
int dtype_refuse_fp8(const Config *cfg, const char *what);

/* The same for a run that trains. Before run_open, and before options are
 * printed or recorded. ERR_INPUT for a device that cannot be used. */
int run_resolve(Config *cfg);

/* Opens the device that cfg names, settled by device_resolve, for this rank (comm may be NULL:
 * the only one); the caller closes it. ERR_INPUT saying why there is none. */
int backend_open(const Config *cfg, const Comm *comm, Backend **out);

/* The model that the options describe. data_vocab (0: unknown) fills a vocabulary that preset
 * and options leave open. ERR_INPUT names the option at fault. */
int setup_spec(const Config *cfg, int64_t data_vocab, ModelSpec *out);

/* The way back: sets --model and whatever else it takes for cfg to describe this model. */
int setup_options(const ModelSpec *spec, Config *cfg);

typedef enum { DATA_REQUIRED, DATA_OPTIONAL } DataNeed;

/* comm may be NULL: one rank, or as many as cfg says where nothing is run. ERR_INPUT names the
 * option at fault. On failure *run needs no closing. */
int run_open(Run *run, const Config *cfg, const Comm *comm, DataNeed need);

/* Of a run that goes on after `step` updates: see length_resume. */
int run_resume_length(Run *run, int64_t step, int64_t tokens);
void run_close(Run *run); /* a no-op on a zeroed run */

/* The same run with other options, whose model and data are the same: on the device and data of
 * base, which stays open for longer. As run_open else. */
int run_vary(const Run *base, const Config *cfg, Run *run);

/* "flash attention", "TTT-Linear" and the like: what moves information between tokens. */
const char *setup_mixer_name(const TrainerSetup *setup);

/* Bytes that the process takes beside its tensors where they are in the host's memory: what it
 * holds now, before they are there, and what libraries and threads will take. On a device whose
 * memory is its own: 0. Pages of mapped files, which the system can take back, are not counted. */
size_t run_program(const Backend *backend);

/* Bytes that the process may use: --memory-limit, or what it holds now and what the backend still
 * has. SIZE_MAX: unknown. */
size_t run_memory_limit(const Run *run);

/* What of that is left for the plan. */
size_t run_room(const Run *run);

/* Whether the plan fits. */
bool run_has_room(const Run *run);

/* ERR_INPUT where --grad-dtype or --offload asks for what there is not. */
int run_check_grads(const Run *run);
int run_check_offload(const Run *run);

/* 0 when the plan fits; else ERR_MEMORY, after printing the plan's table to stderr; the message
 * names the largest batch that fits, and the cheapest --recompute with which this one does. */
int run_check_fits(const Run *run);

/* What helps where nothing fits: a smaller model, or, of a limit that the program's own memory
 * takes up, more memory alone. */
#define RUN_REMEDY_SIZE 96
void run_remedy(size_t program, size_t limit, char text[RUN_REMEDY_SIZE]);

/* The plan as a table, and what each --recompute saves and costs as another. */
void run_print_plan(const Run *run, FILE *file);
/* What --ddp does not cut among so many ranks, as a sentence; "": nothing of note. */
#define RUN_UNCUT_SIZE 256
void run_uncut(const Run *run, char text[RUN_UNCUT_SIZE]);
void run_print_grades(const Run *run, FILE *file);
