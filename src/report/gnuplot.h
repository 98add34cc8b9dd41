#pragma once
/* Charts are drawn by gnuplot, a program of its own. */
#include <stddef.h>

/* Runs a script that draws one picture to its standard output. *picture has a NUL behind its
 * bytes, which *size does not count; the caller frees it. ERR_FAILED with gnuplot's first words,
 * or saying that it is not installed. */
int gnuplot_run(const char *script, char **picture, size_t *size);
