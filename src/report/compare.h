#pragma once
/* Two experiments, or two run directories, side by side. */
#include "report/tables.h"

/* Rows are the quantities of matching configurations (equal in every option that varies in
 * either experiment), or of the two runs, whose options that differ come first. Columns: both
 * values, the difference from a to b, and whether it is more than the noise of the repeats
 * (Welch's test, only sound runs). Notes name configurations that only one of them has.
 * ERR_INPUT when one is neither, or they are not of one kind. */
int compare_make(const char *a, const char *b, Table *table);

/* Prints it as Markdown. */
int compare_report(const char *a, const char *b, FILE *file);
