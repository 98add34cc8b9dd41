#pragma once
/* Records as tables for spreadsheets and data frames. */

/* Of a run directory: metrics.csv, summary.csv, phases.csv and ranks.csv; of an experiment's
 * folder: runs.csv. They go into the folder `out`, which is made; files of these names are
 * replaced, others stay. docs/formats.md lists the columns. */
int export_csv(const char *run, const char *out);
