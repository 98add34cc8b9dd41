#pragma once
/* Charts are drawn by gnuplot, a program of its own. */

/* Runs a script. ERR_FAILED with gnuplot's first words, or saying that it is not installed. */
int gnuplot_run(const char *script);
