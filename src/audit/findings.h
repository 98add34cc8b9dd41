#pragma once
/* What an audit found, in words. A rule is one sentence; its findings are the places it speaks
 * of. */
#include "audit/evidence.h"

typedef enum { FINDING_NOTE, FINDING_WARNING, FINDING_DISAGREES } FindingKind;

#define FINDINGS_MAX 1000
#define FINDING_SIZE 400

typedef struct {
    FindingKind kind;
    const char *rule;
    int line, record;
    char text[FINDING_SIZE];
} Finding;

typedef struct {
    const Evidence *evidence; /* that the rules look at */
    Finding *items;
    int count;
    int more;      /* found beyond FINDINGS_MAX */
    long compared; /* numbers put beside what they should be */
} Findings;

void finding_add(Findings *findings, FindingKind kind, const char *rule, int line,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The same with the record's settings in front: "batch 64, ranks 2: ". */
void finding_about(Findings *findings, FindingKind kind, const char *rule, int line, int record,
                   const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Whether a disagreement about the line is there already. */
bool finding_said(const Findings *findings, int line);

/* Dense bf16 FLOP/s of the one kind of GPU that the document names; 0. */
double limits_peak(const Evidence *evidence);

/* The rules, by theme. */
void rules_run(const Evidence *evidence, Findings *findings);     /* numbers of one run */
void rules_limits(const Evidence *evidence, Findings *findings);  /* what cannot be */
void rules_scaling(const Evidence *evidence, Findings *findings); /* one run against another */
void rules_sweep(const Evidence *evidence, Findings *findings);   /* runs over batch sizes */
void rules_columns(const Evidence *evidence, Findings *findings); /* columns of one table */
void rules_grid(const Evidence *evidence, Findings *findings);    /* any table, by its arithmetic */
void rules_text(const Evidence *evidence, Findings *findings);    /* what a text works out */
void rules_quotes(const Evidence *evidence, Findings *findings);  /* what it says twice */

/* Part of rules_text: a sentence about one row of a table, which it names by its label. */
void quote_check_sentence(const Evidence *evidence, const char *sentence, int line,
                          Findings *findings);
