#pragma once
/* gnuplot's SVG made fit for a page. */
#include "report/page.h"

/* The colours in which a script draws what shall have the colour of the page's text, and faint
 * lines. */
#define CHART_INK "#123456"
#define CHART_FAINT "#234567"

/* Puts the drawing into the page: text and axes in the page's colour, the chart's name before
 * each id (several charts share a page), a label for those who hear it, no background. */
int chart_svg_adapt(Page *page, const char *svg, const char *name, const char *title);
