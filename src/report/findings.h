#pragma once
/* Sentences that follow from an experiment's numbers by rules, each with the numbers in it. */
#include "report/metric.h"

typedef enum { FINDING_RESULT, FINDING_CAUTION } FindingKind;

typedef struct {
    FindingKind kind;
    char *text;     /* a sentence */
    char *evidence; /* runs and numbers behind it */
} Finding;

typedef struct {
    Finding *items;
    int count;
} Findings;

/* What the rules find; a difference within the repeats' noise is called so, and nothing is
 * concluded from runs whose checks failed. */
void findings_make(const Results *results, Findings *findings);
void findings_free(Findings *findings);
