/* Everything is placed here, and not by gnuplot, whose own layout does not know how long a label
 * is in an SVG, where the reader's font decides; here an estimate on the safe side does. Bars
 * whose labels have no room side by side lie on their side, under each other; the legend stands
 * below the plot. */
#include "report/chart_layout.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLOT_HEIGHT 250.0 /* of lines and standing bars */
#define LETTER 0.57       /* width of an average letter over the size of the font */

/* --- text --- */

static size_t letters(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

double figure_text_width(const char *text, double font)
{
    return (double)letters(text) * LETTER * font;
}

/* Bytes of the first `count` letters. */
static size_t bytes_of(const char *text, size_t count)
{
    size_t at = 0;
    while (text[at] != '\0' && (count > 0 || ((unsigned char)text[at] & 0xc0) == 0x80)) {
        count -= ((unsigned char)text[at] & 0xc0) != 0x80;
        at++;
    }
    return at;
}

int figure_wrap(const char *text, double room, double font, int most,
                char lines[][FIGURE_LINE_BYTES])
{
    size_t fit = (size_t)fmax(room / (LETTER * font), 4);
    fit = fit < FIGURE_LINE_BYTES / 4 - 1 ? fit : FIGURE_LINE_BYTES / 4 - 1;
    int count = 0;
    while (*text == ' ') {
        text++;
    }
    while (*text != '\0' && count < most) {
        size_t length = bytes_of(text, fit);
        bool all = text[length] == '\0';
        if (!all && count < most - 1) {
            size_t space = length;
            while (space > 0 && text[space] != ' ') {
                space--;
            }
            length = space > 0 ? space : length;
        } else if (!all) {
            length = bytes_of(text, fit - 3);
        }
        snprintf(lines[count], FIGURE_LINE_BYTES, "%.*s%s", (int)length, text,
                 !all && count == most - 1 ? "..." : "");
        count++;
        text += length;
        while (*text == ' ') {
            text++;
        }
    }
    return count;
}

/* --- layout --- */

#define MOST_ERROR 1.6 /* times the largest value: error bars that reach further are cut */

/* What the axis has to show. Quantities that are not below zero keep their error bars there, and
 * wide bars of few repeats do not press the values themselves into a corner. Stacks have no
 * error bars. */
static void value_range(const Plot *plot, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    double largest = -INFINITY;
    for (int i = 0; i < plot->series_count; i++) {
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const PlotPoint *point = &plot->series[i].points[j];
            if (!isfinite(point->y)) {
                continue;
            }
            double half = isfinite(point->half) && plot->kind != PLOT_STACK ? point->half : 0;
            double least = point->y >= 0 ? fmax(point->y - half, 0) : point->y - half;
            *low = fmin(*low, plot->log_y && least <= 0 ? point->y : least);
            *high = fmax(*high, point->y + half);
            largest = fmax(largest, point->y);
        }
    }
    if (largest > 0) {
        *high = fmin(*high, MOST_ERROR * largest);
    }
}

/* Height of the stack of a category. */
static double stack_total(const Plot *plot, int category)
{
    double sum = 0;
    for (int i = 0; i < plot->series_count; i++) {
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const PlotPoint *point = &plot->series[i].points[j];
            sum += (int)point->x == category && point->y > 0 ? point->y : 0;
        }
    }
    return sum;
}

static void plan_values(Figure *figure)
{
    const Plot *plot = figure->plot;
    double low, high;
    value_range(plot, &low, &high);
    if (plot->kind == PLOT_STACK) {
        high = 0;
        for (int i = 0; i < plot->category_count; i++) {
            high = fmax(high, stack_total(plot, i));
        }
    }
    bool bars = plot->kind != PLOT_LINES;
    if (!plot->log_y && (bars || plot->from_zero)) {
        low = fmin(low, 0);
        high = fmax(high, low == 0 ? 0 : high);
    } else if (plot->log_y && bars) {
        low *= 0.5;
    }
    figure->values = scale_make(low, high, plot->log_y, false);
    Scale *axis = &figure->values;
    if (bars && scale_place(axis, high) > 0.88) { /* room for the number at the bar's end */
        axis->high = axis->log ? axis->high * pow(axis->high / axis->low, 0.12)
                               : axis->high + 0.12 * (axis->high - axis->low);
    }
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A few places of x get a tic each, many get round numbers. */
static void plan_along(Figure *figure, double *places, size_t count)
{
    qsort(places, count, sizeof *places, compare_numbers);
    size_t distinct = 0;
    for (size_t i = 0; i < count; i++) {
        if (distinct == 0 || places[i] != places[distinct - 1]) {
            places[distinct++] = places[i];
        }
    }
    bool log = figure->plot->log_x;
    double low = places[0], high = places[distinct - 1], room = (high - low) * 0.04;
    bool few = distinct <= 12;
    if (few && high > low) {
        double factor = log ? pow(high / low, 0.05) : 1;
        figure->along = log ? scale_make(low / factor, high * factor, true, true)
                            : scale_make(low - room, high + room, false, true);
    } else {
        figure->along = scale_make(low, high, log, high > low);
    }
    if (few) {
        char text[32];
        scale_text(places[distinct - 1], 5, text);
        double width = figure_text_width(text, FIGURE_TEXT) + 8;
        scale_tics_at(&figure->along, places, distinct, width / (FIGURE_WIDTH - 90));
    }
}

static void plan_lines(Figure *figure)
{
    const Plot *plot = figure->plot;
    size_t count = 0;
    for (int i = 0; i < plot->series_count; i++) {
        count += plot->series[i].count;
    }
    double *places = mem_zalloc(count, sizeof *places);
    count = 0;
    for (int i = 0; i < plot->series_count; i++) {
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const PlotPoint *point = &plot->series[i].points[j];
            bool measured = plot->series[i].colour >= 0; /* a line for comparison sets no tics */
            if (measured && isfinite(point->x) && (!plot->log_x || point->x > 0)) {
                places[count++] = point->x;
            }
        }
    }
    plan_along(figure, places, count);
    free(places);
}

static double widest_category(const Plot *plot)
{
    double widest = 0;
    for (int i = 0; i < plot->category_count; i++) {
        widest = fmax(widest, figure_text_width(plot->categories[i], FIGURE_TEXT));
    }
    return widest;
}

static double widest_tic(const Figure *figure)
{
    double widest = 0;
    for (int i = 0; i < figure->values.count; i++) {
        char text[32];
        scale_text(figure->values.tics[i], scale_digits(&figure->values), text);
        widest = fmax(widest, figure_text_width(text, FIGURE_TEXT) +
                                  (figure->plot->percent ? FIGURE_TEXT : 0));
    }
    return widest;
}

/* Entries from left to right in rows, below the plot; their places count from the legend's top.
 * Returns its height. */
static double plan_legend(Figure *figure)
{
    const Plot *plot = figure->plot;
    double x = 8, height = FIGURE_LINE;
    figure->entries = mem_zalloc((size_t)plot->series_count, sizeof *figure->entries);
    for (int i = 0; i < plot->series_count; i++) {
        LegendEntry *entry = &figure->entries[i];
        figure_wrap(plot->series[i].label, FIGURE_WIDTH - 60, FIGURE_TEXT, 1, &entry->text);
        double width = 24 + figure_text_width(entry->text, FIGURE_TEXT) + 14;
        if (x > 8 && x + width > FIGURE_WIDTH) {
            x = 8;
            height += FIGURE_LINE;
        }
        entry->x = x;
        entry->y = height - FIGURE_LINE / 2;
        x += width;
    }
    return height;
}

void figure_plan(Figure *figure, const Plot *plot)
{
    *figure = (Figure){.plot = plot, .right = 16};
    bool bars = plot->kind != PLOT_LINES;
    plan_values(figure);
    if (!bars) {
        plan_lines(figure);
    }
    double slot = (FIGURE_WIDTH - 90) / fmax(plot->category_count, 1);
    int beside = plot->kind == PLOT_BARS ? plot->series_count : 1;
    figure->lying = plot->kind == PLOT_STACK ||
                    (bars && (widest_category(plot) + 6 > slot || slot / beside < 13));
    char lines[FIGURE_MAX_LINES][FIGURE_LINE_BYTES];
    figure->top =
        14 + FIGURE_LINE * 1.1 *
                 figure_wrap(plot->title, FIGURE_WIDTH - 16, FIGURE_TITLE, FIGURE_MAX_LINES, lines);
    double room = PLOT_HEIGHT;
    bool side_title = (figure->lying ? plot->x_title : plot->y_title)[0] != '\0';
    figure->left = (side_title ? 26 : 8) + 8;
    if (figure->lying) {
        int deepest = 1;
        for (int i = 0; i < plot->category_count; i++) {
            int count = figure_wrap(plot->categories[i], FIGURE_LABEL_ROOM, FIGURE_TEXT, 2, lines);
            deepest = count > deepest ? count : deepest;
        }
        figure->left += fmin(widest_category(plot), FIGURE_LABEL_ROOM) + 4;
        figure->row = fmax(16.0 * beside + 8, (FIGURE_TEXT + 3) * deepest + 8);
        room = figure->row * plot->category_count;
    } else {
        figure->left += widest_tic(figure) + 4;
    }
    bool below_title = (figure->lying ? plot->y_title : plot->x_title)[0] != '\0';
    figure->bottom = 26 + (below_title ? FIGURE_LINE : 0) + 6;
    double legend = 0;
    if (plot->series_count > 1 || plot->kind == PLOT_STACK) {
        legend = plan_legend(figure);
        figure->bottom += legend + 8;
    }
    figure->height = figure->top + room + figure->bottom;
    for (int i = 0; figure->entries != NULL && i < plot->series_count; i++) {
        figure->entries[i].y += figure->height - legend - 4;
    }
}

void figure_free(Figure *figure)
{
    free(figure->entries);
    *figure = (Figure){0};
}
