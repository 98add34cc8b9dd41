#pragma once
/* The run directory: what a run leaves behind for reports, sweeps and a resume. run.json is always
 * whole (replaced as one event), metrics.jsonl grows by whole lines. Rank 0 owns both; every rank
 * writes its own ranks/K.json. docs/reference/formats.md lists the fields. */
#include "model/spec.h"
#include "record/reader.h"
#include "record/summary.h"

/* Bytes of one purpose: as planned, and the most that was in use. */
typedef struct {
    const char *kind;
    size_t planned, peak;
} RecordMemory;

/* What is known when a run starts. Everything is copied. */
typedef struct {
    const char *id;
    const ModelSpec *spec;
    int64_t parameters;
    int64_t total_steps;      /* that the run is to make; 0: not known */
    double flops_update;      /* of one rank */
    double flops_token;       /* of the model's own work */
    const cJSON *config;      /* may be NULL: null */
    const cJSON *given;       /* names of options that somebody gave; may be NULL: left out */
    const cJSON *machine;     /* may be NULL: null */
    const cJSON *legs;        /* the run's, this one last; may be NULL: left out */
    const cJSON *ramp;        /* sizes of updates in this leg; NULL: all are alike, left out */
    const RecordMemory *plan; /* peaks are not looked at */
    int plan_rows;
    const char *noise_source; /* what the noise scale is told by; NULL: it is not measured */
    bool events;              /* every line goes into a TensorBoard event file in dir, too */
} RecordInfo;

typedef struct Record Record;

/* Makes the directory and writes run.json with status "running". resume_step < 0 starts afresh:
 * metrics.jsonl is emptied, and event files of an earlier run go; where there is no run.json, a
 * metrics.jsonl with lines is somebody else's (ERR_INPUT) and event files stay. Otherwise the run
 * goes on behind that step: record_resume, and the first start stays in the record. Files of the
 * ranks of an earlier session go either way: each rank writes its own when the session ends, and
 * there may have been more of them before. */
int record_open(const char *dir, const RecordInfo *info, int64_t resume_step, Record **out);

/* Rewrites run.json. message may be NULL; summary (taken) may be NULL, which keeps the last one. */
int record_save(Record *record, RunState state, const char *message, cJSON *summary);

/* A checkpoint that could not be saved, for the list failed_saves; written with the next save. */
void record_failed_save(Record *record, int64_t step, const char *why);

/* Replaces the machine's description (taken): a ceiling was measured again. */
void record_machine(Record *record, cJSON *machine);

/* A run whose ranks could not say how it ended: its run.json, where it still says "running", says
 * "failed" and why; and "lost" where a rank was, so that another try may end well. Only of
 * the session whose first rank was this process; pid 0: of any, as nobody else writes there. */
int record_fail(const char *dir, int64_t pid, const char *host, const char *why, bool lost);

void record_close(Record *record); /* frees; NULL is fine; the status stays what was saved last */

typedef struct {
    int64_t step, tokens; /* since the beginning of the run */
    Value loss, lr, grad_norm, tok_s, ms;
    Value peak_bytes;               /* so far, where the model is computed */
    int64_t left_out;               /* of the tokens: those that did not count in the loss */
    Value noise_scale, noise_error; /* in sequences */
    Value noise_tokens;             /* the scale in tokens */
} RecordStep;

/* Each appends one line to metrics.jsonl, which has reached the system when this returns. A line
 * that cannot be written whole is taken back; on a full disk it waits for room (lines.h). Events
 * that cannot be written are told of once and then left out. */
int record_step(Record *record, const RecordStep *step);
int record_eval(Record *record, int64_t step, double val_loss);

/* A text that the model wrote after a step, as a line of samples.jsonl. What is no UTF-8 becomes
 * U+FFFD. */
int record_sample(Record *record, int64_t step, int64_t tokens, const char *text);

/* Writes the lines that wait for room; an error when there still is none. record_save does this
 * first. */
int record_catch_up(Record *record);

/* Cuts from dir/metrics.jsonl and dir/samples.jsonl what a run that continues behind `step` will
 * write again: lines of later steps, and what a kill left of the last line. Each file is replaced
 * as one event; no file is fine. A damaged line with good ones after it is ERR_INPUT. */
int record_resume(const char *dir, int64_t step);

typedef struct {
    int rank, ranks;
    const char *host, *device;
    const char *uuid;          /* tells devices of one name apart; NULL: missing */
    const TimerReport *timers; /* NULL: missing */
    Value first_loss;          /* of step 1, this rank's sequences alone; missing after a resume */
    /* Of the device that computes: in use at most, asked for by the run, taken from the device
     * by this process in all (a GPU's kernels and libraries included), planned. Then of the
     * host: resident at most, and the batches made ahead. On a processor the two are one memory. */
    Value peak_bytes, allocated_bytes, reserved_bytes, planned_bytes, resident_bytes, loader_bytes;
    const RecordMemory *categories;
    int category_count;
    const cJSON *gpu; /* copied; NULL: missing */
} RecordRank;

int record_rank(const char *dir, const RecordRank *rank); /* writes dir/ranks/K.json */
