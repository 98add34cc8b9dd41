#pragma once
/* What `pacer eval` found, as a table and as JSON. */
#include "api/evaluate.h"

/* --documents: the head of their table, and a row. */
void eval_report_head(void);
void eval_report_row(const EvalDocument *document);

/* Counts the document for best and worst, and keeps it where --json wants it. */
void eval_report_add(EvalReport *report, const EvalDocument *document);

void eval_report_print(const EvalReport *report);
int eval_report_json(const EvalReport *report, const char *path);
void eval_report_free(EvalReport *report);
