#pragma once
/* gnuplot as a process: a script goes in, a picture comes out. */
#include <stddef.h>

/* The caller frees *picture, which is NULL on failure. ERR_FAILED when gnuplot is missing, or with
 * its own words when it fails. */
int gnuplot_run(const char *script, char **picture, size_t *size);
