#pragma once
/* What the files of `pacer plan` share. */
#include "analyse/predict.h"
#include "train/setup.h"

typedef struct {
    DdpKind kind;
    Prediction prediction;
} PredictedRanks;

/* cmd_plan.c: measures one rank's step of run (and, with comm, the link between ranks), prints
 * the prediction for up to --ranks ranks, and leaves in *best, unless NULL, that of the fastest
 * strategy. */
int plan_predict(const Run *run, Comm *comm, PredictedRanks *best);

/* Whether --link measured has something to take, or ranks to measure; of run's device. */
int plan_check_link(const Run *run, const Comm *comm);

/* plan_recommend.c: --recommend; predicting: a link is given. */
int plan_recommend(Config *cfg, bool predicting);

/* "pacer train", and what the user gave as far as train takes it, but for these words. */
void plan_print_given(const Config *cfg, bool own_data, const char *const *left_out);
void plan_print_option(const char *name, const char *value); /* " --name value" */

/* plan_fit.c: --fit. */
int plan_fit(Config *cfg);
