#pragma once
/* gnuplot's SVG made fit for a page. */

/* The colours in which a script draws what shall have the colour of the page's text, and faint lines. */
#define CHART_INK "#123456"
#define CHART_FAINT "#234567"

/* Rewrites the file: text and axes in the page's colour, the chart's name before each id (several charts share a
 * page), a label for those who hear it, no background. */
int chart_svg_adapt(const char *path, const char *name, const char *title);
