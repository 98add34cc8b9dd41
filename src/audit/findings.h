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
    int line, run;
    char text[FINDING_SIZE];
} Finding;

typedef struct {
    const Evidence *evidence; /* that the rules look at */
    Finding *items;
    int count;
    int more;      /* found beyond FINDINGS_MAX */
    long compared; /* numbers put beside what they should be */
} Findings;

void finding_add(Findings *findings, FindingKind kind, const char *rule, int line, int run,
                 const char *format, ...) __attribute__((format(printf, 6, 7)));

/* The same with the run's settings in front: "batch 64, ranks 2: ". */
void finding_about(Findings *findings, FindingKind kind, const char *rule, int line, int run,
                   const char *format, ...) __attribute__((format(printf, 6, 7)));

#define FINDING_RUN_OF_MEMORY (-2) /* of a finding that memory is above the device's */

/* Whether the rule has already spoken of this run. */
bool finding_said(const Findings *findings, const char *rule, int run);

/* The rules, by theme. */
void rules_tokens(const Evidence *evidence, Findings *findings);
void rules_products(const Evidence *evidence, Findings *findings);
void rules_scaling(const Evidence *evidence, Findings *findings);
void rules_ranks(const Evidence *evidence, Findings *findings);
void rules_time(const Evidence *evidence, Findings *findings);
void rules_memory(const Evidence *evidence, Findings *findings);
void rules_loss(const Evidence *evidence, Findings *findings);
void rules_same(const Evidence *evidence, Findings *findings);
