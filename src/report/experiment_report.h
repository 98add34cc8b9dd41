#pragma once
/* The report of an experiment, from its records alone. */

/* Writes report.md, report.html and charts/ into dir, which has an experiment.json. Without
 * gnuplot there are no charts; a warning says so. */
int experiment_report(const char *dir);

/* The same into another folder, which is made. */
int experiment_report_into(const char *dir, const char *out);
