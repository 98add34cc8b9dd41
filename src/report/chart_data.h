#pragma once
/* From an experiment's results to the numbers of a chart. */
#include "report/chart.h"
#include "report/chart_plot.h"

/* Fills a zeroed plot with what the chart asks for: categories, series, points, titles.
 * Configurations that would fall on the same place become series of their own, named by what
 * else varies. */
void chart_collect(const Chart *chart, const Results *results, Plot *plot);

/* The same for CHART_CURVES: losses over steps, tokens or seconds, the mean over a
 * configuration's repeats. */
void chart_collect_curves(const Chart *chart, const Results *results, Plot *plot);

/* Each configuration's name within the chart, by the chart's series and, where that does not
 * tell configurations apart that share a place, by everything else that varies.
 * places[configuration] is the place, NULL: no configuration shares it. The caller frees the
 * array and each name. */
char **chart_series_names(const Chart *chart, const Results *results, char *const *places);

/* Whether a configuration has runs, and they have the settings that the chart asks for. */
bool chart_shows(const Chart *chart, const Results *results, int configuration);

/* A configuration that is not drawn because it has no run that is done: what happened instead;
 * NULL: nothing yet. */
const char *chart_mark(const Results *results, int configuration);
