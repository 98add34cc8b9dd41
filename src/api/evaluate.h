#pragma once
/* An evaluation by the options of `pacer eval`. */
#include "use/evaluate_inputs.h"
#include "use/loaded.h"

#include <cjson/cJSON.h>

typedef struct {
    char *name; /* file:line */
    EvalDocument document;
} EvalNamed;

typedef struct {
    const LoadedModel *model;
    int ranks;
    int64_t batch, seq;
    bool complete; /* nothing was left out */
    double seconds;
    EvalTotals totals;
    const char *no_bytes; /* why bytes are not known; NULL: they are */
    /* Of --data. */
    const char *data, *split; /* NULL: of texts */
    bool has_mean;            /* mean is the figure that a training run would record */
    double mean;
    /* Of texts. */
    char *const *inputs;
    int input_count;
    uint64_t documents; /* complete ones */
    EvalNamed best, worst;
    cJSON *each; /* with --each and --json; NULL else */
} EvalReport;

typedef struct {
    Config *cfg;
    Comm *comm;         /* NULL: one rank */
    LoadedModel *model; /* the caller's */
    EvalReport *report; /* filled */
    /* As in EvalText; may be NULL. */
    int (*document)(void *user, const EvalDocument *document);
    void *user;
    Evaluator evaluator;
} Evaluation;

/* Whether the options go together. Before ranks are started, and again when their number is
 * known. */
int evaluation_check(const Config *cfg, int count, char **inputs);

/* The texts (count of them), or with none the prepared data that the options or the model's run
 * name. All ranks together. ERR_INTERRUPTED and ERR_TERMINATED leave the figures of what was
 * done, report->complete being false. */
int evaluation_run(Evaluation *e, int count, char **inputs);
