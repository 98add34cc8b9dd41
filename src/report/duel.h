#pragma once
/* A duel: configuration 0 (A) against configuration 1 (B), the same number of repeats of each, and
 * what the sequential test says of the validation losses (docs/reference/duel.md). */
#include "report/sequential.h"
#include "report/tables.h"

/* The runs of one repeat. A run whose loss was no longer finite counts with the loss of a model
 * that knows nothing, ln(vocabulary). */
typedef struct {
    double loss[2];
    bool diverged[2];
} DuelPair;

typedef struct {
    SequentialTest test;
    SequentialLook look; /* of B less A, in nats: the first that decides, else the last */
    DuelPair pairs[SEQUENTIAL_MOST];
    int count;             /* of pairs with an outcome, from the first repeat on */
    int diverged[2];       /* runs of those that the look counts */
    const char *labels[2]; /* what A and B differ in; they live in the results */
    double tokens[2];      /* that a run of each trains on; NAN: unknown */
    bool same_budget;      /* both were given the same number of tokens, epochs, FLOP or minutes */
} Duel;

/* Whether the experiment is one. */
bool duel_is(const Results *results);

/* ERR_INPUT when its record is not one of a duel. */
int duel_judge(const Results *results, Duel *duel);

/* Whether a run ended for a loss or a gradient that was not finite; message: its record's. */
bool duel_diverged(RunState state, const char *message);

/* The verdict as a sentence; caller frees. */
char *duel_sentence(const Duel *duel);

/* What limits it: runs that diverged, budgets that differ; NULL: nothing. Caller frees. */
char *duel_caution(const Duel *duel);

/* For scripts, the verdict as one word: better, worse, none, undecided; open: not yet. Caller
 * deletes. */
cJSON *duel_json(const Results *results, const Duel *duel);

/* Pair by pair, with the interval at each look, into a zeroed table. */
void duel_table(const Duel *duel, Table *table);
