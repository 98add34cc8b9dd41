#pragma once
/* The audit of results that somebody else wrote down: reads a CSV file, Markdown with tables and
 * text, or a log, and puts numbers beside what follows from others. docs/guide/audit.md explains
 * the rules. */
#include "audit/findings.h"

#include <stdio.h>

typedef struct {
    Findings findings;
    int facts; /* numbers recognised, settings of runs included */
    bool cut;  /* the file has more than the audit keeps */
} Audit;

/* 0 whatever is found; ERR_INPUT when the file cannot be read or nothing in it is recognised. */
int audit_file(const char *path, const Names *names, Audit *audit);
void audit_free(Audit *audit);

/* Every finding as PATH:LINE: text under its rule, then the summary. */
void audit_print(const Audit *audit, const char *path, FILE *file);

int audit_count(const Audit *audit, FindingKind kind);
