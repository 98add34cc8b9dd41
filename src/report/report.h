#pragma once
/* Reports from records alone, as files for readers, and the records for other programs. Charts
 * need gnuplot; without it there are none, and a warning says so. */
#include "report/tables.h"

#include <stdio.h>

/* Writes report.md, report.html (which needs no other file) and charts/ of the experiment in dir
 * into out, which is made. What is wrong with single tables and charts is a caution in the report
 * and a warning; ERR_INPUT when dir is no experiment. */
int experiment_report(const char *dir, const char *out);

/* The same of a run directory, with its loss curve as loss.svg and loss.png. */
int run_report(const char *run_dir, const char *out);

/* Two experiments, or two run directories, side by side. Rows are the quantities of matching
 * configurations (equal in every option that varies in either experiment), or of the two runs,
 * whose options that differ come first. Columns: both values, the difference from a to b, and
 * whether it is more than the noise of the repeats (Welch's test, only sound runs). Notes name
 * configurations that only one of them has. ERR_INPUT when one is neither, or they are not of
 * one kind. */
int compare_make(const char *a, const char *b, Table *table);

/* Prints it as Markdown. */
int compare_report(const char *a, const char *b, FILE *file);

/* Tables for spreadsheets and data frames. Of a run: metrics.csv, summary.csv, phases.csv and
 * ranks.csv; of an experiment: runs.csv. They go into the folder `out`, which is made; files of
 * these names are replaced, others stay. docs/reference/formats.md lists the columns. */
int export_csv(const char *dir, const char *out);

/* TensorBoard's event files, for runs that were made without them or elsewhere. Of a run: one file
 * in the folder `out`, which is made; of an experiment: out/ID for each run that has a record. The
 * file's name follows from the record, so that a second export replaces it. Records have no time
 * for each line: wall times are the start of the run plus the steps' durations. */
int export_events(const char *dir, const char *out);
