#pragma once
/* gnuplot's orders for a plot. */
#include "report/chart_plot.h"
#include "report/page.h"

typedef enum { CHART_SVG, CHART_PNG } ChartFormat;

/* A script that draws the plot to standard output. The plot's texts may hold anything. */
void chart_script(Page *script, const Plot *plot, ChartFormat format);
