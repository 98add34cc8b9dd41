#pragma once
/* A page about one run, from its record: what it was, how fast, what it reached, and the loss
 * curve. */

/* Writes into folder `out`: loss.svg and loss.png, report.md, and report.html, one page that
 * needs no other file. Without gnuplot there are no charts; a warning says so. */
int run_report(const char *run_dir, const char *out);
