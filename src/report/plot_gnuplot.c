/* A plot drawn by gnuplot, a program of its own: data and a short script go in, a picture comes
 * out. Margins and keys are gnuplot's; tics are placed here, for it has no labels such as 1.5k.
 * Bars go from left to right, so that labels of any length have room beside them. All is black on
 * nothing (SVG) or on white (PNG); for READMEs. */
#include "report/plot.h"

#include "base/mem.h"
#include "report/gnuplot.h"
#include "report/page.h"
#include "report/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 520.0 /* of the picture, in pixels of the SVG */
#define HEIGHT 250  /* of the part between the axes, of lines */
#define FONT 13.0
#define TITLE_FONT 15.0
#define LINE 19.0                /* from one line of text to the next */
#define LETTER 0.57              /* width of an average letter over the size of the font */
#define LABEL_LETTERS 25         /* in a line of a category's label */
#define LINE_PIXELS (WIDTH - 90) /* between the axes of lines; of bars behind their labels: */
#define BAR_PIXELS (WIDTH - 60 - LETTER * FONT * LABEL_LETTERS)
#define MOST_TICS 12 /* places of x that get a tic each */
#define MOST_TIC_LETTERS 5
#define MOST_ERROR 1.6    /* times the largest value: error bars that reach further are cut */
#define NEUTRAL "#87929b" /* of series for comparison */
#define ALARM "#d1495b"
#define ERROR_BARS "with vectors heads size screen 0.006,90 lw 1.2 lc rgb "
#define GRID "back lt 1 lw 1 lc rgb '#dde1e4'"

/* Middle tones: each is at least 3:1 against white and, inverted, against a dark page. */
static const char *const palette[] = {"#3b82c4", "#d97706", "#2e9e5b", "#d1495b", "#8e6bbf",
                                      "#1898a8", "#a0764c", "#c75a9b", "#7f8f1f", "#6f8790"};
#define PALETTE ((int)(sizeof palette / sizeof *palette))

static const char *colour_of(const PlotSeries *series)
{
    return series->colour < 0 ? NEUTRAL : palette[series->colour % PALETTE];
}

/* gnuplot's dash type: 1 is a whole line. Colours that come again are dotted. */
static int dash_of(const PlotSeries *series)
{
    return series->dashed || series->peer ? 2 : series->colour >= PALETTE ? 3 : 1;
}

/* --- text --- */

static double letters(const char *text)
{
    double count = 0;
    for (; *text != '\0'; text++) {
        count += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return count;
}

/* As a string of gnuplot's. It has rules of its own for quotes, commands, macros, comments and
 * lines that go on, and takes any number of digits after a backslash; so all but letters and
 * spaces is written as octal numbers. In labels of tics a percent sign begins a format. */
static void put_quoted(Page *script, const char *text, bool tic)
{
    page_put(script, "\"");
    for (; *text != '\0'; text++) {
        bool plain = (*text >= 'A' && *text <= 'Z') || (*text >= 'a' && *text <= 'z');
        page_put(script, plain || *text == ' ' ? "%c" : "\\%03o", (unsigned char)*text);
        page_put(script, "%s", tic && *text == '%' ? "\\045" : "");
    }
    page_put(script, "\"");
}

static void put_wrapped(Page *script, const char *text, size_t fit, int most, bool tic)
{
    Page wrapped = {0};
    page_put_wrapped(&wrapped, text, fit, most);
    put_quoted(script, wrapped.text, tic);
    page_free(&wrapped);
}

/* --- axes --- */

typedef struct {
    double low, high; /* what is shown */
    bool log;
    double step; /* of a linear axis: between two round numbers */
} Axis;

/* Over finite numbers, of a logarithmic axis above 0; an empty range is widened. */
static Axis axis_over(double low, double high, bool log)
{
    if (!(high > low)) {
        double room = log ? low / 2 : fmax(fabs(low) * 0.1, 1e-9);
        high = log ? 2 * low : low + room;
        low = low == 0 ? 0 : low - room;
    }
    double step = (high - low) / 6, power = pow(10, floor(log10(step))), rest = step / power;
    return (Axis){.low = low,
                  .high = high,
                  .log = log,
                  .step = power * (rest <= 1   ? 1
                                   : rest <= 2 ? 2
                                   : rest <= 5 ? 5
                                               : 10)};
}

/* Round numbers in their order: multiples of the step, or 1, 2, 5, 10, 20, ... */
static double round_number(const Axis *axis, double k)
{
    static const double parts[] = {1, 2, 5};
    double decade = floor(k / 3);
    return axis->log ? parts[(int)(k - 3 * decade)] * pow(10, decade) : k * axis->step;
}

/* The last round number that is not above the value; the other way about with `up`. */
static double round_index(const Axis *axis, double value, bool up)
{
    double room = 1e-6 * (axis->log ? value : axis->step);
    double k = floor(axis->log ? 3 * floor(log10(value)) : value / axis->step) - 1;
    for (int i = 0; i < 5 && round_number(axis, k + 1) <= value + room; i++) {
        k++;
    }
    return up && round_number(axis, k) < value - room ? k + 1 : k;
}

static double place_of(const Axis *axis, double value)
{
    return axis->log ? (log(value) - log(axis->low)) / (log(axis->high) - log(axis->low))
                     : (value - axis->low) / (axis->high - axis->low);
}

/* Moves the ends outwards by shares of the length. */
static void axis_extend(Axis *axis, double below, double above)
{
    double length = axis->log ? (log(axis->high) - log(axis->low)) : axis->high - axis->low;
    axis->low = axis->log ? axis->low * exp(-below * length) : axis->low - below * length;
    axis->high = axis->log ? axis->high * exp(above * length) : axis->high + above * length;
}

static void put_range(Page *script, const Axis *axis, char name)
{
    page_put(script, "set %crange [%.17g:%.17g]\n", name, axis->low, axis->high);
    if (axis->log) {
        page_put(script, "set log %c\n", name);
    }
}

static void put_tic(Page *script, const char *before, double at, int digits, const char *unit)
{
    page_put(script, "%s\"%s%s\" %.17g", before, unit_tic(at, digits).text, unit, at);
}

/* Share of an axis of x that the label of a tic takes, with a gap. */
static double label_width(size_t letters, double pixels)
{
    return (LETTER * FONT * (double)letters + 8) / pixels;
}

/* Tics at round numbers; of a logarithmic axis over many decades only at those, and of labels
 * beside each other only as many as do not touch on so many pixels. */
static void put_axis(Page *script, const Axis *axis, char name, double pixels, bool percent)
{
    double first = round_index(axis, axis->low, true), end = -1;
    int count = (int)fmin(round_index(axis, axis->high, false) - first, 1000);
    bool decades = axis->log && count > 9;
    put_range(script, axis, name);
    page_put(script, "set %ctics (", name);
    const char *before = "";
    for (int i = 0; i <= count; i++) {
        double at = round_number(axis, first + i), place = place_of(axis, at);
        size_t length = strlen(unit_tic(at, 4).text) + (percent ? 2 : 0);
        double half = name == 'x' ? label_width(length, pixels) / 2 : 0;
        if ((!decades || fmod(first + i, 3) == 0) && place - half >= end) {
            put_tic(script, before, at, 4, percent ? " %%" : "");
            before = ", ";
            end = name == 'x' ? place + half : -1;
        }
    }
    page_put(script, ")\n");
}

/* The values that the axis shows, from a place of x on; then of the lines that are flat there, and
 * others may leave the picture. Quantities that are not below zero keep their error bars there,
 * and wide error bars of few repeats do not press the values themselves into a corner. */
static Axis value_axis(const Plot *plot, double from)
{
    bool end = isfinite(from);
    double low = INFINITY, high = -INFINITY, largest = -INFINITY;
    double *totals = mem_zalloc((size_t)plot->category_count + 1, sizeof *totals);
    for (int i = 0; i < plot->series_count; i++) {
        bool still_falls = end && !(plot_flat_from(&plot->series[i]) <= from);
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const PlotPoint *point = &plot->series[i].points[j];
            if (!isfinite(point->y) || point->x < from || still_falls) {
                continue;
            }
            double half = isfinite(point->half) ? point->half : 0, y = point->y;
            if (plot->kind == PLOT_STACK) {
                y = totals[(int)point->x] += fmax(y, 0);
                half = 0;
            }
            double least = y >= 0 ? fmax(y - half, 0) : y - half;
            low = fmin(low, plot->log_y && least <= 0 ? y : least);
            high = fmax(high, y + half);
            largest = fmax(largest, y);
        }
    }
    free(totals);
    high = largest > 0 ? fmin(high, MOST_ERROR * largest) : high;
    bool bars = plot->kind != PLOT_LINES;
    if (!plot->log_y && (bars || plot->from_zero)) {
        low = fmin(low, 0);
        high = fmax(high, 0);
    }
    Axis axis = axis_over(plot->log_y && bars ? low / 2 : low, high, plot->log_y);
    axis.low = round_number(&axis, round_index(&axis, axis.low, false));
    if (bars) {
        axis_extend(&axis, 0, 0.14); /* for the number behind the longest bar */
    } else {
        axis.high = round_number(&axis, round_index(&axis, axis.high, true));
    }
    return axis;
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* x of lines, from a place on. A few places with short names get a tic each, as far as labels do
 * not touch; others get round numbers. */
static Axis put_line_axis(Page *script, const Plot *plot, double from)
{
    size_t room = 0, count = 0, distinct = 0, longest = 0;
    for (int i = 0; i < plot->series_count; i++) {
        room += plot->series[i].count;
    }
    double *places = mem_zalloc(room, sizeof *places);
    for (int i = 0; i < plot->series_count; i++) {
        const PlotSeries *series = &plot->series[i];
        for (size_t j = 0; j < series->count && series->colour >= 0; j++) {
            if (isfinite(series->points[j].x) && !(series->points[j].x < from)) {
                places[count++] = series->points[j].x;
            }
        }
    }
    qsort(places, count, sizeof *places, compare_numbers);
    for (size_t i = 0; i < count; i++) {
        if (distinct == 0 || places[i] != places[distinct - 1]) {
            size_t length = strlen(unit_tic(places[i], 5).text);
            longest = length > longest ? length : longest;
            places[distinct++] = places[i];
        }
    }
    Axis axis = axis_over(places[0], places[distinct - 1], plot->log_x);
    if (distinct > MOST_TICS || longest > MOST_TIC_LETTERS) {
        put_axis(script, &axis, 'x', LINE_PIXELS, false);
    } else {
        axis_extend(&axis, 0.04, 0.04);
        put_range(script, &axis, 'x');
        double width = label_width(longest, LINE_PIXELS), last = -1;
        page_put(script, "set xtics (");
        for (size_t i = 0; i < distinct; i++) {
            if (place_of(&axis, places[i]) - last >= width) {
                put_tic(script, last < 0 ? "" : ", ", places[i], 5, "");
                last = place_of(&axis, places[i]);
            }
        }
        page_put(script, ")\n");
    }
    free(places);
    return axis;
}

/* --- what is drawn --- */

/* Notes have a smaller font. at: gnuplot's coordinates; align: left, center or right. */
static void put_note(Page *script, const char *text, const char *at, const char *align,
                     const char *colour)
{
    page_put(script, "set label ");
    put_quoted(script, text, false);
    page_put(script, " at %s %s font ',11' tc rgb '%s' front\n", at, align, colour);
}

static void put_name(Page *script, const Plot *plot, const PlotSeries *series)
{
    if (plot->series_count > 1 || plot->kind == PLOT_STACK) {
        page_put(script, " title ");
        put_wrapped(script, series->label, (size_t)(WIDTH - 60) / (LETTER * FONT), 1, false);
    } else {
        page_put(script, " notitle");
    }
}

/* Bars of a series, as lines "x y from to below above" of data. base[category] is where a stack has
 * grown to; `thickness` is a bar's share of a category. */
static void put_bars(Page *script, const Plot *plot, const Axis *values, int index, double *base)
{
    const PlotSeries *series = &plot->series[index];
    bool stack = plot->kind == PLOT_STACK;
    double thickness = stack ? 0.7 : 0.82 / plot->series_count;
    double aside = stack ? 0 : (index - (plot->series_count - 1) / 2.0) * thickness;
    Page notes = {0};
    page_put_bytes(&notes, "", 0);
    page_put(script, "$bars%d << EOD\n", index);
    for (size_t j = 0; j < series->count; j++) {
        const PlotPoint *point = &series->points[j];
        int category = (int)point->x;
        double at = category + aside, to = stack ? base[category] + fmax(point->y, 0) : point->y;
        char place[128];
        if (!isfinite(point->y)) {
            page_put(script, "NaN NaN NaN NaN NaN NaN NaN NaN\n");
            if (point->mark != NULL && (!stack || index == 0)) {
                snprintf(place, sizeof place, "first %.17g, %.17g offset character 0.5, 0",
                         values->low, at);
                put_note(&notes, point->mark, place, "left", ALARM);
            }
            continue;
        }
        double half = isfinite(point->half) && !stack ? point->half : 0;
        double end = to + half < values->high ? to + half : to;
        page_put(script, "%.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g\n", to, at,
                 stack         ? base[category]
                 : values->log ? values->low
                               : 0,
                 to, at - thickness * 0.46, at + thickness * 0.46, fmax(to - half, values->low),
                 half > 0 ? fmin(to + half, values->high) : NAN);
        base[category] = to;
        if (!stack || index == plot->series_count - 1) {
            Phrase text = unit_tic(to, 3);
            strcat(text.text, plot->percent ? " %" : "");
            snprintf(place, sizeof place, "first %.17g, %.17g offset character 0.5, 0", end, at);
            put_note(&notes, text.text, place, "left", "black");
        }
    }
    page_put(script, "EOD\n%s", notes.text);
    page_free(&notes);
}

static bool has_errors(const PlotSeries *series)
{
    for (size_t j = 0; j < series->count; j++) {
        if (isfinite(series->points[j].half)) {
            return true;
        }
    }
    return false;
}

static void put_bar_chart(Page *script, const Plot *plot, const Axis *values)
{
    put_axis(script, values, 'x', BAR_PIXELS, plot->percent);
    page_put(script, "set border 2\nset grid xtics " GRID "\nset yrange [%g:-0.5]\nset ytics (",
             plot->category_count - 0.5);
    for (int i = 0; i < plot->category_count; i++) {
        page_put(script, i > 0 ? ", " : "");
        put_wrapped(script, plot->categories[i], LABEL_LETTERS, 2, true);
        page_put(script, " %d", i);
    }
    page_put(script, ")\n");
    double *base = mem_zalloc((size_t)plot->category_count, sizeof *base);
    for (int i = 0; i < plot->series_count; i++) {
        put_bars(script, plot, values, i, base);
    }
    free(base);
    const char *word = "plot";
    for (int i = 0; i < plot->series_count; i++) {
        const PlotSeries *series = &plot->series[i];
        page_put(script, "%s $bars%d using 1:2:3:4:5:6 with boxxyerror lc rgb '%s'%s", word, i,
                 colour_of(series), series->peer ? " fs pattern 4 border" : "");
        put_name(script, plot, series);
        if (plot->kind == PLOT_BARS && has_errors(series)) {
            page_put(script, ", $bars%d using 7:2:($8-$7):(0) " ERROR_BARS "'black' notitle", i);
        }
        word = ",";
    }
    page_put(script, "\n");
}

/* Marks of lines stand over the axis, those of several series over each other. */
static void put_line_marks(Page *script, const Plot *plot, const Axis *along)
{
    for (int i = 0, row = 0; i < plot->series_count; i++) {
        bool any = false;
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const PlotPoint *point = &plot->series[i].points[j];
            if (point->mark == NULL || isfinite(point->y) || !isfinite(point->x)) {
                continue;
            }
            char place[96];
            snprintf(place, sizeof place, "first %.17g, graph %.3f", point->x, 0.03 + 0.055 * row);
            put_note(script, point->mark, place,
                     place_of(along, point->x) > 0.9 ? "right" : "center",
                     colour_of(&plot->series[i]));
            any = true;
        }
        row += any;
    }
}

/* Repeats of a curve are a band around it, those of single points are error bars. */
static void put_lines(Page *script, const Plot *plot, bool inset)
{
    static const int shapes[] = {7, 5, 9, 13, 11};
    const char *word = "plot";
    int bands = 0;
    for (int i = 0; i < plot->series_count; i++) {
        bands += has_errors(&plot->series[i]) && !plot->series[i].markers;
    }
    for (int i = 0; i < plot->series_count; i++) {
        const PlotSeries *series = &plot->series[i];
        if (has_errors(series) && !series->markers && !inset) {
            page_put(script,
                     "%s $line%d using 1:3:4 with filledcurves fs transparent solid %.2f noborder "
                     "lc rgb '%s' notitle",
                     word, i, fmax(0.25 / bands, 0.04), colour_of(series));
            word = ",";
        }
    }
    for (int i = 0; i < plot->series_count; i++) {
        const PlotSeries *series = &plot->series[i];
        page_put(script, "%s $line%d using 1:2 with %s lw %g dt %d lc rgb '%s'", word, i,
                 series->markers && !inset ? "linespoints" : "lines", inset ? 1 : 2.0,
                 dash_of(series), colour_of(series));
        word = ",";
        if (inset) {
            page_put(script, " notitle");
            continue;
        }
        if (series->markers) {
            page_put(script, " pt %d ps 0.7", shapes[(size_t)i % (sizeof shapes / sizeof *shapes)]);
        }
        put_name(script, plot, series);
        if (has_errors(series) && series->markers) {
            page_put(script, ", $line%d using 1:3:(0):($4-$3) " ERROR_BARS "'%s' notitle", i,
                     colour_of(series));
        }
    }
    page_put(script, "\n");
}

/* The whole of curves whose end is shown enlarged, small in the corner that falling curves leave
 * free. top: of the plot, as a share of the picture's height. */
static void put_inset(Page *script, const Plot *plot, double top)
{
    Axis values = value_axis(plot, -INFINITY);
    page_put(
        script,
        "unset label\nunset xlabel\nunset ylabel\nunset key\nset lmargin at screen 0.6\n"
        "set rmargin at screen 0.95\nset tmargin at screen %.4f\nset bmargin at screen %.4f\n"
        "set object 1 rect from graph 0,0 to graph 1,1 behind fc rgb 'white' fs solid 1 noborder\n"
        "set border 3 lc rgb '#87929b'\nunset grid\nset tics font ',9' tc rgb '#5b6670'\n"
        "set xtics auto\nset ytics (\"%s\" %.17g, \"%s\" %.17g)\nset format x ''\n"
        "set autoscale x\n",
        top - 0.03, top - 0.3, unit_tic(values.low, 4).text, values.low,
        unit_tic(values.high, 4).text, values.high);
    put_range(script, &values, 'y');
    put_lines(script, plot, true);
    page_put(script, "unset multiplot\n");
}

static void put_line_chart(Page *script, const Plot *plot, const Axis *values, double from)
{
    put_axis(script, values, 'y', HEIGHT, plot->percent);
    page_put(script, "set border 1\nset grid ytics " GRID "\n");
    Axis along = put_line_axis(script, plot, from);
    put_line_marks(script, plot, &along);
    for (int i = 0; i < plot->series_count; i++) {
        page_put(script, "$line%d << EOD\n", i);
        for (size_t j = 0; j < plot->series[i].count; j++) {
            const PlotPoint *point = &plot->series[i].points[j];
            bool half = isfinite(point->half) && !(point->x < from);
            page_put(script, "%.17g %.17g %.17g %.17g\n", isfinite(point->x) ? point->x : NAN,
                     point->y, half ? fmax(point->y - point->half, values->low) : NAN,
                     half ? fmin(point->y + point->half, values->high) : NAN);
        }
        page_put(script, "EOD\n");
    }
    put_lines(script, plot, false);
}

/* The picture's height is for what stands in it: lines of the title, the plot, its key in columns
 * as wide as the widest name. from: where the enlarged end begins. Returns where the plot's top is,
 * as a share of the height. */
static double put_frame(Page *script, const Plot *plot, PlotFormat format, double from)
{
    bool bars = plot->kind != PLOT_LINES, key = plot->series_count > 1 || plot->kind == PLOT_STACK;
    double widest = 1, longest = 1;
    Page title = {0};
    int lines =
        page_put_wrapped(&title, plot->title, (size_t)((WIDTH - 16) / (LETTER * TITLE_FONT)), 4);
    for (int i = 0; i < plot->series_count; i++) {
        widest = fmax(widest, letters(plot->series[i].label));
    }
    for (int i = 0; i < plot->category_count; i++) {
        longest = fmax(longest, letters(plot->categories[i]));
    }
    int columns = (int)fmax((WIDTH - 20) / (LETTER * FONT * widest + 45), 1);
    int rows = key ? (plot->series_count + columns - 1) / columns : 0;
    double row = fmax(16.0 * (plot->kind == PLOT_BARS ? plot->series_count : 1) + 8,
                      LINE * (longest > LABEL_LETTERS ? 2 : 1) + 4);
    char *part = isfinite(from) ? mem_format("%s, from %s on; small: all", plot->x_title,
                                             unit_tic(from, 3).text)
                                : mem_strdup(bars ? plot->y_title : plot->x_title);
    const char *below = part;
    const char *side = bars ? plot->x_title : plot->y_title;
    double top = 16 + LINE * lines;
    double height = top + (bars ? row * plot->category_count : HEIGHT) + 30 + LINE * rows +
                    (below[0] != '\0' ? LINE : 0);
    if (format == PLOT_SVG) {
        page_put(script,
                 "set terminal svg size %.0f,%.0f dynamic noenhanced font 'sans-serif,%g'\n", WIDTH,
                 height, FONT);
    } else { /* twice as fine; an old gnuplot has no pngcairo */
        page_put(script,
                 "if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
                 "set terminal pngcairo size %.0f,%.0f noenhanced font 'sans,%g' fontscale 1.5 "
                 "linewidth 2 pointscale 2 background rgb 'white'\n} else {\n"
                 "set terminal png size %.0f,%.0f noenhanced medium background rgb 'white'\n}\n",
                 2 * WIDTH, 2 * height, FONT, 2 * WIDTH, 2 * height);
    }
    page_put(script, "set encoding utf8\nset style fill solid 1 noborder\n"
                     "set tics nomirror scale 0\nset rmargin 2\nset pointintervalbox 0\n"
                     "set label ");
    put_quoted(script, title.text, false);
    page_put(script, " at screen 0.015, screen %.4f left font 'sans-serif Bold,%g'\n",
             1 - (LINE - 4) / height, TITLE_FONT);
    page_put(script, "set tmargin at screen %.4f\nset xlabel ", 1 - top / height);
    put_wrapped(script, below, 60, 1, false);
    page_put(script, " offset 0, 0.4\nset ylabel ");
    put_wrapped(script, side,
                bars ? (size_t)(row * plot->category_count / (LETTER * FONT)) + 6 : 40, 1, false);
    page_put(script, "\nset key %s\n",
             key ? "bmargin center horizontal Left reverse samplen 1.5 width 1 height 0.6" : "off");
    page_free(&title);
    free(part);
    return 1 - top / height;
}

int plot_gnuplot(const Plot *plot, PlotFormat format, char **picture, size_t *size)
{
    Page script = {0};
    double from;
    bool enlarged = plot_flat_end(plot, &from);
    from = enlarged ? from : -INFINITY;
    Axis values = value_axis(plot, from);
    double top = put_frame(&script, plot, format, from);
    page_put(&script, enlarged ? "set multiplot\n" : "");
    if (plot->kind == PLOT_LINES) {
        put_line_chart(&script, plot, &values, from);
    } else {
        put_bar_chart(&script, plot, &values);
    }
    if (enlarged) {
        put_inset(&script, plot, top);
    }
    page_put(&script, "set output\n");
    int code = gnuplot_run(script.text, picture, size);
    page_free(&script);
    return code;
}
