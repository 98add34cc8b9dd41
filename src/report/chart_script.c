/* The plot as gnuplot's orders, with every place from the layout. SVG is drawn in colours that
 * chart_svg.c turns into the page's, PNG dark on white. */
#include "report/chart_script.h"

#include "base/mem.h"
#include "report/chart_layout.h"
#include "report/chart_svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Middle tones: each is at least 3:1 against white and against a dark page. */
static const char *const palette[] = {"'#3b82c4'", "'#d97706'", "'#2e9e5b'", "'#d1495b'",
                                      "'#8e6bbf'", "'#1898a8'", "'#a0764c'", "'#c75a9b'",
                                      "'#7f8f1f'", "'#6f8790'"};
#define COLOURS (sizeof palette / sizeof *palette)
#define ERROR_BARS "using 1:2:3:4 with vectors heads size screen 0.006,90 lw 1.2"
#define NEUTRAL "'#87929b'"
#define ALARM "'#d1495b'"

static const char *colour_of(const PlotSeries *series)
{
    return series->colour < 0 ? NEUTRAL : palette[(size_t)series->colour % COLOURS];
}

/* Places: x and y are either in units of the picture from its top left, or, with `first`, on the
 * plot's axes. */
typedef struct {
    double x, y;
    bool x_first, y_first;
} Place;

static void put_place(Page *script, const Figure *figure, Place place)
{
    page_put(script, place.x_first ? "first %.9g" : "screen %.5f",
             place.x_first ? place.x : place.x / FIGURE_WIDTH);
    page_put(script, place.y_first ? ", first %.9g" : ", screen %.5f",
             place.y_first ? place.y : 1 - place.y / figure->height);
}

/* align: left, center, right; more: further words of gnuplot's. */
static void put_text(Page *script, const Figure *figure, const char *text, Place place,
                     const char *align, double font, const char *colour, const char *more)
{
    page_put(script, "set label ");
    page_put_quoted(script, text);
    page_put(script, " at ");
    put_place(script, figure, place);
    page_put(script, " %s font ',%g' tc rgb %s front %s\n", align, font, colour, more);
}

/* --- parts of the picture --- */

static void put_axis(Page *script, const Scale *axis, const char *name, bool percent)
{
    page_put(script, "set %stics (", name);
    for (int i = 0; i < axis->count; i++) {
        char text[32];
        scale_text(axis->tics[i], scale_digits(axis), text);
        page_put(script, "%s'%s%s' %.9g", i > 0 ? ", " : "", text, percent ? " %%" : "",
                 axis->tics[i]);
    }
    page_put(script, ")\nset %srange [%.9g:%.9g]\n%s log %s\n", name, axis->low, axis->high,
             axis->log ? "set" : "unset", name);
}

static void put_titles(Page *script, const Figure *figure)
{
    const Plot *plot = figure->plot;
    char lines[FIGURE_MAX_LINES][FIGURE_LINE_BYTES];
    int count = figure_wrap(plot->title, FIGURE_WIDTH - 16, FIGURE_TITLE, FIGURE_MAX_LINES, lines);
    for (int i = 0; i < count; i++) {
        page_put(script, "set label ");
        page_put_quoted(script, lines[i]);
        page_put(script, " at ");
        put_place(script, figure, (Place){.x = 8, .y = 8 + FIGURE_LINE * 1.1 * (i + 0.5)});
        page_put(script, " left font 'sans-serif:Bold,%g' tc rgb ink\n", FIGURE_TITLE);
    }
    const char *below = figure->lying ? plot->y_title : plot->x_title;
    const char *side = figure->lying ? plot->x_title : plot->y_title;
    double axis = figure->height - figure->bottom, middle = (figure->top + axis) / 2;
    if (figure_wrap(below, FIGURE_WIDTH - figure->left, FIGURE_TEXT, 1, lines) > 0) {
        put_text(script, figure, lines[0],
                 (Place){.x = (figure->left + FIGURE_WIDTH - figure->right) / 2, .y = axis + 34},
                 "center", FIGURE_TEXT, "ink", "");
    }
    if (figure_wrap(side, axis - figure->top + 40, FIGURE_TEXT, 1, lines) > 0) {
        put_text(script, figure, lines[0], (Place){.x = 14, .y = middle}, "center", FIGURE_TEXT,
                 "ink", "rotate by 90");
    }
}

static void put_frame(Page *script, const Figure *figure)
{
    const Plot *plot = figure->plot;
    page_put(script,
             "reset\nunset key\nset border %d lc rgb ink\n"
             "set tics nomirror scale 0 textcolor rgb ink font ',%g'\nset pointintervalbox 0\n"
             "set lmargin at screen %.5f\nset rmargin at screen %.5f\n"
             "set tmargin at screen %.5f\nset bmargin at screen %.5f\n",
             figure->lying ? 2 : 1, FIGURE_TEXT, figure->left / FIGURE_WIDTH,
             1 - figure->right / FIGURE_WIDTH, 1 - figure->top / figure->height,
             figure->bottom / figure->height);
    page_put(script, "set grid %stics back lt 1 lw 1 lc rgb faint\n", figure->lying ? "x" : "y");
    put_axis(script, &figure->values, figure->lying ? "x" : "y", plot->percent);
    if (plot->kind == PLOT_LINES) {
        put_axis(script, &figure->along, "x", false);
        return;
    }
    double last = plot->category_count - 0.5;
    char lines[2][FIGURE_LINE_BYTES];
    if (figure->lying) {
        page_put(script, "unset ytics\nset yrange [%g:-0.5]\n", last);
    } else {
        page_put(script, "unset xtics\nset xrange [-0.5:%g]\n", last);
    }
    for (int i = 0; i < plot->category_count; i++) {
        if (!figure->lying) {
            put_text(script, figure, plot->categories[i],
                     (Place){.x = i, .x_first = true, .y = figure->height - figure->bottom + 14},
                     "center", FIGURE_TEXT, "ink", "");
            continue;
        }
        int count = figure_wrap(plot->categories[i], FIGURE_LABEL_ROOM, FIGURE_TEXT, 2, lines);
        for (int j = 0; j < count; j++) {
            double middle = figure->top + (i + 0.5) * figure->row;
            put_text(script, figure, lines[j],
                     (Place){.x = figure->left - 8,
                             .y = middle + (j - (count - 1) / 2.0) * (FIGURE_TEXT + 3)},
                     "right", FIGURE_TEXT, "ink", "");
        }
    }
}

/* A place on a bar chart: `along` in categories, `value` on the axis of values. */
static Place bar_place(const Figure *figure, double along, double value)
{
    return figure->lying ? (Place){value, along, true, true} : (Place){along, value, true, true};
}

static void put_mark(Page *script, const Figure *figure, const char *mark, double along,
                     double thickness)
{
    double slot = (FIGURE_WIDTH - figure->left - figure->right) / figure->plot->category_count;
    bool turned = !figure->lying && figure_text_width(mark, FIGURE_SMALL) > thickness * slot;
    put_text(script, figure, mark, bar_place(figure, along, figure->values.low), "left",
             FIGURE_SMALL, ALARM,
             figure->lying ? "offset character 0.5, 0"
             : turned      ? "rotate by 90 offset 0, character 0.4"
                           : "offset 0, character 0.7");
}

/* Boxes of a series as lines "x y x-low x-high y-low y-high", and the labels on them.
 * base[category] is where they begin; a stack grows there. */
static void put_boxes(Page *data, Page *labels, const Figure *figure, int index, double *base)
{
    const Plot *plot = figure->plot;
    const PlotSeries *series = &plot->series[index];
    bool stack = plot->kind == PLOT_STACK;
    double thickness = stack ? 0.7 : 0.82 / plot->series_count;
    for (size_t j = 0; j < series->count; j++) {
        const PlotPoint *point = &series->points[j];
        int category = (int)point->x;
        double middle =
            category + (stack ? 0 : (index - (plot->series_count - 1) / 2.0) * thickness);
        if (!isfinite(point->y)) {
            if (point->mark != NULL && (!stack || index == 0)) {
                put_mark(labels, figure, point->mark, middle, thickness);
            }
            continue;
        }
        double from = stack ? base[category] : plot->log_y ? figure->values.low : 0;
        double to = stack ? from + fmax(point->y, 0) : point->y;
        base[category] = stack ? to : 0;
        double low = middle - thickness * 0.46, high = middle + thickness * 0.46;
        if (figure->lying) {
            page_put(data, "%.9g %.9g %.9g %.9g %.9g %.9g\n", to, middle, from, to, low, high);
        } else {
            page_put(data, "%.9g %.9g %.9g %.9g %.9g %.9g\n", middle, to, low, high, from, to);
        }
        char text[40];
        scale_text(to, 3, text);
        double slot = (FIGURE_WIDTH - figure->left - figure->right) / plot->category_count;
        bool room = figure->lying || figure_text_width(text, FIGURE_SMALL) < thickness * slot + 4;
        bool total = !stack || index == plot->series_count - 1;
        if (total && room) {
            strcat(text, plot->percent ? " %" : "");
            double half = isfinite(point->half) && !stack ? point->half : 0;
            double end = to + half < figure->values.high ? to + half : to;
            put_text(labels, figure, text, bar_place(figure, middle, end),
                     figure->lying ? "left" : "center", FIGURE_SMALL, "ink",
                     figure->lying ? "offset character 0.5, 0" : "offset 0, character 0.6");
        }
    }
}

/* Marks of lines stand over the axis, those of several series over each other. */
static void put_line_marks(Page *script, const Figure *figure)
{
    const Plot *plot = figure->plot;
    for (int i = 0, shown = 0; i < plot->series_count; i++) {
        int before = shown;
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const PlotPoint *point = &plot->series[i].points[j];
            if (point->mark == NULL || isfinite(point->y) || !isfinite(point->x) ||
                (plot->log_x && point->x <= 0)) {
                continue;
            }
            double y = figure->height - figure->bottom - 8 - 13.0 * before;
            bool edge = scale_place(&figure->along, point->x) > 0.93;
            put_text(script, figure, point->mark, (Place){.x = point->x, .x_first = true, .y = y},
                     edge ? "right" : "center", FIGURE_SMALL, colour_of(&plot->series[i]), "");
            shown = before + 1;
        }
    }
}

static bool has_values(const PlotSeries *series)
{
    for (size_t j = 0; j < series->count; j++) {
        if (isfinite(series->points[j].y)) {
            return true;
        }
    }
    return false;
}

static bool has_errors(const PlotSeries *series)
{
    for (size_t j = 0; j < series->count; j++) {
        if (isfinite(series->points[j].half) && isfinite(series->points[j].y)) {
            return true;
        }
    }
    return false;
}

/* Error bars as "x y dx dy" of the points that have one, or "x y" of all; a missing y breaks the
 * line. */
static void put_points(Page *script, const Figure *figure, int index, bool errors)
{
    const Plot *plot = figure->plot;
    const PlotSeries *series = &plot->series[index];
    double thickness = 0.82 / plot->series_count;
    page_put(script, "$%s%d << EOD\n", errors ? "error" : "line", index);
    for (size_t j = 0; j < series->count; j++) {
        const PlotPoint *point = &series->points[j];
        double x = plot->kind == PLOT_BARS
                       ? point->x + (index - (plot->series_count - 1) / 2.0) * thickness
                       : point->x;
        if (!isfinite(point->y) || !isfinite(x)) {
            page_put(script, errors ? "" : "\n");
        } else if (!errors) {
            page_put(script, "%.9g %.9g\n", x, point->y);
        } else if (isfinite(point->half)) {
            double low = fmax(point->y - point->half, figure->values.low);
            double length = fmin(point->y + point->half, figure->values.high) - low;
            if (figure->lying) {
                page_put(script, "%.9g %.9g %.9g 0\n", low, x, length);
            } else {
                page_put(script, "%.9g %.9g 0 %.9g\n", x, low, length);
            }
        }
    }
    page_put(script, "EOD\n");
}

static void put_legend(Page *script, const Figure *figure)
{
    const Plot *plot = figure->plot;
    bool lines = plot->kind == PLOT_LINES;
    for (int i = 0; figure->entries != NULL && i < plot->series_count; i++) {
        const LegendEntry *entry = &figure->entries[i];
        double tall = lines ? 0 : 5, wide = lines ? 20 : 14;
        page_put(script, lines ? "set arrow from " : "set object rect from ");
        put_place(script, figure, (Place){.x = entry->x, .y = entry->y + tall});
        page_put(script, " to ");
        put_place(script, figure, (Place){.x = entry->x + wide, .y = entry->y - tall});
        if (lines) {
            page_put(script, " nohead lw 2.5 dt %d lc rgb %s\n", plot->series[i].dashed ? 2 : 1,
                     colour_of(&plot->series[i]));
        } else {
            page_put(script, " fs solid 1 noborder fc rgb %s\n", colour_of(&plot->series[i]));
        }
        put_text(script, figure, entry->text, (Place){.x = entry->x + 24, .y = entry->y}, "left",
                 FIGURE_TEXT, "ink", "");
    }
}

static void put_bars(Page *script, const Figure *figure)
{
    const Plot *plot = figure->plot;
    Page orders = {0};
    double *base = mem_zalloc((size_t)plot->category_count, sizeof *base);
    for (int i = 0; i < plot->series_count; i++) {
        page_put(script, "$box%d << EOD\n", i);
        put_boxes(script, &orders, figure, i, base);
        page_put(script, "EOD\n");
    }
    free(base);
    page_put(script, "%s", orders.text != NULL ? orders.text : "");
    page_free(&orders);
    const char *word = "plot";
    for (int i = 0; i < plot->series_count; i++) {
        const PlotSeries *series = &plot->series[i];
        if (has_values(series)) {
            page_put(&orders,
                     "%s $box%d using 1:2:3:4:5:6 with boxxyerror fs solid 1 noborder lc rgb %s",
                     word, i, colour_of(series));
            word = ",";
        }
        if (plot->kind == PLOT_BARS && has_errors(series)) {
            put_points(script, figure, i, true);
            page_put(&orders, ", $error%d " ERROR_BARS " lc rgb ink", i);
        }
    }
    page_put(script, "%s\n", orders.text);
    page_free(&orders);
}

static void put_lines(Page *script, const Figure *figure)
{
    static const int shapes[] = {7, 5, 9, 13, 11};
    const Plot *plot = figure->plot;
    Page orders = {0};
    const char *word = "plot";
    put_line_marks(script, figure);
    for (int i = 0; i < plot->series_count; i++) {
        const PlotSeries *series = &plot->series[i];
        if (!has_values(series)) {
            continue;
        }
        put_points(script, figure, i, false);
        page_put(&orders, "%s $line%d using 1:2 with lines lw 2 dt %d lc rgb %s", word, i,
                 series->dashed ? 2 : 1, colour_of(series));
        word = ",";
        if (series->markers) {
            page_put(&orders, ", $line%d using 1:2 with points pt %d ps 0.7 lc rgb %s", i,
                     shapes[(size_t)i % (sizeof shapes / sizeof *shapes)], colour_of(series));
        }
        if (has_errors(series)) {
            put_points(script, figure, i, true);
            page_put(&orders, ", $error%d " ERROR_BARS " lc rgb %s", i, colour_of(series));
        }
    }
    page_put(script, "%s\n", orders.text);
    page_free(&orders);
}

static void put_terminal(Page *script, const Figure *figure, ChartFormat format)
{
    if (format == CHART_SVG) {
        page_put(script,
                 "set terminal svg size %.0f,%.0f dynamic noenhanced font 'sans-serif,%g'\n"
                 "ink = '" CHART_INK "'\nfaint = '" CHART_FAINT "'\n",
                 FIGURE_WIDTH, figure->height, FIGURE_TEXT);
        return;
    }
    /* Twice the size, so that it stays sharp in a document. */
    double width = 2 * FIGURE_WIDTH, height = 2 * figure->height;
    page_put(script,
             "if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
             "set terminal pngcairo size %.0f,%.0f noenhanced font 'sans,%g' fontscale 1.5 "
             "linewidth 2 pointscale 2 background rgb 'white'\n} else {\n"
             "set terminal png size %.0f,%.0f noenhanced medium background rgb 'white'\n}\n"
             "ink = '#20262b'\nfaint = '#dde1e4'\n",
             width, height, FIGURE_TEXT, width, height);
}

void chart_script(Page *script, const Plot *plot, ChartFormat format)
{
    Figure figure;
    figure_plan(&figure, plot);
    page_put(script, "set encoding utf8\n");
    put_terminal(script, &figure, format);
    put_frame(script, &figure);
    put_titles(script, &figure);
    put_legend(script, &figure);
    if (plot->kind == PLOT_LINES) {
        put_lines(script, &figure);
    } else {
        put_bars(script, &figure);
    }
    page_put(script, "set output\n");
    figure_free(&figure);
}
