#pragma once
/* What an experiment over sizes and budgets says about a scaling law, and its prediction of the
 * largest run: prediction.json in its folder, written once and never again. */
#include "report/law.h"
#include "report/tables.h"

/* The largest run before it is made. */
typedef struct {
    const char *id;
    double parameters, tokens, flops;
    bool begun; /* it has been started before, so what is written now is no prediction */
} LawTarget;

/* Whether the experiment is one of a law. */
bool law_is(const Results *results);

/* Writes the prediction unless there is one; *text says what it is, or why there is none (caller
 * frees): too few runs, or a budget whose best size is the least or the greatest that it has. */
int law_register(const Results *results, const LawTarget *target, bool *registered, char **text);

#define LAW_TABLES 3

/* Tables of the law's terms, of best sizes, and of the prediction beside what came, into zeroed
 * ones; returns how many. *problem says why there is no law (caller frees), or is NULL. */
int law_tables(const Results *results, Table tables[LAW_TABLES], char **problem);
