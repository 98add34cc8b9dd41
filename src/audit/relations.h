#pragma once
/* A relation between numbers of one run: looks at one record and says whether the stated number
 * follows from the others. */
#include "audit/findings.h"

#include <stdio.h>

typedef struct {
    const Fact *stated; /* the line of the finding is its line */
    bool agrees;
    char text[FINDING_SIZE - RUN_TEXT_SIZE];
} Outcome;

#define SAY(outcome, ...) snprintf((outcome)->text, sizeof(outcome)->text, __VA_ARGS__)

typedef bool Relation(const Evidence *evidence, int record, Outcome *outcome);

typedef struct {
    const char *rule;
    Relation *check;
    bool alone;    /* a row needs no other row's witness */
    bool in_prose; /* sure enough for the numbers of a sentence */
} Rule;

/* Of tokens, time and money; of losses, shares, phases and bytes. They end with a NULL rule. */
extern const Rule rules_of_tokens[], rules_of_parts[];

/* The record's own fact with a unit where its kind has one, above 0; NULL. */
const Fact *relation_measured(const Evidence *evidence, int record, Quantity quantity);
