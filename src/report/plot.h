#pragma once
/* A chart as data: title, axes, series of numbers with labels. What the numbers mean is the
 * caller's (chart.h); how it looks is a renderer's, of which plot_gnuplot.c is one. */
#include <stdbool.h>
#include <stddef.h>

typedef enum { PLOT_LINES, PLOT_BARS, PLOT_STACK } PlotKind;

typedef struct {
    double x;         /* of bars and stacks: index of the category */
    double y;         /* NAN: missing */
    double half;      /* of the error bar; NAN: none */
    const char *mark; /* why y is missing, such as "OOM"; NULL: nothing to say. Not owned */
} PlotPoint;

typedef struct {
    char *label;
    PlotPoint *points;
    size_t count;
    int colour;           /* index of the palette, modulo its size; -1: for comparison only */
    bool dashed, markers; /* of lines */
} PlotSeries;

/* A series of a stack is one part of every bar. */
typedef struct {
    PlotKind kind;
    char *title, *x_title, *y_title; /* titles of axes have the unit; "" for none */
    char **categories;
    int category_count;
    PlotSeries *series;
    int series_count;
    bool log_x, log_y;
    bool from_zero; /* of lines: y starts at 0 */
    double y_scale; /* y is drawn as y * y_scale; 0 means 1 */
    bool percent;   /* numbers on the y axis get a percent sign */
} Plot;

PlotSeries *plot_add_series(Plot *plot, const char *label); /* valid until the next is added */
PlotPoint *plot_add_point(PlotSeries *series, double x, double y);
int plot_category(Plot *plot, const char *label); /* its index; added unless it is there */
bool plot_has_values(const Plot *plot);
void plot_free(Plot *plot);

/* Writes folder/NAME.svg and folder/NAME.png, each as one event; the name is letters, digits,
 * '-' and '_', texts may hold anything. ERR_FAILED when gnuplot is missing or fails. The plot
 * has a value (plot_has_values). */
int plot_draw(Plot *plot, const char *folder, const char *name);

/* The renderer. Of the plot every x is possible on its axis or NAN, every y too and in the unit of
 * its axis (y_scale is 1), and texts are one line of visible characters. The caller frees
 * *picture. */
typedef enum { PLOT_SVG, PLOT_PNG } PlotFormat;
int plot_gnuplot(const Plot *plot, PlotFormat format, char **picture, size_t *size);
