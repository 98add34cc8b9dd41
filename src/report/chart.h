#pragma once
/* Charts of an experiment: from entries of its "charts" and the results of its runs to plots. */
#include "report/metric.h"
#include "report/plot.h"

/* As experiment.json's "charts" entries say. */
#define CHART_MAX_VALUES 15
typedef struct {
    const char *name, *title;
    PlotKind kind;
    CurvePlace
        *along; /* of loss curves, which are lines over tokens, seconds or steps; else NULL */
    Metric x;
    Metric y[CHART_MAX_VALUES]; /* several: parts of a stack, or lines */
    int y_count;
    Metric series;      /* without a name: none */
    const cJSON *where; /* {option: value} that configurations must have; NULL: all are shown */
    bool log_x, log_y, ideal;
} Chart;

/* Reads one entry; ERR_INPUT naming the chart and what is wrong with it. */
int chart_read(const cJSON *entry, Chart *chart);

/* The plot that the chart asks for; the caller frees it with plot_free. Configurations that
 * would fall on the same place become series of their own, named by what else varies. Curves
 * are losses over steps, tokens or seconds, the mean over a configuration's repeats. */
Plot chart_plot(const Chart *chart, const Results *results);

/* More series or categories than a picture can tell apart. */
bool chart_is_crowded(const Plot *plot);

/* Draws its plot as folder/NAME.svg and folder/NAME.png. *drawn is false when no run has the values
 * it needs, or there are too many. ERR_FAILED when gnuplot is missing or fails. */
int chart_draw(const Chart *chart, Plot *plot, const char *folder, bool *drawn);
