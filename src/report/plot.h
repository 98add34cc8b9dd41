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
    bool peer;            /* made by another program: drawn apart */
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

/* As it is shown, by any renderer: y in the unit of its axis (y_scale becomes 1), numbers that the
 * axes cannot show missing, texts one line of visible characters. Once more changes nothing. */
void plot_prepare(Plot *plot);

/* Whether curves are flat at their end: lines over a linear x, of which half or more have less than
 * PLOT_FLAT of their fall left in the later half of x. Then *from is where each of those has that
 * share left, from which on the plot is enlarged, unless that is behind the middle of the shortest
 * curve. Values that are compared with zero never are. */
#define PLOT_FLAT 0.15
bool plot_flat_end(const Plot *plot, double *from);

/* Where a line, its points in the order of x, has PLOT_FLAT of its fall left, the last time if it
 * comes back above that; NAN: it does not fall. */
double plot_flat_from(const PlotSeries *series);

/* Writes folder/NAME.svg and folder/NAME.png, each as one event; the name is letters, digits,
 * '-' and '_', texts may hold anything. ERR_FAILED when gnuplot is missing or fails. The plot
 * has a value (plot_has_values). */
int plot_draw(Plot *plot, const char *folder, const char *name);

/* The renderer of a prepared plot. The caller frees *picture. */
typedef enum { PLOT_SVG, PLOT_PNG } PlotFormat;
int plot_gnuplot(const Plot *plot, PlotFormat format, char **picture, size_t *size);
