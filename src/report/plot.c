#include "report/plot.h"

#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

PlotSeries *plot_add_series(Plot *plot, const char *label)
{
    size_t count = (size_t)plot->series_count;
    plot->series = mem_realloc(plot->series, count + 1, sizeof *plot->series);
    plot->series[count] = (PlotSeries){.label = mem_strdup(label), .colour = plot->series_count};
    plot->series_count++;
    return &plot->series[count];
}

PlotPoint *plot_add_point(PlotSeries *series, double x, double y)
{
    series->points = mem_double(series->points, series->count, sizeof *series->points);
    series->points[series->count] = (PlotPoint){x, y, NAN, NULL};
    return &series->points[series->count++];
}

int plot_category(Plot *plot, const char *label)
{
    for (int i = 0; i < plot->category_count; i++) {
        if (strcmp(plot->categories[i], label) == 0) {
            return i;
        }
    }
    size_t count = (size_t)plot->category_count;
    plot->categories = mem_realloc(plot->categories, count + 1, sizeof *plot->categories);
    plot->categories[count] = mem_strdup(label);
    return plot->category_count++;
}

bool plot_has_values(const Plot *plot)
{
    for (int i = 0; i < plot->series_count; i++) {
        for (size_t j = 0; j < plot->series[i].count; j++) {
            if (isfinite(plot->series[i].points[j].y)) {
                return true;
            }
        }
    }
    return false;
}

void plot_free(Plot *plot)
{
    for (int i = 0; i < plot->series_count; i++) {
        free(plot->series[i].label);
        free(plot->series[i].points);
    }
    mem_free_list(plot->categories, (size_t)plot->category_count);
    free(plot->series);
    free(plot->title);
    free(plot->x_title);
    free(plot->y_title);
    *plot = (Plot){0};
}

/* Far from where ranges and steps of an axis leave what a double can hold. */
static bool is_on_axis(double number, bool log)
{
    return fabs(number) <= 1e100 && (!log || number >= 1e-100);
}

/* Numbers as they are drawn: in the unit of the axis, and only those that the axis can show. */
static void prepare_numbers(Plot *plot)
{
    double scale = plot->y_scale > 0 ? plot->y_scale : 1;
    for (int i = 0; i < plot->series_count; i++) {
        for (size_t j = 0; j < plot->series[i].count; j++) {
            PlotPoint *point = &plot->series[i].points[j];
            point->x = is_on_axis(point->x, plot->log_x) ? point->x : NAN;
            bool possible = isfinite(point->x) && is_on_axis(point->y * scale, plot->log_y);
            point->y = possible ? point->y * scale : NAN;
            point->half =
                possible && is_on_axis(point->half * scale, false) ? point->half * scale : NAN;
        }
    }
    plot->y_scale = 1;
}

/* Texts as they are drawn: one line of visible characters. */
static void make_visible(char **text)
{
    size_t room = strlen(*text) * (ESCAPE_BYTE_SIZE - 1) + 1;
    char *shown = mem_alloc(room);
    escape_line(shown, room, *text);
    free(*text);
    *text = shown;
}

static void prepare_texts(Plot *plot)
{
    make_visible(&plot->title);
    make_visible(&plot->x_title);
    make_visible(&plot->y_title);
    for (int i = 0; i < plot->series_count; i++) {
        make_visible(&plot->series[i].label);
    }
    for (int i = 0; i < plot->category_count; i++) {
        make_visible(&plot->categories[i]);
    }
}

void plot_prepare(Plot *plot)
{
    prepare_numbers(plot);
    prepare_texts(plot);
}

/* --- flat ends --- */

double plot_flat_from(const PlotSeries *series)
{
    double first = NAN, last = NAN, from = NAN;
    for (size_t i = 0; i < series->count; i++) {
        double y = series->points[i].y;
        first = isnan(first) ? y : first;
        last = isnan(y) ? last : y;
    }
    if (!(first > last)) {
        return NAN;
    }
    double level = last + PLOT_FLAT * (first - last);
    for (size_t i = series->count; i > 0; i--) {
        const PlotPoint *point = &series->points[i - 1];
        if (point->y > level) {
            break;
        }
        from = isnan(point->y) ? from : point->x;
    }
    return from;
}

bool plot_flat_end(const Plot *plot, double *from)
{
    double low = INFINITY, high = -INFINITY, half = INFINITY; /* of the shortest curve */
    int lines = 0, flat = 0;
    for (int i = 0; i < plot->series_count; i++) {
        double own_low = INFINITY, own_high = -INFINITY;
        for (size_t k = 0; k < plot->series[i].count; k++) {
            own_low = fmin(own_low, plot->series[i].points[k].x);
            own_high = fmax(own_high, plot->series[i].points[k].x);
        }
        low = fmin(low, own_low);
        high = fmax(high, own_high);
        half = plot->series[i].count > 0 ? fmin(half, (own_low + own_high) / 2) : half;
    }
    *from = NAN;
    for (int i = 0; i < plot->series_count; i++) {
        double own = plot_flat_from(&plot->series[i]);
        bool is_flat = own <= (low + high) / 2;
        lines += !isnan(own);
        flat += is_flat;
        *from = is_flat ? fmax(*from, own) : *from;
    }
    bool curves = plot->kind == PLOT_LINES && !plot->log_x && !plot->from_zero;
    return curves && flat > 0 && 2 * flat >= lines && *from > low && *from <= half;
}

int plot_draw(Plot *plot, const char *folder, const char *name)
{
    static const char *const endings[] = {[PLOT_SVG] = "svg", [PLOT_PNG] = "png"};
    plot_prepare(plot);
    if (!plot_has_values(plot)) {
        return err_set(ERR_INPUT, "chart %s: no value that its logarithmic axes can show", name);
    }
    int code = 0;
    for (int format = PLOT_SVG; format <= PLOT_PNG && code == 0; format++) {
        char *path = mem_format("%s/%s.%s", folder, name, endings[format]), *picture;
        size_t size;
        code = plot_gnuplot(plot, (PlotFormat)format, &picture, &size);
        code = code != 0 ? code : io_write_atomic(path, picture, size);
        free(picture);
        free(path);
    }
    return code != 0 ? err_wrap(code, "chart %s", name) : 0;
}
