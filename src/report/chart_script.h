#pragma once
/* gnuplot's orders for a plot. */
#include "report/chart_plot.h"
#include "report/page.h"

/* A script that draws the plot into both files. */
void chart_script(Page *script, const Plot *plot, const char *svg, const char *png);
