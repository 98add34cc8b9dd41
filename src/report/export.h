#pragma once
/* Records for other programs. `run` is a run directory or an experiment's folder. */

/* Tables for spreadsheets and data frames. Of a run: metrics.csv, summary.csv, phases.csv and
 * ranks.csv; of an experiment: runs.csv. They go into the folder `out`, which is made; files of
 * these names are replaced, others stay. docs/reference/formats.md lists the columns. */
int export_csv(const char *run, const char *out);

/* TensorBoard's event files, for runs that were made without them or elsewhere. Of a run: one file
 * in the folder `out`, which is made; of an experiment: out/ID for each run that has a record. The
 * file's name follows from the record, so that a second export replaces it. Records have no time
 * for each line: wall times are the start of the run plus the steps' durations. */
int export_events(const char *run, const char *out);
