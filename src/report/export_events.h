#pragma once
/* Records as TensorBoard event files, for runs that were made without them or elsewhere. */

/* Of a run directory: one event file in the folder `out`, which is made; of an experiment's
 * folder: out/ID for each run that has a record. The file's name follows from the record, so
 * that a second export replaces it. Records have no time for each line: wall times are the start
 * of the run plus the steps' durations. */
int export_events(const char *run, const char *out);
