#pragma once
/* A planted experiment and what is found in it. */
#include "report/findings.h"
#include "support/experiment_record.h"

typedef struct {
    PlantedExperiment experiment;
    Results results;
    Findings findings;
} FindingsCase;

void findings_case_start(FindingsCase *one, const char *more); /* more: see planted_begin */
void findings_case_conclude(FindingsCase *one);                /* after the last planted run */
void findings_case_end(FindingsCase *one);

/* The finding whose text contains the words; NULL when there is none. */
const Finding *find_finding(const FindingsCase *one, const char *words);

/* Fail unless there is one of this kind with this in its evidence, or none. */
void expect_finding(const FindingsCase *one, FindingKind kind, const char *words,
                    const char *evidence);
void expect_no_finding(const FindingsCase *one, const char *words);
